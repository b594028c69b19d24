"""What a learner, users, an adversary and a guard answer to, and how compiled code calls them.

Each is a `typing.NamedTuple`: array fields are memory, scalar fields are settings (a field may itself be such a
record). Compiled code calls the methods below on any such record; numba picks the record's own class.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload_method

from .arrays import Floats

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
OTHER_NAMES = {  # for a field or a method that bears a hook's name
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
# What little runs in every round beside the learner becomes part of the loop: handing a record over would cost more.
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
    """What a learner or a guard makes of the feedback, if its class has the method `view`; else None."""
    return record.view() if callable(getattr(type(record), "view", None)) else None


def memory(record: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The array fields of a record and of the records in it, with dotted names."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, tuple):
            yield from memory(value, f"{prefix}{name}.")
