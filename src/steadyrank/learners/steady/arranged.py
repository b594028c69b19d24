"""SteadyRank's part in lists arranged by other code: estimates, values, places, and the note."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.compiling.jit import kernel
from ...core.contract import Visit, view_of
from ...core.segments import row, segment_at
from .attention import goes_on, note_looks
from .hedge import view_of_regime, weigh_views
from .regimes import CURRENT, rival
from .revisit import ITEM, TRIED
from .steady_rank import SteadyRank
from .steady_rank_segments import SteadyRankSegments
from .value_list import exchange_by_rules, views_of_items


def _one_of(learner: Any, visit: Visit) -> SteadyRank | None:
    """The SteadyRank that makes the lists for a visit; None for other learners."""
    if isinstance(learner, SteadyRankSegments):
        segments = learner.pool.number.size
        segment_row: SteadyRank = row(learner.each, segment_at(visit.features, 0, segments))
        return segment_row
    return learner if isinstance(learner, SteadyRank) else None


def estimates_at(learner: Any, visit: Visit, slots: Ints) -> Floats | None:
    """A learner's estimates of some items' attractions; None if it has none. O(items) for SteadyRank, else O(K)."""
    one = _one_of(learner, visit)
    if one is None:
        view = view_of(learner)
        return None if view is None else view.regime(view.current).estimate[slots]
    regimes = one.regimes
    r = regimes.tally[CURRENT]
    a, b = regimes.prior[r]
    looks = regimes.looks[r].take(slots) + regimes.untested_looks[r].take(slots)
    clicks = regimes.clicks[r].take(slots) + regimes.untested_clicks[r].take(slots)
    estimates: Floats = (a + clicks) / (a + b + looks)
    return estimates


class ValuedItems(NamedTuple):
    """Candidates for a list whose goal is value: their attractions, and the worth of a click on each."""

    items: Ints  # [n] slots
    attraction: Floats  # [V, n] in each view of the items
    worth: Floats  # [V, n]
    weights: Floats  # [V]
    chance: Floats  # [length] chance that a place is looked at
    ends: bool  # whether a click ends the visit

    def exchange(self, ranking: Ints, sets: Ints, least: Ints, most: Ints, held: Bools, fixed: Bools) -> None:
        """Improve a list, given as indices into `items`, by exchanges, as `exchange_by_rules` does."""
        exchange_by_rules(*self[1:], sets, least, most, held, fixed, ranking)


def makes_valued_lists(learner: Any) -> bool:
    """Whether a learner estimates the worth of clicks on items."""
    return isinstance(learner, SteadyRank) and learner.values is not None


def valued_items(
    learner: Any, visit: Visit, allowed: Bools, more: Ints, size: int, rng: np.random.Generator
) -> ValuedItems | None:
    """The candidates for a list of `size` allowed items, plus the items in `more`; at least `size` must be allowed.

    Drawn as for a list of the learner's own. None if it does not estimate the worth of clicks.
    """
    if not makes_valued_lists(learner):
        return None
    items, attraction, worth, weights, ends = draw_values(learner, allowed, more, size, visit.t, rng)
    return ValuedItems(items, attraction, worth, weights, learner.attention.chance, ends)


def item_on_trial(learner: Any, size: int, note: Floats) -> int:
    """The item on trial in a list of `size`; -1 if there is none."""
    return int(note[size + TRIED]) - 1 if isinstance(learner, SteadyRank) else -1


def places_by_looks(learner: Any, visit: Visit, size: int) -> list[int]:
    """The places of a list, most looked at first; from the top if attention is unknown."""
    one = _one_of(learner, visit)
    order = list(range(size)) if one is None else one.attention.order.tolist()
    return order if len(order) == size else [p for p in order if p < size]


def note_arranged(learner: Any, visit: Visit, before: int, ranking: Ints, note: Floats) -> None:
    """Adapt the note of a list of `before` items to the final list.

    The chance that each place was looked at, if it is not clicked, depends on the item there.
    """
    one = _one_of(learner, visit)
    if one is None:
        return
    size, falls = ranking.size, min(one.attention.chance.tolist()) < 1.0
    if not falls and size == before and one.revisit == 0.0:
        return  # the note is empty
    if isinstance(learner, SteadyRank):  # fields of a trial follow those of the list's places
        said = note[before : before + 3].copy()
        if said[TRIED] > 0.0 and said[TRIED] - 1.0 not in ranking:  # removed from the list: nobody was tried
            said[:] = -said[TRIED], one.trial.of[ITEM], 0.0
        note[size : before + 3] = 0.0
        note[size : size + 3] = said
    if falls:
        note[:size] = 0.0
        note_places(one.attention, one.posteriors, ranking, note)


@kernel
def note_places(attention, posteriors, ranking, note):
    """Compiled entry point of `note_looks`."""
    note_looks(attention, posteriors, ranking, note)


@kernel
def draw_values(steady, allowed, more, size, t, rng):
    """`views_of_items` with the views' weights, and whether clicks end visits, as in `SteadyRank.rank`."""
    regimes, ends, weights = steady.regimes, not goes_on(steady.attention), np.ones(1)
    other = rival(regimes, steady.window) if steady.caution > 0.0 else -1
    insured = steady.insurance if ends else 0.0
    if other >= 0 or insured > 0.0:
        weights = np.zeros(2 if other < 0 else 3)
        current = regimes.tally[CURRENT]
        weigh_views(weights, regimes.rounds, current, other, insured, steady.caution, steady.window)
    view = view_of_regime(regimes, steady.favourites, max(other, 0))
    items, attraction, worth = views_of_items(
        steady.values, steady.posteriors, view, weights, allowed, more, size, t, rng
    )
    return items, attraction, worth, weights, ends
