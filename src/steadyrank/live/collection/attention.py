"""How far down a list people look, learnt from clicks over all queries. Ours, no paper's.

A place of a list is looked at with some chance, the first one always; what is looked at is clicked with the
item's attraction. Items with equal estimates before a list was shown stand at several places:
their clicks separate the places. So looks and clicks are counted by place and by the estimate of that moment, in
bins, and

    clicks[b, p] ~ Poisson(looks[b, p] attention[p] attraction[b])

is fitted by maximum likelihood, with an attraction of its own for each bin: estimates need not be right, only
comparable. Selection by clicks cancels out, since estimates contain all that the selection used.

Attention is set as high as clicks permit: to the upper end of its interval, and never above that of the place
above it. For users who look until they click, every reported place was looked at, and the fit finds 1 throughout.
"""

import math

import numpy as np

from ...core.compiling.jit import kernel, no_refcount

BINS, LOWEST, WIDTH = 28, 1e-3, 0.25  # of estimates: number, lower end of the first, width in logs
SURE = 2.0  # standard deviations of the interval's upper end
FEWEST = 30.0  # least clicks at a place before its attention may fall below 1
ROUNDS = 40  # iterations of the fit
FADED = 0.9  # factor on earlier counts at each fit
LOOKS, CLICKS = range(2)  # indices of counts


@no_refcount
def bin_of(estimate):
    """The bin of an estimate."""
    return min(max(int(math.log(estimate / LOWEST) / WIDTH), 0), BINS - 1)


@kernel
def fit_attention(seen, attention):
    """Write the attention that clicks permit; `seen`, [2, BINS, places], is discounted. O(BINS places)."""
    looks, clicks = seen[LOOKS], seen[CLICKS]
    places = attention.size
    chance, attraction = np.ones(places), np.zeros(BINS)
    for _ in range(ROUNDS):
        for b in range(BINS):
            expected = (looks[b] * chance).sum()
            attraction[b] = clicks[b].sum() / expected if expected > 0.0 else 0.0
        for p in range(1, places):
            expected = (looks[:, p] * attraction).sum()
            chance[p] = clicks[:, p].sum() / expected if expected > 0.0 else chance[p - 1]
        scale = max(chance[0], 1e-9)
        for p in range(places):
            chance[p] /= scale
    attention[0] = 1.0
    for p in range(1, places):
        count = clicks[:, p].sum()
        most = chance[p] * (1.0 + SURE / math.sqrt(count)) if count >= FEWEST else 1.0
        attention[p] = min(most, attention[p - 1])
    seen *= FADED
