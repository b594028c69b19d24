"""Whether functions that only compiled code calls wait to become machine code (`late_library`).

They do where numba is of a version with which this was tested and looks as expected inside. Elsewhere numba compiles
in its own way: that takes longer, and results are the same. Code of other packages is numba's alone in any case.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config

_TESTED = ((0, 64), (0, 68))  # the first and the last version


def _usable() -> bool:
    """Decide, once a process. STEADYRANK_PLAIN_NUMBA: 1 switches it off, 0 tries it with any version of numba."""
    chosen = os.environ.get("STEADYRANK_PLAIN_NUMBA", "")
    tested = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
    if getattr(config, "DISABLE_JIT", 0) or chosen not in ("", "0") or not (tested or chosen == "0"):
        return False
    try:
        from .late_library import works
    except ImportError:  # names that numba no longer has
        return False
    return works()


ACTIVE = _usable()


def linked_late(compile_: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A dispatcher's `compile` with which functions that no Python code calls wait; unchanged if not `ACTIVE`."""
    if not ACTIVE:
        return compile_
    from .late_library import late

    return late()(compile_)
