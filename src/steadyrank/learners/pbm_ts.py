"""PBM-TS: Thompson sampling item by item, for users whose attention by place is known."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..contract import Problem
from ..kernels import top
from ..parts.place_counts import PlaceCounts, count_places, uncount_places
from ..parts.place_posteriors import PlacePosteriors, draw_attraction, set_pieces
from ..places import attention_of, place_best_first


class PBMTS(NamedTuple):
    """Ranks by one draw from each item's posterior, a^S prod_p (1 - attention_p a)^(N_p - S_p) up to a factor.

    Lagree, Vernade, Cappe 2016, section 6; the draws are exact, by rejection, from closer bounds than theirs. N_p
    and S_p count how often the item was shown at place p, and clicked there. The prior is uniform. The highest draw
    stands where attention is highest. No defence.

    Settings: `eta` or `attention`, what it is told of the users, as for `PositionBased`.
    """

    counts: PlaceCounts
    posteriors: PlacePosteriors

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *, eta: float | None = None, attention: Sequence[float] | str | None = None
    ) -> "PBMTS":
        looks = attention_of(eta, attention, problem.length)
        return cls(PlaceCounts.create(problem.n_items, looks), PlacePosteriors.create(problem.n_items))

    def rank(self, visit, allowed, ranking, note, rng):
        drawn = np.empty(allowed.size)
        for k in range(allowed.size):
            drawn[k] = draw_attraction(self.posteriors, self.counts, k, rng) if allowed[k] else -np.inf
        top(drawn, ranking, rng)
        place_best_first(self.counts.order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        count_places(self.counts, ranking, clicks, examined)
        set_pieces(self.posteriors, self.counts, ranking, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_places(self.counts, ranking, clicks, examined)
        set_pieces(self.posteriors, self.counts, ranking, examined)
