"""What a learner, users and an adversary answer to, how compiled code calls them, and how they are found.

Each is a `typing.NamedTuple`: array fields are memory, scalar fields are settings (a field may itself be such a
record). Compiled code calls the methods below on any such record; numba picks the record's own class.
"""

import inspect
import pathlib
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import overload_method

from ._jit import fresh, generator_at, kernel
from .arrays import Bools, Counts, Floats, Ints
from .settings import closest

__all__ = ["NOTE_EXTRA", "Bools", "Counts", "Entry", "Floats", "Ints", "Problem", "discover", "make", "memory"]

NOTE_EXTRA = 4  # a note has this many places more than the list; its last one belongs to the live side


class Problem(NamedTuple):
    """What a learner is told before round 1."""

    n_items: int  # capacity: slots not in use are never allowed
    length: int
    horizon: int = 0  # 0 = unknown
    budget: int = 0  # read only by learners that know the corruption
    attraction: Floats = np.zeros(0)  # read only by `Oracle`
    seed: int = 0


def _method(name: str, template: Callable[..., Any]) -> None:
    """Let compiled code call `record.name(...)` with exactly the template's parameters."""
    overload_method(types.BaseNamedTuple, name)(template)


def _own(record: Any, name: str) -> Any:
    return getattr(record.instance_class, name, None)


_method("rank", lambda self, t, allowed, ranking, note, rng: _own(self, "rank"))
_method("update", lambda self, t, ranking, note, clicks, examined: _own(self, "update"))
_method("click", lambda self, t, ranking, clicks, rng: _own(self, "click"))
_method("value", lambda self, t, ranking: _own(self, "value"))
_method("best", lambda self, t, ranking: _own(self, "best"))
_method("corrupt", lambda self, t, ranking, clicks, examined, rng: _own(self, "corrupt"))


def _shape(value: Any) -> Any:
    """What decides the type that numba gives a value; found some ten times sooner than the type itself."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(_shape, value)
    if isinstance(value, int):
        return type(value), -(2**63) <= value < 2**63
    return type(value)


class Entry:
    """A function that calls records' methods, compiled for each combination of record types.

    Kept on disk when all records are this package's own. Records defined elsewhere run uncached: no digest
    covers their sources, and an edit must take effect. The types are looked up here because numba's own call
    tells records apart by class name and fields only: an edited class, or a user's variant of one of ours under
    the same name, would run the code of the other.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function  # interpreted
        self.__doc__ = function.__doc__
        self._cached: Any = kernel(function)
        self._uncached: Any = fresh(function)
        self._bound: dict[Any, Callable[..., Any]] = {}

    def bind(self, *arguments: Any) -> Callable[..., Any]:
        """The machine code for arguments of these types: valid for all others of the same types."""
        shape = tuple(map(_shape, arguments))
        if shape not in self._bound:
            self._bound[shape] = self._compile(arguments)
        return self._bound[shape]

    def _compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        records = (type(a) for a in arguments if isinstance(a, tuple))
        ours = all(r.__module__.partition(".")[0] == __package__ for r in records)
        dispatcher = self._cached if ours else self._uncached
        if not hasattr(dispatcher, "compile"):  # compilation is switched off
            return self.plain
        code: Callable[..., Any] = dispatcher.compile(tuple(typeof(a) for a in arguments))
        return code

    def __call__(self, *arguments: Any) -> Any:
        """Compile if need be, and run."""
        return self.bind(*arguments)(*arguments)


def discover(package: ModuleType, method: str) -> dict[str, type]:
    """Every record class with `method` defined in a module of `package`, by class name."""
    found = {}
    assert package.__file__ is not None
    for path in sorted(pathlib.Path(package.__file__).parent.glob("[a-z]*.py")):
        module = import_module(f"{package.__name__}.{path.stem}")
        for obj in vars(module).values():
            if isinstance(obj, type) and obj.__module__ == module.__name__ and hasattr(obj, method):
                found[obj.__name__] = obj
    return dict(sorted(found.items()))


def find(kind: str, chosen: str | type, known: dict[str, type], method: str) -> type:
    """The class meant by a name or given as a class; an unknown name is answered with the closest ones."""
    if isinstance(chosen, type):
        if not (issubclass(chosen, tuple) and hasattr(chosen, method) and hasattr(chosen, "create")):
            raise ValueError(f"{chosen!r} is no {kind}: it needs to be a NamedTuple with create and {method}")
        return chosen
    if not isinstance(chosen, str) or chosen not in known:
        raise KeyError(closest(kind, chosen, known))
    return known[chosen]


def settings_of(cls: type) -> dict[str, inspect.Parameter]:
    """The settings that a class takes: the keyword-only parameters of its `create`."""
    parameters = inspect.signature(cls.create).parameters  # type: ignore[attr-defined]
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}


def make(cls: type, *arguments: Any, settings: dict[str, Any]) -> Any:
    """`cls.create(*arguments, **settings)`, unknown settings refused by name."""
    known = settings_of(cls)
    for name in settings:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{cls.__name__} has no setting {name!r}: {has}")
    return cls.create(*arguments, **settings)  # type: ignore[attr-defined]


def view_of(learner: Any) -> Any:
    """What a learner makes of the feedback, a `views.View`, if its class has the method `view`; else None."""
    return learner.view() if callable(getattr(type(learner), "view", None)) else None


def memory(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The array fields of a record and of the records in it, with dotted names."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, tuple):
            yield from memory(value, f"{prefix}{name}.")


@Entry
def call_rank(learner, t, allowed, ranking, note, rng):  # type: ignore[no-untyped-def]
    """One compiled `rank`."""
    learner.rank(t, allowed, ranking, note, rng)


@Entry
def call_rank_at(learner, t, allowed, ranking, note, places):  # type: ignore[no-untyped-def]
    """One compiled `rank` with the generator at these `addresses`; interpreted there is no such thing."""
    learner.rank(t, allowed, ranking, note, generator_at(places))


@Entry
def call_update(learner, t, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """One compiled `update`."""
    learner.update(t, ranking, note, clicks, examined)


@Entry
def call_click(users, t, ranking, clicks, rng):  # type: ignore[no-untyped-def]
    """One compiled `click`."""
    return users.click(t, ranking, clicks, rng)


@Entry
def call_value(users, t, ranking):  # type: ignore[no-untyped-def]
    """One compiled `value`."""
    return users.value(t, ranking)


@Entry
def call_best(users, t, ranking):  # type: ignore[no-untyped-def]
    """One compiled `best`."""
    users.best(t, ranking)


@Entry
def call_corrupt(adversary, t, ranking, clicks, examined, rng):  # type: ignore[no-untyped-def]
    """One compiled `corrupt`."""
    return adversary.corrupt(t, ranking, clicks, examined, rng)
