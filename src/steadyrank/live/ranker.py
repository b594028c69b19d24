"""A learner kept alive between requests, inside your own process; and replays of one log through several learners."""

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
from .gate import GuardChoice, chosen_guards
from .impression_buffer import ImpressionBuffer, Outcome
from .learner_state import LearnerState, Standing
from .outcomes import WITH_ANSWER, Goal, OutcomeStatus, amount_of, number_of, with_goal
from .ruled_list import RuledLists
from .rules import Rules

_COMPILE_AT = 10  # at this list a thread starts to compile what the learner first needs some dozens of lists later


@dataclass(frozen=True)
class Shown:
    """A ranking to show."""

    id: int
    items: tuple[str, ...]
    unkept: tuple[str, ...] = ()  # rules that could not be kept, with when_impossible="best"


@dataclass(frozen=True)
class Observed:
    """A list that another ranker showed, how its answer was handled, and what this ranker would have shown."""

    id: int
    ours: tuple[str, ...]
    outcome: Outcome | Literal["shown"]  # shown: not answered yet


class Ranker:
    """Ranks items, learns from clicks, and can be saved and loaded at any time. Thread-safe.

    `items`: their names. `length`: places of a list. `learner`: a name, or a class that is `live`, with its
    `settings`. `goal`: "click", or "value": lists are made to maximise the outcomes of clicks, which are reported to
    `outcome`. `guard`: decides whose feedback reaches the learner; a name or a class, with its `guard_settings`; by
    default everybody's does. "ClientTrust" judges by the `client` given to `rank`. For several guards, a list of
    names or classes, or of pairs with the settings of each; feedback must be admitted by all. `lifetime`: seconds
    after which an impression can no longer be answered. `settle`: seconds for which answers wait, so that they are
    learnt in the order in which the lists were shown (default with a lifetime: equal to it; without one, answers are
    learnt at once). `count_unanswered`: an expired impression without an answer counts as looked at in full with no
    click, as far as answers confirm it (docs/live.md). `most_open`: number of impressions remembered. `new_share`:
    largest share of a list's places for added items while they are new. `features`: declares the features of items
    and visits (`FeatureSpace`); `items` may then map names to features. `segments`: categories of visits, each with
    lists of its own. `clock`: a function that returns seconds; only differences matter. All randomness comes from
    `seed`.
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
        guard: str | type | Sequence[GuardChoice] = "Anyone",
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
        own, guards = with_goal(learner, settings or {}, goal), chosen_guards(guard, guard_settings)
        names = items if isinstance(items, str | Mapping) else list(items)
        with announcing(learner if isinstance(learner, str) else learner.__name__):
            if not isinstance(names, str) and len(names) > SMALL:
                one = LearnerState(["any"], length, learner, own, seed, new_share, guards, False, features)
                memory_of(one).check(len(names), most_open, MOST_BYTES)  # before allocating any of it
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
        """A list of the best items, among `candidates` if given; shorter if fewer may be shown.

        `client`: a number from 0, of your choice, that identifies the user to learner and guard; `features`:
        those of the visit, by name; `segment`: that of the visit, if known. `unknown`: how to treat candidates that
        are not items: "refuse" the request, "skip" them, or "add" them. `rules`: what the list must keep (`Rules`);
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
            if visit.t == _COMPILE_AT:
                threading.Thread(target=state.compile, name="steadyrank-compile").start()
            return Shown(number, tuple(state.items_at(ranking.tolist())), tuple(unkept))

    def _resolve_candidates(self, candidates: Sequence[str], unknown: Unknown) -> Sequence[str]:
        """The candidates that are items, after refusing, skipping or adding the others."""
        others = fresh(candidates, self._learner_state.slots)
        if unknown == "skip":
            return without(candidates, others)
        for item in others:
            check_item(item)  # check all before adding any
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

        The answer is given as to `feedback`; without one, call `feedback` later with the returned id. Unknown items
        are added. `candidates`: the items that the other ranker chose from, used for the list that this one would
        have shown. `client` and `features`: as for `rank`. `value`: outcome of the only click so far, as for
        `feedback`.
        """
        self._check_list(items)
        answer = answers.given_if_any(
            answers.IN_PROCESS, items, clicked=clicked, position=position, clicks=clicks, examined=examined
        )
        amount, bought = 0.0, ""
        if value is not None:
            if answer is None:
                raise Refused(422, "value needs an answer with one click: report later outcomes by outcome")
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
        """Answer an impression: the item `clicked` (None: no click), its `position` from 1, or one bit per place.

        `clicks` may be shorter than the list if nothing is known of the places after them. `examined`: how many
        places the user looked at (default: the length of `clicks`). The same answer again returns "duplicate"; a
        different one is refused with code 409, a late one with 410, an id that was never given out with 403, an item
        that was not shown with 422. `value`: outcome of the only click, as if reported to `outcome` under this `id`.
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

    def outcome(
        self, shown: int, item: str, value: float, *, kind: str = "purchase", id: str | None = None
    ) -> OutcomeStatus:
        """Report an outcome of a click: its `value`, at least 0, such as money or seconds, always in one unit.

        `kind`: any word; "return" subtracts the value from what was reported before. `id`: identifies this outcome of
        this click, so that repeated reports count once; a different value under the same id is refused with code 409.
        Outcomes may come in any order, even before the answer. Returns "learnt"; "waiting" for the answer; "ignored"
        if a guard excluded the visit; "counted" if clicks are the goal, so that only guards are told; or "duplicate".
        Refused with code 410 if the impression is no longer remembered (`most_open`), with 409 if it was answered
        without this click.
        """
        with self._lock:
            self._delays.pass_time(self._impressions)
            answers.check_id(shown)
            amount, slot = amount_of(value, kind), self._learner_state.slot(item)
            number = secrets.randbits(63) if id is None else number_of(id)
            return self._impressions.outcome(shown, slot, number, amount)

    def add(self, item: str, features: Values | None = None) -> None:
        """Add an item with these features while running; it is shown now and then until more is known about it."""
        with self._lock:
            self._check_room(1)
            self._learner_state.add(item, features)
            self._ruled.describe(item, features)

    def _check_room(self, more: int) -> None:
        """Refuse to add so many items if memory would grow beyond the limit of a board."""
        state = self._learner_state
        items = len(state.names) + more
        if items > max(state.capacity, SMALL):
            most_open, room = self._impressions.most, room_for(items, state.capacity)
            memory_of(state).check(items, most_open, MOST_BYTES, room)

    def describe(self, item: str, features: Values) -> None:
        """Replace all features of an item; recent lists that show it are relearnt."""
        with self._lock:
            self._learner_state.describe(item, features)
            self._ruled.describe(item, features)

    def retire(self, item: str) -> None:
        """Stop showing an item; what was learnt about it is kept."""
        with self._lock:
            self._learner_state.switch(item, False)

    def reinstate(self, item: str) -> None:
        """Show a retired item again."""
        with self._lock:
            self._learner_state.switch(item, True)

    def standings(self) -> list[Standing]:
        """Counts and estimates of every item."""
        with self._lock:
            return self._learner_state.standings(self._learner_state.view())

    def view(self) -> View | None:
        """The learner's view of the feedback: regimes, changes, how much it distrusts; None if it has no view."""
        with self._lock:
            return self._learner_state.view()

    def worth(self) -> tuple[float, list[tuple[str, float]]]:
        """Effects of features: the share of the variance of clicks' logits that they explain, and the effect of each.

        Effects are in standard deviations of the logit, strongest first.
        """
        view = self.view()
        if view is None or not view.effects:
            raise ValueError(f"{self._learner_state.learner_class.__name__} was given no features, or uses none")
        return view.explained, self._learner_state.features.strongest(view.effects)

    def guard_view(self) -> GuardView | None:
        """The guard's view of the visits, such as how many it refused; None if it has no view.

        With several guards: what they refused and retracted in total, and the clients that any of them refuses.
        """
        views = list(self.guard_views().values())
        if len(views) < 2:
            return views[0] if views else None
        suspects = tuple(one for view in views for one in view.suspects)
        return GuardView(sum(view.refused for view in views), sum(view.retracted for view in views), suspects)

    def guard_views(self) -> dict[str, GuardView]:
        """The view of each guard by its name; without guards that have no view."""
        with self._lock:
            return self._learner_state.gate.client_views()

    def learn(self, log: Iterable[tuple[Sequence[str], Any] | tuple[Sequence[str], Any, float]]) -> int:
        """Learn from a log of past clicks: pairs of the items shown, in order, and the answer; returns their number.

        An answer is the item clicked, None for no click, or one bit per place. Unknown items are added. The outcome
        of the only click may come third, as for `outcome`.
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
            raise Refused(422, f"an answer is an item's name, None, or one bit per place, {not_text(answer)}")
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
        """Refuse an invalid list before any of its items is added."""
        refuse_text(items)
        if not 1 <= len(items) <= self._learner_state.length or len(set(items)) < len(items):
            raise ValueError(f"a list has 1 to {self._learner_state.length} different items, not {items!r}")
        for item in items:
            check_item(item)

    def compile(self) -> None:
        """Compile now what a thread would compile from the tenth list on, to be ready some dozens of lists later."""
        with self._lock:
            self._learner_state.compile()

    def save(self, path: str | pathlib.Path) -> None:
        """Write the complete state into one file, atomically."""
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
        """Load a saved ranker, which continues bit for bit. `learner`, `guard`: classes defined elsewhere."""
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
    """Replay one log of past clicks through several learners: one ranker each, by the learner's name.

    `log` as for `Ranker.learn`; `options` are passed to every `Ranker`.
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
