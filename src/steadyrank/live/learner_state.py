"""A board's items and its learner's memory: a deterministic fold over events in order, without a clock."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.compiling.intrinsics import addresses
from ..core.contract import KIND, NOTE_EXTRA, SILENCE, Problem, Visit, memory, view_of
from ..core.discovery import find_class, make
from ..core.dispatch import call_count_answer, call_end_window, call_outcome, call_rank, call_rank_at, call_update
from ..core.refusals import Refused, not_text
from ..core.rounds import offers
from ..core.segments import REST, SEGMENT, segment_at
from ..core.settings import real, whole
from ..core.views import View
from ..learners import ALL as LEARNERS
from ..learners.steady.arranged import ValuedItems, estimates_at, makes_valued_lists, valued_items
from .answers import check_item
from .features import NO_FEATURES, FeatureSpace, Values, check_suited
from .gate import NO_GUARD, ChosenGuards, Gate
from .newcomers import NEW_LOOKS, Newcomers
from .outcomes import Outcomes, OutcomeStatus
from .widening import restored, widen

MOST_ITEMS = 10_000_000
_NOTHING_TO_SHOW = "no item may be shown: all of them, or all candidates, are retired"
_compile_lock = threading.Lock()
_NO_FEATURES: Floats = np.zeros((0, 0))


def _json_ready(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numpy numbers in settings to Python numbers: a snapshot's header is JSON."""
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}


def _with_new_item(ranking: Ints, turn: Sequence[int], rng: np.random.Generator) -> Ints:
    """Put a new item whose turn it is into a list that has none of them."""
    if not set(turn).intersection(ranking.tolist()):
        ranking[int(rng.random() * ranking.size)] = turn[0]
    return ranking


def add_clicks(counts: dict[int, int], ranking: Ints, clicks: Bools) -> None:
    """Count the clicks on a list, by slot."""
    for slot in ranking[clicks].tolist():
        counts[slot] = counts.get(slot, 0) + 1


@dataclass(frozen=True)
class Standing:
    """Counts and estimates of one item."""

    item: str
    active: bool
    looks: int
    clicks: int
    rate: float  # clicks / looks, 0 before the first look
    estimate: float | None  # the learner's estimate of the attraction, if it has one
    worth: tuple[float, float, float] | None = None  # of a click, with its 95 % interval, if value is the goal


class LearnerState:
    """Items by name, each in a permanent slot, a learner over the slots, and the guards in front of it.

    `new_share`: largest share of a list's places for items added later, while they are new; at least one place.
    """

    def __init__(
        self,
        items: Iterable[str],
        length: int,
        learner: str | type,
        settings: dict[str, Any],
        seed: int,
        new_share: float,
        guards: ChosenGuards = NO_GUARD,
        shadow: bool = False,
        features: FeatureSpace = NO_FEATURES,
    ) -> None:
        self.length = whole("length", length, 1, 10_000)
        self.seed = whole("seed", seed, 0)
        self.new_share = real("new_share", new_share, 0.0, 1.0)
        self.learner_class = find_class("learner", learner, LEARNERS)
        self.settings, self.features = _json_ready(settings), features
        self._check_suited()
        self.unknown = features.of_visit(None)  # features of a visit about which nothing is known
        self.names: list[str] = []
        self.slots: dict[str, int] = {}
        if isinstance(items, str):  # its letters would become items
            raise ValueError(f"items must be several names, not the text {items!r}")
        for item in items:
            self._add_name(item)
        if not self.names:
            raise ValueError("items must name at least one item")
        self._start = self._features_at_first(items)
        self.capacity = len(self.names)
        self.sized = self.capacity  # number of items for which the learner's constants were computed
        self.active: Bools = np.ones(self.capacity, np.bool_)
        self.added: Bools = np.zeros(self.capacity, np.bool_)  # added after the start
        self.looks: Ints = np.zeros(self.capacity, np.int64)
        self.clicks: Ints = np.zeros(self.capacity, np.int64)
        self.newcomers = Newcomers(self.active, self.added, self.looks)
        self.invalid: dict[int, int] = {}  # by slot, clicks that guards refused or retracted
        self.condemned: dict[int, int] = {}  # clicks excluded by labels, maintained by the caller
        self.refused: Ints = np.zeros(1, np.int64)  # visits that guards refused
        self.learner = self._make_learner(self.capacity)
        # compiled functions, looked up once: the types never change
        rng, ranking, note = np.random.default_rng(0), np.zeros(1, np.int64), np.zeros(self.length + NOTE_EXTRA)
        self._rank = call_rank_at.bind(self.learner, Visit(1), self.active, ranking, note, addresses(rng))
        self._compiled = self._rank is not call_rank_at.plain
        self._rng: tuple[Any, Any] = (None, None)  # the generator of the last call, and its addresses
        self._in_two = offers(self.learner, "count_answer")
        update = call_count_answer if self._in_two else call_update
        self._update = update.bind(self.learner, Visit(1), ranking, note, self.active, 1)
        self._end_window: Callable[..., Any] | None = None  # compiled at first use
        self.outcomes = self._make_outcomes()
        if self.aims_at_value:
            self._outcome = call_outcome.bind(self.learner, 0, 1, 1, 0.0, 1.0)
        self.guard_by(guards, shadow)

    def _check_suited(self) -> None:
        check_suited(self.learner_class, self.settings, self.features)

    @property
    def aims_at_value(self) -> bool:
        """Whether lists are made for outcomes, so that the learner is told about them."""
        return self.settings.get("goal") == "value"

    def _make_outcomes(self) -> Outcomes | None:
        """The record of outcomes; None if they are not reported."""
        return Outcomes(self._report_outcome if self.aims_at_value else None)

    def _report_outcome(self, slot: int, shown: int, now: int, before: float, after: float) -> None:
        """Tell the learner about an outcome."""
        self._outcome(self.learner, slot, shown, now, before, after)

    def add_outcome(self, t: int, slot: int, number: int, amount: float, clicked: bool) -> OutcomeStatus:
        """Add an outcome of a click (`Outcomes.add`), and tell the guards, whether or not the learner is told."""
        assert self.outcomes is not None
        before = self.outcomes.worth(t, slot)
        became = self.outcomes.add(t, slot, number, amount, clicked)
        if became not in ("waiting", "duplicate"):
            self.gate.outcome(slot, t, self.outcomes.now, before, self.outcomes.worth(t, slot))
        return became

    def guard_by(self, guards: ChosenGuards, shadow: bool) -> None:
        """Replace the guards by others, which start without memory."""
        self.gate = Gate([(guard, _json_ready(own)) for guard, own in guards], shadow, self.length, self.seed)
        self.gate.forgetting = None if self.outcomes is None else self.outcomes.forget
        self.gate.begin(self.learner, self.capacity, self.sized)
        self.gate.on_retracted = self.count_invalid

    def _add_name(self, item: Any) -> int:
        check_item(item)
        if item in self.slots:
            raise ValueError(f"item {item!r} is there already")
        if len(self.names) >= MOST_ITEMS:
            raise ValueError(f"a board has at most {MOST_ITEMS:,} items")
        self.slots[item] = len(self.names)
        self.names.append(item)
        return self.slots[item]

    def _features_at_first(self, items: Iterable[str]) -> Floats:
        """Features of the first items, [K, F]; an item may have none."""
        given = items if isinstance(items, Mapping) else {}
        if not self.features.size and all(values is None for values in given.values()):
            return _NO_FEATURES
        return np.array([self.features.of_item(given.get(name)) for name in self.names])

    def _with_features(self, visit: Visit) -> Visit:
        """A visit with the expected number of features, unknown ones if it has none."""
        return visit if visit.features.size == self.unknown.size else visit._replace(features=self.unknown)

    def _make_learner(self, n_items: int) -> Any:
        """A learner that knows the features of the first items; `describe` adds those of others."""
        features = _NO_FEATURES
        if self.features.size:
            features = np.zeros((n_items, self.features.size))
            features[: len(self._start)] = self._start[:n_items]
        problem = Problem(n_items, self.length, seed=self.seed, features=features)
        n = len(self.features.segments)
        return make(self.learner_class, problem, settings={**self.settings, "segments": n} if n else self.settings)

    def slot(self, item: str) -> int:
        """The slot of an item, retired or not."""
        if item not in self.slots:
            known = f"unknown item {item!r:.80}"
            raise Refused(422, known if isinstance(item, str) else f"{known}: a name is text, {not_text(item)}")
        return self.slots[item]

    def items_at(self, ranking: Iterable[int]) -> list[str]:
        """The items in these slots, in order."""
        return [self.names[slot] for slot in ranking]

    def add(self, item: str, features: Values | None = None) -> None:
        """Add an item with these features; memory doubles when it is full.

        It counts as new if other items were looked at before; until then all items belong to the start.
        """
        numbers = self.features.of_item(features)
        slot = self._add_name(item)
        if slot == self.capacity:
            self.capacity *= 2
            more = self.capacity - slot
            self.active, self.added = (np.pad(array, (0, more)) for array in (self.active, self.added))
            self.looks, self.clicks = (np.pad(array, (0, more)) for array in (self.looks, self.clicks))
            self.newcomers = Newcomers(self.active, self.added, self.looks)
            self.sized = len(self.names)
            self.learner = widen(self.learner, self._make_learner(self.capacity), self._make_learner(self.sized))
            self.gate.widen(self.capacity, self.sized)
        self.added[slot] = self.newcomers.begun
        self.newcomers.switch(slot, True)
        if numbers.size:
            self.learner.describe(slot, numbers)

    def describe(self, item: str, features: Values) -> None:
        """Replace all features of an item; recent visits that show it are relearnt."""
        numbers = self.features.of_item(features)
        if numbers.size:
            self.learner.describe(self.slot(item), numbers)

    def switch(self, item: str, active: bool) -> None:
        """Retire an item, or reinstate it."""
        self.newcomers.switch(self.slot(item), active)

    def rank(
        self, visit: Visit, candidates: Sequence[str] | None, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """A ranking of slots and its note; shorter than `length` if fewer items may be shown.

        Besides the learner's time, O(new items whose turn it is), and O(items) with candidates.
        """
        visit = self._with_features(visit)
        if candidates is not None:
            return self._rank_among(self.slots_of(candidates), visit, length, rng)
        newcomers = self.newcomers
        size = min(length, self.length, newcomers.active)
        if size == 0:
            raise Refused(422, _NOTHING_TO_SHOW)
        if newcomers.size == 0:
            return self._rank_allowed(newcomers.known, visit, size, rng)
        turn = newcomers.draw(self._places_for_new(size, newcomers.active - newcomers.size), rng)
        return self._rank_in_turn(turn, visit, size, rng)

    def _rank_in_turn(
        self, turn: Sequence[int], visit: Visit, size: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """A list of well-known items and these new ones."""
        allowed = self.newcomers.known
        allowed[turn] = True  # only while the list is made
        try:
            ranking, note = self._rank_allowed(allowed, visit, size, rng)
        finally:
            allowed[turn] = False
        return _with_new_item(ranking, turn, rng), note

    def rank_without(
        self, out: Ints, visit: Visit, some: Ints | None, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """`rank` without the slots in `out`, among `some` slots of active items if given; slots are distinct."""
        visit, newcomers = self._with_features(visit), self.newcomers
        if some is not None:
            return self._rank_among(some[~np.isin(some, out)], visit, length, rng)
        if not out.size:
            return self.rank(visit, None, length, rng)
        out = out[self.active[out]]
        allowed = newcomers.known
        new_out = set(out[~allowed[out]].tolist()) if newcomers.size else ()
        n_active, n_new = newcomers.active - out.size, newcomers.size - len(new_out)
        size = min(length, self.length, n_active)
        if size == 0:
            raise Refused(422, _NOTHING_TO_SHOW)
        were = allowed[out]
        allowed[out] = False
        try:
            if n_new == 0:
                return self._rank_allowed(allowed, visit, size, rng)
            places = self._places_for_new(size, n_active - n_new)
            drawn = newcomers.draw(places + len(new_out), rng)
            turn = [slot for slot in drawn if slot not in new_out][:places]
            return self._rank_in_turn(turn, visit, size, rng)
        finally:
            allowed[out] = were

    def rank_more(
        self, without: Sequence[Ints], visit: Visit, some: Ints | None, wanted: int, rng: np.random.Generator
    ) -> list[int]:
        """Further items in the learner's order, among `some` slots if given, without others; possibly none.

        New items come last.
        """
        newcomers, out = self.newcomers, np.concatenate(without)
        if some is None:
            allowed, n = newcomers.known, newcomers.active - newcomers.size
        else:
            allowed, n = np.zeros(self.capacity, np.bool_), some.size
            allowed[some] = True
        were = allowed[out]
        left = n - out.size  # lower bound: some may be in several arrays, or not allowed
        if left < min(wanted, self.length):
            left = n - np.unique(out[were]).size
        if left:
            allowed[out] = False
            try:
                ranking, _ = self._rank_allowed(
                    allowed, self._with_features(visit), min(wanted, self.length, left), rng
                )
            finally:
                allowed[out] = were
            return list(ranking.tolist())
        if some is not None or not newcomers.size:
            return []
        taken = set(out.tolist())
        return [slot for slot in newcomers.draw(newcomers.size, rng) if slot not in taken][:wanted]

    def rank_slots(self, slots: Ints, visit: Visit, wanted: int, rng: np.random.Generator) -> list[int]:
        """The best of these items, new or not, in the learner's order. O(items)."""
        size = min(wanted, self.length, slots.size)
        if not size:
            return []
        allowed: Bools = np.zeros(self.capacity, np.bool_)
        allowed[slots] = True
        ranking, _ = self._rank_allowed(allowed, self._with_features(visit), size, rng)
        return list(ranking.tolist())

    def estimates_at(self, visit: Visit, slots: Ints) -> Floats | None:
        """The learner's estimates of some items' attractions; None if it has none."""
        return estimates_at(self.learner, visit, slots)

    @property
    def knows_worth(self) -> bool:
        """Whether the learner estimates the worth of clicks, so that lists under rules can be made for it."""
        return makes_valued_lists(self.learner)

    def valued(
        self, out: Ints, visit: Visit, some: Ints | None, more: Ints, wanted: int, rng: np.random.Generator
    ) -> ValuedItems | None:
        """Candidates for a list made for value: well-known items, and the items in `more`.

        Among `some` slots if given, without those in `out`. None if the learner does not estimate the worth of
        clicks.
        """
        if not self.knows_worth:
            return None
        allowed: Bools = self.newcomers.known.copy()
        if some is not None:
            allowed[:] = False
            allowed[some] = self.newcomers.known[some]
        allowed[out] = False
        size = min(wanted, int(np.count_nonzero(allowed)))
        return valued_items(self.learner, self._with_features(visit), allowed, more, size, rng) if size else None

    def slots_of(self, candidates: Sequence[str]) -> Ints:
        """The slots of active items among the candidates, in order."""
        if isinstance(candidates, str):
            raise Refused(422, f"candidates must be several names, not the text {candidates!r}")
        slots: Ints = np.array(sorted({self.slot(item) for item in candidates}), np.int64)
        return slots[self.active[slots]]

    def _rank_among(self, slots: Ints, visit: Visit, length: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        size = min(length, self.length, slots.size)
        if size == 0:
            raise Refused(422, _NOTHING_TO_SHOW)
        allowed: Bools = np.zeros(self.capacity, np.bool_)
        allowed[slots] = True
        waiting = slots[self.added[slots] & (self.looks[slots] < NEW_LOOKS)]
        if not waiting.size:
            return self._rank_allowed(allowed, visit, size, rng)
        order = np.lexsort((rng.random(waiting.size), self.looks[waiting]))
        turn = waiting[order][: self._places_for_new(size, slots.size - waiting.size)].tolist()
        allowed[waiting] = False
        allowed[turn] = True
        ranking, note = self._rank_allowed(allowed, visit, size, rng)
        return _with_new_item(ranking, turn, rng), note

    def _places_for_new(self, size: int, n_others: int) -> int:
        """Places for new items in a list: their share, and more if there are too few others."""
        return max(1, int(self.new_share * size), size - n_others)

    def _rank_allowed(self, allowed: Bools, visit: Visit, size: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """The learner's list of `size` allowed items, and its note."""
        ranking, note = np.zeros(size, np.int64), np.zeros(self.length + NOTE_EXTRA)
        if self._rng[0] is not rng:
            self._rng = rng, addresses(rng)
        if self._compiled:
            self._rank(self.learner, visit, allowed, ranking, note, self._rng[1])
        else:
            call_rank.plain(self.learner, visit, allowed, ranking, note, rng)
        return ranking, note

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
        """Learn from one impression's feedback, of a kind named in `contract`, if guards admit it; returns whether.

        `cohorts`: kinds and numbers of those that the client belongs to; `vouched`: bypass the guards. Plain click
        rates count refused feedback too. Refused silence is not counted as refused, because it does not make a
        regime longer anyway.
        """
        self.newcomers.count_looks(ranking[:examined])
        self.clicks[ranking[:examined]] += clicks[:examined]
        marked, visit = note.copy(), self._with_features(visit)
        marked[KIND] = kind
        asked, refused = not (self.gate.open or vouched), False
        if self.features.segments and marked[SEGMENT] == REST:
            marked[SEGMENT] = segment_at(visit.features, 0, 1 + len(self.features.segments))
        if asked and not self.gate.admit(self.learner, visit, cohorts, ranking, marked, clicks, examined):
            self.refused[0] += kind != SILENCE
            self.count_invalid(ranking[:examined], clicks[:examined])
            refused = True
        elif self._update(self.learner, visit, ranking, marked, clicks, examined):
            self._compiled_window()(self.learner, visit)
        if self.outcomes is not None:
            clicked = ranking[:examined][clicks[:examined]].tolist()
            for slot, worth in self.outcomes.click(visit.t, clicked, not refused):
                self.gate.outcome(slot, visit.t, visit.t, 0.0, worth)
        return not refused

    def _compiled_window(self) -> Callable[..., Any]:
        """The learner's compiled `end_window`."""
        if self._end_window is None:
            with _compile_lock:  # in one thread: others wait, and report nothing
                if self._end_window is None:
                    with announcing(f"what {self.learner_class.__name__} does only now and then"):
                        self._end_window = call_end_window.bind(self.learner, Visit(1, features=self.unknown))
        return self._end_window

    def compile(self) -> None:
        """Compile now what would be compiled at first use."""
        if self._in_two:
            self._compiled_window()

    def count_invalid(self, ranking: Ints, clicks: Bools) -> None:
        """Count the clicks on these items as invalid, because they are not learnt from, or no longer."""
        add_clicks(self.invalid, ranking, clicks)

    def invalid_clicks(self, slot: int) -> int:
        """Clicks on an item that guards or labels excluded."""
        return self.invalid.get(slot, 0) + self.condemned.get(slot, 0)

    def view(self) -> View | None:
        """The learner's view of the feedback, if it has one, including the number of refused visits."""
        view: View | None = view_of(self.learner)
        return None if view is None else view.with_refused(int(self.refused[0]))

    def standings(self, view: View | None) -> list[Standing]:
        """Every item with its plain click rate and the learner's estimate, if it has a view."""
        estimates = None if view is None else view.regime(view.current).estimate
        worths = None if view is None else view.worths
        columns = None if worths is None else np.array([worths.mean, *worths.interval()])
        return [
            Standing(
                name,
                bool(self.active[k]),
                int(self.looks[k]),
                int(self.clicks[k]),
                float(self.clicks[k] / max(self.looks[k], 1)),
                None if estimates is None else float(estimates[k]),
                None if columns is None else (float(columns[0, k]), float(columns[1, k]), float(columns[2, k])),
            )
            for k, name in enumerate(self.names)
        ]

    def arrays(self) -> dict[str, Any]:
        """All arrays that determine the next ranking, by name, not copied."""
        own = {"active": self.active, "added": self.added, "looks": self.looks, "clicks": self.clicks}
        learner = {f"learner.{name}": array for name, array in memory(self.learner)}
        own |= {"invalid": np.array(sorted(self.invalid.items()), np.int64)} if self.invalid else {}
        outcomes = {} if self.outcomes is None else self.outcomes.arrays()
        return own | {"refused": self.refused} | learner | self.gate.arrays() | outcomes

    def restore(
        self, names: Sequence[str], sized: int, kinds: Sequence[Sequence[str]], arrays: Mapping[str, Any]
    ) -> None:
        """Take over the items and the memory of a state with the same settings.

        `kinds`: of senders, for each guard.
        """
        self.names, self.slots = list(names), {name: k for k, name in enumerate(names)}
        self.capacity, self.sized = arrays["active"].size, sized
        self.active, self.added, self.looks, self.clicks = (
            arrays[name].copy() for name in ("active", "added", "looks", "clicks")
        )
        self.newcomers = Newcomers(self.active, self.added, self.looks)
        self.refused[...] = arrays["refused"]
        self.invalid = dict(arrays["invalid"].tolist()) if "invalid" in arrays else {}
        blank = self._make_learner(self.capacity)
        self.learner = restored(widen(blank, blank, self._make_learner(sized)), arrays, "learner.", False)
        self.gate.restore(kinds, arrays, self.capacity, sized)
        if self.outcomes is not None:
            self.outcomes.restore(arrays)
