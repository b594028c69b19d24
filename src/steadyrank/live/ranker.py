"""A learner kept alive between requests, inside your own process; and one log of past clicks through several."""

import pathlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.contract import ANYONE, NOTE_EXTRA, Visit
from ..core.files import replacing
from ..core.memory_limit import MOST_BYTES
from ..core.refusals import Refused, not_text
from ..core.settings import whole
from ..core.views import GuardView, View
from . import answers, snapshot
from .answers import Unknown, check_candidates, check_item, check_unknown, fresh, refuse_text, without
from .board_memory import SMALL, memory_of, room_for
from .delays import Delays
from .features import NO_FEATURES, SEGMENT_NAME, FeatureSpace, Values, by_segment
from .gate import OneGuard, guarding
from .impression_buffer import ImpressionBuffer, Outcome
from .learner_state import LearnerState, Standing
from .outcomes import WITH_ANSWER, Goal, Told, amount_of, number_of, with_goal
from .ruled_list import RuledLists
from .rules import Rules

_AHEAD = 10  # list with which a thread begins to compile what the learner first does some dozens of lists later


@dataclass(frozen=True)
class Shown:
    """A ranking that was given out."""

    id: int
    items: tuple[str, ...]
    unkept: tuple[str, ...] = ()  # rules that could not be kept, where the best list was asked for


@dataclass(frozen=True)
class Observed:
    """A list that another ranker showed, what became of it, and what this one would have shown in its place."""

    id: int
    ours: tuple[str, ...]
    outcome: Outcome | Literal["shown"]  # shown: it has no answer yet


class Ranker:
    """Ranks items, learns from what was clicked, and can be saved and loaded at any moment. Safe for threads.

    `items`: their names. `length`: places of a list. `learner`: a name or a class that is `live`; `settings` are its
    own. `goal`: "click", or "value": lists are made for what comes of clicks, of which `outcome` tells. `guard`:
    whose feedback reaches the learner, a name or a class, with its `guard_settings`; by default
    everybody's. "ClientTrust" judges by the `client` given to `rank`. Several guards: a list of names or classes, or
    of pairs with the settings of each; what all of them admit is learnt. `lifetime`: seconds after which an
    impression can no longer be answered. `settle`: seconds that answers wait so that they enter the learner in the
    order in which the lists were shown (default with a lifetime: as long as that; without one, answers are learnt
    from at once). `count_unanswered`: an expired impression without an answer counts as looked at in full with no
    click, as far as answers confirm it (docs/live.md). `most_open`: impressions remembered, the latest.
    `new_share`: most places that added items take while they are new. `features`: what may be known of items and
    visits (`FeatureSpace`); `items` may then map names to features. `segments`: categories of visits, each with lists
    of its own. `clock` gives seconds; only differences count. Randomness comes from `seed` alone.
    """

    def __init__(
        self,
        items: Iterable[str],
        length: int,
        learner: str | type = "SteadyRank",
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        goal: Goal = "click",
        guard: str | type | Sequence[OneGuard] = "Anyone",
        guard_settings: Mapping[str, Any] | None = None,
        new_share: float = 0.2,
        features: FeatureSpace = NO_FEATURES,
        segments: Sequence[str] = (),
        lifetime: float | None = None,
        settle: float | None = None,
        count_unanswered: bool = True,
        most_open: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if segments:
            features = by_segment(segments, features)
        self._delays = Delays(lifetime, settle, clock)
        own, guards = with_goal(learner, settings or {}, goal), guarding(guard, guard_settings)
        names = items if isinstance(items, str | Mapping) else list(items)
        with announcing(learner if isinstance(learner, str) else learner.__name__):
            if not isinstance(names, str) and len(names) > SMALL:
                one = LearnerState(["any"], length, learner, own, seed, new_share, guards, False, features)
                memory_of(one).check(len(names), most_open, MOST_BYTES)  # before any of it is taken
            self._learner_state = LearnerState(names, length, learner, own, seed, new_share, guards, False, features)
        self._impressions = ImpressionBuffer(self._learner_state, self._delays.in_order, count_unanswered, most_open)
        described = items if isinstance(items, Mapping) and features.items else {}
        self._ruled = RuledLists(self._learner_state, {item: values or {} for item, values in described.items()})
        self._rng = np.random.default_rng(seed)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        state, rounds = self._learner_state, self._impressions.rounds
        items = f"{int(np.count_nonzero(state.active[: len(state.names)])):,} items"
        return f"<Ranker of {items}: lists of {state.length} by {state.learner_class.__name__}, {rounds:,} shown>"

    def rank(
        self,
        candidates: Sequence[str] | None = None,
        *,
        length: int | None = None,
        client: int | None = None,
        unknown: Unknown = "refuse",
        features: Values | None = None,
        segment: str | None = None,
        rules: Rules | Mapping[str, Any] | None = None,
    ) -> Shown:
        """A list of the best items, among `candidates` if given; shorter when fewer may be shown.

        `client`: who looks, as a number of your own from 0 on, where learner or guard are to know it; `features`:
        what is known of them, by name; `segment`: theirs, if it is known. `unknown`: what becomes of candidates that
        are no items: "refuse" all of it, "skip" these, or "add" them. `rules`: what the list has to keep (`Rules`);
        it is the best list that does.
        """
        check_unknown(unknown)
        kept = Rules.of(rules)
        check_candidates(candidates)
        if segment is not None and not self._learner_state.features.segments:
            raise Refused(
                422, f"segment {segment!r:.80} cannot be given: Ranker(..., segments=[...]) declares segments"
            )
        most = self._learner_state.length
        size = most if length is None else whole("length", length, 1, most)
        sender = ANYONE if client is None else whole("client", client)
        numbers = self._learner_state.features.of_visit(features if segment is None else {SEGMENT_NAME: segment})
        with self._lock:
            self._delays.pass_time(self._impressions)
            if candidates is not None and unknown != "refuse":
                candidates = self._resolve_candidates(candidates, unknown)
            visit = Visit(self._impressions.rounds + 1, sender, numbers)
            state, unkept = self._learner_state, list[str]()
            if kept is None:
                ranking, note = state.rank(visit, candidates, size, self._rng)
            else:
                ruled = self._ruled.rank(kept, visit, candidates, size, self._rng)
                ranking, note, unkept = ruled.ranking, ruled.note, ruled.unkept
            number = self._delays.show(self._impressions, visit, ranking, note)
            if visit.t == _AHEAD:
                threading.Thread(target=state.compile, name="steadyrank-compile").start()
            return Shown(number, tuple(state.items_at(ranking.tolist())), tuple(unkept))

    def _resolve_candidates(self, candidates: Sequence[str], unknown: Unknown) -> Sequence[str]:
        """Candidates that are items by now, of which some may have been added for it."""
        others = fresh(candidates, self._learner_state.slots)
        if unknown == "skip":
            return without(candidates, others)
        for item in others:
            check_item(item)  # all of them, before any is added
        self._check_room(len(others))
        for item in others:
            self._learner_state.add(item)
        return candidates

    def observe(
        self,
        items: Sequence[str],
        *,
        clicked: Any = answers.LEFT_OUT,
        position: int | None = None,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        client: int | None = None,
        candidates: Sequence[str] | None = None,
        features: Values | None = None,
        value: float | None = None,
    ) -> Observed:
        """Learn from a list that another ranker showed, from the top, as from one of ours.

        The answer as for `feedback`; without one, `feedback` answers it by its id later. Items not known yet are
        added. `candidates`: what the other ranker chose from, for what this one would have shown. `client` and
        `features`: as for `rank`. `value`: what came of the one click by now, as for `feedback`.
        """
        self._check_list(items)
        answer = answers.given_if_any(
            answers.IN_PROCESS, items, clicked=clicked, position=position, clicks=clicks, examined=examined
        )
        amount, bought = 0.0, ""
        if value is not None:
            if answer is None:
                raise Refused(422, "value goes with an answer that has one click: of later ones report by outcome")
            amount, bought = amount_of(value, ""), items[answers.only_click(answer)]
        sender = ANYONE if client is None else whole("client", client)
        state, numbers = self._learner_state, self._learner_state.features.of_visit(features)
        with self._lock:
            self._delays.pass_time(self._impressions)
            visit = Visit(self._impressions.rounds + 1, sender, numbers)
            ours, _ = state.rank(visit, candidates, len(items), self._rng)
            new = [item for item in items if item not in state.slots]
            self._check_room(len(new))
            for item in new:
                state.add(item)
            note: Floats = np.zeros(state.length + NOTE_EXTRA)
            ranking: Ints = np.array([state.slots[item] for item in items], np.int64)
            number = self._delays.show(self._impressions, visit, ranking, note)
            outcome = "shown" if answer is None else self._impressions.answer(number, *answer)
            if bought:
                self._impressions.outcome(number, state.slots[bought], number_of(WITH_ANSWER), amount)
            return Observed(number, tuple(state.items_at(ours.tolist())), outcome)

    def feedback(
        self,
        shown: int,
        *,
        clicked: Any = answers.LEFT_OUT,
        position: int | None = None,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        value: float | None = None,
        id: str = WITH_ANSWER,
    ) -> Outcome:
        """Answer an impression: the item `clicked` (None: nothing was), its `position` from 1, or a bit a place.

        `clicks` may be shorter than the list: nothing is said of the places after them. `examined` says how many
        places the user looked at (default: as many as `clicks` has). The same answer
        again is a "duplicate"; another one is refused with code 409, one that is too late with 410, an id that was
        never given out with 403, an item that was not shown with 422. `value`: what came of the one click at once, as
        `outcome` would say under this `id`.
        """
        with self._lock:
            self._delays.pass_time(self._impressions)
            answers.check_id(shown)
            place = self._impressions.find_place(shown)
            ranking = self._impressions.ranking[place, : self._impressions.size[place]]
            items = self._learner_state.items_at(ranking.tolist())
            given = answers.given(
                answers.IN_PROCESS, clicked=clicked, position=position, clicks=clicks, examined=examined
            )
            answer = given.to(items)
            if value is None:
                return self._impressions.answer(shown, *answer)
            amount, number = amount_of(value, ""), number_of(id)
            slot = int(ranking[answers.only_click(answer)])
            outcome = self._impressions.answer(shown, *answer)
            self._impressions.outcome(shown, slot, number, amount)
            return outcome

    def outcome(self, shown: int, item: str, value: float, *, kind: str = "purchase", id: str | None = None) -> Told:
        """Something came of a click: `value`, at least 0, such as money or seconds, all of a ranker in one unit.

        `kind`: any word; "return" takes off what was reported before. `id`: names this outcome of this click, so that
        it counts once however often it is reported; another value under it is refused with code 409. Outcomes may
        come in any order, before the answer as well: "learnt", or "waiting" for the answer, "ignored" if a guard kept
        the visit from the learner, "counted" where clicks are the goal, so that only guards are told, or "duplicate".
        Of an impression that is forgotten (`most_open`) they are refused with code 410, of one answered without this
        click with 409.
        """
        with self._lock:
            self._delays.pass_time(self._impressions)
            answers.check_id(shown)
            amount, slot = amount_of(value, kind), self._learner_state.slot(item)
            number = secrets.randbits(63) if id is None else number_of(id)
            return self._impressions.outcome(shown, slot, number, amount)

    def add(self, item: str, features: Values | None = None) -> None:
        """Add an item while running, of which this is known: it is shown now and then until it is known better."""
        with self._lock:
            self._check_room(1)
            self._learner_state.add(item, features)
            self._ruled.describe(item, features)

    def _check_room(self, more: int) -> None:
        """Refuse so many more items if memory would have to grow beyond what a board may take."""
        state = self._learner_state
        items = len(state.names) + more
        if items > max(state.capacity, SMALL):
            most_open, room = self._impressions.most, room_for(items, state.capacity)
            memory_of(state).check(items, most_open, MOST_BYTES, room)

    def describe(self, item: str, features: Values) -> None:
        """What is known of an item from now on, all of it; the latest lists are learnt anew with it."""
        with self._lock:
            self._learner_state.describe(item, features)
            self._ruled.describe(item, features)

    def retire(self, item: str) -> None:
        """Show an item no longer; what was learnt of it is kept."""
        with self._lock:
            self._learner_state.switch(item, False)

    def reinstate(self, item: str) -> None:
        """Show a retired item again."""
        with self._lock:
            self._learner_state.switch(item, True)

    def standings(self) -> list[Standing]:
        """Every item with its plain click rate and the learner's estimate."""
        with self._lock:
            return self._learner_state.standings(self._learner_state.view())

    def view(self) -> View | None:
        """What the learner makes of the feedback: regimes, changes, how much it distrusts; None if it has no view."""
        with self._lock:
            return self._learner_state.view()

    def worth(self) -> tuple[float, list[tuple[str, float]]]:
        """What features are worth: the share of the variance of clicks' logits that they explain, and each one's
        effect in standard deviations of it, the strongest first.
        """
        view = self.view()
        if view is None or not view.effects:
            raise ValueError(f"{self._learner_state.learner_class.__name__} was given no features, or uses none")
        return view.explained, self._learner_state.features.strongest(view.effects)

    def guard_view(self) -> GuardView | None:
        """What the guard makes of the visits, how many it refused among it; None if it has no view.

        Of several guards: what they refused and took back together, and whom any of them does not hear.
        """
        views = list(self.guard_views().values())
        if len(views) < 2:
            return views[0] if views else None
        suspects = tuple(one for view in views for one in view.suspects)
        return GuardView(sum(view.refused for view in views), sum(view.retracted for view in views), suspects)

    def guard_views(self) -> dict[str, GuardView]:
        """The same of each guard by its name; without those that have no view."""
        with self._lock:
            return self._learner_state.gate.client_views()

    def learn(self, log: Iterable[tuple[Sequence[str], Any] | tuple[Sequence[str], Any, float]]) -> int:
        """Start from past clicks: pairs of the items shown, in order, and the answer; how many there were.

        An answer is the item clicked, None for no click, or a bit a place. Items not known yet are added. What came
        of the one click may come third, as for `outcome`.
        """
        count = 0
        with self._lock:
            for items, answer, *value in log:
                count += 1
                try:
                    self._learn_one(items, answer, *value)
                except Refused as error:
                    raise Refused(error.code, f"row {count} of the log: {error}") from error
                except ValueError as error:
                    raise ValueError(f"row {count} of the log: {error}") from error
        return count

    def _learn_one(self, items: Sequence[str], answer: Any, value: float = 0.0) -> None:
        self._check_list(items)
        if isinstance(answer, int):
            raise Refused(422, f"an answer is an item's name, None, or a bit a place, {not_text(answer)}")
        given = (
            answers.Given(item=answer) if answer is None or isinstance(answer, str) else answers.Given(clicks=answer)
        )
        checked = given.to(items)
        amount = amount_of(value, "")
        if amount > 0.0:
            answers.only_click(checked)
        self._check_room(sum(item not in self._learner_state.slots for item in items))
        self._impressions.past(items, *checked, value=amount)

    def _check_list(self, items: Sequence[str]) -> None:
        """Refuse what no list can be, before any of its items is added."""
        refuse_text(items)
        if not 1 <= len(items) <= self._learner_state.length or len(set(items)) < len(items):
            raise ValueError(f"a list has 1 to {self._learner_state.length} different items, not {items!r}")
        for item in items:
            check_item(item)

    def compile(self) -> None:
        """Compile now what a thread else compiles from the tenth list on, since it is needed some dozens later."""
        with self._lock:
            self._learner_state.compile()

    def save(self, path: str | pathlib.Path) -> None:
        """Write everything that decides what comes next into one file, whole or not at all."""
        with self._lock:
            extra = {
                "chance": self._rng.bit_generator.state,
                **({"described": self._ruled.known} if self._ruled.known else {}),
                **self._delays.keep(),
            }
            content = snapshot.pack(*snapshot.take(self._learner_state, self._impressions, extra))
        with replacing(pathlib.Path(path)) as file:
            file.write(content)

    @classmethod
    def load(
        cls,
        path: str | pathlib.Path,
        *,
        learner: type | None = None,
        guard: type | Sequence[type] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Ranker":
        """A ranker as it was saved: it goes on bit for bit. `learner`, `guard`: the class, if it is not ours."""
        content = pathlib.Path(path).read_bytes()
        ranker = cls.__new__(cls)
        guards: Sequence[type] = () if guard is None else [guard] if isinstance(guard, type) else guard
        with announcing("the learner"):
            restored = snapshot.restore(content, str(path), learner, guards)
        if "most_pairs" in restored[2]:
            raise snapshot.UnreadableSnapshot(f"{path} holds no ranker: Collection.load reads collections")
        ranker._learner_state, ranker._impressions, header, _ = restored
        ranker._ruled = RuledLists(ranker._learner_state, header.get("described", {}))
        ranker._delays = Delays.restore(header, clock)
        ranker._rng = np.random.default_rng()
        ranker._rng.bit_generator.state = header["chance"]
        ranker._lock = threading.RLock()
        return ranker


def replay(
    log: Iterable[tuple[Sequence[str], Any] | tuple[Sequence[str], Any, float]],
    learners: Sequence[str | type],
    *,
    length: int,
    **options: Any,
) -> dict[str, Ranker]:
    """Run one log of past clicks through several learners: a ranker each, by the learner's name.

    `log` as for `Ranker.learn`; `options` go to every `Ranker`.
    """
    rows = list(log)
    if not rows:
        raise ValueError("the log is empty: it needs at least one list")
    for items, *_ in rows:
        refuse_text(items)
    first = dict.fromkeys(item for items, *_ in rows for item in items)
    rankers = {}
    for learner in learners:
        ranker = Ranker(first, length, learner, **options)
        ranker.learn(rows)
        rankers[learner if isinstance(learner, str) else learner.__name__] = ranker
    return rankers
