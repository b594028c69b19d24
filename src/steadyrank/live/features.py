"""What is known of items and of who comes, by name: declared kinds, and the numbers that a learner is told."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Floats
from ..refusals import Refused
from ..settings import closest

MOST_FEATURES = 64  # numbers that a learner is told: what it does in a round grows with their square
MOST_CATEGORIES = 50
_NO_NUMBERS: Floats = np.zeros(0)
Values: TypeAlias = Mapping[str, Any]  # a number, a category, or None where nothing is known


@dataclass(frozen=True)
class Kind:
    """A feature: a number from `low` to `high`, or one of some `categories`."""

    name: str
    low: float = 0.0
    high: float = 0.0
    categories: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """What each of its numbers stands for."""
        return [f"{self.name}={each}" for each in self.categories] or [self.name]

    def write(self, value: Any, out: Floats) -> None:
        """The numbers of a value: from -1 to 1 of a number, a 1 for a category; zeros where nothing is known."""
        if value is None:
            return
        if self.categories:
            if value not in self.categories:
                raise Refused(422, f"feature {self.name!r} is one of {', '.join(self.categories)}, not {value!r}")
            out[self.categories.index(value)] = 1.0
            return
        good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not self.low <= value <= self.high:
            raise Refused(422, f"feature {self.name!r} is a number from {self.low:g} to {self.high:g}, not {value!r}")
        out[0] = (2.0 * float(value) - self.low - self.high) / (self.high - self.low)


def kind_of(name: Any, declared: Any) -> Kind:
    """A declared feature: `[low, high]`, or the categories."""
    if not isinstance(name, str) or not name or len(name) > 100:
        raise ValueError(f"a feature is named by text of 1 to 100 characters, not {name!r}")
    said = list(declared) if isinstance(declared, Sequence) and not isinstance(declared, str) else []
    if said and all(isinstance(each, str) and each for each in said) and len(set(said)) == len(said):
        if len(said) > MOST_CATEGORIES:
            raise ValueError(f"feature {name!r} has at most {MOST_CATEGORIES} categories, not {len(said)}")
        return Kind(name, categories=tuple(said))
    numbers = len(said) == 2 and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in said)
    if not numbers or not all(map(math.isfinite, said)) or not said[0] < said[1]:
        raise ValueError(f"feature {name!r} is declared as [lowest, highest] or by its categories, not {declared!r}")
    return Kind(name, float(said[0]), float(said[1]))


class FeatureSpace:
    """Features of items and of visits, and how they become the numbers of a learner, F of them.

    Each number of an item counts by itself, and together with each number of a visit: so visitors may differ in what
    they want of an item. `items` and `visits` name features; each is declared as `[low, high]` or by its categories.
    """

    def __init__(self, items: Mapping[str, Any], visits: Mapping[str, Any] | None = None) -> None:
        for what, kinds in (("items", items), ("visits", visits or {})):
            if not isinstance(kinds, Mapping):
                raise ValueError(f"features of {what} are declared by name, not as {kinds!r}")
        self.items = [kind_of(name, declared) for name, declared in items.items()]
        self.visits = [kind_of(name, declared) for name, declared in (visits or {}).items()]
        own, theirs = (sum(len(kind.labels) for kind in kinds) for kinds in (self.items, self.visits))
        if own == 0 and theirs:
            raise ValueError("features of visits need features of items, which they are joined with")
        self.size = own * (1 + theirs)
        if self.size > MOST_FEATURES:
            raise ValueError(
                f"{own} numbers of an item, alone and with {theirs} of a visit, are {self.size} features; "
                f"at most {MOST_FEATURES} are possible: leave some out, or join categories"
            )

    def declared(self) -> dict[str, dict[str, Any]]:
        """What makes the same once more, as JSON has it."""

        def said(kinds: list[Kind]) -> dict[str, Any]:
            return {kind.name: list(kind.categories) or [kind.low, kind.high] for kind in kinds}

        return {"items": said(self.items), "visits": said(self.visits)}

    @property
    def labels(self) -> list[str]:
        """What each of the F numbers stands for."""
        own = [label for kind in self.items for label in kind.labels]
        theirs = [label for kind in self.visits for label in kind.labels]
        return [*own, *(f"{one} for {who}" for who in theirs for one in own)]

    def strongest(self, effects: Sequence[float]) -> list[tuple[str, float]]:
        """What each number stands for and its effect (`View.effects`), the strongest first."""
        return sorted(zip(self.labels, effects, strict=True), key=lambda pair: -abs(pair[1]))

    def of_item(self, values: Values | None) -> Floats:
        """What a learner is told of an item."""
        if not self.size and values is None:
            return _NO_NUMBERS
        own = _numbers("an item", self.items, values)
        theirs = 1 + sum(len(kind.labels) for kind in self.visits)
        return np.tile(own, theirs)

    def of_visit(self, values: Values | None) -> Floats:
        """What a learner is told of a visit."""
        if not self.size and values is None:
            return _NO_NUMBERS
        own = sum(len(kind.labels) for kind in self.items)
        return np.repeat(np.concatenate([np.ones(1), _numbers("a visit", self.visits, values)]), own)


def _numbers(what: str, kinds: list[Kind], values: Values | None) -> Floats:
    known = {kind.name for kind in kinds}
    if values is not None and not isinstance(values, Mapping):
        raise Refused(422, f"features of {what} are given by name, not as {values!r}")
    for name in values or {}:
        if name not in known:
            raise Refused(422, closest(f"feature of {what}", name, known) if known else f"no feature {name!r}")
    found = []
    for kind in kinds:
        part: Floats = np.zeros(len(kind.labels))
        kind.write((values or {}).get(kind.name), part)
        found.append(part)
    return np.concatenate(found) if found else np.zeros(0)


NO_FEATURES = FeatureSpace({})


def features_from(frame: Any, item: str, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Features of items from a polars or pandas frame: a row an item, `item` the column of their names.

    Empty cells and NaN are values that are not known.
    """
    wanted = list(columns)
    have = [str(name) for name in frame.columns]
    for name in (item, *wanted):
        if name not in have:
            raise ValueError(closest("column", name, have))
    cells = {name: frame[name].to_list() for name in (item, *wanted)}
    found: dict[str, dict[str, Any]] = {}
    for row, name in enumerate(cells[item]):
        if name in found:
            raise ValueError(f"item {name!r} has two rows")
        found[name] = {column: _known(cells[column][row]) for column in wanted}
    return found


def _known(value: Any) -> Any:
    missing = value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType"
    return None if missing else value
