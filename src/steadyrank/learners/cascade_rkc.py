"""CascadeRKC: position-based elimination for a known amount of corruption."""

import math
from typing import NamedTuple

from ..core.contract import Problem
from ..core.settings import known_horizon, real, whole
from .shared.layers import Layers, bar, observe_layer, rank_by_position


class CascadeRKC(NamedTuple):
    """Place p explores the items that can still be the p-th best, least seen first; C known (Xie et al. 2025).

    Reconstruction: knowing C and elimination by position come from summaries of the paper; the intervals
    m +- (sqrt(log(4 K T / delta) / n) + C / n) are those of Lykouris et al. 2018. Ours is that an item with r items
    surely above it leaves places 1 to r. An item surely below `length` others is never shown again.

    Settings: `corruption`, C, by default the true budget; `delta`, chance of failure; `rho`, factor of the radius.
    """

    book: Layers

    live = False

    @classmethod
    def create(
        cls, problem: Problem, *, corruption: int | None = None, delta: float = 0.1, rho: float = 1.0
    ) -> "CascadeRKC":
        c = whole("corruption", problem.budget if corruption is None else corruption, 0)
        horizon = known_horizon("CascadeRKC", problem.horizon)
        log = math.log(4.0 * problem.n_items * horizon / real("delta", delta, 1e-12, 1.0))
        return cls(Layers.create(1, problem.n_items, log=log, extra=c, rho=real("rho", rho, 0.0)))

    def rank(self, visit, allowed, ranking, note, rng):
        rank_by_position(self.book, 0, 0, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        observe_layer(self.book, 0, ranking, clicks, examined)
        bar(self.book, 0)
