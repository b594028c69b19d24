"""From impressions and answers to what a learner is told, and in which order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.contract import ANSWER, ANYONE, NOTE_EXTRA, SILENCE, Visit
from ..core.refusals import Refused
from ..core.settings import flag, whole
from .features import FeatureSpace
from .gate import Gate
from .outcomes import WITH_ANSWER, Outcomes, Told, number_of
from .silence import Silence

Outcome: TypeAlias = Literal["learnt", "waiting", "late", "duplicate"]
Learn: TypeAlias = Callable[[Visit, Ints, Floats, Bools, int, float, Sequence[tuple[str, int]]], bool]


class Learning(Protocol):
    """What answers are handed to: items by name, and what was learnt of them."""

    length: int
    features: FeatureSpace
    unknown: Floats
    gate: Gate
    slots: dict[str, int]
    outcomes: Outcomes | None

    @property
    def learn(self) -> Learn:
        """Learns from one list's feedback, if it is let in; returns whether it was."""

    def add(self, item: str) -> None:
        """An item that was not known."""

    def add_outcome(self, t: int, slot: int, number: int, amount: float, clicked: bool) -> Told:
        """Something came of a click: what became of that."""


# an impression's state; waiting: answered, not yet learnt from; withheld: open, but an answer to it was refused
EMPTY, OPEN, WAITING, DONE, LOST, WITHHELD = range(6)
UNANSWERED = (OPEN, WITHHELD)
MOST_KINDS = 8  # of cohorts on a board
_FIRST_PLACES = 10_000  # positions of lists
_TOGETHER = 8  # lists whose time is over are gone through together where there are so many
_NO_COHORTS: Mapping[str, int] = {}
NO_OUTCOMES = "no outcomes are taken here: a collection takes them with outcomes=True"
_UNKNOWN: Floats = np.zeros(0)  # nothing is known of a visit


class ImpressionBuffer:
    """The latest impressions of a board. Every method is an event; their order decides everything, no clock does.

    Impressions are numbered from 1 in the order in which they come. `in_order`: answers wait until their impression
    is settled, and enter the learner in that order. Where clicks come at once and non-clicks only when an
    impression's time is over, any other order looks like an attack. `count_unanswered`: an impression that expires
    without an answer was looked at in full, and nothing was clicked, as far as answers vouch for it. `most`:
    impressions remembered, so that a late answer can be learnt from and a repeated one is not learnt twice; the
    oldest go first. Memory is a ring of arrays that grows up to `most` places and then stays.
    """

    def __init__(self, learner_state: Learning, in_order: bool, count_unanswered: bool, most: int) -> None:
        self.learner_state = learner_state
        self.learn: Learn = learner_state.learn  # who is told of feedback, and whether it was let in
        self.in_order = flag("in_order", in_order)
        self.count_unanswered = flag("count_unanswered", count_unanswered)
        self.most = whole("most", most, 1)
        self.rounds = 0  # the largest round of the learner so far, past clicks included
        self.last = 0  # number of the latest impression
        self.settled = 0  # answers to impressions up to this number are late
        self.over = 0  # up to this number the time is over
        self.forgotten = 0  # up to this number nothing is remembered; it never goes back
        self.expired = 0  # impressions without an answer, or with one that covers no place
        self.silence = Silence()
        self.kinds: list[str] = []  # of cohorts, in the order in which they came
        self.declared: Sequence[str] | None = None  # kinds that are taken; None: the first MOST_KINDS
        self.numbers: dict[int, int] = {}  # by key, where impressions have one
        self.remember(self.most)
        self._places(min(self.most, max(_FIRST_PLACES // learner_state.length, 8)))

    def remember(self, most: int) -> None:
        """Remember so many impressions, and as many clicks for what comes of them, from now on."""
        self.most = most
        if self.learner_state.outcomes is not None:
            self.learner_state.outcomes.most = most

    def _places(self, n: int) -> None:
        length = self.learner_state.length
        self.places = n
        self.key: Any = np.zeros(n, np.uint64)
        self.round: Ints = np.zeros(n, np.int64)
        self.client: Ints = np.zeros(n, np.int64)
        self.cohorts: Ints = np.full((n, len(self.kinds)), ANYONE, np.int64)
        self.size: Ints = np.zeros(n, np.int64)
        self.state: Any = np.zeros(n, np.uint8)
        self.examined: Ints = np.zeros(n, np.int64)
        self.ranking: Ints = np.zeros((n, length), np.int64)
        self.clicks: Bools = np.zeros((n, length), np.bool_)
        self.note: Floats = np.zeros((n, length + NOTE_EXTRA))
        self.features: Floats = np.zeros((n, self.learner_state.features.visit_size))

    def arrays(self) -> dict[str, Any]:
        """The ring's arrays by name: the same objects, not copies."""
        names = ["key", "round", "client", "cohorts", "size", "state", "examined", "ranking", "clicks", "note"]
        names += ["features"] if self.learner_state.features.visit_size else []
        return {f"impressions.{name}": getattr(self, name) for name in names}

    def counters(self) -> dict[str, int]:
        """What is kept beside the arrays."""
        return {name: getattr(self, name) for name in ("rounds", "last", "settled", "over", "forgotten", "expired")}

    def restore(self, counters: dict[str, int], kinds: Sequence[str], arrays: dict[str, Any]) -> None:
        """Take over what `counters`, `kinds` and `arrays` of another buffer gave; one of the past has no kinds."""
        for name in self.counters():
            setattr(self, name, counters[name])
        self.kinds = list(kinds)
        self._places(arrays["impressions.key"].size)
        for name, array in self.arrays().items():
            if array.size:
                array[...] = arrays[name]
        self.numbers = {int(self.key[n % self.places]): n for n in self._remembered() if self.key[n % self.places]}

    def _remembered(self) -> range:
        return range(self.forgotten + 1, self.last + 1)

    def _grow(self) -> None:
        old, numbers = self.arrays(), np.array(self._remembered())
        before = numbers % self.places
        self._places(min(2 * self.places, self.most))
        for name, array in self.arrays().items():
            array[numbers % self.places] = old[name][before]

    def shown(
        self, visit: Visit, ranking: Ints, note: Floats, key: int = 0, cohorts: Mapping[str, int] = _NO_COHORTS
    ) -> int:
        """A list was shown to a visitor; its number. A key that is known already changes nothing.

        `cohorts`: the number of the one that its client is in, by kind; after MOST_KINDS of them no other is taken.
        """
        if key and key in self.numbers:
            return self.numbers[key]
        number = self.last + 1
        if number > self.places and self.places < self.most:
            self._grow()
        place = number % self.places
        if number > self.places:
            self.expire(number - self.places)
            self.forgotten = number - self.places
            self.numbers.pop(int(self.key[place]), None)
        self.last = number
        self.rounds = max(self.rounds, visit.t)
        self.key[place], self.round[place], self.client[place] = key, visit.t, visit.client
        self.size[place] = ranking.size
        self.state[place] = OPEN
        self.ranking[place, : ranking.size] = ranking
        self.note[place] = note
        self.features[place] = visit.features if visit.features.size else self.learner_state.unknown
        if cohorts or self.kinds:
            self._place_cohorts(place, cohorts)
        if key:
            self.numbers[key] = number
        return number

    def shown_together(
        self,
        keys: Sequence[int],
        rounds: Sequence[int],
        clients: Sequence[int],
        rankings: Ints,
        notes: Floats,
        features: Floats,
        cohorts: Sequence[Mapping[str, int]],
    ) -> bool:
        """`shown` of n lists of one size, one after the other, in a fifth of the time; whether that was done.

        Nothing is shown where each has to be shown alone: where a key is 0, known or there twice. `rankings`:
        int64[n, size]; `notes`: float64[n, length + NOTE_EXTRA], or one for all; `features`: float64[n, visit_size],
        or one for all.
        """
        n, last = len(keys), self.last + len(keys)
        while last > self.places and self.places < self.most:
            self._grow()
        gone = last - self.places  # up to this number what was remembered makes room
        if n > self.places or not all(keys):
            return False
        if len(set(keys)) < n or not self.numbers.keys().isdisjoint(keys):
            return False
        numbers = np.arange(self.last + 1, last + 1)
        places = numbers % self.places
        if gone > 0:
            self.expire(gone)
            for key in self.key[places[numbers > self.places]].tolist():
                self.numbers.pop(key, None)
            self.forgotten = gone
        self.last, self.rounds = last, max(self.rounds, max(rounds))
        self.key[places], self.round[places], self.client[places] = np.array(keys, np.uint64), rounds, clients
        self.size[places], self.state[places] = rankings.shape[1], OPEN
        self.ranking[places, : rankings.shape[1]] = rankings
        self.note[places], self.features[places] = notes, features
        if self.kinds or any(cohorts):
            for place, some in zip(places.tolist(), cohorts, strict=True):
                self._place_cohorts(place, some)
        self.numbers.update(zip(keys, numbers.tolist(), strict=True))
        return True

    def declare(self, kinds: Sequence[str] | None) -> None:
        """Take these kinds of cohorts from now on and no others, which are forgotten; None: any, as they come."""
        self.declared = kinds
        gone = [] if kinds is None else [kind for kind in self.kinds if kind not in kinds]
        if gone:
            stay = [kind not in gone for kind in self.kinds]
            self.kinds = [kind for kind in self.kinds if kind not in gone]
            self.cohorts = np.ascontiguousarray(self.cohorts[:, stay])
            self.learner_state.gate.leave(gone)

    def _place_cohorts(self, place: int, cohorts: Mapping[str, int]) -> None:
        may = [kind for kind in cohorts if self.declared is None or kind in self.declared]
        fresh = [kind for kind in may if kind not in self.kinds][: MOST_KINDS - len(self.kinds)]
        if fresh:
            self.kinds += fresh
            self.cohorts = np.pad(self.cohorts, ((0, 0), (0, len(fresh))), constant_values=ANYONE)
        self.cohorts[place] = [cohorts.get(kind, ANYONE) for kind in self.kinds]

    def past(
        self, items: Sequence[str], clicks: Bools, examined: int, features: Floats = _UNKNOWN, value: float = 0.0
    ) -> None:
        """A list shown before any impression was learnt of: learnt from at once. Items not known yet are added.

        `features`: what was known of the visit; `value`: of what came of the one click.
        """
        for item in items:
            if item not in self.learner_state.slots:
                self.learner_state.add(item)
        ranking: Ints = np.array(
            [self.learner_state.slots[item] for item in items[: self.learner_state.length]], np.int64
        )
        self.past_list(ranking, np.zeros(self.learner_state.length + NOTE_EXTRA), clicks, examined, features)
        clicked = ranking[clicks[: ranking.size]].tolist()
        if value > 0.0 and clicked and self.learner_state.outcomes is not None:
            self.learner_state.add_outcome(self.rounds, clicked[0], number_of(WITH_ANSWER), value, True)

    def past_list(
        self, ranking: Ints, note: Floats, clicks: Bools, examined: int, features: Floats = _UNKNOWN
    ) -> None:
        """The same of a list of slots with its note."""
        self.rounds += 1
        visit = Visit(self.rounds, ANYONE, features)
        self.learn(visit, ranking, note, clicks[: ranking.size], min(examined, ranking.size), ANSWER, ())

    def find_place(self, number: int) -> int:
        """The place of an impression."""
        if not 1 <= number <= self.last:
            raise Refused(403, f"impression {number} was never shown")
        if number <= self.forgotten or self.state[number % self.places] == LOST:
            raise Refused(410, f"impression {number} has expired")
        return number % self.places

    def client_of(self, key: int) -> int | None:
        """Who an impression was shown to, by its key; None if it is not known."""
        number = self.numbers.get(key)
        return None if number is None else int(self.client[number % self.places])

    def round_of(self, number: int) -> int:
        """The round of an impression that is remembered; 0 if it is not."""
        return int(self.round[number % self.places]) if self.forgotten < number <= self.last else 0

    def answer(self, number: int, clicks: Bools, examined: int) -> Outcome:
        """An impression was answered; the same answer again changes nothing, another one is refused."""
        place = self.find_place(number)
        kept = self.clicks[place, : self.size[place]]
        if self.state[place] not in UNANSWERED:
            if self.examined[place] != examined or not np.array_equal(kept, clicks):
                raise Refused(409, f"impression {number} was answered otherwise before")
            return "duplicate"
        kept[:] = clicks
        self.examined[place] = examined
        if self.in_order and number > self.settled:
            self.state[place] = WAITING
            return "waiting"
        self._enter(place)
        return "late" if self.in_order else "learnt"

    def outcome(self, number: int, slot: int, id_: int, amount: float) -> Told:
        """Something came of a click on an impression's item, once by its id; before the answer, it waits for that.

        The click is remembered longer than the impression: by its round, `outcome_of`.
        """
        place = self.find_place(number)
        where = np.flatnonzero(self.ranking[place, : self.size[place]] == slot)
        if not where.size:
            raise Refused(422, f"impression {number} did not show this item")
        answered = self.state[place] not in UNANSWERED
        if answered and not self.clicks[place, where[0]]:
            raise Refused(409, f"impression {number} was answered without a click on this item")
        return self.outcome_of(int(self.round[place]), slot, id_, amount, self.state[place] == DONE)

    def outcome_of(self, t: int, slot: int, id_: int, amount: float, clicked: bool) -> Told:
        """The same by round; `clicked`: whether it is known that an answer had this click and was dealt with."""
        if self.learner_state.outcomes is None:
            raise Refused(409, NO_OUTCOMES)
        return self.learner_state.add_outcome(t, slot, id_, amount, clicked)

    def withhold(self, number: int) -> None:
        """An answer to an impression was refused: if no other one comes, nothing is known of it."""
        if number > self.forgotten and self.state[number % self.places] == OPEN:
            self.state[number % self.places] = WITHHELD

    def withheld(self, key: int) -> bool:
        """Whether that is known of an impression, by its key."""
        number = self.numbers.get(key)
        return number is not None and self.state[number % self.places] == WITHHELD

    def settle(self, upto: int) -> None:
        """Time enough has passed for answers to impressions up to this number: those there are enter in order."""
        for number in range(self.settled + 1, min(upto, self.last) + 1):
            if self.state[number % self.places] == WAITING:
                self._enter(number % self.places)
            self.settled = number

    def expire(self, upto: int) -> None:
        """The time of impressions up to this number is over, answered or not."""
        upto = min(upto, self.last)
        while self.over < upto:
            if upto - self.over >= _TOGETHER and self._leave_together(upto):
                continue
            place = (self.over + 1) % self.places
            if self.state[place] == WAITING:
                self._enter(place)
            elif self.state[place] in UNANSWERED:
                self._leave(place)
            self.over += 1
        self.settled = max(self.settled, self.over)

    def _leave_together(self, upto: int) -> bool:
        """Do `_leave` of the next lists that nobody answered, if none counts as not clicked; whether it was done."""
        if self.silence.may_count:
            return False
        places = np.arange(self.over + 1, upto + 1) % self.places
        answered = np.flatnonzero(self.state[places] != OPEN)
        places = places[: answered[0]] if answered.size else places
        if not places.size:
            return False
        self.clicks[places], self.examined[places], self.state[places] = False, self.size[places], LOST
        self.silence.leave_some(places.size, int(self.round[places[-1]]))
        self.expired += places.size
        self.over += places.size
        return True

    def _enter(self, place: int) -> None:
        """An answer is learnt from; one that covers no place is like none, one that is refused vouches for none."""
        self.state[place] = DONE
        if not self.examined[place]:
            self.expired += 1
            self.silence.leave(int(self.round[place]))
        elif self._learn_impression(place, ANSWER):
            self.silence.answer()

    def _leave(self, place: int) -> None:
        """Nobody answered, or an answer was refused: then nothing is known of the impression."""
        self.expired += 1
        self.clicks[place] = False
        self.examined[place] = self.size[place]
        if self.state[place] == OPEN and self.silence.leave(int(self.round[place])) and self.count_unanswered:
            self._learn_impression(place, SILENCE)
        self.state[place] = LOST

    def _learn_impression(self, place: int, kind: float) -> bool:
        size = self.size[place]
        cohorts = zip(self.kinds, self.cohorts[place].tolist(), strict=True) if self.kinds else ()
        return self.learn(
            Visit(int(self.round[place]), int(self.client[place]), self.features[place]),
            self.ranking[place, :size],
            self.note[place],
            self.clicks[place, :size],
            int(self.examined[place]),
            kind,
            tuple(cohorts),
        )
