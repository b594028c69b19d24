"""Simulations under rules: lists are made as on boards, and the best list is the best one that keeps the rules."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.contract import Problem, Visit
from ..core.discovery import make
from ..core.dispatch import call_arrive, call_value
from ..core.rounds import Ledger, RoundBuffers, Streams
from ..learners.oracle import Oracle
from ..live.learner_state import LearnerState
from ..live.ruled_list import PINNED, RuledList, SlotRules, rank_by_rules
from ..live.rules import Rules
from ..users.buyers import improve
from .loop import answer, count_lies

_CANDIDATES = 2  # candidates of one kind in the search for the best list, per place
_PAIR_CANDIDATES = 40  # items among which pairs are tried
_SPARE = 2  # spare items of one kind
_ANY_VISIT = Visit(1)


class Items(LearnerState):
    """Items "0", "1", ... with a given learner, made for a simulation, which may know more than one of a board."""

    def __init__(self, learner: Any, n_items: int, length: int, settings: dict[str, Any]) -> None:
        self._given = learner
        super().__init__(map(str, range(n_items)), length, type(learner), settings, 0, 0.0)

    def _check_suited(self) -> None:
        """No check: items do not change."""

    def _make_learner(self, n_items: int) -> Any:
        return self._given

    def _with_features(self, visit: Visit) -> Visit:
        return visit


def _in_order(worth: Floats, length: int) -> Items:
    """A state that ranks items by these numbers."""
    oracle = make(Oracle, Problem(worth.size, length, attraction=worth), settings={})
    return Items(oracle, worth.size, length, {})


class RuledWorld:
    """The best list of a simulation under rules, and its value, `worth`. Boosts multiply values."""

    def __init__(
        self, rules: Rules, users_class: type, settings: dict[str, Any], attraction: Floats, length: int
    ) -> None:
        """Refuse rules that no list can keep, unless they ask for the best possible list."""
        users = make(users_class, attraction, length, settings=settings)
        if not hasattr(users, "expect"):
            raise ValueError(
                f"rules need users to whom one list is the best in all rounds, and who say how likely each place is "
                f"clicked (`expect`); {users_class.__name__} do not"
            )
        new = [name for name, one in rules.include.items() if one.new]
        if new:
            raise ValueError(f"include {new[0]!r} asks for new items, and in a simulation no item is new")
        self.rules, self._length = rules, length
        of_click = getattr(users, "worth", np.ones(attraction.size))
        state = _in_order(users.average * of_click, length)
        if rules.boosts:
            factors = np.ones(attraction.size)
            for item, factor in rules.boosts.items():
                factors[state.slot(item)] = factor
            if hasattr(users, "buy"):
                users, of_click = users._replace(worth=users.worth * factors), of_click * factors
            else:
                users = make(users_class, np.minimum(attraction * factors, 1.0), length, settings=settings)
            state = _in_order(users.average * of_click, length)
        self._judges = users
        self._call_value: Callable[..., float] = call_value.bind(users, _ANY_VISIT, np.zeros(length, np.int64))
        self.best = self._find_best(state, [users.average * of_click, of_click])
        self.worth = self.value(self.best)
        self.beyond = 0.0  # largest excess of a shown list's value over the best list's

    def note_better(self, gain: float) -> None:
        """Record that a shown list was worth this much more than the best list found by the search."""
        self.beyond = max(self.beyond, gain)

    def value(self, ranking: Ints) -> float:
        """Value of a list, with boosted items multiplied by their boosts."""
        return float(self._call_value(self._judges, _ANY_VISIT, ranking))

    def lists_by(
        self, learner: Any, settings: dict[str, Any], n_items: int
    ) -> Callable[[Visit, np.random.Generator], RuledList]:
        """A function that makes the learner's list under the rules for a visit."""
        state = Items(learner, n_items, self._length, settings)
        rules = SlotRules(self.rules, state, {})
        return lambda visit, rng: rank_by_rules(state, rules, visit, None, self._length, rng)

    def _find_best(self, state: Items, orders: list[Floats]) -> Ints:
        """The best list: by the order of items, then by exchanges within the rules, two for two if sets cross.

        It is optimal if sets are nested or disjoint and clicks are worth the same (`live.ruled_list`). Otherwise it
        is as good as `tests/test_simulated_rules.py` shows; if a simulation shows a better list, regret is counted
        against that one.
        """
        plain = Rules.of({**self.rules.plain(), "boosts": {}}) or Rules()
        rules = SlotRules(plain, state, {})
        first = rank_by_rules(state, rules, _ANY_VISIT, None, self._length, np.random.default_rng(0))
        keeps = _keeper(rules, state, first)
        few, many = (_of_each_kind(rules, orders, n) for n in (_SPARE + self._length, _CANDIDATES * self._length))

        def worth(ranking: Ints) -> float:
            return self.value(ranking) if keeps(ranking.tolist()) else -1.0

        best = first.ranking.copy()
        while True:
            improve(best, many, worth)
            better = _exchange_two(best, few[:_PAIR_CANDIDATES], worth) if rules.caps or rules.needs else None
            if better is None:
                return best
            best = better


def _of_each_kind(rules: SlotRules, orders: list[Floats], most: int) -> Ints:
    """The first items of each order, at most `most` with the same groups and includes."""
    some: list[int] = []
    for order in orders:
        kinds: dict[Any, int] = {}
        for slot in np.argsort(-order, kind="stable").tolist():
            kind = rules.caps_of.get(slot), rules.needs_of.get(slot)
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= most and slot not in rules.out:
                some.append(slot)
    return np.array(list(dict.fromkeys(some)), np.int64)


def _exchange_two(ranking: Ints, some: Ints, worth: Callable[[Ints], float]) -> Ints | None:
    """The best list with two other items at two places, if it is better."""
    rest = [slot for slot in some.tolist() if slot not in ranking]
    most, best = worth(ranking) + 1e-12, None
    for places in itertools.combinations(range(ranking.size), 2):
        for pair in itertools.permutations(rest, 2):
            other = ranking.copy()
            other[list(places)] = pair
            if (value := worth(other)) > most:
                most, best = value, other
    return best


def _keeper(rules: SlotRules, state: Items, first: RuledList) -> Callable[[list[int]], bool]:
    """A function that says whether a list keeps the rules that the first list keeps."""
    items = first.ranking.tolist()
    pins = [(place, slot) for place, slot in enumerate(items) if first.placed[place] == PINNED]

    def counts(ranking: list[int]) -> list[int]:
        numbers = [number for slot in ranking for number in rules.caps_of.get(slot, ())]
        return [numbers.count(number) for number in range(len(rules.caps))]

    most = [max(pair) for pair in zip(rules.most, counts(items), strict=True)]

    def keeps(ranking: list[int]) -> bool:
        if any(ranking[place] != slot for place, slot in pins):
            return False
        within = all(count <= limit for count, limit in zip(counts(ranking), most, strict=True))
        return within and rules.includes_as(ranking, items, state)

    return keeps


def play_by_rules(
    ruled: RuledWorld,
    make_list: Callable[[Visit, np.random.Generator], RuledList],
    learner: Any,
    users: Any,
    adversary: Any,
    guard: Any,
    ledger: Ledger | None,
    buffers: RoundBuffers,
    marks: Ints,
    omniscient: bool,
    halt: Any,
    streams: Streams,
    regret: Floats,
    spent: Floats,
    lies: Ints,
    extremes: Floats,
) -> None:
    """`play` under rules: `make_list` makes the learner's list for a visit, and `ruled` evaluates it."""
    loss = cost = 0.0
    smallest, m, answered = np.inf, 0, None
    for t in range(1, int(marks[-1]) + 1):
        visit = Visit(t, call_arrive(users, t, buffers.features, streams.door), buffers.features)
        ranking, buffers.note[:], _, _ = make_list(visit, streams.mind)
        now = learner, users, adversary, guard, ledger, visit, ranking, buffers, omniscient, streams
        answered = answered or answer.bind(*now)
        paid, examined = answered(*now)
        lost = ruled.worth - ruled.value(ranking)
        smallest = min(smallest, lost)
        loss += lost
        cost += paid
        if paid > 0.0:
            count_lies(buffers.truth, buffers.clicks, examined, ranking, ruled.best, lies)
        if t == marks[m]:
            regret[m], spent[m] = loss, cost
            m += 1
        if halt[0]:
            break
    extremes[:] = smallest, ruled.worth * int(marks[-1])
