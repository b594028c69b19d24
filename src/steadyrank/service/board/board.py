"""One board: its settings, items, impressions and learner, as a fold over its events."""

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from ...core.arrays import Floats, Ints
from ...core.contract import NOTE_EXTRA, Visit
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

_NOTHING: Mapping[str, Known] = {}
_JOINED = 32  # rules of requests that are kept with those of the board
_AT_ONCE = 20  # impressions that are settled, or over, in a step
_UNCLICKED = {409: "the impression was answered without a click on this item", 410: "the impression has expired"}
NOT_OURS = "an item was shown that this board does not have"


def _parts_of(done: int, upto: int) -> Iterator[int]:
    """Numbers of impressions from those that are done up to the last one, a few apart."""
    yield from range(done + _AT_ONCE, upto, _AT_ONCE)
    yield upto


class Work:
    """What takes long, changes nothing, and is to be called, in any thread, before an event is applied further."""

    def __init__(self, call: Callable[[], Tables]) -> None:
        """`call`: what is to be done."""
        self._call = call
        self._made: Tables | Exception = AssertionError("nobody did the work")

    def __call__(self) -> None:
        """Do it; what it raises is raised where its result is asked for."""
        try:
            self._made = self._call()
        except Exception as error:
            self._made = error

    def made(self) -> Tables:
        """What came of it."""
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


# an event being applied: it stops where lists may be given out, and nothing else, or where work is to be done
Steps: TypeAlias = Generator[Work | None, None, str]


def finished(steps: Steps) -> str:
    """The outcome of an event that is applied to its end."""
    while True:
        try:
            work = next(steps)
        except StopIteration as stop:
            outcome: str = stop.value
            return outcome
        if work is not None:
            work()


class SilenceOut(Schema):
    """Lists that are over without an answer that says anything, as a share of all that are over.

    `share`: lately, since some 100 answers ago; `usual`: the most that is usual on this board, null before there
    were 100 answers; `alarming`: the share is much more than usual; `alarmed`: the latest round that was alarming.
    """

    share: float
    usual: float | None
    alarming: bool
    alarmed: int | None


class _Named(Schema):
    board: str


class CollectionFacts(CollectionSettings, frozen=True, kw_only=True):
    """What makes a board a collection, and how many queries, and items in them that were looked at, it remembers."""

    queries: int
    pairs: int


class BoardOut(  # type: ignore[call-arg]
    with_settings(  # type: ignore[misc]
        _Named, settings=dict[str, Any], guard_settings=dict[str, Any], guards=list[GuardChoice]
    ),
    omit_defaults=True,
):
    """A board."""

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
    """Applies events in log order; reads no clock and draws no random number."""

    def __init__(self, config: Config, learner_state: LearnerState, impressions: ImpressionBuffer) -> None:
        """A board of its settings, what its learner knows, and its impressions; `create` and `restore` make one."""
        self.learner_state, self.impressions = learner_state, impressions
        self._ruled: RuledLists | None = None
        self._standing: tuple[Any, Rules | None, Rules | None] = None, None, None  # of the settings, and as the best
        self._joined: dict[tuple[int, int], tuple[Rules, Rules, Rules]] = {}  # with those of the latest requests
        self.config = self.latest = config  # what it is folded with, and what the log says by now
        self.described: dict[str, Known] = {}  # what is known of items, as the log says it
        self.labels = Labels()  # what the log says by now
        self.stale = False  # whether it is folded with other labels, or learns otherwise: another fold is due
        self._outdated = False
        self.generation = config.generation()
        self._no_note: Floats = np.zeros(config.length + NOTE_EXTRA)
        self.feedback = LabelledFeedback(learner_state)
        impressions.declare(config.cohorts)
        impressions.learn = self.feedback.learn
        self.events, self.events_kept = 1, 0  # its beginning; in the latest snapshot that is known of
        self.answers, self.clicked, self.outcomes = 0, 0, 0
        self.listed = 0  # items that lists of other rankers have added
        self.batches = PastBatches()
        self.reported = Reported()  # lists of another ranker
        self.interleaving = Interleaving()  # lists mixed of another ranker's and ours

    @classmethod
    def create(cls, config: Config, items: Sequence[str], known: Mapping[str, Known] = _NOTHING) -> "Board":
        """A new board with these items; `known`: what is known of some of them."""
        described = {item: values for item, values in known.items() if values}
        fitting = config.feature_space().fitting_item
        features = {item: fitting(known.get(item, {})) for item in items} if described else items
        state = check(config, features, together=False)  # a fold joins settings of several moments
        impressions = ImpressionBuffer(state, config.settle != 0, config.count_unanswered, config.most_open)
        board = cls(config, state, impressions)
        board.described = described
        return board

    @property
    def settle(self) -> float:
        """Seconds until answers enter the learner."""
        return self.config.lifetime if self.config.settle is None else self.config.settle

    def _outcome(self, event: events.Outcome) -> str:
        """Something came of a click; once the click is known it need not be known any more what was shown."""
        book = self.learner_state.outcomes
        if book is None:
            raise Refused(409, NO_OUTCOMES)
        told: str
        (slot,) = self._slots_of([event.slot]).tolist()
        if event.key not in self.impressions.numbers and book.knows(event.round, slot):
            told = self.learner_state.add_outcome(event.round, slot, event.number, event.amount, False)
        else:
            try:
                told = self.impressions.outcome(self._shown(event), slot, event.number, event.amount)
            except Refused as error:
                raise Refused(error.code, _UNCLICKED.get(error.code, str(error))) from error
        self.outcomes += told != "duplicate"
        return told

    def known_outcome(self, event: events.Answered | events.Observed) -> str | None:
        """The outcome of an answer where it is clear already, so that the log need not grow; it changes nothing."""
        number = self.impressions.numbers.get(event.key, 0)
        if isinstance(event, events.Observed):
            done = number and self.impressions.state[number % self.impressions.places] not in UNANSWERED
            return self._observed(event) if number and (done or event.clicks is None) else None
        forgotten = not number and event.base < self.impressions.forgotten
        if forgotten or (number and self.impressions.state[number % self.impressions.places] not in UNANSWERED):
            return self._answered(event)
        return None

    def take(self, event: AnyEvent) -> None:
        """Apply an event of the past, whose outcome was told then; whatever else than a refusal is raised."""
        with contextlib.suppress(Refused):
            self.apply(event)

    def apply(self, event: AnyEvent) -> str:
        """The outcome of an event; one that is refused changes nothing but the count of events."""
        return finished(self.steps(event))

    def steps(self, event: AnyEvent) -> Steps:
        """Apply an event; it stops after each part of a long one, and where work is to be done."""
        self.events += 1
        try:
            yield from self._room()
            return (yield from self._apply(event))
        except Refused:
            raise
        except (ValueError, KeyError) as error:
            raise Refused(422, str(error)) from error

    def _room(self) -> Iterator[Work]:
        """Make room in a large collection for the lists that are learnt from until there is another look."""
        state = self.learner_state
        if isinstance(state, CollectionState) and state.is_large:
            items = min((_AT_ONCE + 1) * self.length, state.most_pairs // 8)
            if state.lacks_room(items, _AT_ONCE, items):
                yield (work := Work(functools.partial(state.roomier, items, _AT_ONCE, items)))
                state.take_tables(work.made())

    def _apply(self, event: AnyEvent) -> Steps:
        match event:
            case events.Answered():
                return self._answered(event)
            case events.ListShown():
                self._shown(event)
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
        """The number of an impression, a new one if it is not known; one that may have been forgotten is refused."""
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

    def show_lists(self, lists: Sequence[events.ListShown]) -> bool:
        """Apply lists, shown one after another, at once; False, with nothing done, if one of them is unusual.

        One busy board has many: its owner and all copies of it apply each.
        """
        state, impressions = self.learner_state, self.impressions
        sizes = {len(one.ranking) for one in lists}
        alike = len(sizes) == 1 and 0 not in sizes and not isinstance(state, CollectionState)
        if not alike or any(one.mixed is not None for one in lists):
            return False
        slots = np.array([one.ranking for one in lists], np.int64)
        forgotten = max(impressions.forgotten, impressions.last + len(lists) - impressions.most)
        if int(slots.max()) >= len(state.names) or min(one.base for one in lists) < forgotten:
            return False
        noted, space, features = any(one.note for one in lists), state.features, state.unknown
        if space.visit_size:
            features = np.stack([space.of_visit_then(one.features) for one in lists])
        shown = impressions.shown_together(
            [one.key for one in lists],
            [one.round for one in lists],
            [one.client for one in lists],
            slots[:, : self.length],
            np.stack([self._note(one) for one in lists]) if noted else self._no_note,
            features,
            [one.cohorts for one in lists],
        )
        if shown:
            self.events += len(lists)
            for one in lists:
                self.feedback.timeline.show(one.round, one.time)
        return shown

    def _slots_of(self, ranking: Sequence[int]) -> Ints:
        """A list by slots; of a collection, by places of the engine's order as they are told apart."""
        slots: Ints = np.array(ranking[: self.length], np.int64)
        return places_known(slots) if isinstance(self.learner_state, CollectionState) else slots

    def _note(self, event: events.OfVisitor) -> Floats:
        """The note of a list; one that this board cannot have shown is refused."""
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
        """Whether the list at a place of the buffer has other items than the one of an event."""
        impressions, state = self.impressions, self.learner_state
        size = int(impressions.size[place])
        if isinstance(state, CollectionState):
            shown = state.codes_of(impressions.note[place], size), int(impressions.note[place, QUERY])
            return event.of is None or shown != (event.of.items[: self.length], event.of.query)
        shown_slots: list[int] = impressions.ranking[place, :size].tolist()
        return shown_slots != event.ranking[: self.length]

    def _observed(self, event: events.Observed) -> str:
        """A list that another ranker showed, and its answer if there is one; a key means the same list for good."""
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
        """Places of a list."""
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
        """How many of these items, which lists of others bring, are new; refused if that is more than may come so."""
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
        """What is known of an item from now on; what does not fit what is declared now may after another fold."""
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
        """A past list of a query."""
        state = self.learner_state
        if not isinstance(state, CollectionState) or len(row.places) != len(of.items):
            raise Refused(422, NOT_OURS)
        ranking, answer = (
            np.array(row.places[: self.length], np.int64),
            answers.at(len(of.items), row.clicks, row.examined),
        )
        self.impressions.past_list(ranking, state.note_of(of), *answer)

    def _forget_query(self, event: events.QueryForgotten) -> Steps:
        """Nothing is known of a query from here on, and its open lists teach nothing."""
        state, forgotten = self.learner_state, False
        if isinstance(state, CollectionState):
            for query in (event.query, event.now):
                tables = None
                if state.is_large and state.knows_query(query):
                    yield (work := Work(functools.partial(state.tables_without, query)))
                    tables = work.made()
                forgotten |= state.forget_query(query, self.impressions.note, tables)
        return "done" if forgotten else "unknown"

    def rename_query(self, query: int, now: int) -> bool:
        """Know a query by another id from here on, and no text of it; whether anything changed."""
        state = self.learner_state
        return isinstance(state, CollectionState) and state.rename_query(query, now, self.impressions.note)

    def _configured(self, changes: dict[str, Setting]) -> None:
        """Settings that concern no past event; what changes the learner waits until the log is folded again."""
        check_known_here(changes)
        before, self.latest = self.latest, self.after(changes)
        if self.latest.interleave and not before.interleave:
            self.interleaving = Interleaving()  # another experiment
        self.config = config = self.latest.learning_as(self.config)
        self.compare()
        self.impressions.in_order = config.settle != 0
        self.impressions.count_unanswered = config.count_unanswered
        self.impressions.remember(max(config.most_open, self.impressions.places))
        self.impressions.declare(config.cohorts)

    def compare(self) -> None:
        """See whether what the log says by now is what the board is folded with."""
        spoken = self.labels.spans != self.feedback.spans or self.labels.words != self.feedback.words
        self.stale = spoken or self.latest.learning() != self.config.learning() or self._outdated

    def outdate(self) -> None:
        """Events that it was folded from are other ones by now: another fold is due."""
        self._outdated = self.stale = True

    @property
    def ruled(self) -> RuledLists:
        """Lists under rules, by what is known of items now."""
        if self._ruled is None or self._ruled.known is not self.described:
            self._ruled = RuledLists(self.learner_state, self.described)
        return self._ruled

    def rules(self, others: Rules | None = None, best: bool = False) -> Rules | None:
        """The rules of the board and `others`, which come on top; as the `best` list keeps them, if asked for."""
        setting = self.latest.rules
        if self._standing[0] is not setting:
            made = None if setting is None else setting.made()
            self._standing = setting, made, None if made is None else made.as_best()
        standing = self._standing[2 if best else 1]
        if standing is None or others is None:
            return (standing or others) or None
        key = id(standing), id(others)
        if key not in self._joined:
            if len(self._joined) >= _JOINED:
                self._joined.clear()
            self._joined[key] = standing, others, standing.joined(others)  # which keeps the ids
        return self._joined[key][2] or None

    def rank(
        self,
        visit: Visit,
        candidates: Sequence[str] | None,
        length: int,
        rng: np.random.Generator,
        rules: Rules | None,
    ) -> RuledList:
        """A list of ours, under rules if there are any; nothing is logged."""
        if rules is not None:
            return self.ruled.rank(rules, visit, candidates, length, rng)
        return RuledList(*self.learner_state.rank(visit, candidates, length, rng), [], [])

    def follow(self, config: Config, labels: Labels, first: bool) -> bool:
        """Go on as settings and labels say that the log leads to, if what was learnt fits them; whether it does.

        `first`: nothing is kept of what was before. Then it fits unless the learner is another one: another guard
        begins here, and other labels hold from here on.
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
        """The settings that the log leads to with some changes; refused where they do not go together."""
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
        """The board as a header and arrays, copied, which `snapshot.pack` makes a snapshot of."""
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
        """Sixteen digits that tell two boards apart, whatever made them."""
        return snapshot.digest(*self.keep())

    @classmethod
    def restore(cls, content: bytes, name: str) -> "Board":
        """The board of a snapshot."""
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
        """What a list of boards shows of this one, which is called so."""
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
