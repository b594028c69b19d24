"""The methods of learners, users, adversaries and guards, and how compiled code calls them.

Each is a `typing.NamedTuple`: array fields are memory, scalar fields are settings (a field may itself be such a
record). Compiled code calls the methods below on any such record; numba resolves them by the record's class.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload_method

from .arrays import Floats

NOTE_EXTRA = 4  # a note is this much longer than the list
KIND = -1  # its last entry is written by live/, and says what kind of feedback it is:
# an answer; labelled honest by a person; or an unanswered list that counts as not clicked
ANSWER, VOUCHED, SILENCE = 0.0, 1.0, 2.0
ANYONE = -1  # the client of an anonymous visit


class Problem(NamedTuple):
    """What a learner knows before round 1."""

    n_items: int  # capacity: unused slots are never allowed
    length: int
    horizon: int = 0  # 0 = unknown
    budget: int = 0  # read only by learners that know the corruption
    attraction: Floats = np.zeros(0)  # read by `Oracle` and by adversaries, by no other learner
    seed: int = 0
    features: Floats = np.zeros((0, 0))  # [K, F] features of the items; empty: none


class Visit(NamedTuple):
    """One arrival: its round, its client, and its features."""

    t: int  # round, counted from 1
    client: int = ANYONE  # a number from 0, or ANYONE
    features: Floats = np.zeros(0)  # [F] empty: none


def _own(record: Any, name: str) -> Any:
    return getattr(record.instance_class, name, None)


# Methods that compiled code calls on records: numba requires exactly these parameters.
HOOKS: dict[str, Callable[..., Any]] = {
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
    "count_answer": lambda self, visit, ranking, note, clicks, examined: _own(self, "count_answer"),
    "end_window": lambda self, visit: _own(self, "end_window"),
    "retract": lambda self, ranking, note, clicks: _own(self, "retract"),
    "group": lambda self, client: _own(self, "group"),
    "expect": lambda self, visit, ranking, chances: _own(self, "expect"),
    "buy": lambda self, visit, ranking, clicks, examined, values, delays, rng: _own(self, "buy"),
    "outcome": lambda self, item, shown, t, before, after: _own(self, "outcome"),
}
METHODS = {
    "learner": ("rank", "update"),
    "users": ("click", "arrive", "reach", "value", "best"),
    "adversary": ("corrupt",),
    "guard": ("admit",),
}
OPTIONAL = {
    "forget": ("learner",),
    "count_answer": ("learner",),
    "end_window": ("learner",),
    "retract": ("guard",),
    "group": ("users",),
    "expect": ("users",),
    "buy": ("users",),
    "outcome": ("learner", "guard"),
}
OTHER_NAMES = {  # suggestions for a field or method whose name is taken
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
    "count_answer": "add_answer",
    "end_window": "last_of_window",
    "retract": "retracted",
    "group": "groups",
    "expect": "expected",
    "buy": "bought",
    "outcome": "came_of_it",
}
# Short methods that run in every round are inlined into the loop: passing a record would cost more than the call.
_INSIDE = ("arrive", "click", "reach", "value", "best", "group", "corrupt")
for _name, _template in HOOKS.items():
    _options = {"jit_options": {"forceinline": _name in _INSIDE}}
    overload_method(types.BaseNamedTuple, _name, **_options)(_template)  # type: ignore[arg-type]


def records_in(record: Any) -> Iterator[Any]:
    """A record and the records among its fields, at any depth."""
    yield record
    for value in record:
        if hasattr(value, "_fields"):
            yield from records_in(value)


def view_of(record: Any) -> Any:
    """The view of a learner or a guard, if its class has the method `view`; else None."""
    return record.view() if callable(getattr(type(record), "view", None)) else None


def memory(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The array fields of a record and of the records in it, with dotted names."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, tuple):
            yield from memory(value, f"{prefix}{name}.")
