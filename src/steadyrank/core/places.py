"""Settings with one number per place, and the assignment of items to places."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import Floats, Ints
from .compiling.intrinsics import stack_ints
from .compiling.jit import no_refcount
from .settings import real, refuse_unused

ETA = 0.7  # place p is looked at with chance 1 / p^ETA


def attention_of(eta: Any, attention: Any, length: int) -> Floats:
    """The chance that each place is looked at, float64[length]: as given, or 1 / p^eta, by default 1 / p^0.7."""
    if attention is not None:
        refuse_unused({"eta": eta}, "attention given by place")
        return by_place("attention", attention, length)
    return np.arange(1.0, length + 1.0) ** -real("eta", ETA if eta is None else eta, 0.0, 10.0)


def by_place(name: str, given: Any, length: int) -> Floats:
    """Parse chances, one per place, given as numbers or as text such as `1+0.6+0.4`; float64[length]."""
    values = given.split("+") if isinstance(given, str) else given
    if not isinstance(values, Sequence | np.ndarray) or len(values) != length:
        raise ValueError(f"{name} must be {length} numbers from 0 to 1, one per place, not {given!r}")
    return np.array([real(name, _number(value), 0.0, 1.0) for value in values])


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value  # the caller refuses it, naming the setting


def order_of_places(weight: Floats) -> Ints:
    """For each place of a list of m, in row m - 1, how many of its places have more weight; int64[length, length].

    The k-th best item belongs at the k-th heaviest place if the value of a list is the sum of weight times
    attraction, or 1 - prod(1 - weight attraction): both gain if the larger of two attractions moves to the larger of
    two weights.
    """
    length = weight.size
    order = np.zeros((length, length), np.int64)
    for m in range(1, length + 1):
        order[m - 1, np.argsort(-weight[:m], kind="stable")] = np.arange(m)
    return order


@no_refcount
def put_in_places(order, best_first, ranking):
    """Write a list that is given best first into `ranking`: the better an item, the heavier its place."""
    for p in range(ranking.size):
        ranking[p] = best_first[order[ranking.size - 1, p]]


@no_refcount
def place_best_first(order, ranking):
    """Rearrange a list that is ranked best first: the better an item, the heavier its place."""
    best_first = stack_ints(ranking.size)
    for p in range(ranking.size):
        best_first[p] = ranking[p]
    put_in_places(order, best_first, ranking)


@no_refcount
def last_stop(clicks, size):
    """Number of leading places surely looked at: up to the last set bit, all `size` if none is set."""
    for p in range(size - 1, -1, -1):
        if clicks[p]:
            return p + 1
    return size
