"""UCB-CLB: optimism in a logistic model of clicks, learnt by online mirror descent."""

import math
from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.linear_posterior import LinearPosterior, learn_by_descent, upper

_RATE = 0.5 * math.log(2.0) + 2.0  # Zhang and Sugiyama 2023: log(2) / 2 + B + 1, for weights with norm at most B = 1


class UCBCLB(NamedTuple):
    """Ranks by z' theta + c sqrt(z' H^-1 z), a bound of the logit; z the products of item and visitor features.

    A reconstruction of Lee et al. 2025 from its abstract and reviews: theta by online mirror descent on the
    logistic loss, H = I + sum s z z' with the slope s of the sigmoid. `c` is a setting where the
    paper has the width of its theory, the step is that of Zhang and Sugiyama 2023 without its projection, and the
    paper's exchange of places within a list (DO-SWAP) is left out. `alpha` as in `CascadeLinUCB`.
    """

    posterior: LinearPosterior
    c: float
    alpha: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.0, alpha: float = 0.0) -> "UCBCLB":
        c, alpha = real("c", c, 0.0, 1e6), real("alpha", alpha, 0.0, 1e6)
        features = given_features(cls.__name__, problem.features, problem.n_items)
        return cls(LinearPosterior.create(features, 1.0), c, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        upper(self.posterior, visit, self.c, math.inf, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_by_descent(self.posterior, visit, ranking, clicks, examined, _RATE, self.alpha)
