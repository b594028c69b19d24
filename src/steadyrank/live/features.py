"""Features of items and visits: their declarations, their encoding for learners, and which learners use them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..core.arrays import Floats
from ..core.discovery import settings_of
from ..core.refusals import Refused
from ..core.settings import closest
from ..learners import ALL as LEARNERS

MOST_FEATURES = 64  # encoded numbers: a learner's time per round grows with their square
MOST_CATEGORIES = 50
_LONGEST = 100  # characters of a name or a category
_LARGEST = 1e300  # largest bound: twice the width of a range must be finite
_NO_NUMBERS: Floats = np.zeros(0)
Values: TypeAlias = Mapping[str, Any]  # a number, a category, or None if unknown


@dataclass(frozen=True)
class Kind:
    """A feature: a number from `low` to `high`, or one of `categories`."""

    name: str
    low: float = 0.0
    high: float = 0.0
    categories: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Labels of its encoded numbers."""
        return [f"{self.name}={each}" for each in self.categories] or [self.name]

    def takes(self, value: Any) -> bool:
        """Whether the feature may have this value; None: unknown."""
        if value is None or self.categories:
            return value is None or value in self.categories
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        return number and bool(self.low <= value <= self.high)  # NaN is in no range

    def refusal(self, value: Any) -> Refused:
        """The error for a value that it does not accept."""
        may = f"one of {', '.join(self.categories)}"
        if not self.categories:
            may = f"a number from {self.low:g} to {self.high:g}"
        return Refused(422, f"feature {self.name!r} is {may}, not {value!r:.80}")

    def write(self, value: Any, out: Floats) -> None:
        """Encode a value: a number scaled to -1 to 1, a 1 for a category; zeros if it is unknown."""
        if value is None:
            return
        if self.categories:
            out[self.categories.index(value)] = 1.0
        else:
            out[0] = (2.0 * float(value) - self.low - self.high) / (self.high - self.low)


def kind_of(name: Any, declared: Any) -> Kind:
    """Parse a declared feature: `[low, high]`, or the categories."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        raise ValueError(f"a feature is named by text of 1 to {_LONGEST} characters, not {name!r:.120}")
    values = list(declared) if isinstance(declared, Sequence) and not isinstance(declared, str) else []
    words = all(isinstance(each, str) and 0 < len(each) <= _LONGEST for each in values)
    if values and words and len(set(values)) == len(values):
        if len(values) > MOST_CATEGORIES:
            raise ValueError(f"feature {name!r} has at most {MOST_CATEGORIES} categories, not {len(values)}")
        return Kind(name, categories=tuple(values))
    numbers = len(values) == 2 and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in values)
    if not numbers or not all(abs(x) <= _LARGEST for x in values) or not values[0] < values[1]:
        raise ValueError(
            f"feature {name!r} is declared as [lowest, highest] or by its categories, not {declared!r:.120}"
        )
    return Kind(name, float(values[0]), float(values[1]))


class FeatureSpace:
    """Features of items and of visits, and their encoding as the F numbers of a learner.

    Each number of an item counts by itself, and multiplied by each number of a visit, so that visitors may differ in
    what they want. `items` and `visits` map names to features; each is declared as `[low, high]` or by its
    categories. Numbers are sorted by name, whatever the order of declaration.
    """

    def __init__(self, items: Mapping[str, Any], visits: Mapping[str, Any] | None = None) -> None:
        for what, kinds in (("items", items), ("visits", visits or {})):
            if not isinstance(kinds, Mapping):
                raise ValueError(f"features of {what} are declared by name, not as {kinds!r}")
        self.items, self.visits = _by_name(items), _by_name(visits or {})
        own, theirs = (sum(len(kind.labels) for kind in kinds) for kinds in (self.items, self.visits))
        self._own, self._theirs = own, 1 + theirs
        alone = own == 0 and [kind.name for kind in self.visits] == [SEGMENT_NAME]
        self.segments = self.visits[0].categories if alone else ()  # lists per segment, and no other features
        if own == 0 and theirs and not self.segments:
            raise ValueError(
                "features of visits need features of items, which they are joined with; "
                f"{SEGMENT_NAME!r} may stand alone, by its categories"
            )
        self.size = own * (1 + theirs)
        self.visit_size = 1 if self.segments else self.size  # encoded numbers of a visit
        if self.size > MOST_FEATURES:
            raise ValueError(
                f"{own} numbers of an item, alone and with {theirs} of a visit, are {self.size} features; "
                f"at most {MOST_FEATURES} are possible: leave some out, or join categories"
            )

    def declared(self) -> dict[str, dict[str, Any]]:
        """The declarations as JSON, from which an equal `FeatureSpace` can be made."""

        def declarations(kinds: list[Kind]) -> dict[str, Any]:
            return {kind.name: list(kind.categories) or [kind.low, kind.high] for kind in kinds}

        return {"items": declarations(self.items), "visits": declarations(self.visits)}

    @property
    def labels(self) -> list[str]:
        """Labels of the F numbers."""
        own = [label for kind in self.items for label in kind.labels]
        theirs = [label for kind in self.visits for label in kind.labels]
        return [*own, *(f"{one} for {who}" for who in theirs for one in own)]

    def strongest(self, effects: Sequence[float]) -> list[tuple[str, float]]:
        """Label and effect (`View.effects`) of each number, strongest first."""
        return sorted(zip(self.labels, effects, strict=True), key=lambda pair: -abs(pair[1]))

    def of_item(self, values: Values | None) -> Floats:
        """Encode the features of an item."""
        if not self.size and values is None:
            return _NO_NUMBERS
        self.check_item(values)
        return np.tile(_numbers(self.items, values), self._theirs)

    def of_visit(self, values: Values | None) -> Floats:
        """Encode the features of a visit; with segments, the number of its segment, 0 for none."""
        if not self.visit_size and values is None:
            return _NO_NUMBERS
        self.check_visit(values)
        numbers = _numbers(self.visits, values)
        if self.segments:
            return np.array([numbers @ np.arange(1.0, len(self.segments) + 1.0)])
        return np.repeat(np.concatenate([np.ones(1), numbers]), self._own)

    def check_item(self, values: Values | None) -> None:
        """Refuse undeclared features of items."""
        _check("an item", self.items, values)

    def check_visit(self, values: Values | None) -> None:
        """Refuse undeclared features of visits."""
        _check("a visit", self.visits, values)

    def fitting_item(self, values: Values) -> Values:
        """The part of an item's past features that is still declared."""
        return _fitting(self.items, values)

    def of_visit_then(self, values: Values) -> Floats:
        """Encode the features of a past visit; those no longer declared are unknown."""
        if self.visit_size == 0:
            return _NO_NUMBERS
        return self.of_visit(_fitting(self.visits, values))


def _by_name(declared: Mapping[str, Any]) -> list[Kind]:
    return sorted((kind_of(*pair) for pair in declared.items()), key=lambda kind: kind.name)


def _check(what: str, kinds: list[Kind], values: Values | None) -> None:
    if values is not None and not isinstance(values, Mapping):
        raise Refused(422, f"features of {what} are given by name, not as {values!r:.80}")
    by_name = {kind.name: kind for kind in kinds} if values else {}
    for name, value in (values or {}).items():
        if name not in by_name:
            nothing = f"no features of {what} are declared, so {name!r:.80} cannot be given"
            raise Refused(422, closest(f"feature of {what}", str(name)[:80], by_name) if by_name else nothing)
        if not by_name[name].takes(value):
            raise by_name[name].refusal(value)


def _fitting(kinds: list[Kind], values: Values) -> Values:
    return {kind.name: values[kind.name] for kind in kinds if kind.name in values and kind.takes(values[kind.name])}


def _numbers(kinds: list[Kind], values: Values | None) -> Floats:
    parts = []
    for kind in kinds:
        part: Floats = np.zeros(len(kind.labels))
        kind.write((values or {}).get(kind.name), part)
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0)


SEGMENT_NAME = "segment"  # name of the feature of visits by which lists may be separated
NO_FEATURES = FeatureSpace({})


def by_segment(names: Sequence[str], others: FeatureSpace = NO_FEATURES) -> FeatureSpace:
    """A space with one feature of visits: a segment, one of `names`."""
    if others.visit_size:
        raise ValueError("declare segments or features, not both")
    if isinstance(names, str):
        raise ValueError(f"segments must be several names, not the text {names!r}")
    segments = list(names)
    words = all(isinstance(name, str) and 0 < len(name) <= _LONGEST for name in segments)
    if not words or not 1 <= len(set(segments)) == len(segments) <= MOST_CATEGORIES:
        may = f"1 to {MOST_CATEGORIES} different names of 1 to {_LONGEST} characters"
        raise ValueError(f"segments must be {may}, not {segments!r:.120}")
    return FeatureSpace({}, {SEGMENT_NAME: segments})


def features_from(frame: Any, item: str, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Features of items from a polars or pandas frame: one row per item, `item` the column of names.

    Empty cells and NaN are unknown values.
    """
    wanted = list(columns)
    have = [str(name) for name in frame.columns]
    for name in (item, *wanted):
        if name not in have:
            raise ValueError(closest("column", name, have))
    cells = {name: frame[name].to_list() for name in (item, *wanted)}
    by_item: dict[str, dict[str, Any]] = {}
    for row, name in enumerate(cells[item]):
        if name in by_item:
            raise ValueError(f"item {name!r} has two rows")
        by_item[name] = {column: _value_or_none(cells[column][row]) for column in wanted}
    return by_item


def _value_or_none(value: Any) -> Any:
    missing = value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType"
    return None if missing else value


def check_suited(learner: type, settings: Mapping[str, Any], features: FeatureSpace) -> None:
    """Refuse a learner that lacks a requested capability, naming the learners that have it."""
    name = learner.__name__
    if not _live(learner):
        raise ValueError(
            f"{name} is not live: it cannot rank items that come and go; these can: {_names_where(_live)}"
        )
    if features.size and not _describes(learner):
        raise ValueError(f"{name} does not use features; these do: {_names_where(_describes)}; or declare none")
    if features.segments and not _has_segments(learner):
        raise ValueError(f"{name} makes one list for all segments; one per segment: {_names_where(_has_segments)}")
    if features.segments and "segments" in settings:
        raise ValueError("the setting 'segments' follows from the names of the segments: leave it out")


def _names_where(can: Callable[[type], bool]) -> str:
    return ", ".join(name for name, cls in LEARNERS.items() if can(cls))


def _live(learner: type) -> bool:
    return bool(getattr(learner, "live", False))


def _describes(learner: type) -> bool:
    return callable(getattr(learner, "describe", None))


def _has_segments(learner: type) -> bool:
    return "segments" in settings_of(learner)
