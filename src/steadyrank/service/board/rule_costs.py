"""What the rules of a board cost: the best lists with and without each rule, by what was learnt.

Lists are the best by the estimates of the trusted regime, not drawn: those most likely to be clicked or, where value
is the goal, those worth most. The cost of a rule is what a list brings without it but with all others, minus what it
brings with all of them. The cost is in clicks, by the chance of a click on a list and how far people look; where
value is the goal it is in value too, by what clicks are worth. The interval comes from the posterior: estimates are
Beta with their mean and weight, values of a click Gamma with their mean and variance; the lists are taken as known.
The benefit of a rule is not estimated.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import NOTE_EXTRA, Visit
from ...core.refusals import Refused
from ...core.views import Regime, View, Worths
from ...learners.steady.arranged import ValuedItems
from ...live.learner_state import LearnerState
from ...live.ruled_list import SlotRules, rank_by_rules
from ...live.rules import Rules
from .board import Board
from .savings import DRAWS, loss_draws
from .schema import IntervalOut, Schema

_MOST = 20  # rules listed, the first ones
_LISTS = 1_000.0
_TRIED = 8  # candidates per place when searching for the list of highest value


class RuleCostOut(Schema, kw_only=True):
    """A rule and the clicks it costs per 1,000 lists, negative if it gains some.

    `value`: likewise, if it is the goal.
    """

    rule: str
    cost: IntervalOut
    value: IntervalOut | UnsetType = UNSET


class RulesOut(Schema, kw_only=True):
    """What the rules of a board cost: all together, and each given all others (the first 20).

    `value`: their cost in value, where that is the goal. `unkept`: rules that no list can satisfy now, even of all
    items; `refused`: why no list can be made, if none can.
    """

    all: IntervalOut | None
    value: IntervalOut | UnsetType = UNSET
    each: list[RuleCostOut]
    unkept: list[str]
    refused: str | None


class _ByEstimate:
    """A learner state whose lists are the best by the given estimates, without randomness."""

    def __init__(self, state: LearnerState, estimates: Floats, worths: Worths | None, chances: Floats) -> None:
        self._state, self._worths, self._chances = state, worths, chances
        self._estimates = estimates[: len(state.names)]
        self._looks_worth = self._estimates if worths is None else self._estimates * worths.mean[: len(state.names)]
        self._order: Ints = np.argsort(-self._looks_worth, kind="stable")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def _best(self, without: Sequence[Ints], wanted: int) -> list[int]:
        may = self._state.active.copy()
        for slots in without:
            may[slots] = False
        best: list[int] = self._order[may[self._order]][:wanted].tolist()
        return best

    def rank_without(
        self, out: Ints, visit: Visit, some: Ints | None, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """As in `LearnerState`."""
        best = self._best([out], length)
        if not best:
            raise Refused(422, "no item may be shown")
        ranking, none = np.array(best, np.int64), np.zeros(0, np.int64)
        valued = self.valued(out, visit, some, ranking, ranking.size, rng)
        if valued is not None:
            places: Ints = np.searchsorted(valued.items, ranking)
            held: Bools = np.zeros(valued.items.size, np.bool_)
            no_sets = np.zeros((0, valued.items.size), np.int64)
            valued.exchange(places, no_sets, none, none, held, held[: ranking.size])
            ranking = valued.items[places]
        return ranking, np.zeros(self._state.length + NOTE_EXTRA)

    def valued(
        self, out: Ints, visit: Visit, some: Ints | None, more: Ints, wanted: int, rng: np.random.Generator
    ) -> ValuedItems | None:
        """As in `LearnerState`: the items whose looks are worth most, alone and relative to the rest of a list."""
        if self._worths is None:
            return None
        may = self._state.newcomers.known[: self._order.size].copy()
        may[out] = False
        order, number = self._order[may[self._order]], _TRIED * wanted
        typical = self._looks_worth[order[:wanted]].sum()
        beyond = self._looks_worth[order] - self._estimates[order] * typical
        items = np.unique(np.concatenate([order[:number], order[np.argsort(-beyond, kind="stable")[:number]], more]))
        views = self._estimates[None, items], self._worths.mean[None, items]
        return ValuedItems(items, *views, np.ones(1), self._chances, self._worths.ends)

    def rank_more(
        self, without: Sequence[Ints], visit: Visit, some: Ints | None, wanted: int, rng: np.random.Generator
    ) -> list[int]:
        """As in `LearnerState`."""
        return self._best(without, wanted)

    def estimates_at(self, visit: Visit, slots: Ints) -> Floats:
        """As in `LearnerState`."""
        return self._estimates[slots]

    def rank_slots(self, slots: Ints, visit: Visit, wanted: int, rng: np.random.Generator) -> list[int]:
        """As in `LearnerState`."""
        best: list[int] = self._order[np.isin(self._order, slots)][:wanted].tolist()
        return best


def summarize_rules(board: Board, view: View | None) -> RulesOut | None:
    """Estimate what a board's rules cost, by its learner's view. O(rules items).

    Returns None if the board has no rules, or the view is missing or by segment.
    """
    rules = board.rules()
    if rules is None or view is None or view.segments:
        return None
    trusted, chances = view.regime(view.trusted), _chances(board, view)
    by_estimate: Any = _ByEstimate(board.learner_state, trusted.estimate, view.worths, chances)
    refused = None
    if rules.when_impossible == "refuse":
        try:
            _list(board, by_estimate, rules)
        except Refused as error:
            refused = str(error)
    ours, unkept = _list(board, by_estimate, rules.as_best())
    free, _ = _list(board, by_estimate, Rules(when_impossible="best"))
    learnt = trusted, view.worths, chances
    each = []
    for label, others in _without_each(rules):
        without, _ = _list(board, by_estimate, others.as_best())
        each.append(RuleCostOut(rule=label, **_costs(*learnt, without, ours)))
    costs = _costs(*learnt, free, ours)
    return RulesOut(all=costs.pop("cost"), **costs, each=each, unkept=unkept, refused=refused)


def _chances(board: Board, view: View) -> Floats:
    length = board.length
    return np.array(view.attention[:length] or (1.0,) * length)


def _list(board: Board, state: Any, rules: Rules) -> tuple[list[int], list[str]]:
    """The best list by the estimates, and the rules that it breaks."""
    slot_rules = SlotRules(rules, state, board.described)
    rng = np.random.default_rng(0)
    ruled = rank_by_rules(state, slot_rules, Visit(1, features=board.learner_state.unknown), None, board.length, rng)
    slots: list[int] = ruled.ranking.tolist()
    return slots, ruled.unkept


def _without_each(rules: Rules) -> Iterator[tuple[str, Rules]]:
    """Yield the name of each rule, up to `_MOST`, with the rules that remain without it."""
    plain, count = rules.plain(), 0
    for kind in ("pins", "exclude", "boosts", "groups", "include"):
        kept = plain.get(kind)
        if isinstance(kept, dict):
            for name in kept:
                if count == _MOST:
                    return
                count += 1
                words = f"pin {name!r} at {kept[name]}" if kind == "pins" else f"{kind.removesuffix('s')} {name!r}"
                yield words, Rules(**{**plain, kind: {other: kept[other] for other in kept if other != name}})
        elif kept and count < _MOST:
            count += 1
            what = f"exclude {kept[0]!r}" if len(kept) == 1 else f"exclude {len(kept)} items"
            yield what, Rules(**{**plain, kind: []})


def _costs(
    trusted: Regime, worths: Worths | None, chances: Floats, without: list[int], ours: list[int]
) -> dict[str, IntervalOut]:
    """What list `without` brings more than `ours`, per 1,000 lists: clicks, and value if that is the goal."""
    none = IntervalOut(value=0.0, low=0.0, high=0.0)
    if without == ours:
        return {"cost": none} if worths is None else {"cost": none, "value": none}
    costs = {"cost": _interval(loss_draws(trusted, without, ours, chances, np.random.default_rng(0)))}
    if worths is not None:
        costs["value"] = _interval(_value_loss_draws(trusted, worths, chances, without, ours))
    return costs


def _interval(lost: Floats) -> IntervalOut:
    interval = np.array([lost.mean(), *np.quantile(lost, (0.025, 0.975))])
    value, low, high = (
        np.round(_LISTS * interval, 9) + 0.0
    ).tolist()  # rounded, since lists of the same items may differ by rounding errors
    return IntervalOut(value=value, low=low, high=high)


def _value_loss_draws(
    trusted: Regime, worths: Worths, chances: Floats, without: list[int], ours: list[int]
) -> Floats:
    """[draws] how much more value list `without` brings than `ours`; rates and values are posterior draws."""
    drawn, rng = sorted({*without, *ours}), np.random.default_rng(0)
    mean, weight, size = trusted.estimate[drawn], trusted.weight[drawn], (DRAWS, len(drawn))
    rates = rng.beta(mean * weight, (1.0 - mean) * weight, size)
    doubt = np.maximum(worths.doubt[drawn], 1e-12)
    values = worths.mean[drawn] * doubt * rng.standard_gamma(1.0 / doubt, size)
    brings = []
    for items in (without, ours):
        some = np.searchsorted(drawn, items)
        missed = np.cumprod(1.0 - rates[:, some], axis=1) if worths.ends else np.ones((DRAWS, len(items)))
        reached = np.concatenate([np.ones((DRAWS, 1)), missed[:, :-1]], axis=1)
        brings.append((reached * rates[:, some] * values[:, some]) @ chances[: len(items)])
    lost: Floats = brings[0] - brings[1]
    return lost
