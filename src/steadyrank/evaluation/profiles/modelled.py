"""Profiles from small parametric models of the paper's data sets.

The tables themselves may not be redistributed (LICENSES.md). This module has a distribution with a handful of fitted
parameters per data set, and places items at its quantiles; `steadyrank profile build` makes the real items from the
original files.
"""

import math
import statistics
from typing import NamedTuple

from .mappings import bayesian_averages, sigmoid

_NORMAL = statistics.NormalDist()
_PLASTIC = 1.324717957244746  # its powers give the most even two-dimensional additive sequence (Roberts 2018)


class RatingLaw(NamedTuple):
    """Distribution of the numbers of ratings n and the mean ratings r of K items.

    With z and e standard normal and y = correlation z + sqrt(1 - correlation^2) e:
    n = least + exp(log_count + log_spread z) and
    r = lowest + (highest - lowest) sigmoid(centre + spread exp(-narrowing z) y).
    """

    n_items: int
    lowest: float
    highest: float
    centre: float
    spread: float
    narrowing: float
    least: float
    log_count: float
    log_spread: float
    correlation: float


class ShareLaw(NamedTuple):
    """Distribution of the shares of K items: floor + height sigmoid(centre + spread z), z standard normal."""

    n_items: int
    floor: float
    height: float
    centre: float
    spread: float


RATED = {
    "yelp-pizza": RatingLaw(529, 1.0, 5.0, 0.36, 1.0, 0.17, 4.0, 3.46, 1.42, 0.35),
    "movielens": RatingLaw(500, 0.5, 4.5, 0.93, 0.68, 0.0, 99.0, 6.11, 1.87, 0.18),
    # numbers of ratings from published figures of 32M (docs/data.md), mean ratings from 25M
    "movielens-32m": RatingLaw(500, 0.5, 4.5, 0.94, 0.68, 0.0, 99.0, 5.83, 2.08, 0.18),
    "lastfm": RatingLaw(500, 1.0, 5.0, 0.01, 0.41, 0.01, 9.0, 2.45, 1.48, 0.17),
}
SHARED = {"lastfm-listeners": ShareLaw(500, 0.005, 0.42, -4.27, 1.61)}

ORIGINS = {
    "yelp-pizza": "modelled on open pizza restaurants of one city in the Yelp Open Dataset",
    "movielens": "modelled on movies with at least 100 ratings in MovieLens 25M",
    "movielens-32m": "modelled on movies with at least 100 ratings in MovieLens 32M, by its published figures",
    "lastfm": "modelled on artists with at least 10 listeners in Last.fm HetRec 2011, plays rated 1 to 5",
    "lastfm-listeners": "modelled on the share of listeners of artists in Last.fm HetRec 2011",
}


def rated_averages(law: RatingLaw) -> list[float]:
    """Bayesian averages of items at evenly spaced points of the distribution, float[n_items]."""
    ratings, counts = [], []
    for i in range(1, law.n_items + 1):
        z = _NORMAL.inv_cdf((i - 0.5) / law.n_items)
        e = _NORMAL.inv_cdf((0.5 + i / _PLASTIC) % 1.0)
        y = law.correlation * z + math.sqrt(1.0 - law.correlation**2) * e
        place = sigmoid(law.centre + law.spread * math.exp(-law.narrowing * z) * y)
        ratings.append(law.lowest + (law.highest - law.lowest) * place)
        counts.append(law.least + math.exp(law.log_count + law.log_spread * z))
    return bayesian_averages(ratings, counts)


def shares(law: ShareLaw) -> list[float]:
    """Shares at evenly spaced quantiles of the distribution, float[n_items]."""
    points = ((i + 0.5) / law.n_items for i in range(law.n_items))
    return [law.floor + law.height * sigmoid(law.centre + law.spread * _NORMAL.inv_cdf(u)) for u in points]
