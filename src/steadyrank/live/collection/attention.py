"""How far down a list people look, learnt from clicks over all queries. Ours, no paper's.

A place of a list is looked at with a chance, the first one by everybody, and what is looked at is clicked with the
item's attraction. Items taken to attract as much, by what was known before a list was shown, stand at several places:
their clicks tell places apart. So looks and clicks are counted by place and by the estimate of that moment, in bins,
and

    clicks[b, p] ~ Poisson(looks[b, p] attention[p] attraction[b])

is fitted by the likelihood, with an attraction of its own for each bin: estimates need not be right, only alike. What
clicks chose cancels out, since estimates know all that it was chosen by.

A place counts as looked at as much as clicks permit: by the upper end of its interval, and never more than the place
above it. People who look until they click see every place that an answer speaks of, and there nothing is found.
"""

import math

import numpy as np

from ...core.compiling.jit import kernel, no_refcount

BINS, LOWEST, WIDTH = 28, 1e-3, 0.25  # of estimates; the lower end of the first; and how wide each is, in logs
SURE = 2.0  # standard deviations
FEWEST = 30.0  # clicks at a place, from which on it is said to be looked at less
ROUNDS = 40  # of the fit
FADED = 0.9  # of what was counted, at each fit
LOOKS, CLICKS = range(2)  # of what is counted


@no_refcount
def bin_of(estimate):
    """The bin of an estimate."""
    return min(max(int(math.log(estimate / LOWEST) / WIDTH), 0), BINS - 1)


@kernel
def fit_attention(seen, attention):
    """Write the attention that clicks permit; `seen`, [2, BINS, places], fades. O(BINS places)."""
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
