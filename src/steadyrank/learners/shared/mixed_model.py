"""A logistic model of clicks with weights shared by all items and an effect of each item's own. Ours.

logit P(click) = z' theta + e_k, with z the products of the features of item and visitor followed by a constant 1,
theta_f ~ N(0, 1 / l) and e_k ~ N(0, 1 / i). An observation enters as one of a Gaussian model, with the curvature w =
p (1 - p) of the likelihood at the current mean eta and the target eta + (y - p) / w (an extended Kalman filter). In
that model the e_k are integrated out exactly: with D_k = i + sum w, B_k = sum w z and H_k = sum w target over item
k, an observation tells theta as much as one of z - B_k / D_k with the target less H_k / D_k and the weight w D_k /
(D_k + w): a rank-one update. Given theta, e_k ~ N((H_k - B_k' theta) / D_k, 1 / D_k). Features are
measured in units of their root mean square over the items; i and l are refitted each time observations double.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats
from ...core.compiling.jit import kernel, no_refcount
from .linear_posterior import LinearPosterior, absorb, chance_of, draw, expect, inverse_times, visitor_features

OWN, SHARED = range(2)  # indices in `prior`
BEFORE, BEFORE_PRECISION = -2.0, 0.25  # prior of the constant: a click rate of 12 %, within one deviation 2 to 47 %
_FLATTEST = 1e-3  # least curvature: a click thought impossible must not count as infinite evidence
FIRST_FIT, STEPS = 128, 20  # observations before the first fit, steps in each
_SURE = 0.999  # an observation with a larger share of the evidence on its direction is removed by `rebuild`
_DOUBT, _USUAL = 0.1, 1.0  # prior of the fit: so many effects with the usual precision
_WIDEST, _NARROWEST = 0.1, 1e4  # bounds of fitted precisions


class MixedModel(NamedTuple):
    """Memory O(K F + F^2)."""

    shared: LinearPosterior  # posterior of theta, the items' own effects integrated out
    cross: Floats  # [F + 1, K] B
    weight: Floats  # [K] D, less i
    pull: Floats  # [K] H
    precision: Floats  # [F + 1, F + 1] sum w z z'
    moment: Floats  # [F + 1] sum w target z
    prior: Floats  # [2] i and l
    counts: Floats  # [2] observations so far, and at the next fit

    @classmethod
    def create(cls, features: Floats) -> "MixedModel":
        """The prior, for items with these `features` [K, F]."""
        k, n = features.shape[0], features.shape[1] + 1
        shared = LinearPosterior.create(np.column_stack([features / scale_of(features), np.ones(k)]), 1.0)
        shared.inverse[-1, -1], shared.estimate[-1] = 1.0 / BEFORE_PRECISION, BEFORE
        moment = np.zeros(n)
        moment[-1] = BEFORE * BEFORE_PRECISION
        counts = np.array([0.0, FIRST_FIT])
        return cls(
            shared, np.zeros((n, k)), np.zeros(k), np.zeros(k), np.zeros((n, n)), moment, np.array([1.0, 1.0]), counts
        )


def scale_of(features: Floats) -> Floats:
    """Root mean square of each feature [K, F] over the items, so that units do not matter; 1 if all are 0."""
    size = np.sqrt(np.mean(features**2, axis=0)) if features.shape[0] else np.zeros(features.shape[1])
    return np.where(size > 0.0, size, 1.0)


@no_refcount
def observe(model, k, z, c, u, y):
    """Add one observation of item k; overwrites `c` and `u` [F + 1]. O(F^2).

    Returns its weight, its target, and the expected logit before it.
    """
    d = model.weight[k] + model.prior[OWN]
    own = model.pull[k] / d
    eta = own
    for f in range(z.size):
        c[f] = z[f] - model.cross[f, k] / d
        eta += c[f] * model.shared.estimate[f]
    p = chance_of(eta)
    w = max(p * (1.0 - p), _FLATTEST)
    target = eta + (y - p) / w
    absorb(model.shared, c, u, inverse_times(model.shared.inverse, c, u), target - own, w * d / (d + w))
    add_sums(model, k, z, w, target)
    return w, target, eta


@no_refcount
def add_sums(model, k, z, w, target):
    """Add an observation to the sums, not to the posterior of theta; remove it with -w. O(F^2)."""
    model.weight[k] += w
    model.pull[k] += w * target
    for f in range(z.size):
        model.cross[f, k] += w * z[f]
        model.moment[f] += w * target * z[f]
        for g in range(z.size):
            model.precision[f, g] += w * (z[f] * z[g])


@kernel
def unobserve(model, k, z, c, u, w, target):
    """Remove an observation of item k that had this weight and target; overwrites `c` and `u`. O(F^2)."""
    add_sums(model, k, z, -w, target)
    model.weight[k] = max(model.weight[k], 0.0)  # in case of rounding
    d = model.weight[k] + model.prior[OWN]
    for f in range(z.size):
        c[f] = z[f] - model.cross[f, k] / d
    norm, weight = inverse_times(model.shared.inverse, c, u), w * d / (d + w)
    if weight * norm < _SURE:
        absorb(model.shared, c, u, norm, target - model.pull[k] / d, -weight)
    else:
        rebuild(model)


@no_refcount
def invert(matrix, out):
    """Write the inverse of a positive definite matrix into `out`, by Gauss-Jordan; overwrites `matrix`."""
    n = matrix.shape[0]
    for i in range(n):
        for j in range(n):
            out[i, j] = 1.0 if i == j else 0.0
    for i in range(n):
        pivot = matrix[i, i]
        for j in range(n):
            matrix[i, j] /= pivot
            out[i, j] /= pivot
        for h in range(n):
            factor = matrix[h, i]
            if h != i and factor != 0.0:
                for j in range(n):
                    matrix[h, j] -= factor * matrix[i, j]
                    out[h, j] -= factor * out[i, j]


@kernel
def rebuild(model):
    """Recompute the posterior of theta from the sums and the current priors. O(K F^2)."""
    n = model.moment.size
    matrix, right = model.precision.copy(), model.moment.copy()
    for f in range(n):
        matrix[f, f] += model.prior[SHARED] if f < n - 1 else BEFORE_PRECISION
    for k in range(model.weight.size):
        if model.weight[k] > 0.0:
            d = model.weight[k] + model.prior[OWN]
            for f in range(n):
                b = model.cross[f, k] / d
                right[f] -= b * model.pull[k]
                for g in range(n):
                    matrix[f, g] -= b * model.cross[g, k]
    invert(matrix, model.shared.inverse)
    inverse_times(model.shared.inverse, right, model.shared.estimate)


@no_refcount
def refit(precision, squares, variance, n):
    """Precision of a prior, fitted to n effects whose squared means and variances sum to `squares` and `variance`.

    MacKay (1992): squares = gamma / precision, gamma = n - precision variance being the number of effects that the
    observations determine. It has the fixed points of EM, and approaches "no effect at all" much sooner. A small
    pseudo-count of the usual precision keeps the first few observations from concluding that.
    """
    gamma = max(n - precision * variance, 0.0)
    return min(max((gamma + _DOUBT) / (squares + _DOUBT / _USUAL), _WIDEST), _NARROWEST)


@kernel
def fit(model):
    """Fit both prior precisions to the observations."""
    n = model.moment.size
    b, u = np.empty(n), np.empty(n)
    for _ in range(STEPS):
        squares = variance = 0.0
        items = 0
        for k in range(model.weight.size):
            if model.weight[k] > 0.0:
                d = model.weight[k] + model.prior[OWN]
                mean = model.pull[k] / d
                for f in range(n):
                    b[f] = model.cross[f, k] / d
                    mean -= b[f] * model.shared.estimate[f]
                squares += mean * mean
                variance += 1.0 / d + inverse_times(model.shared.inverse, b, u)
                items += 1
        model.prior[OWN] = refit(model.prior[OWN], squares, variance, items)
        squares = variance = 0.0
        for f in range(n - 1):
            squares += model.shared.estimate[f] ** 2
            variance += model.shared.inverse[f, f]
        if n > 1:
            model.prior[SHARED] = refit(model.prior[SHARED], squares, variance, n - 1)
        rebuild(model)


@kernel
def learn(model, visit, ranking, clicks, examined):
    """Add a visit's evidence on the items examined."""
    n = model.moment.size
    seen, z, c, u = np.ones(n), np.empty(n), np.empty(n), np.empty(n)
    visitor_features(visit.features, seen[: n - 1])
    for p in range(examined):
        for f in range(n):
            z[f] = model.shared.features[f, ranking[p]] * seen[f]
        observe(model, ranking[p], z, c, u, 1.0 if clicks[p] else 0.0)
        model.counts[0] += 1.0
    if model.counts[0] >= model.counts[1]:
        model.counts[1] *= 2.0
        fit(model)


@kernel
def drawn_logits(model, visit, width, rng, index):
    """Write one draw of every item's logit for this visitor into `index` [K], deviations of e_k times `width`.

    O(K F + F^3).
    """
    n = model.moment.size
    seen, theta, bound = np.ones(n), draw(model.shared, rng), np.empty(index.size)
    visitor_features(visit.features, seen[: n - 1])
    expect(model.shared.features, theta, seen, index)
    seen[:] = 1.0
    expect(model.cross, theta, seen, bound)
    for k in range(index.size):
        d = model.weight[k] + model.prior[OWN]
        index[k] += (model.pull[k] - bound[k] + width * math.sqrt(d) * rng.standard_normal()) / d


@kernel
def expected_logits(model, visit, index):
    """Write the mean of every item's logit for this visitor into `index` [K]. O(K F)."""
    n = model.moment.size
    seen, bound = np.ones(n), np.empty(index.size)
    visitor_features(visit.features, seen[: n - 1])
    expect(model.shared.features, model.shared.estimate, seen, index)
    seen[:] = 1.0
    expect(model.cross, model.shared.estimate, seen, bound)
    for k in range(index.size):
        index[k] += (model.pull[k] - bound[k]) / (model.weight[k] + model.prior[OWN])
