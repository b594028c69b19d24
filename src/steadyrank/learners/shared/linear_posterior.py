"""A linear model of clicks in the features of item and visitor, kept as the inverse of its precision.

Item k and visitor v meet in z_f = x_kf v_f. With observations (z_i, y_i) of weights w_i, A = l I + sum w_i z_i z_i'
and theta = A^-1 sum w_i y_i z_i: ridge regression, and for weights 1 / sigma^2 the posterior N(theta, A^-1) of a
Gaussian model with the prior N(0, I / l).
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats
from ...core.compiling.jit import kernel, no_refcount

_LEAST = 1e-12  # least pivot: rounding must not make a square root negative


class LinearPosterior(NamedTuple):
    """Memory O(K F + F^2)."""

    features: Floats  # [F, K] of the items; feature-major, so that loops run along the items
    inverse: Floats  # [F, F] A^-1
    estimate: Floats  # [F] theta
    growth: Floats  # [1] log(det A / l^F)

    @classmethod
    def create(cls, features: Floats, ridge: float) -> "LinearPosterior":
        """The prior, for items with these `features` [K, F]; `ridge` is l."""
        f = features.shape[1]
        return cls(np.ascontiguousarray(features.T), np.eye(f) / ridge, np.zeros(f), np.zeros(1))


@no_refcount
def chance_of(logit):
    """The sigmoid."""
    return 1.0 / (1.0 + math.exp(-logit))


@no_refcount
def visitor_features(features, seen):
    """Write the visitor's features into `seen` [F]; all 1 if they are unknown: missing, or all 0."""
    given = False
    for f in range(min(seen.size, features.size)):
        given = given or features[f] != 0.0
    for f in range(seen.size):
        seen[f] = (features[f] if f < features.size else 0.0) if given else 1.0


@no_refcount
def products(posterior, k, seen, z):
    """Write the products of the features of item k and the visitor into `z`; returns z' theta."""
    expected = 0.0
    for f in range(z.size):
        z[f] = posterior.features[f, k] * seen[f]
        expected += z[f] * posterior.estimate[f]
    return expected


@no_refcount
def inverse_times(inverse, z, out):
    """Write A^-1 z into `out`; returns z' A^-1 z."""
    norm = 0.0
    for f in range(z.size):
        total = 0.0
        for g in range(z.size):
            total += inverse[f, g] * z[g]
        out[f] = total
        norm += z[f] * total
    return norm


@no_refcount
def rank_one_update(posterior, u, norm, weight):
    """Add `weight` z z' to A, given u = A^-1 z and norm = z'u (Sherman and Morrison 1950). O(F^2)."""
    scale = weight / (1.0 + weight * norm)
    for f in range(u.size):
        for g in range(u.size):
            posterior.inverse[f, g] -= scale * (u[f] * u[g])
    posterior.growth[0] += math.log1p(weight * norm)


@no_refcount
def absorb(posterior, z, u, norm, y, weight):
    """Add an observation, given u = A^-1 z and norm = z'u. O(F^2)."""
    scale = weight / (1.0 + weight * norm)
    error = y
    for f in range(z.size):
        error -= z[f] * posterior.estimate[f]
    for f in range(z.size):
        posterior.estimate[f] += scale * error * u[f]
    rank_one_update(posterior, u, norm, weight)


@no_refcount
def cw_weight(norm, alpha):
    """Weight of an observation: min(1, alpha / |z|), |z|^2 = `norm` = z' A^-1 z, or 1 if alpha is 0.

    The less is known about its direction, the less it can change (He et al. 2022, CW-OFUL; here A is that before the
    observation).
    """
    return alpha / math.sqrt(norm) if alpha > 0.0 and norm > alpha * alpha else 1.0


@kernel
def learn(posterior, visit, ranking, clicks, examined, weight, discount, alpha):
    """Add a visit's evidence on the items examined; place p, from 0: `weight` discount^(2 p) `cw_weight`."""
    n = posterior.estimate.size
    seen, z, u = np.empty(n), np.empty(n), np.empty(n)
    visitor_features(visit.features, seen)
    for p in range(examined):
        products(posterior, ranking[p], seen, z)
        norm = inverse_times(posterior.inverse, z, u)
        absorb(posterior, z, u, norm, 1.0 if clicks[p] else 0.0, weight * cw_weight(norm, alpha))
        weight *= discount * discount


@kernel
def learn_by_bound(plain, weighted, visit, ranking, clicks, examined, width, least, alpha):
    """Add a visit to `plain`, weighted by `cw_weight`, and to `weighted`, also by 1 / max(bound, least).

    The bound, min(z' theta + width sqrt(z' A^-1 z), 1) of `plain` before this observation, also bounds the variance:
    that of a bit is at most its mean.
    """
    n = plain.estimate.size
    seen, z, u = np.empty(n), np.empty(n), np.empty(n)
    visitor_features(visit.features, seen)
    for p in range(examined):
        bound = products(plain, ranking[p], seen, z)
        norm = inverse_times(plain.inverse, z, u)
        bound = min(bound + width * math.sqrt(max(norm, 0.0)), 1.0)
        y = 1.0 if clicks[p] else 0.0
        absorb(plain, z, u, norm, y, cw_weight(norm, alpha))
        norm = inverse_times(weighted.inverse, z, u)
        absorb(weighted, z, u, norm, y, cw_weight(norm, alpha) / max(bound, least))


@no_refcount
def widest(lower, upper):
    """The largest variance m (1 - m) of a bit whose mean m lies in [lower, upper]."""
    if upper < 0.5:
        return upper * (1.0 - upper)
    return lower * (1.0 - lower) if lower > 0.5 else 0.25


@kernel
def learn_by_range(posterior, visit, ranking, clicks, examined, width, least, alpha):
    """Add a visit, each observation weighted by 1 / max(V, least) and `cw_weight`.

    V is the largest variance that z' theta +- width sqrt(z' A^-1 z), clipped to [0, 1], allows; theta and A are those
    with which the list was made.
    """
    n = posterior.estimate.size
    seen, z, u, weights = np.empty(n), np.empty(n), np.empty(n), np.empty(examined)
    visitor_features(visit.features, seen)
    for p in range(examined):
        mean = products(posterior, ranking[p], seen, z)
        norm = inverse_times(posterior.inverse, z, u)
        reach = width * math.sqrt(max(norm, 0.0))
        variance = widest(min(max(mean - reach, 0.0), 1.0), min(max(mean + reach, 0.0), 1.0))
        weights[p] = cw_weight(norm, alpha) / max(variance, least)
    for p in range(examined):
        products(posterior, ranking[p], seen, z)
        absorb(posterior, z, u, inverse_times(posterior.inverse, z, u), 1.0 if clicks[p] else 0.0, weights[p])


@kernel
def learn_by_descent(posterior, visit, ranking, clicks, examined, rate, alpha):
    """One step of online mirror descent on the logistic loss for each item examined, weighted by `cw_weight`.

    With p = sigmoid(z' theta) and s = p (1 - p): theta moves by rate (y - p) A^-1 z / (1 + rate s z' A^-1 z), then
    s z z' is added to A, s at the new theta (Zhang and Sugiyama 2023).
    """
    n = posterior.estimate.size
    seen, z, u = np.empty(n), np.empty(n), np.empty(n)
    visitor_features(visit.features, seen)
    for p in range(examined):
        logit = products(posterior, ranking[p], seen, z)
        norm = inverse_times(posterior.inverse, z, u)
        weight = cw_weight(norm, alpha)
        chance = chance_of(logit)
        step = weight * rate / (1.0 + weight * rate * chance * (1.0 - chance) * norm)
        step *= (1.0 if clicks[p] else 0.0) - chance
        for f in range(n):
            posterior.estimate[f] += step * u[f]
        chance = chance_of(logit + step * norm)
        rank_one_update(posterior, u, norm, weight * chance * (1.0 - chance))


@kernel
def expect(features, direction, seen, index):
    """Write z' `direction` of each item into `index` [K]. O(K F)."""
    index[:] = 0.0
    for f in range(seen.size):
        c = direction[f] * seen[f]
        for k in range(index.size):
            index[k] += c * features[f, k]


@kernel
def upper(posterior, visit, width, cap, index):
    """Write min(z' theta + width sqrt(z' A^-1 z), cap) of each item into `index` [K]. O(K F^2)."""
    n = posterior.estimate.size
    seen, norm = np.empty(n), np.zeros(index.size)
    visitor_features(visit.features, seen)
    expect(posterior.features, posterior.estimate, seen, index)
    for f in range(n):
        for g in range(f + 1):
            c = posterior.inverse[f, g] * seen[f] * seen[g] * (1.0 if f == g else 2.0)
            for k in range(index.size):
                norm[k] += c * (posterior.features[f, k] * posterior.features[g, k])
    for k in range(index.size):
        index[k] = min(index[k] + width * math.sqrt(max(norm[k], 0.0)), cap)


@no_refcount
def add_noise(inverse, root, noise, direction):
    """Add L noise to `direction`, where L L' = `inverse` by Cholesky, written into `root` [F, F]."""
    n = direction.size
    for f in range(n):
        for g in range(f + 1):
            total = inverse[f, g]
            for h in range(g):
                total -= root[f, h] * root[g, h]
            root[f, g] = math.sqrt(max(total, _LEAST)) if f == g else total / root[g, g]
            direction[f] += root[f, g] * noise[g]


@kernel
def draw(posterior, rng):
    """One draw from N(theta, A^-1). O(F^3)."""
    n = posterior.estimate.size
    noise, direction = np.empty(n), posterior.estimate.copy()
    for f in range(n):
        noise[f] = rng.standard_normal()
    add_noise(posterior.inverse, np.empty((n, n)), noise, direction)
    return direction
