"""How many clicks distrusting feedback has saved a board, and the list that plain click counts would give.

Assumption: the trusted regime's rates are what people like. From the round in which a change to an untrusted regime
was noticed until its end, a system that believed it would have shown the items with the highest rates in it; an item
without looks in it keeps its trusted rate. A list is worth the chance that it is clicked, by the trusted rates and by
how far people look. People's share of the visits in the stretch is the ratio of the rate in it to the trusted rate,
for the most-looked-at item among those whose rate fell: bots that click something else look at it and leave it. The
interval comes from the posterior of the trusted rates, a Beta with the estimate's mean and weight; people's share and
the lists are taken as known. Feedback that the guard or a label kept from the learner is not counted.
"""

from collections.abc import Sequence

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.views import Regime, View
from ...live.learner_state import LearnerState
from .board import Board
from .schema import IntervalOut, Schema

DRAWS = 400
_BLOCK = 512  # size of the blocks whose maxima are found first


class SavedOut(Schema):
    """The clicks that people would have lost if untrusted feedback had been believed (docs/dashboard.md).

    `rounds`: rounds of untrusted stretches, each counted from when it was noticed; `people`: people's estimated share
    of their visits; `lost`: clicks. `believed`: the list that the latest such stretch leads to, empty if there was
    none; `plain`: the list by plain click rates now.
    """

    rounds: int
    people: float
    lost: IntervalOut
    believed: list[str]
    plain: list[str]


def summarize_savings(board: Board, view: View | None) -> SavedOut | None:
    """Estimate what a board saved by distrusting feedback, from its learner's view. O(items).

    Returns None if the view has no regimes, or if each segment has its own.
    """
    state = board.learner_state
    if view is None or view.segments:
        return None  # each segment has its own regimes
    active = state.active[: len(state.names)]
    return savings(view, state.names, active, board.impressions.rounds, state.length, _plain(state))


def savings(view: View, names: Sequence[str], active: Bools, rounds: int, length: int, plain: list[int]) -> SavedOut:
    """Compute the same from a view after `rounds` rounds; `plain`: slots of the list by plain click rates."""
    slots = np.flatnonzero(active)
    trusted = view.regime(view.trusted)
    others = {regime.number: regime for regime in view.regimes if regime.number != view.trusted}
    best = _best(trusted.estimate, slots, length)
    chances = np.array(view.attention[:length] or (1.0,) * length)
    rng, lost, count, visits = np.random.default_rng(0), np.zeros(DRAWS), 0, 0.0
    believed: list[int] = []
    for number, stretch in _stretches(view, rounds):
        if number not in others:
            continue  # the learner has forgotten it
        regime = others[number]
        share = _people(regime, trusted, slots)
        rates = np.where(regime.looks > 0, regime.estimate, trusted.estimate)
        believed = _best(rates, slots, length)
        count, visits = count + stretch, visits + share * stretch
        lost += share * stretch * loss_draws(trusted, best, believed, chances, rng)
    low, high = np.quantile(lost, (0.025, 0.975)).tolist()
    return SavedOut(
        rounds=count,
        people=visits / count if count else 1.0,
        lost=IntervalOut(value=float(lost.mean()), low=low, high=high),
        believed=[names[slot] for slot in believed],
        plain=[names[slot] for slot in plain],
    )


def _stretches(view: View, rounds: int) -> list[tuple[int, int]]:
    """The untrusted regimes by number, each with the number of rounds since it was noticed, in order."""
    stretches, end = [], rounds
    for change in reversed(view.changes):  # the change noticed last counts, even if its start is dated earlier
        if change.after != view.trusted and end >= change.noticed:
            stretches.append((change.after, end - change.noticed + 1))
        end = min(end, change.start - 1)
    return stretches[::-1]


def _people(regime: Regime, trusted: Regime, slots: Ints) -> float:
    """Estimate the share of a regime's visits that were people's."""
    fell = slots[(regime.looks[slots] > 0) & (regime.estimate[slots] < trusted.estimate[slots])]
    if not fell.size:
        return 1.0
    seen = fell[np.argmax(regime.looks[fell])]
    return float(regime.estimate[seen] / trusted.estimate[seen])


def _best(rates: Floats, slots: Ints, length: int) -> list[int]:
    """The slots of the `length` highest rates in descending order, ties by slot. O(slots)."""
    values = rates[slots]
    if values.size > _BLOCK * length:  # at least `length` blocks have a rate at or above the bar
        bar = np.sort(np.maximum.reduceat(values, np.arange(0, values.size, _BLOCK)))[-length]
        some = np.sort(np.concatenate([np.flatnonzero(values > bar), np.flatnonzero(values == bar)[:length]]))
        slots, values = slots[some], values[some]
    order: list[int] = slots[np.argsort(-values, kind="stable")[:length]].tolist()
    return order


def loss_draws(
    trusted: Regime, best: list[int], believed: list[int], chances: Floats, rng: np.random.Generator
) -> Floats:
    """[draws] how much less likely `believed` is to be clicked than `best`, with rates drawn from the posterior."""
    drawn = sorted({*best, *believed})
    mean, weight = trusted.estimate[drawn], trusted.weight[drawn]
    rates = rng.beta(mean * weight, (1.0 - mean) * weight, (DRAWS, len(drawn)))
    values = []
    for items in (best, believed):
        seen = rates[:, np.searchsorted(drawn, items)] * chances[: len(items)]
        values.append(1.0 - np.prod(1.0 - seen, axis=1))
    loss: Floats = values[0] - values[1]
    return loss


def _plain(state: LearnerState) -> list[int]:
    """Slots of the items with the highest click rates, all feedback included; prior: one look at the mean rate."""
    size = len(state.names)
    looks, clicks = state.looks[:size], state.clicks[:size]
    typical = clicks.sum() / max(int(looks.sum()), 1)
    return _best((clicks + typical) / (looks + 1.0), np.flatnonzero(state.active[:size]), state.length)
