"""Choosing among bases that guess different amounts of corruption.

Our reconstruction of the paper's prose (section 3, "Integration into Model Selection Framework"), with
constants that can act within 40,000 rounds. Rewards are compared as self-normalised means: importance-weighted
sums fluctuate with the number of plays even when rewards do not. Epochs forget: during an attack the rewards
are false too.
"""

import math

import numpy as np

from ._jit import kernel

_TEST_EVERY, _LEAST_PLAYS = 100, 50
_LOG = 10.0  # log(tests / 0.05) for about 1,200 tests a run


@kernel
def draw_base(active, u):
    """An active base, i with chance proportional to 2^-i; u is uniform in [0, 1)."""
    total = 0.0
    for i in range(active.size):
        total += 0.5**i if active[i] else 0.0
    chosen = 0
    u *= total
    for i in range(active.size):
        if active[i] and u >= 0.0:
            chosen = i
            u -= 0.5**i
    return chosen


@kernel
def suspend(active, gains, plays):
    """Suspend every base whose reward is surely below another's (empirical Bernstein bounds)."""
    best = -np.inf
    high = np.full(active.size, np.inf)
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


@kernel
def judge(active, gains, plays, epoch, i, gain):
    """Count a round of base i; test every 100 rounds; at the epoch's end forget all and double its length.

    `epoch` holds the length and the rounds gone by.
    """
    gains[i] += 1 if gain else 0
    plays[i] += 1
    epoch[1] += 1
    if epoch[1] % _TEST_EVERY == 0:
        suspend(active, gains, plays)
    if epoch[1] == epoch[0]:
        epoch[0] *= 2
        epoch[1] = 0
        active[:] = True
        gains[:] = 0
        plays[:] = 0
