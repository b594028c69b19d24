"""VAC2-UCB: optimism in a linear model, observations weighted by their largest possible variance."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.linear_posterior import LinearPosterior, learn_by_range, upper

_LEAST = 0.01  # least variance: no observation has a weight above 100


class VAC2UCB(NamedTuple):
    """Ranks by min(z' theta + c sqrt(z' G^-1 z), 1), z the products of item and visitor features.

    Liu et al. 2023, Algorithm 2, with G = I + sum z z' / V and theta = G^-1 sum z y / V: V is the largest variance of
    a click whose chance lies within the bounds z' theta +- c sqrt(z' G^-1 z) that the list was made with. A
    reconstruction: c is a setting where the paper has the width of its theory, and V is at least 0.01. `alpha` as in
    `CascadeLinUCB`.
    """

    posterior: LinearPosterior
    c: float
    alpha: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.0, alpha: float = 0.0) -> "VAC2UCB":
        c, alpha = real("c", c, 0.0, 1e6), real("alpha", alpha, 0.0, 1e6)
        features = given_features(cls.__name__, problem.features, problem.n_items)
        return cls(LinearPosterior.create(features, 1.0), c, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        upper(self.posterior, visit, self.c, 1.0, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_by_range(self.posterior, visit, ranking, clicks, examined, self.c, _LEAST, self.alpha)
