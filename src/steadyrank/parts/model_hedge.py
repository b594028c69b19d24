"""A list for several views of the items at once, where models with features give them."""

import numpy as np

from .._jit import kernel
from ..kernels import top_allowed
from .hedge import add_best, add_new
from .linear_posterior import chance_of
from .mixed_model import drawn_logits, expected_logits


@kernel
def hedged_by_models(model, rival, weights, visit, width, allowed, ranking, rng):
    """As `hedge.hedged_list`, the views being a draw of `model`, its inverse, and with a third weight `rival`'s mean.

    O(K F + F^3 + V^3 d^2).
    """
    size, views = ranking.size, weights.size
    drawn, mean, other = np.empty(allowed.size), np.empty(allowed.size), np.empty(allowed.size)
    drawn_logits(model, visit, width, rng, drawn)
    if weights[0] == 1.0:
        top_allowed(drawn, allowed, ranking, rng)
        return
    expected_logits(model, visit, mean)
    best, found = np.empty(size, np.int64), np.empty(views * size, np.int64)
    values, means = np.zeros((views, views * size)), np.empty(views * size)
    top_allowed(drawn, allowed, found[:size], rng)
    top_allowed(-mean, allowed, best, rng)
    n = add_new(found, size, best)
    if views > 2:
        expected_logits(rival, visit, other)
        top_allowed(other, allowed, best, rng)
        n = add_new(found, n, best)
    for i in range(n):
        k = found[i]
        means[i] = chance_of(mean[k])
        values[0, i] = chance_of(drawn[k]) if i < size or views > 2 else 0.0
        values[1, i] = 1.0 - means[i]
        if views > 2:
            values[2, i] = chance_of(other[k])
    add_best(values, means, np.arange(n), weights.copy(), ranking)
    for p in range(size):
        ranking[p] = found[ranking[p]]
