"""A board: its settings, items, impressions and learner, folded from its log of events."""

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from ...core.arrays import Floats, Ints
from ...core.contract import ANYONE, NOTE_EXTRA, Visit
from ...core.refusals import Refused
from ...live import answers, snapshot
from ...live.collection.collection_state import CollectionState, ShownItems, Tables, places_known
from ...live.collection.re_ranker import QUERY
from ...live.impression_buffer import NO_OUTCOMES, UNANSWERED, ImpressionBuffer
from ...live.learner_state import LearnerState
from ...live.ruled_list import RuledList, RuledLists
from ...live.rules import Rules
from . import events
from .checks import check, check_known_here, check_learner, check_rules, guards_of
from .config import CollectionSettings, Config, GuardChoice, Known, Setting, with_settings
from .events import AnyEvent
from .feedback import OTHER_ITEMS, LabelledFeedback, PastBatches, Reported
from .interleaving import Interleaving
from .labels import Labels
from .schema import Schema

_NO_FEATURES: Mapping[str, Known] = {}
_JOINED = 32  # combinations of request rules and board rules that are cached
_AT_ONCE = 20  # impressions that are settled or expired per step
NOT_OURS = "an item was shown that this board does not have"


def _parts_of(done: int, upto: int) -> Iterator[int]:
    """Yield the numbers of impressions from `done` to `upto` in steps of `_AT_ONCE`, the last one included."""
    yield from range(done + _AT_ONCE, upto, _AT_ONCE)
    yield upto


class Work:
    """A long computation without side effects. Call it, in any thread, before continuing to apply the event."""

    def __init__(self, call: Callable[[], Tables]) -> None:
        """`call`: the computation."""
        self._call = call
        self._result: Tables | Exception = AssertionError("nobody did the work")

    def __call__(self) -> None:
        """Run the computation; an exception is kept and raised by `result`."""
        try:
            self._result = self._call()
        except Exception as error:
            self._result = error

    def result(self) -> Tables:
        """Return the result of the computation, or raise its exception."""
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


# an event being applied: a generator that pauses where lists may be ranked (None), or where work must be done first
Steps: TypeAlias = Generator[Work | None, None, str]


def run_to_end(steps: Steps) -> str:
    """Apply an event to its end, doing its work in this thread. Returns its outcome."""
    while True:
        try:
            work = next(steps)
        except StopIteration as stop:
            outcome: str = stop.value
            return outcome
        if work is not None:
            work()


class SilenceOut(Schema):
    """The share of lists that ended without an informative answer.

    `share`: recently, over about the last 100 answers; `usual`: the highest usual share on this board, null before it
    had 100 answers; `alarming`: the share is far above the usual one; `alarmed`: the latest round in which it was.
    """

    share: float
    usual: float | None
    alarming: bool
    alarmed: int | None


class _Named(Schema):
    board: str


class CollectionFacts(CollectionSettings, frozen=True, kw_only=True):
    """The settings of a collection, with the number of queries and of looked-at pairs of query and item in memory."""

    queries: int
    pairs: int


class BoardOut(  # type: ignore[call-arg]
    with_settings(  # type: ignore[misc]
        _Named, settings=dict[str, Any], guard_settings=dict[str, Any], guards=list[GuardChoice]
    ),
    omit_defaults=True,
):
    """A board: its settings and counts."""

    items: int
    impressions: int
    answers: int
    clicks: int
    outcomes: int
    unanswered: int
    rounds: int
    silence: SilenceOut
    collection: CollectionFacts | None = None


class Board:
    """The state of a board. Applies events in log order; reads no clock and draws no random number."""

    def __init__(self, config: Config, learner_state: LearnerState, impressions: ImpressionBuffer) -> None:
        """Use `create` or `restore` instead."""
        self.learner_state, self.impressions = learner_state, impressions
        self._ruled: RuledLists | None = None
        # the setting, its rules, and these as the best list keeps them
        self._standing: tuple[Any, Rules | None, Rules | None] = None, None, None
        # cache: board rules with the rules of recent requests
        self._joined: dict[tuple[int, int], tuple[Rules, Rules, Rules]] = {}
        self.config = self.latest = config  # what the board was folded with; and what the log says by now
        self.described: dict[str, Known] = {}  # features of items, as the log has them
        self.labels = Labels()  # as the log has them by now
        self.stale = False  # the labels or the settings of learning changed since the fold: another fold is due
        self._outdated = False
        self.generation = config.generation()
        self._no_note: Floats = np.zeros(config.length + NOTE_EXTRA)
        self.feedback = LabelledFeedback(learner_state)
        impressions.declare(config.cohorts)
        impressions.learn = self.feedback.learn
        self.events, self.events_kept = 1, 0  # events applied, creation included; events in the latest known snapshot
        self.answers, self.clicked, self.outcomes = 0, 0, 0
        self.listed = 0  # items added by lists of other rankers
        self.batches = PastBatches()
        self.reported = Reported()  # lists shown by another ranker
        self.interleaving = Interleaving()  # lists mixed of another ranker's and ours

    @classmethod
    def create(cls, config: Config, items: Sequence[str], known: Mapping[str, Known] = _NO_FEATURES) -> "Board":
        """Make a new board with these items; `known`: features of some of them."""
        described = {item: values for item, values in known.items() if values}
        fitting = config.feature_space().fitting_item
        features = {item: fitting(known.get(item, {})) for item in items} if described else items
        state = check(config, features, together=False)  # a replay may combine settings of different times
        impressions = ImpressionBuffer(state, config.settle != 0, config.count_unanswered, config.most_open)
        board = cls(config, state, impressions)
        board.described = described
        return board

    @property
    def settle(self) -> float:
        """Seconds until answers are given to the learner."""
        return self.config.lifetime if self.config.settle is None else self.config.settle

    def _outcome(self, event: events.Outcome) -> str:
        """Apply an outcome of a click. Once the click is known, the impression is no longer needed."""
        book = self.learner_state.outcomes
        if book is None:
            raise Refused(409, NO_OUTCOMES)
        told: str
        (slot,) = self._slots_of([event.slot]).tolist()
        if event.key not in self.impressions.numbers and book.knows(event.round, slot):
            told = self.learner_state.add_outcome(event.round, slot, event.number, event.amount, False)
        else:
            number = self._shown(event)
            try:
                told = self.impressions.outcome(number, slot, event.number, event.amount)
            except Refused as error:  # a number means nothing to who reports
                words = str(error).replace(f"impression {number} ", "the impression ")
                raise Refused(error.code, words) from error
        self.outcomes += told != "duplicate"
        return told

    def known_outcome(self, event: events.Answered | events.Observed) -> str | None:
        """The outcome of an answer if it can be told without logging the event; None otherwise. Changes nothing."""
        number = self.impressions.numbers.get(event.key, 0)
        if isinstance(event, events.Observed):
            done = number and self.impressions.state[number % self.impressions.places] not in UNANSWERED
            return self._observed(event) if number and (done or event.clicks is None) else None
        forgotten = not number and event.base < self.impressions.forgotten
        if forgotten or (number and self.impressions.state[number % self.impressions.places] not in UNANSWERED):
            return self._answered(event)
        return None

    def take(self, event: AnyEvent) -> None:
        """Apply an event during replay, ignoring refusals, which were reported when it came first.

        Other errors are raised.
        """
        with contextlib.suppress(Refused):
            self.apply(event)

    def apply(self, event: AnyEvent) -> str:
        """Apply an event and return its outcome. A refused event changes nothing but the count of events."""
        return run_to_end(self.steps(event))

    def steps(self, event: AnyEvent) -> Steps:
        """Apply an event in steps; it pauses after each part of a long one, and where work must be done."""
        self.events += len(event) if isinstance(event, events.ListsShown) else 1
        try:
            yield from self._room()
            return (yield from self._apply(event))
        except Refused:
            raise
        except (ValueError, KeyError) as error:
            raise Refused(422, str(error)) from error

    def _room(self) -> Iterator[Work]:
        """Make room in the tables of a large collection for the lists that are learnt from until the next check."""
        state = self.learner_state
        if isinstance(state, CollectionState) and state.is_large:
            items = min((_AT_ONCE + 1) * self.length, state.most_pairs // 8)
            if state.lacks_room(items, _AT_ONCE, items):
                yield (work := Work(functools.partial(state.with_more_room, items, _AT_ONCE, items)))
                state.use_tables(work.result())

    def _apply(self, event: AnyEvent) -> Steps:
        match event:
            case events.Answered():
                return self._answered(event)
            case events.ListShown():
                self._shown(event)
            case events.ListsShown():
                self._lists_shown(event)
            case events.Observed():
                return self._observed(event)
            case events.Outcome():
                return self._outcome(event)
            case events.Withheld():
                self.impressions.withhold(self._shown(event))
            case events.Settled():
                for upto in _parts_of(self.impressions.settled, min(event.upto, self.impressions.last)):
                    self.impressions.settle(upto)
                    yield None
                    yield from self._room()
            case events.Expired():
                for upto in _parts_of(self.impressions.over, min(event.upto, self.impressions.last)):
                    self.impressions.expire(upto)
                    yield None
                    yield from self._room()
            case events.Added():
                return (yield from self._added(event))
            case events.Described():
                for item, values in event.features.items():
                    self._describe(item, values)
                    yield None
            case events.Retired():
                for item in (event.item, *event.others):
                    self.learner_state.switch(item, False)
                    yield None
            case events.History():
                return (yield from self._history(event))
            case events.Configured():
                self._configured(event.changes)
            case events.QueryForgotten():
                return (yield from self._forget_query(event))
            case events.Labelled():
                number = self.labels.add(event.key, event.start, event.end, event.label, event.client, event.kind)
                self.compare()
                return str(number)
            case events.Unlabelled():
                self.labels.remove(event.number)
                self.compare()
        return "done"

    def _shown(self, event: events.OfVisitor) -> int:
        """The number of an impression, registered if it is new. Raises Refused if it may have been forgotten."""
        number = self.impressions.numbers.get(event.key, 0)
        if number:
            return number
        if event.base < self.impressions.forgotten:
            raise Refused(410, "the impression has expired")  # it may have been answered
        ranking = self._slots_of(event.ranking)
        note = self._note(event)
        visit = Visit(event.round, event.client, self.learner_state.features.of_visit_then(event.features))
        number = self.impressions.shown(visit, ranking, note, event.key, event.cohorts)
        self.interleaving.shown(event)
        self.feedback.timeline.show(event.round, event.time)
        return number

    def _lists_shown(self, event: events.ListsShown) -> None:
        """Apply several lists, as one batch if none of them is unusual."""
        if not self._show_together(event):
            for one in event.each():
                with contextlib.suppress(Refused):
                    self._shown(one)

    def _show_together(self, event: events.ListsShown) -> bool:
        """Apply lists as one batch. Returns False, with no effect, if one of them is unusual."""
        state, impressions, slots = self.learner_state, self.impressions, event.slots()
        forgotten = max(impressions.forgotten, impressions.last + len(event) - impressions.most)
        if isinstance(state, CollectionState) or int(slots.max()) >= len(state.names):
            return False
        if int(events.numbers(event.base).min()) < forgotten:
            return False
        notes, features, space = self._no_note, state.unknown, state.features
        if event.note and event.generation == self.generation:
            notes = np.tile(self._no_note, (len(event), 1))
            for number, place, value in event.note:
                if place < self._no_note.size:
                    notes[number, place] = value
        if space.visit_size:
            known = event.features or [{}] * len(event)
            features = np.stack([space.of_visit_then(one) for one in known])
        rounds = events.numbers(event.round)
        shown = impressions.shown_together(
            np.frombuffer(event.key, "<u8"),
            rounds,
            events.numbers(event.client) if event.client else ANYONE,
            slots[:, : self.length],
            notes,
            features,
            event.cohorts,
        )
        if shown:
            self.feedback.timeline.show_several(rounds, np.frombuffer(event.time, "<f8"))
        return shown

    def _slots_of(self, ranking: Sequence[int]) -> Ints:
        """The ranking as slots; in a collection, as distinguishable places of the engine's order."""
        slots: Ints = np.array(ranking[: self.length], np.int64)
        return places_known(slots) if isinstance(self.learner_state, CollectionState) else slots

    def _note(self, event: events.OfVisitor) -> Floats:
        """The note of a list. Raises Refused if this board cannot have shown the list."""
        state = self.learner_state
        if isinstance(state, CollectionState):
            if event.of is None or not 0 < len(event.ranking) == len(event.of.items):
                raise Refused(422, NOT_OURS)
            return state.note_of(event.of)
        if not event.ranking or max(event.ranking) >= len(state.names):
            raise Refused(422, NOT_OURS)
        if not event.note or event.generation != self.generation:
            return self._no_note
        note = self._no_note.copy()
        for place, value in event.note:
            if place < note.size:
                note[place] = value
        return note

    def _is_other(self, place: int, event: events.Observed) -> bool:
        """Return whether the list at a place of the buffer has other items than the list of an event."""
        impressions, state = self.impressions, self.learner_state
        size = int(impressions.size[place])
        if isinstance(state, CollectionState):
            shown = state.codes_of(impressions.note[place], size), int(impressions.note[place, QUERY])
            return event.of is None or shown != (event.of.items[: self.length], event.of.query)
        shown_slots: list[int] = impressions.ranking[place, :size].tolist()
        return shown_slots != event.ranking[: self.length]

    def _observed(self, event: events.Observed) -> str:
        """Apply a list shown by another ranker, with its answer if there is one.

        A key stands for the same list for ever.
        """
        number = self.impressions.numbers.get(event.key, 0)
        if number:
            if self._is_other(number % self.impressions.places, event):
                raise Refused(409, OTHER_ITEMS)
        else:
            self.reported.refuse_forgotten(event.key, event.time, event.stream, event.offset)
            self._shown(event)
            self.reported.add(event.key, event.time, self.impressions.numbers, event.stream, event.offset)
        if event.clicks is None:
            return "duplicate" if number else "shown"
        return self._answered(event)

    @property
    def length(self) -> int:
        """The number of places of a list."""
        return self.learner_state.length

    def _answered(self, event: events.Answered | events.Observed) -> str:
        number = self._shown(event)
        clicks = event.clicks or []
        answer = answers.at(min(len(event.ranking), self.length), clicks, event.examined)
        try:
            outcome = self.impressions.answer(number, *answer)
        except Refused as error:
            words = {409: "the impression was answered otherwise before", 410: "the impression has expired"}
            raise Refused(error.code, words[error.code]) from error
        if outcome != "duplicate" and event.examined:
            self.answers += 1
            self.clicked += bool(clicks)
            self.interleaving.answered(event)
        return outcome

    def check_listed(self, items: Sequence[str]) -> int:
        """Count the new items among those of other rankers' lists. Raises Refused if there are more than allowed."""
        new = sum(item not in self.learner_state.slots for item in items)
        most = self.config.observed_items
        if new and self.listed + new > most:
            raise Refused(
                422,
                f"lists of other rankers may add {most} items to this board (observed_items) and have added "
                f"{self.listed}: {new} more are refused; add them by POST items, or PUT a larger observed_items",
            )
        return new

    def _added(self, event: events.Added) -> Steps:
        self.listed += self.check_listed(event.items) if event.by_lists else 0
        for item in event.items:
            if item in self.learner_state.slots:
                self.learner_state.switch(item, True)
            else:
                self.learner_state.add(item)
            if item in event.features:
                self._describe(item, event.features[item])
            yield None
        return "done"

    def _describe(self, item: str, values: Known) -> None:
        """Update the features of an item; values that do not fit the declaration now may fit after a replay."""
        if item in self.learner_state.slots and values != self.described.get(item, {}):
            self.described[item] = values
            self.ruled.describe(item, values)
            self.learner_state.describe(item, self.learner_state.features.fitting_item(values))

    def _history(self, event: events.History) -> Steps:
        if self.batches.includes(event):
            return "duplicate"
        self.batches.add(event)
        for row in event.rows:
            if row.of is not None:
                self._past_of(row, row.of)
            else:
                answer = answers.at(len(row.items), row.clicks, row.examined)
                features = self.learner_state.features.of_visit_then(row.features)
                self.impressions.past(row.items, *answer, features, row.value)
                self.outcomes += row.value > 0.0 and self.learner_state.outcomes is not None
            self.feedback.timeline.show(self.impressions.rounds, 0.0)
            yield None
            yield from self._room()
        return "done"

    def _past_of(self, row: events.Past, of: ShownItems) -> None:
        """Learn from a list shown for a query before the board existed."""
        state = self.learner_state
        if not isinstance(state, CollectionState) or len(row.places) != len(of.items):
            raise Refused(422, NOT_OURS)
        ranking, answer = (
            np.array(row.places[: self.length], np.int64),
            answers.at(len(of.items), row.clicks, row.examined),
        )
        self.impressions.past_list(ranking, state.note_of(of), *answer)

    def _forget_query(self, event: events.QueryForgotten) -> Steps:
        """Forget a query; its open lists teach nothing."""
        state, forgotten = self.learner_state, False
        if isinstance(state, CollectionState):
            for query in (event.query, event.now):
                tables = None
                if state.is_large and state.knows_query(query):
                    yield (work := Work(functools.partial(state.tables_without, query)))
                    tables = work.result()
                forgotten |= state.forget_query(query, self.impressions.note, tables)
        return "done" if forgotten else "unknown"

    def rename_query(self, query: int, now: int) -> bool:
        """Change the id of a query and drop its text. Returns whether anything changed."""
        state = self.learner_state
        return isinstance(state, CollectionState) and state.rename_query(query, now, self.impressions.note)

    def _configured(self, changes: dict[str, Setting]) -> None:
        """Change settings that do not affect past events. Changes to learning wait for the next replay of the log."""
        check_known_here(changes)
        before, self.latest = self.latest, self.after(changes)
        if self.latest.interleave and not before.interleave:
            self.interleaving = Interleaving()  # a new experiment
        self.config = config = self.latest.learning_as(self.config)
        self.compare()
        self.impressions.in_order = config.settle != 0
        self.impressions.count_unanswered = config.count_unanswered
        self.impressions.remember(max(config.most_open, self.impressions.places))
        self.impressions.declare(config.cohorts)

    def compare(self) -> None:
        """Check whether the board was folded with the settings and labels that the log has by now; sets `stale`."""
        spoken = self.labels.spans != self.feedback.spans or self.labels.words != self.feedback.words
        self.stale = spoken or self.latest.learning() != self.config.learning() or self._outdated

    def outdate(self) -> None:
        """Mark the board as stale because events it was folded from have been rewritten."""
        self._outdated = self.stale = True

    @property
    def ruled(self) -> RuledLists:
        """Ranks under rules, with the features of items as known now."""
        if self._ruled is None or self._ruled.known is not self.described:
            self._ruled = RuledLists(self.learner_state, self.described)
        return self._ruled

    def rules(self, others: Rules | None = None, best: bool = False) -> Rules | None:
        """The rules of the board combined with `others`, those of a request; `best`: as the best list keeps them."""
        setting = self.latest.rules
        if self._standing[0] is not setting:
            made = None if setting is None else setting.to_rules()
            self._standing = setting, made, None if made is None else made.as_best()
        standing = self._standing[2 if best else 1]
        if standing is None or others is None:
            return (standing or others) or None
        key = id(standing), id(others)
        if key not in self._joined:
            if len(self._joined) >= _JOINED:
                self._joined.clear()
            # holding the originals keeps their ids unique
            self._joined[key] = standing, others, standing.joined(others)
        return self._joined[key][2] or None

    def rank(
        self,
        visit: Visit,
        candidates: Sequence[str] | None,
        length: int,
        rng: np.random.Generator,
        rules: Rules | None,
    ) -> RuledList:
        """Make a list, under rules if there are any; nothing is logged."""
        if rules is not None:
            return self.ruled.rank(rules, visit, candidates, length, rng)
        return RuledList(*self.learner_state.rank(visit, candidates, length, rng), [], [])

    def follow(self, config: Config, labels: Labels, first: bool) -> bool:
        """Adopt the settings and labels of the log if what was learnt so far is valid under them.

        Returns whether it did.

        `first`: nothing learnt before is kept. Then only another learner prevents it: another guard starts here, and
        other labels hold from here on.
        """
        if config.learner_part() != self.config.learner_part():
            return False
        other = config.learning() != self.config.learning()
        if (other and not first) or not self.feedback.follow(labels.spans, labels.words, first):
            return False
        if other:
            self.config = self.config.learning_as(config)
            self.learner_state.guard_by(guards_of(self.config), self.config.shadow)
        self.compare()
        return True

    def after(self, changes: dict[str, Setting]) -> Config:
        """The latest settings with these changes. Raises Refused if they contradict one another."""
        try:
            config = self.latest.changed(changes)
        except (msgspec.ValidationError, ValueError) as error:
            raise Refused(422, str(error)) from error
        learns = check(config, ["any"])
        if changes.keys() & {"rules", "length", "features"}:
            check_rules(config, self.learner_state, self.described, learns)
        else:
            check_learner(config, learns)
        return config

    def keep(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copy the board as a header and arrays, from which `snapshot.pack` makes a snapshot."""
        extra = {
            "config": self.config.kept(),
            "latest": self.latest.kept(),
            "items": list(self.learner_state.names),
            "events": self.events,
            "answers": self.answers,
            "clicked": self.clicked,
            **({"outcomes": self.outcomes} if self.outcomes else {}),
            "batches": self.batches.keep(),
            "labels": self.labels.keep(),
            **self.feedback.keep(),
            **({"described": self.described} if self.described else {}),
            **({"listed": self.listed} if self.listed else {}),
            **self.reported.keep(),
        }
        header, arrays = snapshot.take(self.learner_state, self.impressions, extra)
        others = self.feedback.timeline.arrays() | self.reported.arrays() | self.interleaving.arrays()
        return header, {name: snapshot.copied(array) for name, array in arrays.items()} | others

    def digest(self) -> str:
        """Sixteen hexadecimal digits; boards in equal states have equal digests."""
        return snapshot.digest(*self.keep())

    @classmethod
    def restore(cls, content: bytes, name: str) -> "Board":
        """Restore a board from a snapshot."""
        state, impressions, header, arrays = snapshot.restore(content, name, None)
        config, latest = (msgspec.convert(header[key], Config) for key in ("config", "latest"))
        board = cls(config, state, impressions)
        board.latest, board.labels = latest, Labels(header["labels"])
        board.described, board.listed = header.get("described", {}), header.get("listed", 0)
        board.feedback.restore(header, arrays)
        board.events = board.events_kept = header["events"]
        board.answers, board.clicked = header["answers"], header["clicked"]
        board.outcomes = header.get("outcomes", 0)
        board.batches = PastBatches(header["batches"])
        board.reported = Reported.restore(header, arrays)
        board.interleaving = Interleaving.restore(arrays)
        board.compare()
        return board

    def summary(self, name: str) -> BoardOut:
        """The board as shown in the list of boards, under this name."""
        settings = msgspec.structs.asdict(self.config) | {"guards": self.config.guard_choices()}
        state, items = self.learner_state, self.learner_state.newcomers.active
        if isinstance(state, CollectionState) and self.config.collection is not None:
            own, items = msgspec.structs.asdict(self.config.collection), len(state.item_names)
            settings["collection"] = CollectionFacts(**own, queries=state.n_queries, pairs=state.n_pairs)
        return BoardOut(
            board=name,
            **settings,
            items=items,
            impressions=self.impressions.last,
            answers=self.answers,
            clicks=self.clicked,
            outcomes=self.outcomes,
            unanswered=self.impressions.expired,
            rounds=self.impressions.rounds,
            silence=SilenceOut(**self.impressions.silence.summary()),
        )
