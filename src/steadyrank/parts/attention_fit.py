"""The fit of attention by place to clicks by item and place. Ours, no paper's.

Clicks of item i at place p are taken to be Poisson with mean looks[i, p] * attention[p] * attraction[i], and
attractions of the n items to be Gamma with a known shape. The attractions are integrated out, which leaves

    sum_p clicks[p] log attention[p] + n shape log B
    - sum_i (shape + clicks[i]) log(B + sum_p looks[i, p] attention[p])

with B the shape over the mean attraction. It is concave in the logarithms of B and of the attention, so that
Newton's steps climb to its top. Had every item an attraction of its own fitted instead, then an item that was dropped
for want of a click would fit perfectly and say nothing, whatever its place, while those that luck kept on top would
do worse there than before: lower places would seem to be looked at far more than they are.
"""

import math

import numpy as np

from .._jit import kernel

STEPS = 12  # of Newton's, at most; five are usual
CLOSE = 1e-6  # nats
ADDED = 0.1  # clicks and clicks expected, at each place but the first: places without clicks stay finite
PLACES = 40  # of a list that have an attention of their own; further ones have that of the last of these


@kernel
def likelihood(looks, clicks, shape, logs):
    """The log likelihood above, with what is ADDED; `logs`: of B, then of the attention of places 2, 3, ..."""
    total = 0.0
    for p in range(1, logs.size):
        total += ADDED * (logs[p] - math.exp(logs[p]))
    for i in range(looks.shape[0]):
        expected, won = math.exp(logs[0]) + looks[i, 0], clicks[i, 0]
        for p in range(1, logs.size):
            expected += looks[i, p] * math.exp(logs[p])
            won += clicks[i, p]
            total += clicks[i, p] * logs[p]
        total += shape * logs[0] - (shape + won) * math.log(expected)
    return total


@kernel
def slope(looks, clicks, shape, logs, free):
    """First derivatives of the log likelihood by the first `free` logs, and minus the second ones."""
    first, second, weight = np.zeros(free), np.zeros((free, free)), np.empty(free)
    for p in range(1, free):
        first[p] = ADDED * (1.0 - math.exp(logs[p]))
        second[p, p] = ADDED * math.exp(logs[p])
    for i in range(looks.shape[0]):
        expected, won = math.exp(logs[0]) + looks[i, 0], clicks[i, 0]
        weight[0] = math.exp(logs[0])
        first[0] += shape
        for p in range(1, logs.size):
            mine = looks[i, p] * math.exp(logs[p])
            expected += mine
            won += clicks[i, p]
            if p < free:
                weight[p] = mine
                first[p] += clicks[i, p]
        rate = (shape + won) / expected
        for p in range(free):
            first[p] -= rate * weight[p]
            second[p, p] += rate * weight[p]
            for q in range(p + 1):
                second[p, q] -= rate * weight[p] * weight[q] / expected
    return first, second


@kernel
def solve(matrix, vector):
    """Solve matrix x = vector in place, by Cholesky's method; `matrix` positive, its lower triangle given."""
    for p in range(vector.size):
        for q in range(p + 1):
            rest = matrix[p, q]
            for r in range(q):
                rest -= matrix[p, r] * matrix[q, r]
            matrix[p, q] = math.sqrt(max(rest, 1e-12)) if p == q else rest / matrix[q, q]
    for p in range(vector.size):
        for q in range(p):
            vector[p] -= matrix[p, q] * vector[q]
        vector[p] /= matrix[p, p]
    for p in range(vector.size - 1, -1, -1):
        for q in range(p + 1, vector.size):
            vector[p] -= matrix[q, p] * vector[q]
        vector[p] /= matrix[p, p]


@kernel
def climb(looks, clicks, shape, logs, free):
    """Move the first `free` logs to where the log likelihood is largest; returns it. O(items free^2) a step."""
    best = likelihood(looks, clicks, shape, logs)
    for _ in range(STEPS):
        first, second = slope(looks, clicks, shape, logs, free)
        solve(second, first)
        trial, size, found = logs.copy(), 1.0, best
        while size > 1e-3:
            for p in range(free):
                trial[p] = logs[p] + size * first[p]
            found = likelihood(looks, clicks, shape, trial)
            if found >= best:
                break
            size /= 2.0
        gained = found - best
        if gained > 0.0:
            logs[:] = trial
            best = found
        if gained < CLOSE:
            break
    return best


@kernel
def of_shown(table, looks, places):
    """The rows of a table [item, place] whose items were shown, as numbers, with at most so many places."""
    n = 0
    found = np.zeros((looks.shape[0], places))
    for i in range(looks.shape[0]):
        some = False
        for p in range(looks.shape[1]):
            found[n, min(p, places - 1)] += table[i, p]
            some = some or looks[i, p] > 0
        n += 1 if some else 0
    return found[:n]


@kernel
def fit_attention(looks, clicks, shape, chance):
    """Fit the attention of each place, and write it into `chance`, [place].

    `looks` and `clicks`: whole numbers, [item, place]; items without looks say nothing. Returns two kinds of evidence
    against looks in full, in nats: that of the fit, and that of the attention that stood in `chance` before.
    """
    places = min(chance.size, PLACES)
    seen, won = of_shown(looks, looks, places), of_shown(clicks, looks, places)
    if won.sum() == 0.0 or places < 2:
        chance[:] = 1.0
        return 0.0, 0.0
    logs, before = np.zeros(places), np.log(chance[:places])
    logs[0] = before[0] = math.log(shape * seen.sum() / won.sum())
    full = climb(seen, won, shape, logs, 1)
    kept = climb(seen, won, shape, before, 1)
    gain = climb(seen, won, shape, logs, places)
    for p in range(1, chance.size):
        chance[p] = min(math.exp(logs[min(p, places - 1)]), 1.0)
    return gain - full, kept - full
