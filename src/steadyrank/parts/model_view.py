"""Regimes with models of features, for people to read."""

import numpy as np

from ..views import Regime, View
from .evidence import Rule
from .mixed_model import OWN
from .models import Models
from .regime_view import view_with
from .regimes import Regimes


def view_of_models(regimes: Regimes, rule: Rule, models: Models) -> View:
    """Regimes and what they say of the feedback, with item estimates for the mean of all visitors: a copy. O(K F)."""
    typical = models.visitors / max(models.visitors[-1], 1.0)

    def read(place: int) -> Regime:
        theta, d = models.estimate[place], models.weight[place] + models.prior[place, OWN]
        logits = (theta * typical) @ models.features + (models.pull[place] - theta @ models.cross[place]) / d
        estimate = 1.0 / (1.0 + np.exp(-logits))
        looks = regimes.looks[place] + regimes.apart_looks[place]
        sizes = int(regimes.number[place]), int(regimes.start[place]), int(regimes.rounds[place])
        return Regime(*sizes, estimate, looks, d / (estimate * (1.0 - estimate)))

    return view_with(regimes, rule, read, ())
