"""A Beta prior fitted across items."""

import numpy as np

from .compiling.jit import kernel, no_refcount

FIT_STEPS = 10  # steps per fit; items with few looks make them small
FIT_ITEMS = 10  # least number of items seen: fewer are no population
STRENGTH = (1.0, 100.0)  # range of the pseudo-counts of a fitted prior
EDGE = 0.002  # least distance of its mean from 0 and from 1


@kernel
def fit_prior(looks, clicks, prior):
    """`fit_groups` for single items; updates `prior`, float64[2]."""
    fit_groups(looks, clicks, np.ones(looks.size, np.int64), prior)


@no_refcount
def fit_groups(looks, clicks, items, prior):
    """Move `prior`, float64[2], towards the Beta from which the items' attractions seem to be drawn.

    `items[i]` items have `looks[i]` looks and `clicks[i]` clicks each.

    Each step replaces it by the Beta with the mean and the variance of the average posterior of the items seen, an
    expectation-maximization step that matches moments. That the learner chose what to show does no harm: under
    the true prior the average posterior has the prior's moments, whatever rule decides how often to look.
    """
    for _ in range(FIT_STEPS):
        a = prior[0]
        b = prior[1]
        seen = 0
        first = 0.0
        second = 0.0
        for k in range(looks.size):
            if looks[k] > 0:
                total = a + b + looks[k]
                p = (a + clicks[k]) / total
                seen += items[k]
                first += items[k] * p
                second += items[k] * (p * p + p * (1.0 - p) / (total + 1.0))
        if seen < FIT_ITEMS:
            return
        mean = first / seen
        variance = max(second / seen - mean * mean, 1e-9)
        mean = min(max(mean, EDGE), 1.0 - EDGE)
        strength = min(max(mean * (1.0 - mean) / variance - 1.0, STRENGTH[0]), STRENGTH[1])
        prior[0] = mean * strength
        prior[1] = (1.0 - mean) * strength
