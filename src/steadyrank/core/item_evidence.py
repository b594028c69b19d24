"""Evidence for a change from the feedback of one item: shared by SteadyRank's test for a regime and by the audit.

Both ask the same of an item: do these clicks come from the attraction that it had before, or from another one drawn
at random? Shared constants and formulas are here. The two differ deliberately in

- the distribution of the new attraction: uniform for the learner; Beta(1/2, 1/2) for the audit, with more weight on
  rates near 0 and 1;
- what an item's earlier looks are combined with: for the learner the prior fitted across items, for the audit the
  item's usual rate in the log; in both it counts no more than the looks themselves;
- the arithmetic: the learner adds logarithms, once a window; the audit, which tests every item of every
  stretch at every scale, multiplies factors and takes the logarithm of the product;
- the threshold: fixed for the learner; the audit adds the logarithm of the number of stretches tested.
"""

import math

import numpy as np

from .arrays import Floats, Ints
from .compiling.jit import no_refcount

KNOWN = 5  # looks at an item before it counts as evidence
MOST = 400.0  # most looks that count: attraction may have moved a little since
SHARE_CHANGED = 0.1  # prior share of the items that a change affects
INVERTED = 10.0  # nats of evidence needed to call feedback inverted
FEW = 8  # looks up to which a product is faster than Beta functions


@no_refcount
def log_beta(a, b):
    """log B(a, b), for a, b > 0."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@no_refcount
def at_least_half(count):
    """A pseudo-count of at least 1/2, so that an attraction near 0 or 1 remains refutable."""
    return max(count, 0.5)


@no_refcount
def log_predictive(clicks, looks, a, b, most):
    """Log probability of one order of `clicks` clicks in `looks` looks at an item whose attraction is Beta(a, b).

    At most `most` of the a + b pseudo-counts count, because attraction may have moved a little since.
    """
    total = a + b
    if total > most:
        a = at_least_half(a * most / total)
        b = at_least_half(b * most / total)
    if looks > FEW:
        return log_beta(a + clicks, b + looks - clicks) - log_beta(a, b)
    chance = 1.0
    for i in range(clicks):
        chance *= (a + i) / (a + b + i)
    for i in range(looks - clicks):
        chance *= (b + i) / (a + b + clicks + i)
    return math.log(chance)


def inversion(looks: Ints, clicks: Ints, rate: Floats) -> float:
    """Nats by which the rates 1 - rate predict these clicks better than the rates, in (0, 1), do. O(K)."""
    return float(np.sum((looks - 2 * clicks) * np.log(rate / (1.0 - rate))))


@no_refcount
def changed_with(share, ratio):
    """Bayes factor of an item that changed with prior chance `share`: 1 - share + share ratio.

    `ratio` is the Bayes factor given a change. An item that did not change costs little.
    """
    return 1.0 - share + share * ratio
