"""What SteadyRank has to say of a list that somebody else has arranged: estimates, places, and the list's note."""

from typing import Any

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import kernel
from ...core.contract import Visit, view_of
from ...core.segments import row, segment_at
from .attention import note_looks
from .regimes import CURRENT
from .revisit import ITEM, TRIED
from .steady_rank import SteadyRank
from .steady_rank_segments import SteadyRankSegments


def _one_of(learner: Any, visit: Visit) -> SteadyRank | None:
    """The SteadyRank that makes the lists for a visit; None if another learner does."""
    if isinstance(learner, SteadyRankSegments):
        segments = learner.pool.number.size
        segment_row: SteadyRank = row(learner.each, segment_at(visit.features, 0, segments))
        return segment_row
    return learner if isinstance(learner, SteadyRank) else None


def estimates_at(learner: Any, visit: Visit, slots: Ints) -> Floats | None:
    """The attraction of some items as a learner sees it; None if it does not say. O(items) but for SteadyRank."""
    one = _one_of(learner, visit)
    if one is None:
        view = view_of(learner)
        return None if view is None else view.regime(view.current).estimate[slots]
    regimes = one.regimes
    r = regimes.tally[CURRENT]
    a, b = regimes.prior[r]
    looks = regimes.looks[r, slots] + regimes.untested_looks[r, slots]
    clicks = regimes.clicks[r, slots] + regimes.untested_clicks[r, slots]
    estimates: Floats = (a + clicks) / (a + b + looks)
    return estimates


def places_by_looks(learner: Any, visit: Visit, size: int) -> list[int]:
    """The places of a list, those that are looked at most first; from the top, as far as it is not known."""
    one = _one_of(learner, visit)
    order = list(range(size)) if one is None else one.attention.order.tolist()
    return order if len(order) == size else [p for p in order if p < size]


def note_arranged(learner: Any, visit: Visit, before: int, ranking: Ints, note: Floats) -> None:
    """Make the note of a list of `before` items right for what became of it.

    The chance that each place was looked at, if it is not clicked, depends on the item there.
    """
    one = _one_of(learner, visit)
    if one is None:
        return
    size = ranking.size
    if isinstance(learner, SteadyRank):  # what is said of a trial stands behind the list's places
        said = note[before : before + 3].copy()
        if said[TRIED] > 0.0 and said[TRIED] - 1.0 not in ranking:  # it was taken out: others are tried now
            said[:] = -said[TRIED], one.trial.of[ITEM], 0.0
        note[size : before + 3] = 0.0
        note[size : size + 3] = said
    if min(one.attention.chance.tolist()) < 1.0:
        note[:size] = 0.0
        note_places(one.attention, one.posteriors, ranking, note)


@kernel
def note_places(attention, posteriors, ranking, note):
    """`note_looks`, called by itself."""
    note_looks(attention, posteriors, ranking, note)
