"""A board's items and its learner's memory: a fold over events in their order, which reads no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._intrinsics import addresses
from ..contract import (
    KIND,
    NOTE_EXTRA,
    SILENCE,
    Bools,
    Floats,
    Ints,
    Problem,
    Visit,
    call_rank,
    call_rank_at,
    call_update,
    find,
    make,
    memory,
    settings_of,
    view_of,
)
from ..learners import ALL as LEARNERS
from ..parts.segments import REST, SEGMENT, segment_at
from ..refusals import Refused
from ..settings import flag, real, whole
from ..views import GuardView, View
from .features import NO_FEATURES, FeatureSpace, Values
from .gate import Gate
from .widening import restored, widen

NEW_LOOKS = 20  # looks after which an added item is no longer new
MOST_ITEMS = 10_000_000
_NONE: Ints = np.zeros(0, np.int64)
_NOTHING: Floats = np.zeros((0, 0))


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with numbers of numpy as plain ones: a snapshot's header is JSON."""
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}


def with_guard(learner: Any, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Settings of a learner as boards of the past may have them: without those that are a guard by now, and that
    guard's name.
    """
    if learner != "SteadyRank" or "reject_impossible" not in settings:
        return dict(settings), "Anyone"
    rest = {key: value for key, value in settings.items() if key != "reject_impossible"}
    return rest, "Plausible" if flag("reject_impossible", settings["reject_impossible"]) else "Anyone"


def check_item(item: Any) -> None:
    """Refuse what cannot name an item."""
    if not isinstance(item, str) or not item or len(item) > 500:
        raise ValueError(f"an item is named by text of 1 to 500 characters, not {item!r}")


@dataclass(frozen=True)
class Standing:
    """How an item stands."""

    item: str
    active: bool
    looks: int
    clicks: int
    rate: float  # clicks / looks, 0 before the first look
    estimate: float | None  # attraction as the learner sees it, where it says so


class LearnerState:
    """Items by name, each in a slot of its own for good, a learner over the slots, and a guard in front of it.

    `new_share`: most places of a list that items added later take while they are new, at least one.
    """

    def __init__(
        self,
        items: Iterable[str],
        length: int,
        learner: str | type,
        settings: dict[str, Any],
        seed: int,
        new_share: float,
        guard: str | type = "Anyone",
        guard_settings: dict[str, Any] | None = None,
        shadow: bool = False,
        features: FeatureSpace = NO_FEATURES,
    ) -> None:
        self.length = whole("length", length, 1, 10_000)
        self.seed = whole("seed", seed, 0)
        self.new_share = real("new_share", new_share, 0.0, 1.0)
        self.learner_class = find("learner", learner, LEARNERS)
        if not getattr(self.learner_class, "live", False):
            known = ", ".join(name for name, cls in LEARNERS.items() if getattr(cls, "live", False))
            name = self.learner_class.__name__
            raise ValueError(f"{name} is not live: it cannot rank items that come and go; these can: {known}")
        self.settings, self.features = _plain(settings), features
        self._check_features()
        self.unknown = features.of_visit(None)  # what is told of a visit of which nothing is known
        self.names: list[str] = []
        self.slots: dict[str, int] = {}
        if isinstance(items, str):  # its letters would be taken for items
            raise ValueError(f"items must be several names, not the text {items!r}")
        for item in items:
            self._name(item)
        if not self.names:
            raise ValueError("items must name at least one item")
        given = items if isinstance(items, Mapping) else {}
        self._start: Floats = np.array([features.of_item(given.get(name)) for name in self.names])
        self.capacity = len(self.names)
        self.sized = self.capacity  # number of items that the learner's constants are for
        self.active: Bools = np.ones(self.capacity, np.bool_)
        self.added: Bools = np.zeros(self.capacity, np.bool_)  # after the start
        self.looks: Ints = np.zeros(self.capacity, np.int64)
        self.clicks: Ints = np.zeros(self.capacity, np.int64)
        self.refused: Ints = np.zeros(1, np.int64)  # visits that the guard kept from the learner
        self._check_segments()
        self.learner = self._make(self.capacity)
        # machine code, looked up once: the types never change
        rng, ranking, note = np.random.default_rng(0), np.zeros(1, np.int64), np.zeros(self.length + NOTE_EXTRA)
        self._rank = call_rank_at.bind(self.learner, Visit(1), self.active, ranking, note, addresses(rng))
        self._compiled = self._rank is not call_rank_at.plain
        self._rng: tuple[Any, Any] = (None, None)  # the generator of the last call, and its addresses
        self._update = call_update.bind(self.learner, Visit(1), ranking, note, self.active, 1)
        self.guard_by(guard, guard_settings or {}, shadow)

    def guard_by(self, guard: str | type, settings: dict[str, Any], shadow: bool) -> None:
        """Another guard from now on, which knows nobody yet."""
        self.gate = Gate(guard, _plain(settings), shadow, self.length, self.seed)
        self.gate.begin(self.learner, self.capacity, self.sized)

    def _name(self, item: Any) -> int:
        check_item(item)
        if item in self.slots:
            raise ValueError(f"item {item!r} is there already")
        if len(self.names) >= MOST_ITEMS:
            raise ValueError(f"a board has at most {MOST_ITEMS:,} items")
        self.slots[item] = len(self.names)
        self.names.append(item)
        return self.slots[item]

    def _check_features(self) -> None:
        if self.features.size and not callable(getattr(self.learner_class, "describe", None)):
            known = ", ".join(name for name, cls in LEARNERS.items() if callable(getattr(cls, "describe", None)))
            raise ValueError(
                f"{self.learner_class.__name__} does not use features; these do: {known}; or declare none"
            )

    def _told(self, visit: Visit) -> Visit:
        """A visit with its features, of which there are none if nothing is known of it."""
        return visit if visit.features.size == self.unknown.size else visit._replace(features=self.unknown)

    def _make(self, n_items: int) -> Any:
        """A learner that knows the features of the first items alone: those of others are described to it."""
        known: Floats = np.zeros((n_items, self.features.size))
        known[: len(self._start)] = self._start[:n_items]
        problem = Problem(n_items, self.length, seed=self.seed, features=known if self.features.size else _NOTHING)
        n = len(self.features.segments)
        return make(self.learner_class, problem, settings={**self.settings, "segments": n} if n else self.settings)

    def _check_segments(self) -> None:
        if self.features.segments and "segments" not in settings_of(self.learner_class):
            known = ", ".join(name for name, cls in LEARNERS.items() if "segments" in settings_of(cls))
            raise ValueError(f"{self.learner_class.__name__} has one list for all segments; a list each: {known}")
        if self.features.segments and "segments" in self.settings:
            raise ValueError("the setting 'segments' is counted from the names of the segments: leave it out")

    def slot(self, item: str) -> int:
        """The slot of an item, retired or not."""
        if item not in self.slots:
            raise Refused(422, f"unknown item {item!r}")
        return self.slots[item]

    def items_at(self, ranking: Iterable[int]) -> list[str]:
        """The items in these slots, in order."""
        return [self.names[slot] for slot in ranking]

    def add(self, item: str, features: Values | None = None) -> None:
        """A new item, of which this is known; memory doubles when it is full."""
        known = self.features.of_item(features)
        slot = self._name(item)
        if slot == self.capacity:
            self.capacity *= 2
            more = self.capacity - slot
            self.active, self.added = (np.pad(array, (0, more)) for array in (self.active, self.added))
            self.looks, self.clicks = (np.pad(array, (0, more)) for array in (self.looks, self.clicks))
            self.sized = len(self.names)
            self.learner = widen(self.learner, self._make(self.capacity), self._make(self.sized))
            self.gate.widen(self.capacity, self.sized)
        self.active[slot] = self.added[slot] = True
        if known.size:
            self.learner.describe(slot, known)

    def describe(self, item: str, features: Values) -> None:
        """What is known of an item from now on, all of it; what was learnt last is learnt anew with it."""
        known = self.features.of_item(features)
        if known.size:
            self.learner.describe(self.slot(item), known)

    def switch(self, item: str, active: bool) -> None:
        """Retire an item, or take it up again."""
        self.active[self.slot(item)] = active

    def allowed(self, candidates: Sequence[str] | None) -> Bools:
        """Which slots may be shown: active items, among the candidates if there are any."""
        if candidates is None:
            return self.active.copy()
        if isinstance(candidates, str):
            raise Refused(422, f"candidates must be several names, not the text {candidates!r}")
        chosen = np.zeros(self.capacity, np.bool_)
        for item in candidates:
            chosen[self.slot(item)] = True
        return chosen & self.active

    def rank(
        self, visit: Visit, candidates: Sequence[str] | None, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """A ranking of slots and its note; shorter than `length` when fewer items may be shown."""
        allowed, visit = self.allowed(candidates), self._told(visit)
        size = min(length, self.length, int(np.count_nonzero(allowed)))
        if size == 0:
            raise Refused(422, "no item may be shown: all of them, or all candidates, are retired")
        waiting = _NONE
        if np.count_nonzero(self.added):
            waiting = np.flatnonzero(allowed & self.added & (self.looks < NEW_LOOKS))
        turn = self._limit_new(allowed, waiting, size, rng) if waiting.size else waiting
        ranking, note = np.zeros(size, np.int64), np.zeros(self.length + NOTE_EXTRA)
        if self._rng[0] is not rng:
            self._rng = rng, addresses(rng)
        if self._compiled:
            self._rank(self.learner, visit, allowed, ranking, note, self._rng[1])
        else:
            call_rank.plain(self.learner, visit, allowed, ranking, note, rng)
        if turn.size and not np.isin(ranking, turn).any():
            ranking[int(rng.random() * size)] = turn[0]
        return ranking, note

    def _limit_new(self, allowed: Bools, waiting: Ints, size: int, rng: np.random.Generator) -> Ints:
        """Mask all new items but the few whose turn it is, those looked at least; returns these."""
        places = max(1, int(self.new_share * size))
        known = int(allowed.sum()) - waiting.size
        order = np.lexsort((rng.random(waiting.size), self.looks[waiting]))
        turn = waiting[order][: max(places, size - known)]
        allowed[waiting] = False
        allowed[turn] = True
        return turn

    def learn(
        self,
        visit: Visit,
        ranking: Ints,
        note: Floats,
        clicks: Bools,
        examined: int,
        kind: float,
        cohorts: Sequence[tuple[str, int]] = (),
        vouched: bool = False,
    ) -> bool:
        """Learn from one impression's feedback, of a kind that `contract` names, if it is let in; whether it was.

        `cohorts`: kinds and numbers of those that the client is in; `vouched`: no guard is asked. Plain
        rates count what is kept out all the same. Silence that is kept out is not counted as refused: it would have
        made no regime longer either.
        """
        self.looks[ranking[:examined]] += 1
        self.clicks[ranking[:examined]] += clicks[:examined]
        told, visit = note.copy(), self._told(visit)
        told[KIND] = kind
        asked = not (self.gate.open or vouched)
        if self.features.segments and told[SEGMENT] == REST:
            told[SEGMENT] = segment_at(visit.features, 0, 1 + len(self.features.segments))
        if asked and not self.gate.admit(self.learner, visit, cohorts, ranking, told, clicks, examined):
            self.refused[0] += kind != SILENCE
            return False
        self._update(self.learner, visit, ranking, told, clicks, examined)
        return True

    def view(self) -> View | None:
        """What the learner makes of the feedback, if it says so, and how many visits the guard refused."""
        view: View | None = view_of(self.learner)
        return None if view is None else view.beside(int(self.refused[0]))

    def guard_view(self) -> GuardView | None:
        """What the guard makes of clients' visits, if it says so."""
        return self.gate.client_view()

    def standings(self, view: View | None) -> list[Standing]:
        """Every item with its plain click rate and the learner's estimate, if it has a view."""
        estimates = None if view is None else view.regime(view.current).estimate
        return [
            Standing(
                name,
                bool(self.active[k]),
                int(self.looks[k]),
                int(self.clicks[k]),
                float(self.clicks[k] / max(self.looks[k], 1)),
                None if estimates is None else float(estimates[k]),
            )
            for k, name in enumerate(self.names)
        ]

    def arrays(self) -> dict[str, Any]:
        """Every array that decides the next ranking, by name: the same objects, not copies."""
        own = {"active": self.active, "added": self.added, "looks": self.looks, "clicks": self.clicks}
        learner = {f"learner.{name}": array for name, array in memory(self.learner)}
        return own | {"refused": self.refused} | learner | self.gate.arrays()

    def restore(self, names: Sequence[str], sized: int, kinds: Sequence[str], arrays: Mapping[str, Any]) -> None:
        """Take over the items and the memory of another one with the same settings."""
        self.names, self.slots = list(names), {name: k for k, name in enumerate(names)}
        self.capacity, self.sized = arrays["active"].size, sized
        self.active, self.added, self.looks, self.clicks = (
            arrays[name].copy() for name in ("active", "added", "looks", "clicks")
        )
        self.refused[...] = arrays["refused"]
        blank = self._make(self.capacity)
        self.learner = restored(widen(blank, blank, self._make(sized)), arrays, "learner.", False)
        self.gate.restore(kinds, arrays, self.capacity, sized)
