"""Decide whether functions called only from compiled code are deferred (`late_library`).

They are if numba's version is tested and its internals are as expected. Otherwise numba compiles
in its own way: that takes longer, with the same results. Code of other packages is always compiled by numba alone.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config

_TESTED = ((0, 64), (0, 68))  # first and last version


def _usable() -> bool:
    """Decide once per process. STEADYRANK_PLAIN_NUMBA: 1 disables it, 0 tries it with any version of numba."""
    chosen = os.environ.get("STEADYRANK_PLAIN_NUMBA", "")
    tested = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
    if getattr(config, "DISABLE_JIT", 0) or chosen not in ("", "0") or not (tested or chosen == "0"):
        return False
    try:
        from .late_library import works
    except ImportError:  # names removed from numba
        return False
    return works()


ACTIVE = _usable()


def linked_late(compile_: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a dispatcher's `compile` so that callees are deferred; unchanged if not `ACTIVE`."""
    if not ACTIVE:
        return compile_
    from .late_library import late

    return late()(compile_)
