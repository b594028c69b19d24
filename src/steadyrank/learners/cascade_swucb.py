"""CascadeSWUCB: CascadeUCB1 on a sliding window of rounds, for users whose taste changes."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Counts, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.kernels import count_bits, top_allowed
from ..core.settings import real, whole

UNKNOWN = 40_000  # horizon assumed by default settings if it is unknown: that of the paper's evaluation
NEWEST = 0  # index in `clock`


@no_refcount
def take_out(learner, looks, clicks, t):
    """Subtract round t from the given counts; `learner` must still hold the round."""
    row = t % learner.rounds.size
    if t > 0 and learner.rounds[row] == t:
        for p in range(learner.reached[row]):
            k = learner.items[row, p]
            looks[k] -= 1
            clicks[k] -= learner.bits[row, p]


@no_refcount
def slide(learner, t):
    """Make round t the newest in the window, and drop what is more than tau rounds older."""
    newest, rows = learner.clock[NEWEST], learner.rounds.size
    if t > newest:
        for old in range(newest - rows + 1, min(t - rows, newest) + 1):
            take_out(learner, learner.looks, learner.clicks, old)
            if old > 0:
                learner.rounds[old % rows] = 0
        learner.clock[NEWEST] = t


@kernel
def windowed_index(learner, t, index):
    """Write S / n + sqrt(epsilon log min(t - 1, tau) / n) of the rounds from t - tau to t - 1 into `index`."""
    newest, rows = learner.clock[NEWEST], learner.rounds.size
    tau = rows - 1
    looks, clicks = learner.looks.copy(), learner.clicks.copy()
    for old in range(newest - tau, min(t - 1 - tau, newest) + 1):  # still held, but too old for this round
        take_out(learner, looks, clicks, old)
    level = learner.epsilon * math.log(max(min(t - 1, tau), 1))
    for k in range(index.size):
        n = looks[k]
        index[k] = clicks[k] / n + math.sqrt(level / n) if n > 0 else np.inf


class CascadeSWUCB(NamedTuple):
    """Index S/n + sqrt(epsilon log min(t, tau) / n) of the last tau rounds (Li, de Rijke 2019, CascadeSWUCB).

    It is SW-UCB (Garivier, Moulines 2011) on every place that was looked at. Written from memory: public code of
    others confirms the index, the window and tau = 2 sqrt(T log T), which is for one change; epsilon = 0.5 could not
    be checked. Stated bound, from memory: with G changes, sum over items of sqrt(T G log T) / gap^2. No defence:
    false clicks only leave the window in time.

    Items without a look in the window are shown first. With K items and lists of d, an item has about tau d / K
    looks in it: 26 at K = 500, d = 10 and T = 40,000. Cost: O(K) a round; 16 bytes an item, and 5 bytes for each
    place of each round in the window.

    Settings: `tau`, rounds in the window, by default 2 sqrt(T log T), where T = 40,000 if the horizon is unknown;
    `epsilon`, width of the interval, 0.5.
    """

    looks: Ints  # [K] in the rounds held: the window, and one more in case the newest is forgotten
    clicks: Ints  # [K]
    rounds: Ints  # [tau + 1] round held in this row of the arrays below, 0: none; round t is in row t mod (tau + 1)
    reached: Ints  # [tau + 1] places that were looked at
    items: Counts  # [tau + 1, length]
    bits: Bools  # [tau + 1, length]
    clock: Ints  # [1] the newest round
    epsilon: float

    live = True

    @classmethod
    def create(cls, problem: Problem, *, tau: int | None = None, epsilon: float = 0.5) -> "CascadeSWUCB":
        k, horizon = problem.n_items, problem.horizon or UNKNOWN
        default = max(int(2.0 * math.sqrt(horizon * math.log(horizon))), 1)
        tau = default if tau is None else whole("tau", tau, 1, 10_000_000)
        counts, rows = (np.zeros(k, np.int64), np.zeros(k, np.int64)), tau + 1
        rounds = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        places = np.zeros((rows, problem.length), np.int32), np.zeros((rows, problem.length), np.bool_)
        return cls(*counts, *rounds, *places, np.zeros(1, np.int64), real("epsilon", epsilon, 0.0))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        windowed_index(self, visit.t, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        t, rows = visit.t, self.rounds.size
        slide(self, t)
        if t <= self.clock[NEWEST] - rows:
            return  # its round has left the window
        row = t % rows
        take_out(self, self.looks, self.clicks, t)  # a second answer to one list replaces the first
        self.rounds[row] = t
        self.reached[row] = examined
        for p in range(examined):
            self.items[row, p] = ranking[p]
            self.bits[row, p] = clicks[p]
        count_bits(self.looks, self.clicks, ranking, clicks, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        t = visit.t
        if self.rounds[t % self.rounds.size] == t:
            take_out(self, self.looks, self.clicks, t)
            self.rounds[t % self.rounds.size] = 0
