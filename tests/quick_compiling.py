"""Make numba compile the same code in a tenth less processor time, by caching what it computes thousands of times.

For processes of the tests; `make soak` compiles as users do. test_quick_compiling.py compares the results.
"""

import functools
import os

from llvmlite.binding import ffi
from numba.core import ir, targetconfig


@functools.cache
def _hash_of(cls):
    """Numba's hash depends only on the names of all options, sorted again each time."""
    return hash(tuple(sorted(cls.options)))


def _equal(one, other):
    """Equal if the set options are; else numba's own comparison of all options with their defaults."""
    if not isinstance(other, targetconfig.TargetConfig):
        return NotImplemented
    if one is other or (type(one) is type(other) and one._values == other._values):
        return True
    return one.values() == other.values()


def _variables_in(instruction, value):
    """The variables in a value, in order: most values are one variable, or contain none."""
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind in _NOTHING_INSIDE:
        return []
    if isinstance(value, ir.Var):
        return [value]
    if isinstance(value, ir.Inst):
        return value.list_vars()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    found = []
    for part in value:
        kind = type(part)
        if kind is ir.Var:
            found.append(part)
        elif kind not in _NOTHING_INSIDE:
            found += _variables_in(instruction, part)
    return found


_NOTHING_INSIDE = frozenset([str, int, float, bool, type(None), ir.Loc])


def compile_quickly():
    """Install the patches in this process, except in `make soak`."""
    if "STEADYRANK_KILLS" in os.environ:
        return
    targetconfig.TargetConfig.__hash__ = lambda self: _hash_of(type(self))
    targetconfig.TargetConfig.__eq__ = _equal
    ir.Inst._rec_list_vars = _variables_in
    ffi.lib._lock._cblist.clear()  # callbacks on each LLVM call, used only for statistics
