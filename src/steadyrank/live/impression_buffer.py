"""Turn impressions and answers into calls of a learner, in the right order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.contract import ANSWER, ANYONE, NOTE_EXTRA, SILENCE, Visit
from ..core.refusals import Refused
from ..core.settings import flag, whole
from .features import FeatureSpace
from .gate import Gate
from .outcomes import WITH_ANSWER, Outcomes, OutcomeStatus, number_of
from .silence import Silence

Outcome: TypeAlias = Literal["learnt", "waiting", "late", "duplicate"]
Learn: TypeAlias = Callable[[Visit, Ints, Floats, Bools, int, float, Sequence[tuple[str, int]]], bool]


class Learning(Protocol):
    """What a buffer needs of a learner state: items by name, and methods that learn."""

    length: int
    features: FeatureSpace
    unknown: Floats
    gate: Gate
    slots: dict[str, int]
    outcomes: Outcomes | None

    @property
    def learn(self) -> Learn:
        """Learn from one list's feedback, if guards admit it; returns whether they did."""

    def add(self, item: str) -> None:
        """Add an item that is not known yet."""

    def add_outcome(self, t: int, slot: int, number: int, amount: float, clicked: bool) -> OutcomeStatus:
        """Add an outcome of a click; returns how it was handled."""


# an impression's state; waiting: answered, not learnt yet; withheld: open, but an answer to it was refused
EMPTY, OPEN, WAITING, DONE, LOST, WITHHELD = range(6)
UNANSWERED = (OPEN, WITHHELD)
MOST_KINDS = 8  # kinds of cohorts on a board
_FIRST_SIZE = 10_000  # initial size of the ring, in impressions
_CLOSED_TOGETHER = 8  # from so many on, expired lists are processed together
_NO_COHORTS: Mapping[str, int] = {}
NO_OUTCOMES = "no outcomes are taken here: a collection takes them with outcomes=True"
_UNKNOWN: Floats = np.zeros(0)  # a visit without features


class ImpressionBuffer:
    """The latest impressions of a board. Every method is an event; only their order matters, not the clock.

    Impressions are numbered from 1 in order of arrival. `in_order`: answers wait until their impression
    is settled, and are learnt in that order. If clicks come at once and non-clicks only when an
    impression expires, any other order looks like an attack. `count_unanswered`: an impression that expires
    without an answer counts as looked at in full without a click, as far as answers vouch for it. `most`:
    impressions remembered, so that late answers can be learnt and repeated ones are not learnt twice; the
    oldest are dropped first. Memory is a ring of arrays that grows up to `most` entries and then stays.
    """

    def __init__(self, learner_state: Learning, in_order: bool, count_unanswered: bool, most: int) -> None:
        self.learner_state = learner_state
        self.learn: Learn = learner_state.learn  # learns feedback, and returns whether guards admitted it
        self.in_order = flag("in_order", in_order)
        self.count_unanswered = flag("count_unanswered", count_unanswered)
        self.most = whole("most", most, 1)
        self.rounds = 0  # the learner's latest round, past clicks included
        self.last = 0  # number of the latest impression
        self.settled = 0  # answers to impressions up to this number are late
        self.over = 0  # impressions up to this number have expired
        self.forgotten = 0  # impressions up to this number are dropped; never decreases
        self.expired = 0  # impressions without an answer, or with one that covers no place
        self.silence = Silence()
        self.kinds: list[str] = []  # of cohorts, in order of first appearance
        self.declared: Sequence[str] | None = None  # kinds accepted; None: the first MOST_KINDS
        self.numbers: dict[int, int] = {}  # impressions by key, if they have one
        self.remember(self.most)
        self._allocate(min(self.most, max(_FIRST_SIZE // learner_state.length, 8)))

    def remember(self, most: int) -> None:
        """Set how many impressions, and clicks awaiting outcomes, are remembered from now on."""
        self.most = most
        if self.learner_state.outcomes is not None:
            self.learner_state.outcomes.most = most

    def _allocate(self, n: int) -> None:
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
        """The ring's arrays by name, not copied."""
        names = ["key", "round", "client", "cohorts", "size", "state", "examined", "ranking", "clicks", "note"]
        names += ["features"] if self.learner_state.features.visit_size else []
        return {f"impressions.{name}": getattr(self, name) for name in names}

    def counters(self) -> dict[str, int]:
        """The state besides the arrays."""
        return {name: getattr(self, name) for name in ("rounds", "last", "settled", "over", "forgotten", "expired")}

    def restore(self, counters: dict[str, int], kinds: Sequence[str], arrays: dict[str, Any]) -> None:
        """Take over the `counters`, `kinds` and `arrays` of another buffer; older ones may lack kinds."""
        for name in self.counters():
            setattr(self, name, counters[name])
        self.kinds = list(kinds)
        self._allocate(arrays["impressions.key"].size)
        for name, array in self.arrays().items():
            if array.size:
                array[...] = arrays[name]
        self.numbers = {int(self.key[n % self.places]): n for n in self._remembered() if self.key[n % self.places]}

    def _remembered(self) -> range:
        return range(self.forgotten + 1, self.last + 1)

    def _grow(self) -> None:
        old, numbers = self.arrays(), np.array(self._remembered())
        before = numbers % self.places
        self._allocate(min(2 * self.places, self.most))
        for name, array in self.arrays().items():
            array[numbers % self.places] = old[name][before]

    def shown(
        self, visit: Visit, ranking: Ints, note: Floats, key: int = 0, cohorts: Mapping[str, int] = _NO_COHORTS
    ) -> int:
        """Record that a list was shown to a visitor; returns its number. A known key changes nothing.

        `cohorts`: the number of the client's cohort, by kind; after MOST_KINDS kinds no further one is accepted.
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
        keys: Any,
        rounds: Ints,
        clients: Ints | int,
        rankings: Ints,
        notes: Floats,
        features: Floats,
        cohorts: Sequence[Mapping[str, int]],
    ) -> bool:
        """`shown` for n lists of one size in a row, in a fifth of the time; returns whether it was done.

        Does nothing if lists must be recorded one by one: if a key is 0, known or repeated. `keys`: uint64[n];
        `rounds`: int64[n]; `clients`: int64[n], or one for all; `rankings`: int64[n, size]; `notes`:
        float64[n, length + NOTE_EXTRA], or one for all; `features`: float64[n, visit_size], or one for all;
        `cohorts`: of each list, or empty.
        """
        n, last, names = keys.size, self.last + keys.size, keys.tolist()
        while last > self.places and self.places < self.most:
            self._grow()
        gone = last - self.places  # impressions up to this number are dropped to make room
        if n > self.places or not keys.all():
            return False
        if len(set(names)) < n or not self.numbers.keys().isdisjoint(names):
            return False
        numbers = np.arange(self.last + 1, last + 1)
        places = numbers % self.places
        if gone > 0:
            self.expire(gone)
            for key in self.key[places[numbers > self.places]].tolist():
                self.numbers.pop(key, None)
            self.forgotten = gone
        self.last, self.rounds = last, max(self.rounds, int(rounds.max()))
        self.key[places], self.round[places], self.client[places] = keys, rounds, clients
        self.size[places], self.state[places] = rankings.shape[1], OPEN
        self.ranking[places, : rankings.shape[1]] = rankings
        self.note[places], self.features[places] = notes, features
        if self.kinds or cohorts:
            for place, some in zip(places.tolist(), cohorts or [_NO_COHORTS] * n, strict=True):
                self._place_cohorts(place, some)
        self.numbers.update(zip(names, numbers.tolist(), strict=True))
        return True

    def declare(self, kinds: Sequence[str] | None) -> None:
        """Accept these kinds of cohorts from now on and drop all others; None: accept any."""
        self.declared = kinds
        gone = [] if kinds is None else [kind for kind in self.kinds if kind not in kinds]
        if gone:
            stay = [kind not in gone for kind in self.kinds]
            self.kinds = [kind for kind in self.kinds if kind not in gone]
            self.cohorts = np.ascontiguousarray(self.cohorts[:, stay])
            self.learner_state.gate.drop_cohorts(gone)

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
        """Learn at once from a list shown before any impression. Unknown items are added.

        `features`: those of the visit; `value`: outcome of the only click.
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
        """`past` for a list of slots with its note."""
        self.rounds += 1
        visit = Visit(self.rounds, ANYONE, features)
        self.learn(visit, ranking, note, clicks[: ranking.size], min(examined, ranking.size), ANSWER, ())

    def find_place(self, number: int) -> int:
        """Ring index of an impression; refused if it was never shown, or is dropped."""
        if not 1 <= number <= self.last:
            raise Refused(403, f"impression {number} was never shown")
        if number <= self.forgotten or self.state[number % self.places] == LOST:
            raise Refused(410, f"impression {number} has expired")
        return number % self.places

    def client_of(self, key: int) -> int | None:
        """The client of the impression with this key; None if the key is not known."""
        number = self.numbers.get(key)
        return None if number is None else int(self.client[number % self.places])

    def round_of(self, number: int) -> int:
        """The round of an impression; 0 if it is not remembered."""
        return int(self.round[number % self.places]) if self.forgotten < number <= self.last else 0

    def answer(self, number: int, clicks: Bools, examined: int) -> Outcome:
        """Answer an impression; the same answer again changes nothing, a different one is refused."""
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
        self._learn_answer(place)
        return "late" if self.in_order else "learnt"

    def outcome(self, number: int, slot: int, id_: int, amount: float) -> OutcomeStatus:
        """Add an outcome of a click on an impression's item, once by its id; before the answer, it waits.

        The click is remembered longer than the impression: then use `outcome_of` with its round.
        """
        place = self.find_place(number)
        where = np.flatnonzero(self.ranking[place, : self.size[place]] == slot)
        if not where.size:
            raise Refused(422, f"impression {number} did not show this item")
        answered = self.state[place] not in UNANSWERED
        if answered and not self.clicks[place, where[0]]:
            raise Refused(409, f"impression {number} was answered without a click on this item")
        return self.outcome_of(int(self.round[place]), slot, id_, amount, self.state[place] == DONE)

    def outcome_of(self, t: int, slot: int, id_: int, amount: float, clicked: bool) -> OutcomeStatus:
        """`outcome` by round; `clicked`: whether an answer with this click is known to have been processed."""
        if self.learner_state.outcomes is None:
            raise Refused(409, NO_OUTCOMES)
        return self.learner_state.add_outcome(t, slot, id_, amount, clicked)

    def withhold(self, number: int) -> None:
        """Note that an answer to an impression was refused: without another answer, it counts for nothing."""
        if number > self.forgotten and self.state[number % self.places] == OPEN:
            self.state[number % self.places] = WITHHELD

    def withheld(self, key: int) -> bool:
        """Whether the impression with this key is withheld."""
        number = self.numbers.get(key)
        return number is not None and self.state[number % self.places] == WITHHELD

    def settle(self, upto: int) -> None:
        """Learn the answers waiting up to this number, in order; later answers to these are late."""
        for number in range(self.settled + 1, min(upto, self.last) + 1):
            if self.state[number % self.places] == WAITING:
                self._learn_answer(number % self.places)
            self.settled = number

    def expire(self, upto: int) -> None:
        """Expire the impressions up to this number, answered or not."""
        upto = min(upto, self.last)
        while self.over < upto:
            if upto - self.over >= _CLOSED_TOGETHER and self._close_together(upto):
                continue
            place = (self.over + 1) % self.places
            if self.state[place] == WAITING:
                self._learn_answer(place)
            elif self.state[place] in UNANSWERED:
                self._close_unanswered(place)
            self.over += 1
        self.settled = max(self.settled, self.over)

    def _close_together(self, upto: int) -> bool:
        """`_close_unanswered` for several lists at once, if none counts as not clicked; returns whether it ran."""
        if self.silence.may_count:
            return False
        places = np.arange(self.over + 1, upto + 1) % self.places
        answered = np.flatnonzero(self.state[places] != OPEN)
        places = places[: answered[0]] if answered.size else places
        if not places.size:
            return False
        self.clicks[places], self.examined[places], self.state[places] = False, self.size[places], LOST
        self.silence.add_unanswered(places.size, int(self.round[places[-1]]))
        self.expired += places.size
        self.over += places.size
        return True

    def _learn_answer(self, place: int) -> None:
        """Learn an answer; one that covers no place counts as none, a refused one vouches for none."""
        self.state[place] = DONE
        if not self.examined[place]:
            self.expired += 1
            self.silence.add_one_unanswered(int(self.round[place]))
        elif self._learn_impression(place, ANSWER):
            self.silence.add_answered()

    def _close_unanswered(self, place: int) -> None:
        """Close an impression without an answer, or whose answer was refused: the latter counts for nothing."""
        self.expired += 1
        self.clicks[place] = False
        self.examined[place] = self.size[place]
        if (
            self.state[place] == OPEN
            and self.silence.add_one_unanswered(int(self.round[place]))
            and self.count_unanswered
        ):
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
