"""What is answered at once while numba compiles is what numba answers."""

import itertools
import operator

import numba
import numpy as np
import pytest
from numba.core import compiler, ir, targetconfig

import quick_compiling

PLACE = ir.Loc("nowhere", 1)
A, B = (ir.Var(None, name, PLACE) for name in "ab")


def theirs(instruction, value):
    """As numba writes it."""
    if isinstance(value, ir.Var):
        return [value]
    if isinstance(value, ir.Inst):
        return value.list_vars()
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, list | tuple | type({}.values())):
        return [found for part in value for found in theirs(instruction, part)]
    return []


class Named(ir.Var):
    """A kind of variable of its own."""


@pytest.mark.parametrize(
    "value",
    [
        A,
        "a",
        None,
        [A, B, A],
        (A, ("text", [B]), 3),
        {"first": A, "rest": {"then": (B, A)}},
        ir.Expr.call(A, [B, A], (("key", B),), PLACE),
        ir.Assign(ir.Expr.binop(operator.add, A, B, PLACE), B, PLACE),
        [Named(None, "c", PLACE), ir.Del("a", PLACE)],
        set(),
    ],
)
def test_variables_are_found_in_their_order(value):
    assert quick_compiling._variables_in(None, value) == theirs(None, value)


def test_flags_are_equal_where_all_their_values_are():
    one, other, third, set_to_default = (compiler.Flags() for _ in range(4))
    one.nrt, other.nrt, third.boundscheck, set_to_default.nrt = True, True, True, False
    given = [one, other, third, set_to_default, compiler.Flags(), one.copy()]
    for first, second in itertools.product(given, given):
        assert quick_compiling._equal(first, second) == (first.values() == second.values())
        if first.values() == second.values():
            assert quick_compiling._hash_of(type(first)) == quick_compiling._hash_of(type(second))
    assert quick_compiling._equal(one, 1) is NotImplemented


def test_what_is_compiled_here_is_compiled_quickly(monkeypatch):
    assert ir.Inst._rec_list_vars is quick_compiling._variables_in
    assert targetconfig.TargetConfig.__eq__ is quick_compiling._equal
    assert numba.njit(lambda values: values.sum() + 1)(np.arange(4)) == 7
    monkeypatch.setenv("STEADYRANK_KILLS", "50")
    monkeypatch.setattr(ir.Inst, "_rec_list_vars", None)
    quick_compiling.compile_quickly()  # `make soak` compiles as users do
    assert ir.Inst._rec_list_vars is None
