"""CascadeLinTS: Thompson sampling in a linear model of clicks."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.linear_posterior import LinearPosterior, draw, expect, learn, visitor_features


class CascadeLinTS(NamedTuple):
    """Ranks by z' theta, theta one draw from N(M^-1 B / sigma^2, M^-1) a round, z the products of features.

    Zong et al. 2016, CascadeLinTS, with M = I + sum z z' / sigma^2 and B = sum z y over what was examined. `alpha`
    as in `CascadeLinUCB`.
    """

    posterior: LinearPosterior
    weight: float  # 1 / sigma^2
    alpha: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, sigma: float = 1.0, alpha: float = 0.0) -> "CascadeLinTS":
        sigma, alpha = real("sigma", sigma, 1e-3, 1e3), real("alpha", alpha, 0.0, 1e6)
        features = given_features(cls.__name__, problem.features, problem.n_items)
        return cls(LinearPosterior.create(features, 1.0), sigma**-2, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        index, seen = np.empty(allowed.size), np.empty(self.posterior.estimate.size)
        visitor_features(visit.features, seen)
        expect(self.posterior.features, draw(self.posterior, rng), seen, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn(self.posterior, visit, ranking, clicks, examined, self.weight, 1.0, self.alpha)
