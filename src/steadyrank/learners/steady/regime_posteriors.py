"""What a regime knows of the items: their posteriors, and the prior that they have in common."""

import numpy as np

from ...core.beta_prior import fit_groups, fit_prior
from ...core.compiling.jit import kernel, no_refcount
from ..shared.thompson import check_bar, derive_all, set_counts, unseen_items
from .regimes import CURRENT


@no_refcount
def learn_item(regimes, posteriors, k):
    """Item k's posterior in the current regime."""
    r = regimes.tally[CURRENT]
    looks = regimes.looks[r, k] + regimes.untested_looks[r, k]
    set_counts(posteriors, k, looks, regimes.clicks[r, k] + regimes.untested_clicks[r, k])


@no_refcount
def learn_items(regimes, posteriors, ranking, examined):
    """The posteriors of items that were looked at; `check_bar` is left to others."""
    for p in range(examined):
        learn_item(regimes, posteriors, ranking[p])


@no_refcount
def learn_regime(regimes, posteriors):
    """The posteriors of all items: the regime is another one, or looks were none. O(K)."""
    r = regimes.tally[CURRENT]
    unseen = unseen_items(posteriors.groups)
    for k in range(regimes.looks.shape[1]):
        # those that nobody looked at come first, then as now, and are the most
        if posteriors.groups.place[k] >= unseen or regimes.looks[r, k] + regimes.untested_looks[r, k] > 0:
            learn_item(regimes, posteriors, k)
            unseen = unseen_items(posteriors.groups)


@kernel
def learn_priors(regimes, posteriors, length):
    """Fit the priors of the current regime, which is in `posteriors`; they follow. O(G) of G groups of equal counts.

    The prior of answers, where there is other feedback too, is O(items seen).
    """
    r, groups = regimes.tally[CURRENT], posteriors.groups
    n = groups.size[0]
    if regimes.untested_rounds[r] == 0:
        fit_groups(groups.looks[:n], groups.clicks[:n], groups.items[:n], regimes.test_prior[r])
        regimes.prior[r, 0] = regimes.test_prior[r, 0]
        regimes.prior[r, 1] = regimes.test_prior[r, 1]
    else:
        fit_groups(groups.looks[:n], groups.clicks[:n], groups.items[:n], regimes.prior[r])
        fit_items(regimes, r, groups.order[unseen_items(groups) :], False, regimes.test_prior[r])
    for i in range(2):
        posteriors.prior[i] = regimes.prior[r, i]
    derive_all(posteriors)
    check_bar(posteriors, length)


@kernel
def fit_items(regimes, r, items, apart, prior):
    """Fit a prior to what regime r knows of some items; of all feedback, if what is counted apart is to count."""
    looks, clicks = np.empty(items.size, np.int64), np.empty(items.size, np.int64)
    n = 0
    for k in items:
        looks[n] = regimes.looks[r, k] + (regimes.untested_looks[r, k] if apart else 0)
        clicks[n] = regimes.clicks[r, k] + (regimes.untested_clicks[r, k] if apart else 0)
        n += looks[n] > 0
    fit_prior(looks[:n], clicks[:n], prior)


@kernel
def fit_priors(regimes, r):
    """Fit the priors of regime r, whichever it is. O(K), twice as long where some feedback was counted apart."""
    items = np.empty(regimes.looks.shape[1], np.int32)
    for k in range(items.size):
        items[k] = k
    fit_items(regimes, r, items, False, regimes.test_prior[r])
    if regimes.untested_rounds[r] == 0:
        regimes.prior[r, 0] = regimes.test_prior[r, 0]
        regimes.prior[r, 1] = regimes.test_prior[r, 1]
    else:
        fit_items(regimes, r, items, True, regimes.prior[r])
