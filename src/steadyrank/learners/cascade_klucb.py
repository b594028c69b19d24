"""CascadeKL-UCB: an upper confidence bound for each item, from the Kullback-Leibler divergence."""

from typing import NamedTuple

from ..core.contract import Problem
from ..core.kernels import Ties, count_bits, tie_noise_of, uncount_bits
from .shared.ucb.bounds import GUESSED, Bounds, void
from .shared.ucb.kl_lines import Tangents, draw_again, keep_kl, rank_by_kl


class CascadeKLUCB(NamedTuple):
    """Index max{q : n kl(S/n, q) <= log t + 3 log log t} (Kveton et al. 2015, Algorithm 1 with KL-UCB).

    No defence. Minimax-optimal on clean feedback up to logarithms (Vial et al. 2022).

    Settings: `ties`, by chance or by item number.
    """

    kl: Tangents
    bounds: Bounds

    live = True

    @classmethod
    def create(cls, problem: Problem, *, ties: Ties = "random") -> "CascadeKLUCB":
        return cls(Tangents.create(problem.n_items, tie_noise_of(ties)), Bounds.create(problem.n_items))

    def rank(self, visit, allowed, ranking, note, rng):
        note[GUESSED] = rank_by_kl(self.bounds, self.kl, visit.t, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.kl.looks, self.kl.clicks, ranking, clicks, examined)
        keep_kl(self.bounds, self.kl, visit.t, ranking, examined, note[GUESSED])

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.kl.looks, self.kl.clicks, ranking, clicks, examined)
        draw_again(self.kl, ranking, examined)
        void(self.bounds)
