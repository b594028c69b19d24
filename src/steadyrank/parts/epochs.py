"""Epochs of CascadeCBARBAR: how long they last, what is played in them, what is learnt at their end.

Appendix C of the paper, with its unclear places resolved as docs/algorithms.md says.
"""

import math
from collections.abc import Callable

import numpy as np

from .._jit import kernel
from ..chance import uniform
from ..kernels import arrange, cascade_value

EPOCH, GONE, LASTS = range(3)  # places of `clock`: number of the epoch from 1, rounds gone by in it, its length
_FEW = 30.0  # planned draws below which the actual number is the better divisor (ours)

# lambda by reading: (K, T, delta). The paper prints 1024 log^2((8 K / delta) log^2 T), almost surely log_2 twice; the
# others are those of public code of its first author, and lambda = 1 for scale.
LAMBDAS: dict[str, Callable[[int, int, float], float]] = {
    "paper": lambda k, t, delta: 1024.0 * math.log(8 * k / delta * math.log(t) ** 2) ** 2,
    "log2": lambda k, t, delta: 1024.0 * math.log2(8 * k / delta * math.log2(t)),
    "code-1024": lambda k, t, delta: 1024.0 * math.log2(8 * k / (delta * math.log2(t) ** 2)) ** 2,
    "code-64": lambda k, t, delta: 64.0 * math.log2(8 * k / delta * math.log2(t)),
    "code-4": lambda k, t, delta: 4.0 * math.log2(8 * k / delta * math.log2(t)),
    "one": lambda k, t, delta: 1.0,
}


@kernel
def begin_epoch(gap, ladder, clock, scale):
    """Plan epoch m: item k is drawn scale / gap_k^2 times, the best list scale K 2^((m - 1) / 2) times."""
    total = 0.0
    for k in range(gap.size):
        total += scale / (gap[k] * gap[k])
        ladder[k] = total
    ladder[gap.size] = total + scale * gap.size * 2.0 ** (0.5 * (clock[EPOCH] - 1))
    clock[GONE] = 0
    # an epoch beyond 2^62 rounds never ends
    clock[LASTS] = math.ceil(min(ladder[gap.size], 4.0e18))


@kernel
def draw_arm(ladder, u):
    """An item, or their number for the best list, with chance proportional to the plan. O(log K)."""
    goal = u * ladder[-1]
    low, high = 0, ladder.size - 1
    while low < high:
        middle = (low + high) // 2
        if ladder[middle] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def end_epoch(gap, hits, draws, favourites, clock, scale, use_all, chance):
    """Estimate each item from this epoch alone, set gaps and the best list, forget, and count the next epoch.

    gap_k = max(2^(-m/4), r_* - r_k, gap_k / 2); r_* is the best list's value by optimistic means, r_k that of the
    best list with k by pessimistic ones. O(K).
    """
    n_items, d = gap.size, favourites.size
    optimistic, pessimistic = np.empty(n_items), np.empty(n_items)
    for k in range(n_items):
        planned = scale / (gap[k] * gap[k])
        actual = use_all == 1 or planned < _FEW  # observations beyond the plan are not what the plan counts
        mean = hits[k] / (max(draws[k], 1) if actual else planned)
        width = gap[k] / (16.0 * d)
        optimistic[k] = min(max(mean + width, 0.0), 1.0)
        pessimistic[k] = min(max(mean - width, 0.0), 1.0)
        hits[k] = draws[k] = 0
    uniforms = np.empty(d)
    for p in range(d):
        uniforms[p] = uniform(chance)
    arrange(optimistic, favourites, uniforms)
    most = cascade_value(optimistic, favourites)
    arrange(pessimistic, favourites, uniforms)
    value = cascade_value(pessimistic, favourites)
    others = cascade_value(pessimistic, favourites[: d - 1])
    floor = 2.0 ** (-0.25 * clock[EPOCH])
    own = 1.0 - (1.0 - others) * (1.0 - pessimistic)
    for k in favourites:
        own[k] = value
    for k in range(n_items):
        gap[k] = max(floor, most - own[k], 0.5 * gap[k])
    clock[EPOCH] += 1
