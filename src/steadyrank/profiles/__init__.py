"""Named vectors of attractions."""

import math
import random
import statistics
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats
from ..settings import closest

_SYNTHETIC = {"synthetic-low": (-3.0, 0.8), "synthetic-mid": (0.0, 0.5), "synthetic-spread": (-2.0, 1.2)}
_N_ITEMS = 500


@dataclass(frozen=True)
class Profile:
    """Attractions with their origin: float64[K] in [0, 1], rounded to 1e-12 so that every machine agrees."""

    name: str
    attraction: Floats
    origin: str
    mapping: str


def profiles() -> list[str]:
    """The names that `profile` knows."""
    return sorted(_SYNTHETIC)


def profile(name: str, mapping: str | None = None) -> Profile:
    """The profile of that name.

    The synthetic ones have 500 items at the quantiles of sigmoid(N(mean, sd)), in a fixed shuffled order; they
    have one mapping only.
    """
    if name not in _SYNTHETIC:
        raise KeyError(closest("profile", name, _SYNTHETIC))
    mean, sd = _SYNTHETIC[name]
    formula = f"sigmoid(N({mean:g}, {sd:g}))"
    if mapping not in (None, formula):
        raise ValueError(f"profile {name!r} has the one mapping {formula!r}, not {mapping!r}")
    law = statistics.NormalDist(mean, sd)
    values = [1.0 / (1.0 + math.exp(-law.inv_cdf((i + 0.5) / _N_ITEMS))) for i in range(_N_ITEMS)]
    shuffle = random.Random(name)
    order = sorted(range(_N_ITEMS), key=lambda _: shuffle.random())
    return Profile(name, np.round(np.array(values)[order], 12), "synthetic: quantiles of a logit-normal law", formula)
