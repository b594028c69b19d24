"""dcmKL-UCB: upper confidence bounds for users who may continue after a click."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.contract import Problem
from ..core.kernels import Ties, count_bits, tie_noise_of, uncount_bits
from ..core.places import by_place, last_stop, order_of_places, place_best_first
from .shared.ucb.bounds import GUESSED, Bounds, void
from .shared.ucb.kl_lines import Tangents, draw_again, keep_kl, rank_by_kl


class DCMKLUCB(NamedTuple):
    """Index max{q : n kl(S/n, q) <= log t + 3 log log t}, up to the last click (Katariya et al. 2016, Algorithm 1).

    For the dependent click model: places before the last click were looked at, those behind it perhaps; without a
    click all were. The item with the highest index goes where a click most often satisfies; the learner is told only
    the order of the places by that. If feedback ends at the last click and the first place satisfies most, it is
    CascadeKLUCB. No defence.

    Settings: `onward`, chances to continue after a click, one for each place, of which only the order counts: by
    default places satisfy less and less; `ties`, broken at random or by item number.
    """

    kl: Tangents
    bounds: Bounds
    order: Ints  # [length, length] places by how often a click there satisfies

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *, onward: Sequence[float] | str | None = None, ties: Ties = "random"
    ) -> "DCMKLUCB":
        weight = (
            -np.arange(1.0, problem.length + 1.0) if onward is None else -by_place("onward", onward, problem.length)
        )
        tangents = Tangents.create(problem.n_items, tie_noise_of(ties))
        return cls(tangents, Bounds.create(problem.n_items), order_of_places(weight))

    def rank(self, visit, allowed, ranking, note, rng):
        note[GUESSED] = rank_by_kl(self.bounds, self.kl, visit.t, allowed, ranking, note, rng)
        place_best_first(self.order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        seen = last_stop(clicks, examined)
        count_bits(self.kl.looks, self.kl.clicks, ranking, clicks, seen)
        keep_kl(self.bounds, self.kl, visit.t, ranking, seen, note[GUESSED])

    def forget(self, visit, ranking, note, clicks, examined):
        seen = last_stop(clicks, examined)
        uncount_bits(self.kl.looks, self.kl.clicks, ranking, clicks, seen)
        draw_again(self.kl, ranking, seen)
        void(self.bounds)
