"""Test inputs: a small problem, and feedback of every kind."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.contract import Problem, Visit, memory

K, D, F, T, BUDGET = 30, 4, 3, 240, 40  # items, length, features, rounds, units


class Event(NamedTuple):
    """A learner's input in one round."""

    visit: Visit
    ranking: Ints
    note: Floats
    clicks: Bools
    examined: int


def sample_problem(n_items: int) -> Problem:
    """A problem with n items."""
    return Problem(n_items, D, T, BUDGET, sample_attraction(n_items), 3, sample_features(n_items))


def sample_features(n_items: int) -> Floats:
    """Some features."""
    return np.random.default_rng(2).normal(size=(n_items, F))


def sample_attraction(n_items: int) -> Floats:
    """Some attractions."""
    return np.random.default_rng(1).uniform(0.0, 0.6, n_items)


def state(record: Any) -> bytes:
    """The memory of a record as bytes."""
    return b"".join(array.tobytes() for _, array in memory(record))


def check_fields(cls: type, create: Callable[[int], Any]) -> None:
    """Every field is an array or a plain number, and its type depends only on the class (rule 5)."""
    a, b = create(K), create(K + 1)
    assert isinstance(a, tuple), f"{cls.__name__}: a record is a NamedTuple"
    assert numba.typeof(a) == numba.typeof(b), (
        f"{cls.__name__}: field types depend on the number of items:\n{numba.typeof(a)}\n{numba.typeof(b)}"
    )
    for name, array in memory(a):
        assert array.flags.c_contiguous, f"{cls.__name__}.{name} must be contiguous (rule 5)"
        assert array.flags.writeable, f"{cls.__name__}.{name} must be writeable (rule 5)"


def feedback(t: int, size: int, rng: np.random.Generator) -> tuple[Bools, int]:
    """Cascade feedback, and in every seventh round feedback that no cascade user produces."""
    clicks = rng.random(size) < 0.3
    if t % 7 == 0:
        return clicks, size
    examined = int(np.argmax(clicks)) + 1 if clicks.any() else size
    clicks[examined:] = False
    return clicks, examined
