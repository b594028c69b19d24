"""What a learner, users, an adversary and a guard answer to, how compiled code calls them, and how they are found.

Each is a `typing.NamedTuple`: array fields are memory, scalar fields are settings (a field may itself be such a
record). Compiled code calls the methods below on any such record; numba picks the record's own class.
"""

import dis
import inspect
import pathlib
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import overload_method

from .arrays import Bools, Counts, Floats, Ints
from .compiling.intrinsics import generator_at
from .compiling.jit import kernel, uncached
from .settings import closest

__all__ = ["Bools", "Counts", "Floats", "Ints"]  # of `arrays`, beside all that is defined here

NOTE_EXTRA = 4  # a note has this many places more than the list
KIND = -1  # its last place belongs to the live side, and says what the feedback is:
# an answer, one that a person has found honest, or that nobody answered and the list counts as not clicked
ANSWER, VOUCHED, SILENCE = 0.0, 1.0, 2.0
ANYONE = -1  # the client of a visit when nobody says who came


class Problem(NamedTuple):
    """What a learner is told before round 1."""

    n_items: int  # capacity: slots not in use are never allowed
    length: int
    horizon: int = 0  # 0 = unknown
    budget: int = 0  # read only by learners that know the corruption
    attraction: Floats = np.zeros(0)  # read by `Oracle` and by adversaries, by no other learner
    seed: int = 0
    features: Floats = np.zeros((0, 0))  # [K, F] what is known of the items; empty: nothing


class Visit(NamedTuple):
    """One arrival: which round it is, who came, and what is known of them."""

    t: int  # round, from 1
    client: int = ANYONE  # a number from 0 on, or ANYONE
    features: Floats = np.zeros(0)  # [F] empty: nothing is known


def _own(record: Any, name: str) -> Any:
    return getattr(record.instance_class, name, None)


# By name, what compiled code calls on records: numba demands exactly these parameters of a class's own method.
_HOOKS: dict[str, Callable[..., Any]] = {
    "rank": lambda self, visit, allowed, ranking, note, rng: _own(self, "rank"),
    "update": lambda self, visit, ranking, note, clicks, examined: _own(self, "update"),
    "arrive": lambda self, t, features, rng: _own(self, "arrive"),
    "click": lambda self, visit, ranking, clicks, rng: _own(self, "click"),
    "reach": lambda self, clicks, size: _own(self, "reach"),
    "value": lambda self, visit, ranking: _own(self, "value"),
    "best": lambda self, visit, ranking: _own(self, "best"),
    "corrupt": lambda self, visit, ranking, clicks, examined, rng: _own(self, "corrupt"),
    "admit": lambda self, visit, ranking, note, clicks, examined: _own(self, "admit"),
    "forget": lambda self, visit, ranking, note, clicks, examined: _own(self, "forget"),
    "retract": lambda self, ranking, note, clicks: _own(self, "retract"),
    "group": lambda self, client: _own(self, "group"),
}
_METHODS = {
    "learner": ("rank", "update"),
    "users": ("click", "arrive", "reach", "value", "best"),
    "adversary": ("corrupt",),
    "guard": ("admit",),
}
_OPTIONAL = {"forget": "learner", "retract": "guard", "group": "users"}
_OTHER_NAMES = {  # for a field or a method that bears a hook's name
    "rank": "place",
    "update": "latest",
    "arrive": "arrival",
    "click": "clicked",
    "reach": "reached",
    "value": "worth",
    "best": "favourites",
    "corrupt": "corrupted",
    "admit": "admitted",
    "forget": "forgotten",
    "retract": "retracted",
    "group": "groups",
}
# What little runs in every round beside the learner becomes part of the loop: handing a record over would cost more.
_INSIDE = ("arrive", "click", "reach", "value", "best", "group", "corrupt")
for _name, _template in _HOOKS.items():
    _options = {"jit_options": {"forceinline": _name in _INSIDE}}
    overload_method(types.BaseNamedTuple, _name, **_options)(_template)  # type: ignore[arg-type]


def _shape(value: Any) -> Any:
    """What decides the type that numba gives a value; found some ten times sooner than the type itself."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(_shape, value)
    if isinstance(value, int):
        return type(value), -(2**63) <= value < 2**63
    return type(value)


class Dispatcher:
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
        self._uncached: Any = uncached(function)
        self._bound: dict[Any, Callable[..., Any]] = {}

    def bind(self, *arguments: Any) -> Callable[..., Any]:
        """The machine code for arguments of these types: valid for all others of the same types."""
        shape = tuple(map(_shape, arguments))
        if shape not in self._bound:
            self._bound[shape] = self._compile(arguments)
        return self._bound[shape]

    def _compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        records = (type(a) for a in arguments if isinstance(a, tuple))
        ours = all(r.__module__.partition(".")[0] == __name__.partition(".")[0] for r in records)
        dispatcher = self._cached if ours else self._uncached
        if not hasattr(dispatcher, "compile"):  # compilation is switched off
            return self.plain
        code: Callable[..., Any] = dispatcher.compile(tuple(typeof(a) for a in arguments))
        return code

    def __call__(self, *arguments: Any) -> Any:
        """Compile if need be, and run."""
        return self.bind(*arguments)(*arguments)


def discover(package: ModuleType, method: str) -> dict[str, type]:
    """Every record class with `method` defined in a module of `package`, at any depth, by class name."""
    found = {}
    assert package.__file__ is not None
    folder = pathlib.Path(package.__file__).parent
    for path in sorted(folder.rglob("[a-z]*.py")):
        module = import_module(".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts)))
        for obj in vars(module).values():
            if isinstance(obj, type) and obj.__module__ == module.__name__ and hasattr(obj, method):
                found[obj.__name__] = obj
    return dict(sorted(found.items()))


def find(kind: str, chosen: str | type, known: dict[str, type]) -> type:
    """The class meant by a name or given as a class; an unknown name is answered with the closest ones.

    `kind` is learner, users, adversary or guard. A class that compiled code could not run is refused here, by name.
    """
    if isinstance(chosen, type):
        _check_class(kind, chosen)
        return chosen
    if not isinstance(chosen, str) or chosen not in known:
        raise KeyError(closest(kind, chosen, known))
    return known[chosen]


def _check_class(kind: str, cls: type) -> None:
    """Refuse a class without the methods of its kind, with other parameters, or with a name that is taken."""
    methods = _METHODS[kind]
    if not issubclass(cls, tuple) or not hasattr(cls, "_fields"):
        raise ValueError(f"{cls!r} is no {kind}: it needs to be a NamedTuple with create, {', '.join(methods)}")
    if missing := [name for name in ("create", *methods) if not callable(getattr(cls, name, None))]:
        raise ValueError(f"{cls.__name__} is no {kind}: it lacks {', '.join(missing)} (docs/contract.md)")
    refuse_hook_names(cls)
    for name in methods:
        _refuse_assignment(cls, getattr(cls, name))
    for name in _HOOKS:
        own = getattr(cls, name, None)
        expected = name in methods or (_OPTIONAL.get(name) == kind and own is not None)
        if not expected and callable(own):
            raise ValueError(
                f"{cls.__name__} has a method {name!r}, which compiled code takes for the one of another kind of "
                f"record; call it something else, such as {_OTHER_NAMES[name]!r}"
            )
        if expected and (has := _parameters(own)) != (needs := _parameters(_HOOKS[name])):
            raise ValueError(f"{cls.__name__}.{name} takes ({', '.join(has)}); the contract has ({', '.join(needs)})")


def _refuse_assignment(cls: type, method: Any) -> None:
    """Refuse a method that assigns to a field, which a NamedTuple cannot: the compiler's own words do not help."""
    for step in dis.get_instructions(method):
        if step.opname == "STORE_ATTR" and step.argval in cls._fields:  # type: ignore[attr-defined]
            what = f"{cls.__name__}.{method.__name__} assigns to self.{step.argval}"
            cure = f"make it an array, np.zeros(1) in create, and write self.{step.argval}[0]"
            raise ValueError(f"{what}, and fields of a NamedTuple cannot change; {cure} (docs/contract.md)")


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def refuse_hook_names(cls: type) -> None:
    """Refuse a record class with a field that bears a hook's name: compiled code would call it."""
    for field in cls._fields:  # type: ignore[attr-defined]
        if field in _HOOKS:
            raise ValueError(
                f"{cls.__name__} has a field {field!r}, which is the name of a method of the contract; "
                f"call it something else, such as {_OTHER_NAMES[field]!r}"
            )


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
    record = cls.create(*arguments, **settings)  # type: ignore[attr-defined]
    if not isinstance(record, cls):
        raise ValueError(f"{cls.__name__}.create must return a {cls.__name__}, not {record!r:.80}")
    for part in records_in(record):
        refuse_hook_names(type(part))
    return record


def records_in(record: Any) -> Iterator[Any]:
    """A record and the records among its fields, at any depth."""
    yield record
    for value in record:
        if hasattr(value, "_fields"):
            yield from records_in(value)


def view_of(record: Any) -> Any:
    """What a learner or a guard makes of the feedback, if its class has the method `view`; else None."""
    return record.view() if callable(getattr(type(record), "view", None)) else None


def memory(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The array fields of a record and of the records in it, with dotted names."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, tuple):
            yield from memory(value, f"{prefix}{name}.")


@Dispatcher
def call_rank(learner, visit, allowed, ranking, note, rng):  # type: ignore[no-untyped-def]
    """One compiled `rank`."""
    learner.rank(visit, allowed, ranking, note, rng)


@Dispatcher
def call_rank_at(learner, visit, allowed, ranking, note, places):  # type: ignore[no-untyped-def]
    """One compiled `rank` with the generator at these `addresses`; interpreted there is no such thing."""
    learner.rank(visit, allowed, ranking, note, generator_at(places))


@Dispatcher
def call_update(learner, visit, ranking, note, clicks, examined):  # type: ignore[no-untyped-def]
    """One compiled `update`."""
    learner.update(visit, ranking, note, clicks, examined)


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
