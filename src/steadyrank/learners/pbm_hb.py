"""PB-MHB: Thompson sampling of attractions and attention together, by Metropolis-Hastings."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.philox import start, uniform
from ..core.settings import real, whole
from .shared.place_counts import PlaceCounts, count_places

_EDGE = 1e-12  # keeps attractions and attention inside (0, 1)
_WIDE = 0.5  # from this width on, a truncated normal draw starts from a uniform one


@no_refcount
def propose(x, width, chance):
    """A draw from the normal distribution with mean x and this width, truncated to (0, 1): exact, by rejection."""
    while True:
        if width >= _WIDE:
            y = uniform(chance)
            kept = uniform(chance) < math.exp(-0.5 * ((y - x) / width) ** 2)
        else:
            radius = math.sqrt(-2.0 * math.log(1.0 - uniform(chance)))
            y = x + width * radius * math.cos(2.0 * math.pi * uniform(chance))
            kept = True
        if kept and _EDGE < y < 1.0 - _EDGE:
            return y


@no_refcount
def log_mass(x, width):
    """Logarithm of the mass of the normal distribution around x in [0, 1]."""
    scale = 1.0 / (width * math.sqrt(2.0))
    return math.log(0.5 * (math.erf((1.0 - x) * scale) + math.erf(x * scale)))


@no_refcount
def gain_of_item(counts, attention, k, x, y):
    """Gain of the log-likelihood of item k's counts if its attraction is y instead of x. O(d)."""
    clicks, gain = 0, 0.0
    for p in range(attention.size):
        clicks += counts.clicks[k, p]
        without = counts.shown[k, p] - counts.clicks[k, p]
        if without > 0:
            gain += without * (math.log1p(-y * attention[p]) - math.log1p(-x * attention[p]))
    return gain + clicks * math.log(y / x)


@no_refcount
def gain_of_place(counts, attraction, p, x, y):
    """Gain of the log-likelihood of place p's counts if its attention is y instead of x. O(K)."""
    clicks, gain = 0, 0.0
    for k in range(attraction.size):
        clicks += counts.clicks[k, p]
        without = counts.shown[k, p] - counts.clicks[k, p]
        if without > 0:
            gain += without * (math.log1p(-y * attraction[k]) - math.log1p(-x * attraction[k]))
    return gain + clicks * math.log(y / x)


@no_refcount
def sweep(counts, attraction, attention, width, chance):
    """One Metropolis-Hastings step for each attraction, then for the attention of each place but the first."""
    for k in range(attraction.size):
        x = attraction[k]
        y = propose(x, width, chance)
        gain = gain_of_item(counts, attention, k, x, y) + log_mass(x, width) - log_mass(y, width)
        if math.log(1.0 - uniform(chance)) < gain:
            attraction[k] = y
    for p in range(1, attention.size):
        x = attention[p]
        y = propose(x, width, chance)
        gain = gain_of_place(counts, attraction, p, x, y) + log_mass(x, width) - log_mass(y, width)
        if math.log(1.0 - uniform(chance)) < gain:
            attention[p] = y


class PBMHB(NamedTuple):
    """Shows the best items of a draw from the posterior of attractions and attention, in the order of the attention.

    Gauthier, Gaudel, Fromont 2020 (PB-MHB): attention is unknown and drawn with the attractions, relative to that of
    the first place, which is 1 and should be the highest. Uniform priors. One Metropolis-Hastings chain continues
    from update to update, `sweeps` steps of each number, with proposals from a normal distribution on [0, 1] of width
    c / sqrt(updates); c = 1000 and one sweep are the authors' choice, which makes proposals almost uniform for a
    million rounds. It starts at 1/2. Only `update` moves the chain: lists between two updates are equal. Their code
    adds half a click and half a miss for each item and place; the paper and we do not. No defence. O(d K) a round.
    """

    counts: PlaceCounts  # without attention
    attraction: Floats  # [K]
    attention: Floats  # [length]
    updates: Ints  # [1]
    chance: Ints  # [2] random state of the chain
    c: float
    sweeps: int

    live = True

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1000.0, sweeps: int = 1) -> "PBMHB":
        k, d = problem.n_items, problem.length
        attention = np.full(d, 0.5)
        attention[0] = 1.0 - _EDGE
        width, steps = real("c", c, 1e-6, 1e9), whole("sweeps", sweeps, 1, 1000)
        counts = PlaceCounts.create(k, np.ones(d))
        return cls(counts, np.full(k, 0.5), attention, np.zeros(1, np.int64), start(problem.seed), width, steps)

    def rank(self, visit, allowed, ranking, note, rng):
        best_first = np.empty(ranking.size, np.int64)
        top_allowed(self.attraction, allowed, best_first, rng)
        for p in range(ranking.size):
            heavier = 0
            for q in range(ranking.size):
                more = self.attention[q] > self.attention[p]
                heavier += more or (self.attention[q] == self.attention[p] and q < p)
            ranking[p] = best_first[heavier]

    def update(self, visit, ranking, note, clicks, examined):
        count_places(self.counts, ranking, clicks, examined)
        self.updates[0] += 1
        width = self.c / math.sqrt(self.updates[0])
        for _ in range(self.sweeps):
            sweep(self.counts, self.attraction, self.attention, width, self.chance)
