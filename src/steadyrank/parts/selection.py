"""Choosing among bases that guess different amounts of corruption.

Our reconstruction of the paper's prose (section 3, "Integration into Model Selection Framework"), with
constants that can act within 40,000 rounds. Rewards are compared as self-normalised means: importance-weighted
sums fluctuate with the number of plays even when rewards do not. Epochs forget: during an attack the rewards
are false too.
"""

import math

import numpy as np

from .._intrinsics import stack_floats
from .._jit import kernel, uncounted
from ..kernels import rank_by_index, top_allowed

LASTS, GONE = range(2)  # places of `epoch`: its length, and rounds gone by in it
UNKNOWN_HORIZON = 2**20  # where the grid of guesses ends if the horizon is unknown
_TEST_EVERY, _LEAST_PLAYS = 100, 50
_LOG = 10.0  # log(tests / 0.05) for about 1,200 tests a run


@uncounted
def threshold(guess, share, cap):
    """Observations below which an item goes first, for a base that expects `guess` corrupted rounds; at least 1."""
    return max(1, int(min(math.ceil(10.0 * guess * share), cap)))


@uncounted
def draw_base(active, u):
    """An active base, i with chance proportional to 2^-i; u is uniform in [0, 1)."""
    total, weight = 0.0, 1.0
    for i in range(active.size):
        total += weight if active[i] else 0.0
        weight *= 0.5
    chosen, weight = 0, 1.0
    u *= total
    for i in range(active.size):
        if active[i]:
            chosen = i
            u -= weight
        if u < 0.0:
            break
        weight *= 0.5
    return chosen


@kernel
def rank_stored(stored, allowed, ranking, rng):
    """A stored list; random items stand in for those not allowed now."""
    index = np.zeros(allowed.size)
    for p in range(stored.size):
        index[stored[p]] = stored.size - p
    top_allowed(index, allowed, ranking, rng)


@kernel
def rank_otherwise(stored, table, t, least, allowed, ranking, rng):
    """Where `ranking` is the stored list in any order, rank again without its last item, if another is left.

    A challenger never shows the list that it challenges.
    """
    same = free = 0
    for p in range(ranking.size):
        for q in range(stored.size):
            same += 1 if ranking[p] == stored[q] else 0
    for k in range(allowed.size):
        free += 1 if allowed[k] else 0
    if same == stored.size and free > ranking.size:
        left = allowed.copy()
        left[ranking[-1]] = False
        rank_by_index(table, t, least, left, ranking, rng)


@uncounted
def suspend(active, gains, plays):
    """Suspend every base whose reward is surely below another's (empirical Bernstein bounds)."""
    best = -np.inf
    high = stack_floats(active.size)
    high[:] = np.inf
    for i in range(active.size):
        if active[i] and plays[i] >= _LEAST_PLAYS:
            n = plays[i]
            r = gains[i] / n
            s = math.sqrt(2.0 * max(r * (1.0 - r), 1.0 / n) * _LOG / n) + 3.0 * _LOG / n
            high[i] = r + s
            best = max(best, r - s)
    for i in range(active.size):
        if high[i] < best:
            active[i] = False


@uncounted
def judge(active, gains, plays, epoch, i, gain):
    """Count a round of base i; test every 100 rounds; at the epoch's end forget all and double its length."""
    gains[i] += 1 if gain else 0
    plays[i] += 1
    epoch[GONE] += 1
    if epoch[GONE] % _TEST_EVERY == 0:
        suspend(active, gains, plays)
    if epoch[GONE] == epoch[LASTS]:
        epoch[LASTS] *= 2
        epoch[GONE] = 0
        active[:] = True
        gains[:] = 0
        plays[:] = 0
