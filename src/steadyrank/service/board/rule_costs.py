"""What the rules of a board cost in clicks: the best lists with and without each of them, by what was learnt.

Lists are the best by the estimates of the trusted regime, not drawn. A list is worth the chance of a click on it, by
these estimates and by how far people look. What a rule costs is what a list would be worth without it, and with all
others, less what it is worth with all of them. The interval is that of the estimates' posterior, Beta with the
estimate's mean and weight; the lists are taken for known. What a rule is good for, it cannot tell.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.contract import NOTE_EXTRA, Visit
from ...core.refusals import Refused
from ...core.views import Regime, View
from ...live.learner_state import LearnerState
from ...live.ruled_list import SlotRules, rank_by_rules
from ...live.rules import Rules
from .board import Board
from .savings import worse
from .schema import IntervalOut, Schema

_MOST = 20  # rules that are told of, the first
_LISTS = 1_000.0


class RuleCostOut(Schema):
    """A rule, and the clicks that it costs in 1,000 lists, below 0 if it brings some."""

    rule: str
    cost: IntervalOut


class RulesOut(Schema):
    """What rules of a board cost: all of them together, and each beside all others, the first 20.

    `unkept`: rules that lists of all items cannot keep now; `refused`: why no list can be made, if that is so.
    """

    all: IntervalOut | None
    each: list[RuleCostOut]
    unkept: list[str]
    refused: str | None


class _ByEstimate:
    """A learner state whose lists are the best by these estimates."""

    def __init__(self, state: LearnerState, estimates: Floats) -> None:
        self._state = state
        self._order: Ints = np.argsort(-estimates[: len(state.names)], kind="stable")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def _best(self, without: Sequence[Ints], wanted: int) -> list[int]:
        may = self._state.active.copy()
        for slots in without:
            may[slots] = False
        found: list[int] = self._order[may[self._order]][:wanted].tolist()
        return found

    def rank_without(
        self, out: Ints, visit: Visit, some: Ints | None, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """As of a state."""
        best = self._best([out], length)
        if not best:
            raise Refused(422, "no item may be shown")
        return np.array(best, np.int64), np.zeros(self._state.length + NOTE_EXTRA)

    def rank_more(
        self, without: Sequence[Ints], visit: Visit, some: Ints | None, wanted: int, rng: np.random.Generator
    ) -> list[int]:
        """As of a state."""
        return self._best(without, wanted)

    def rank_slots(self, slots: Ints, visit: Visit, wanted: int, rng: np.random.Generator) -> list[int]:
        """As of a state."""
        found: list[int] = self._order[np.isin(self._order, slots)][:wanted].tolist()
        return found


def summarize_rules(board: Board, view: View | None) -> RulesOut | None:
    """What a board's rules cost, by its learner's view; None if it has none, or no such view. O(rules items)."""
    rules = board.rules()
    if rules is None or view is None or view.segments:
        return None
    trusted, chances = view.regime(view.trusted), _chances(board, view)
    by_estimate: Any = _ByEstimate(board.learner_state, trusted.estimate)
    refused = None
    if rules.when_impossible == "refuse":
        try:
            _list(board, by_estimate, rules)
        except Refused as error:
            refused = str(error)
    ours, unkept = _list(board, by_estimate, rules.as_best())
    free, _ = _list(board, by_estimate, Rules(when_impossible="best"))
    each = [
        RuleCostOut(rule=label, cost=_cost(trusted, chances, _list(board, by_estimate, others.as_best())[0], ours))
        for label, others in _without_each(rules)
    ]
    return RulesOut(all=_cost(trusted, chances, free, ours), each=each, unkept=unkept, refused=refused)


def _chances(board: Board, view: View) -> Floats:
    length = board.length
    return np.array(view.attention[:length] or (1.0,) * length)


def _list(board: Board, state: Any, rules: Rules) -> tuple[list[int], list[str]]:
    """The best list by the estimates, and the rules that it does not keep."""
    slot_rules = SlotRules(rules, state, board.described)
    rng = np.random.default_rng(0)
    found = rank_by_rules(state, slot_rules, Visit(1, features=board.learner_state.unknown), None, board.length, rng)
    slots: list[int] = found.ranking.tolist()
    return slots, found.unkept


def _without_each(rules: Rules) -> Iterator[tuple[str, Rules]]:
    """The first rules by name, each with all others."""
    plain, told = rules.plain(), 0
    for kind in ("pins", "exclude", "boosts", "groups", "include"):
        said = plain.get(kind)
        if isinstance(said, dict):
            for name in said:
                if told == _MOST:
                    return
                told += 1
                words = f"pin {name!r} at {said[name]}" if kind == "pins" else f"{kind.removesuffix('s')} {name!r}"
                yield words, Rules(**{**plain, kind: {other: said[other] for other in said if other != name}})
        elif said and told < _MOST:
            told += 1
            what = f"exclude {said[0]!r}" if len(said) == 1 else f"exclude {len(said)} items"
            yield what, Rules(**{**plain, kind: []})


def _cost(trusted: Regime, chances: Floats, without: list[int], ours: list[int]) -> IntervalOut:
    """Clicks in 1,000 lists by which one is worth more than another."""
    if without == ours:
        return IntervalOut(value=0.0, low=0.0, high=0.0)
    lost = _LISTS * worse(trusted, without, ours, chances, np.random.default_rng(0))
    low, high = np.quantile(lost, (0.025, 0.975)).tolist()
    return IntervalOut(value=float(lost.mean()), low=low, high=high)
