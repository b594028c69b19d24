"""FTRL: follow the regularised leader over lists, with semi-bandit losses."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..contract import Floats, Ints, Problem
from ..kernels import count_bits, top_allowed
from ..parts.leader import LBINF, LBINFV, TSALLIS, VALUE, lead, systematic, trace
from ..settings import choice, known_horizon, real, refuse_unused

Variant: TypeAlias = Literal["lbinf", "lbinfv", "hybrid", "tsallis"]
Weights: TypeAlias = Literal["naive", "first-only", "plug-in"]
NAIVE, FIRST_ONLY, PLUG_IN = range(3)  # as in Weights
_REACH = 0.05  # least chance of being looked at that `plug-in` divides by: smaller ones are noise (ours)
_MEAN = 0.01  # its estimates of attraction stay this far from 0 and 1 (ours)
_LEAST = 1e-6  # weights beyond 1e6 would decide the run by one observation (ours)


class FTRL(NamedTuple):
    """Best-of-both-worlds learner for lists: losses 1 - click, importance-weighted (Ito 2021 and relatives).

    `lbinf` and `lbinfv` agree with code of Ito's co-authors, `hybrid` with its authors'; `tsallis` is for lists of
    one place. Claimed for semi-bandits: corruption adds sqrt(C times the regret without it). A cascade hides later
    places, which no weight of theirs accounts for; `weights` chooses how. Loss estimates are sums, so false losses
    early stay for long.

    Settings: `variant`; `weights`: `naive`, observed items over their marginal (later places learn slower);
    `first-only`, the first place of a shuffled list, unbiased, d times the variance; `plug-in`, over the estimated
    chance of being examined too; `epsilon` (0.2), of lbinfv. `hybrid` takes losses as they are, not shifted by 1.
    """

    losses: Floats  # [K] estimated cumulative loss
    guess: Floats  # [K] predicted next loss
    weight: Floats  # [K] squared factor of the regulariser
    logits: Floats  # [K] of the marginals
    curve: Floats  # [3, K] the marginals, and the regulariser's slopes there
    price: Floats  # [2] multiplier of the constraint; residual of the last solution
    looks: Ints  # [K]
    clicks: Ints  # [K]
    clock: Ints  # [1] rounds learnt from
    variant: int
    weights: int
    length: int
    gamma: float
    c0: float

    live = False

    @classmethod
    def create(
        cls, problem: Problem, *, variant: Variant = "lbinf", weights: Weights = "naive", epsilon: float | None = None
    ) -> "FTRL":
        k, d = problem.n_items, problem.length
        code = choice("variant", variant, get_args(Variant))
        if code == TSALLIS and d != 1:
            raise ValueError(f"variant 'tsallis' is for lists of length 1, not {d}; choose 'lbinf' or 'hybrid'")
        log_t = math.log(max(known_horizon("FTRL", problem.horizon), 3))
        if code != LBINFV:
            refuse_unused({"epsilon": epsilon}, f"variant={variant!r}")
        start = (1.0 + real("epsilon", 0.2 if epsilon is None else epsilon, 0.0)) ** 2 if code == LBINFV else 2.0
        gamma = log_t if code <= LBINFV else 1.0 if 2 * d <= k or d == k else 1.0 / math.sqrt(math.log(k / (k - d)))
        guess = (0.25, 0.5, 0.0, 0.0)[code]
        learner = cls(
            np.zeros(k),
            np.full(k, guess),
            np.full(k, start),
            np.full(k, math.log(d / (k - d)) if d < k else 40.0),
            np.zeros((3, k)),
            np.zeros(2),
            np.zeros(k, np.int64),
            np.zeros(k, np.int64),
            np.zeros(1, np.int64),
            code,
            choice("weights", weights, get_args(Weights)),
            int(d),
            gamma,
            (-log_t, 1.0, 0.0, 0.0)[code],
        )
        trace(code, learner.gamma, learner.c0, learner.logits, learner.curve)
        lead(learner, 1)
        return learner

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(self.losses.size)
        for k in range(index.size):
            index[k] = self.curve[VALUE, k]
        chosen = np.empty(self.length, np.int64)
        systematic(index, chosen, rng)
        for k in chosen:  # drawn items first, by marginal or shuffled; others only stand in for items not allowed
            index[k] = 1.0 + (rng.random() if self.weights == FIRST_ONLY else index[k])
        top_allowed(index, allowed, ranking, rng)
        for p in range(ranking.size):
            note[p] = self.curve[VALUE, ranking[p]]

    def update(self, visit, ranking, note, clicks, examined):
        reach = 1.0
        for p in range(1 if self.weights == FIRST_ONLY else examined):
            k = ranking[p]
            x = max(note[p], _LEAST)
            off = (0.0 if clicks[p] else 1.0) - self.guess[k]
            share = 1.0 / self.length if self.weights == FIRST_ONLY else max(reach, _REACH)
            self.losses[k] += off / (x * share)
            if self.variant <= LBINFV:
                self.weight[k] += off * off * min(1.0, 2.0 * (1.0 - x) / (self.gamma * x * x)) / self.gamma
            if self.weights == PLUG_IN:
                mean = self.clicks[k] / self.looks[k] if self.looks[k] > 0 else 0.0
                reach *= 1.0 - min(max(mean, _MEAN), 1.0 - _MEAN)
        for k in range(self.losses.size):
            self.losses[k] += self.guess[k]
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for p in range(1 if self.weights == FIRST_ONLY else examined):
            k = ranking[p]
            if self.variant == LBINF:
                self.guess[k] += ((0.0 if clicks[p] else 1.0) - self.guess[k]) / 4.0
            elif self.variant == LBINFV:
                self.guess[k] = (0.5 + self.looks[k] - self.clicks[k]) / (1.0 + self.looks[k])
        self.clock[0] += 1
        lead(self, self.clock[0] + 1)
