"""CascadeWOFUL: optimism in a linear model, observations weighted by a bound on their variance."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.linear_posterior import LinearPosterior, learn_by_bound, upper


class CascadeWOFUL(NamedTuple):
    """Ranks by the smaller of two upper bounds, the second from observations weighted by 1 / max(U, 1 / d).

    Vial et al. 2022, linear case: U is the first bound, that of plain regression, and bounds the variance of a click:
    where clicks are rare, each has more weight. A reconstruction after public code: both bounds are
    z' theta + c sqrt(z' A^-1 z) with the same c, where the paper has constants of its theory. `alpha` as in
    `CascadeLinUCB`, in both.
    """

    plain: LinearPosterior
    weighted: LinearPosterior
    c: float
    least: float  # 1 / d
    alpha: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.0, alpha: float = 0.0) -> "CascadeWOFUL":
        c, alpha = real("c", c, 0.0, 1e6), real("alpha", alpha, 0.0, 1e6)
        features = given_features(cls.__name__, problem.features, problem.n_items)
        plain, weighted = LinearPosterior.create(features, 1.0), LinearPosterior.create(features, 1.0)
        return cls(plain, weighted, c, 1.0 / problem.length, alpha)

    def rank(self, visit, allowed, ranking, note, rng):
        index, other = np.empty(allowed.size), np.empty(allowed.size)
        upper(self.plain, visit, self.c, 1.0, index)
        upper(self.weighted, visit, self.c, 1.0, other)
        for k in range(index.size):
            index[k] = min(index[k], other[k])
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_by_bound(self.plain, self.weighted, visit, ranking, clicks, examined, self.c, self.least, self.alpha)
