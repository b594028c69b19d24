"""Regimes with models of features, for people to read."""

from dataclasses import replace

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

    view = view_with(regimes, rule, read, ())
    effects, explained = worth_of(models, int(np.flatnonzero(regimes.number == view.trusted)[0]))
    return replace(view, effects=effects, explained=explained)


def worth_of(models: Models, place: int) -> tuple[tuple[float, ...], float]:
    """By how much each feature moves logits, and the share of their variance that all of them explain. O(F^2).

    Over what was looked at in the regime at this place, each look with its curvature as weight; the rest of the
    variance is that of the items' own effects.
    """
    theta, total = models.estimate[place], models.precision[place]
    if total[-1, -1] == 0.0:
        return (0.0,) * (theta.size - 1), 0.0
    mean = total[-1] / total[-1, -1]
    spread = total / total[-1, -1] - np.outer(mean, mean)
    effects = theta[:-1] * np.sqrt(np.maximum(np.diag(spread)[:-1], 0.0))
    variance = max(float(theta @ spread @ theta), 0.0)
    return tuple(map(float, effects)), variance / (variance + 1.0 / float(models.prior[place, OWN]))
