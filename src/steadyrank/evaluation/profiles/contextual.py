"""A synthetic world of films and visitors with features, defined by a formula and not fitted to data."""

import statistics

import numpy as np

from ...core.arrays import Floats
from .mappings import sigmoid

_NORMAL = statistics.NormalDist()
N_FILMS, N_QUALITIES, N_TASTES = 500, 7, 8
CONSTANT = 1 + N_QUALITIES  # features that are 1 for every visitor
ORIGIN = "synthetic: normal quantiles along an additive sequence"
MAPPING = "sigmoid(-4.5 + 0.8 qualities + 0.6 own)"


def films() -> tuple[list[float], Floats]:
    """Attractions [K] for the visitor whose tastes are all 0, and features [K, 16].

    A film's features are 1; seven qualities, which all visitors value alike; and eight tastes, on which visitors
    differ. Qualities are standard normal, tastes half of that. The logit of the attraction is -4.5 + 0.8 times the
    sum of the qualities / sqrt(7) + 0.6 times a standard normal number that is not among the features.
    """
    rows, attractions = [], []
    for k in range(1, N_FILMS + 1):
        *normals, own = (_NORMAL.inv_cdf((0.5 + k / step) % 1.0) for step in _steps(N_QUALITIES + N_TASTES + 1))
        qualities, tastes = normals[:N_QUALITIES], normals[N_QUALITIES:]
        rows.append([1.0, *qualities, *(0.5 * taste for taste in tastes)])
        attractions.append(sigmoid(-4.5 + 0.8 * sum(qualities) / N_QUALITIES**0.5 + 0.6 * own))
    return attractions, np.array(rows)


def _steps(dimensions: int) -> list[float]:
    """Powers of the root of x^(n + 1) = x + 1: steps 1 / x, 1 / x^2, ... fill a cube evenly (Roberts 2018)."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimensions + 1.0))
    return [root ** (i + 1) for i in range(dimensions)]
