"""FTRL for position-based users: follow the regularised leader over chances of items at places."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Floats, Ints, Problem
from ..parts.matching import match
from ..parts.rounding import draw_matching, stand_in
from ..settings import real

_LEAST = 1e-6  # weights beyond 1e6 would decide the run by one observation (ours)


class PBMFTRL(NamedTuple):
    """Lists drawn by chances of each item at each place, which follow importance-weighted losses 1 - click.

    Chen, Zhao, Li 2022 (FTRL-PBM), a reconstruction: its text was not at hand. Certain is what its abstract says:
    follow the regularised leader with Tsallis entropy, for users who look at places, log T with clicks of one law and
    d sqrt(K T) whatever they are, which is the bound for d K pairs of item and place of which d are seen in a round.
    From that: chances x of pairs, one item a place and at most one place an item, x the minimiser of <estimated
    losses, x> - 2 sqrt(t) / rate sum sqrt(x), the constants of Tsallis-INF (Zimmert, Seldin 2021); lists with exactly
    these chances by dependent rounding. Attention is not told: as for GRAB, each pair is learnt alone.

    Settings: `rate`, 1: higher follows the losses sooner.
    """

    losses: Floats  # [length, K] estimated cumulative loss of each pair
    chances: Floats  # [length, K] of the next list
    price: Floats  # [length] of each place
    fee: Floats  # [K] of each item
    clock: Ints  # [1] rounds learnt from
    rate: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, rate: float = 1.0) -> "PBMFTRL":
        k, d = problem.n_items, problem.length
        arrays = np.zeros((d, k)), np.full((d, k), 1.0 / k), np.full(d, math.sqrt(k)), np.zeros(k)
        return cls(*arrays, np.zeros(1, np.int64), real("rate", rate, 1e-3, 1e3))

    def rank(self, visit, allowed, ranking, note, rng):
        chosen = np.empty(self.price.size, np.int64)
        draw_matching(self.chances, chosen, rng)
        stand_in(chosen, allowed, ranking, rng)
        for p in range(ranking.size):
            note[p] = self.chances[p, ranking[p]]

    def update(self, visit, ranking, note, clicks, examined):
        for p in range(examined):
            if not clicks[p]:
                self.losses[p, ranking[p]] += 1.0 / max(note[p], _LEAST)
        self.clock[0] += 1
        match(self.losses, math.sqrt(self.clock[0] + 1.0) / self.rate, self.price, self.fee, self.chances)
