"""CascadeLinUCB: optimism in a linear model of clicks."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.linear_posterior import LinearPosterior, learn, upper


class CascadeLinUCB(NamedTuple):
    """Ranks by min(z' theta + c sqrt(z' M^-1 z), 1), z the products of item and visitor features.

    Zong et al. 2016, CascadeLinUCB, with M = I + sum z z' / sigma^2 and theta = M^-1 sum z y / sigma^2 over what was
    examined. `alpha` (He et al. 2022, CW-OFUL): the weight of an observation is multiplied by min(1, alpha / |z|),
    |z|^2 = z' M^-1 z; 0: by 1.
    """

    posterior: LinearPosterior
    c: float
    weight: float  # 1 / sigma^2
    alpha: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.0, sigma: float = 1.0, alpha: float = 0.0) -> "CascadeLinUCB":
        c, sigma = real("c", c, 0.0, 1e6), real("sigma", sigma, 1e-3, 1e3)
        alpha = real("alpha", alpha, 0.0, 1e6)
        features = given_features(cls.__name__, problem.features, problem.n_items)
        return cls(LinearPosterior.create(features, 1.0), c, sigma**-2, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        upper(self.posterior, visit, self.c, 1.0, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn(self.posterior, visit, ranking, clicks, examined, self.weight, 1.0, self.alpha)
