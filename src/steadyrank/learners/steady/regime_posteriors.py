"""The posteriors of items in a regime, and their common prior."""

import numpy as np

from ...core.beta_prior import fit_groups, fit_prior
from ...core.compiling.jit import kernel, no_refcount
from ..shared.thompson import check_bar, derive_all, set_counts, unseen_items
from .regimes import CURRENT


@no_refcount
def learn_item(regimes, posteriors, k):
    """Update item k's posterior in the current regime."""
    r = regimes.tally[CURRENT]
    looks = regimes.looks[r, k] + regimes.untested_looks[r, k]
    set_counts(posteriors, k, looks, regimes.clicks[r, k] + regimes.untested_clicks[r, k])


@no_refcount
def learn_items(regimes, posteriors, ranking, examined):
    """Update the posteriors of items that were looked at; the caller runs `check_bar`."""
    for p in range(examined):
        learn_item(regimes, posteriors, ranking[p])


@no_refcount
def learn_regime(regimes, posteriors):
    """Recompute the posteriors of all items, after a change of regime or of past looks. O(K)."""
    r = regimes.tally[CURRENT]
    unseen = unseen_items(posteriors.groups)
    for k in range(regimes.looks.shape[1]):
        # unseen items come first, before and after, and are the majority
        if posteriors.groups.place[k] >= unseen or regimes.looks[r, k] + regimes.untested_looks[r, k] > 0:
            learn_item(regimes, posteriors, k)
            unseen = unseen_items(posteriors.groups)


@kernel
def learn_priors(regimes, posteriors, length):
    """Fit the priors of the current regime, and update `posteriors`. O(G) of G groups of equal counts.

    If there is untested feedback, the prior of answers takes O(items seen).
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
    """Fit a prior to regime r's counts of some items; `apart`: including untested feedback."""
    looks, clicks = np.empty(items.size, np.int64), np.empty(items.size, np.int64)
    n = 0
    for k in items:
        looks[n] = regimes.looks[r, k] + (regimes.untested_looks[r, k] if apart else 0)
        clicks[n] = regimes.clicks[r, k] + (regimes.untested_clicks[r, k] if apart else 0)
        n += looks[n] > 0
    fit_prior(looks[:n], clicks[:n], prior)


@kernel
def fit_priors(regimes, r):
    """Fit the priors of any regime r. O(K), twice as long if some feedback is untested."""
    items = np.empty(regimes.looks.shape[1], np.int32)
    for k in range(items.size):
        items[k] = k
    fit_items(regimes, r, items, False, regimes.test_prior[r])
    if regimes.untested_rounds[r] == 0:
        regimes.prior[r, 0] = regimes.test_prior[r, 0]
        regimes.prior[r, 1] = regimes.test_prior[r, 1]
    else:
        fit_items(regimes, r, items, True, regimes.prior[r])
