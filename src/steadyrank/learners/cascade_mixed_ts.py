"""CascadeMixedTS: Thompson sampling with weights shared by all items and an effect of each item's own."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import given_features, real
from .shared.mixed_model import MixedModel, drawn_logits, learn


class CascadeMixedTS(NamedTuple):
    """Ranks by one draw of each item's logit, z' theta + e_k, from a Bayesian logistic model (ours: docs/context.md).

    The weights of features are learnt from all items together, so new items benefit at once; the rest is learnt for
    each item. How much items differ beyond their features, and how much features matter, is fitted. `width`:
    multiplies the posterior deviation of the e_k in draws, 1 for plain Thompson sampling. It trusts every click: no
    regimes, no insurance.
    """

    model: MixedModel
    width: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, width: float = 0.7) -> "CascadeMixedTS":
        width = real("width", width, 0.0, 10.0)
        return cls(MixedModel.create(given_features(cls.__name__, problem.features, problem.n_items)), width)

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        drawn_logits(self.model, visit, self.width, rng, index)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn(self.model, visit, ranking, clicks, examined)
