"""C3-UCB: optimism in a linear model, with the confidence width of its theory."""

import math
from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, known_horizon, real
from .shared.linear_posterior import LinearPosterior, learn, upper


class C3UCB(NamedTuple):
    """Ranks by min(z' theta + beta sqrt(z' V^-1 z), 1), z the products of item and visitor features.

    Li, Wang, Zhang, Chen 2016, Algorithm 1: V = lam I + sum g_p^2 z z', theta = V^-1 sum g_p^2 z y, and beta =
    sqrt(log(det V / (lam^F delta^2))) + sqrt(lam) with delta = 1 / sqrt(T). Place p has the discount g_p =
    `discount`^(p - 1); `lam` is by default sum_p g_p^2, the least that its theorem allows. `alpha` as in
    `CascadeLinUCB`.
    """

    posterior: LinearPosterior
    lam: float
    log_delta: float
    discount: float
    alpha: float

    live = False

    @classmethod
    def create(
        cls, problem: Problem, *, lam: float | None = None, discount: float = 1.0, alpha: float = 0.0
    ) -> "C3UCB":
        discount = real("discount", discount, 1e-3, 1.0)
        least = sum(discount ** (2 * p) for p in range(problem.length))
        lam = real("lam", least if lam is None else lam, 1e-6, 1e6)
        alpha = real("alpha", alpha, 0.0, 1e6)
        log_delta = -0.5 * math.log(known_horizon(cls.__name__, problem.horizon))
        features = given_features(cls.__name__, problem.features, problem.n_items)
        return cls(LinearPosterior.create(features, lam), lam, log_delta, discount, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        beta = math.sqrt(self.posterior.growth[0] - 2.0 * self.log_delta) + math.sqrt(self.lam)
        index = np.empty(allowed.size)
        upper(self.posterior, visit, beta, 1.0, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn(self.posterior, visit, ranking, clicks, examined, 1.0, self.discount, self.alpha)
