"""Draws from Beta posteriors, of which only the largest matter."""

import math

import numpy as np

from .._jit import uncounted

CLOSE = 0.5615  # exp(-Euler's gamma), rounded up


@uncounted
def draw_over(a, b, least, rng):
    """A draw from Beta(a, b), or -inf if it would be below `least`, which lies in [0, 1).

    The draw is x / (x + y), x and y from Gamma(a) and Gamma(b), and reaches `least` where x reaches a bound. With
    a < 1 and a bound of at least exp(-gamma), an exponential draw can stand in for x: it is kept with chance
    x^(a-1) / Gamma(a), the ratio of the two densities, which is at most 1 there because log Gamma is convex. Most
    draws of items without clicks end at once.
    """
    if a >= 1.0:
        return rng.beta(a, b)
    y = rng.standard_gamma(b)
    bound = least / (1.0 - least) * y
    if bound < CLOSE:
        x = rng.standard_gamma(a)
        return x / (x + y) if x + y > 0.0 else 0.0
    x = rng.standard_exponential()
    if x < bound or rng.random() * math.gamma(a) > x ** (a - 1.0):
        return -np.inf
    return x / (x + y)


@uncounted
def draw_all(looks, clicks, a, b, allowed, rng, index):
    """Write a draw from each allowed item's posterior, with prior Beta(a, b), into `index`; -inf for the rest."""
    for k in range(index.size):
        index[k] = draw_over(a + clicks[k], b + looks[k] - clicks[k], 0.0, rng) if allowed[k] else -np.inf


@uncounted
def draw_top(looks, clicks, a, b, allowed, rng, index, best):
    """`draw_all`, but -inf also for some draws that are not among the `best.size` largest, which go to `best`.

    O(K), and O(best.size) for each draw that is among the largest so far.
    """
    d = best.size
    filled = 0
    for k in range(index.size):
        index[k] = -np.inf
        if not allowed[k]:
            continue
        least = best[d - 1] if filled == d else 0.0
        value = draw_over(a + clicks[k], b + looks[k] - clicks[k], min(least, 1.0 - 1e-12), rng)
        if filled == d and value < least:
            continue
        index[k] = value
        p = filled if filled < d else d - 1
        filled = min(filled + 1, d)
        while p > 0 and best[p - 1] < value:
            best[p] = best[p - 1]
            p -= 1
        best[p] = value
