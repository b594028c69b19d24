"""Functions that call records' methods, compiled for each combination of record types; one per method."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import typeof

from . import contract  # noqa: F401  (it tells numba of the methods that are called below)
from .compiling.intrinsics import generator_at
from .compiling.jit import kernel, uncached


def _shape(value: Any) -> Any:
    """A key that determines numba's type of a value, computed about ten times faster than the type."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(_shape, value)
    if isinstance(value, int):
        return type(value), -(2**63) <= value < 2**63
    return type(value)


class Dispatcher:
    """A function that calls records' methods, compiled for each combination of record types.

    Cached on disk if all records are this package's own. Records defined elsewhere are not cached: no digest
    covers their sources, and an edit must take effect. The types are looked up here because numba's own dispatch
    tells records apart only by class name and fields: an edited class, or a user's variant of one of ours with
    the same name, would run the code of the other.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function  # interpreted
        self.__doc__ = function.__doc__
        self._cached: Any = kernel(function)
        self._uncached: Any = uncached(function)
        self._bound: dict[Any, Callable[..., Any]] = {}  # by shapes
        self._code: dict[Any, Callable[..., Any]] = {}  # by types

    def bind(self, *arguments: Any) -> Callable[..., Any]:
        """The compiled code for arguments of these types, valid for all others of the same types."""
        shape = tuple(map(_shape, arguments))
        if shape not in self._bound:
            self._bound[shape] = self._compile(arguments)
        return self._bound[shape]

    def _compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        records = (type(a) for a in arguments if isinstance(a, tuple))
        ours = all(r.__module__.partition(".")[0] == __name__.partition(".")[0] for r in records)
        dispatcher = self._cached if ours else self._uncached
        if not hasattr(dispatcher, "compile"):  # compilation is disabled
            return self.plain
        types = ours, *(typeof(a) for a in arguments)
        if types not in self._code:  # different shapes can have the same types, and compiling is slow
            self._code[types] = dispatcher.compile(types[1:])
        return self._code[types]

    def __call__(self, *arguments: Any) -> Any:
        """Compile if necessary, and run."""
        return self.bind(*arguments)(*arguments)


@Dispatcher
def call_rank(learner, visit, allowed, ranking, note, rng):  # type: ignore[no-untyped-def]
    """One compiled `rank`."""
    learner.rank(visit, allowed, ranking, note, rng)


@Dispatcher
def call_rank_at(learner, visit, allowed, ranking, note, places):  # type: ignore[no-untyped-def]
    """One compiled `rank` with the generator at these `addresses`; not available interpreted."""
    learner.rank(visit, allowed, ranking, note, generator_at(places))


@Dispatcher
def call_update(learner, visit, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """One compiled `update`."""
    learner.update(visit, ranking, note, clicks, examined)


@Dispatcher
def call_count_answer(learner, visit, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """The part of `update` that runs for each visit, compiled; returns whether `end_window` is due."""
    return learner.count_answer(visit, ranking, note, clicks, examined)


@Dispatcher
def call_end_window(learner, visit):  # type: ignore[no-untyped-def]
    """The rest of `update`, compiled."""
    learner.end_window(visit)


@Dispatcher
def call_arrive(users, t, features, rng):  # type: ignore[no-untyped-def]
    """One compiled `arrive`."""
    return users.arrive(t, features, rng)


@Dispatcher
def call_click(users, visit, ranking, clicks, rng):  # type: ignore[no-untyped-def]
    """One compiled `click`."""
    return users.click(visit, ranking, clicks, rng)


@Dispatcher
def call_reach(users, clicks, size):  # type: ignore[no-untyped-def]
    """One compiled `reach`."""
    return users.reach(clicks, size)


@Dispatcher
def call_value(users, visit, ranking):  # type: ignore[no-untyped-def]
    """One compiled `value`."""
    return users.value(visit, ranking)


@Dispatcher
def call_best(users, visit, ranking):  # type: ignore[no-untyped-def]
    """One compiled `best`."""
    users.best(visit, ranking)


@Dispatcher
def call_corrupt(adversary, visit, ranking, clicks, examined, rng):  # type: ignore[no-untyped-def]
    """One compiled `corrupt`."""
    return adversary.corrupt(visit, ranking, clicks, examined, rng)


@Dispatcher
def call_admit(guard, visit, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """One compiled `admit`."""
    return guard.admit(visit, ranking, note, clicks, examined)


@Dispatcher
def call_forget(learner, visit, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """One compiled `forget`."""
    learner.forget(visit, ranking, note, clicks, examined)


@Dispatcher
def call_retract(guard, ranking, note, clicks):  # type: ignore[no-untyped-def]
    """One compiled `retract`."""
    return guard.retract(ranking, note, clicks)


@Dispatcher
def call_expect(users, visit, ranking, chances):  # type: ignore[no-untyped-def]
    """One compiled `expect`."""
    users.expect(visit, ranking, chances)


@Dispatcher
def call_outcome(learner, item, shown, t, before, after):  # type: ignore[no-untyped-def]
    """One compiled `outcome`."""
    learner.outcome(item, shown, t, before, after)
