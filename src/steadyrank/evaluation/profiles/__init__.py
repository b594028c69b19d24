"""Profiles: named vectors of attractions."""

import pathlib
import random
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Floats
from ...core.settings import closest
from . import contextual, modelled
from .mappings import DEFAULT, MAPPINGS, attractions, formula, sigmoid
from .ratings import LISTENERS, Ratings

_SYNTHETIC = {"synthetic-low": (-3.0, 0.8), "synthetic-mid": (0.0, 0.5), "synthetic-spread": (-2.0, 1.2)}
_N_SYNTHETIC = 500
# numbers of items and their attractions, for the settings of docs/rivals.md
_DRAWN = re.compile(r"drawn-(\d{1,12})")
_LEVELS = {
    "synthetic-two-levels": ((5, 0.9), (495, 0.1)),
    "synthetic-five-items": ((1, 0.9), (1, 0.8), (3, 0.1)),
}
_FILMS = "contextual-films"
_OTHERS = sorted(set(MAPPINGS) - {DEFAULT})


@dataclass(frozen=True)
class Profile:
    """Attractions with their origin: float64[K] in [0, 1], rounded to 1e-12 so that all machines agree."""

    name: str
    attraction: Floats
    origin: str
    mapping: str
    features: Floats | None = None  # [K, F] of the items, if any
    visitors: Floats | None = None  # [V, C] of visitors, for the last C features

    @property
    def formula(self) -> str:
        """How attraction is computed; `r` is an item's Bayesian average rating."""
        return formula(self.mapping)

    @property
    def title(self) -> str:
        """Name, mapping and whether it is modelled, for figures and tables."""
        marks = [self.mapping] if self.formula == self.mapping else [f"{self.mapping}: {self.formula}"]
        marks += ["modelled"] if self.origin.startswith("modelled") else []
        return f"{self.name} ({', '.join(marks)})"


def profiles() -> list[str]:
    """The names that `profile` accepts."""
    return sorted([_FILMS, *_SYNTHETIC, *_LEVELS, *modelled.RATED, *modelled.SHARED])


def mappings(name: str) -> list[str]:
    """The mappings of the profile with this name, the default first."""
    if name.endswith(".json"):
        return [DEFAULT, *_OTHERS, *([LISTENERS] if Ratings.load(pathlib.Path(name)).raters else [])]
    if name in modelled.RATED:
        return [DEFAULT, *_OTHERS]
    return [profile(name).mapping]


def profile(name: str, mapping: str | None = None) -> Profile:
    """The profile with this name, or from a file that `steadyrank profile build` wrote (a path ending in .json).

    `mapping` is `moderate` (the default), `centred`, `saturated` or `sparse` if items have ratings, or `centred`
    shifted by a number (`centred-1`, `centred+0.5`); other profiles have a single mapping. Bundled items are in a
    fixed shuffled order. `drawn-N`, with any whole number N, is a random world: 200 to 600 items with normal logits,
    whose number, mean and standard deviation are drawn with seed N. Of the bundled profiles only `contextual-films`
    has features; files may have some. Raises KeyError for unknown names, ValueError for unknown mappings.
    """
    if name.endswith(".json"):
        return _from_file(pathlib.Path(name), mapping)
    if name in modelled.RATED:
        averages = modelled.rated_averages(modelled.RATED[name])
        chosen = mapping or DEFAULT
        return _bundled(name, attractions(averages, chosen), modelled.ORIGINS[name], chosen)
    if name in modelled.SHARED:
        values, origin, only = modelled.shares(modelled.SHARED[name]), modelled.ORIGINS[name], LISTENERS
    elif name in _SYNTHETIC:
        mean, sd = _SYNTHETIC[name]
        law = statistics.NormalDist(mean, sd)
        values = [sigmoid(law.inv_cdf((i + 0.5) / _N_SYNTHETIC)) for i in range(_N_SYNTHETIC)]
        origin, only = "synthetic: quantiles of a logit-normal law", f"sigmoid(N({mean:g}, {sd:g}))"
    elif drawn := _DRAWN.fullmatch(name):
        values, only = _drawn(int(drawn[1]))
        origin = "synthetic: quantiles of a logit-normal law that a number draws"
    elif name == _FILMS:
        values, features = contextual.films()
        origin, only = contextual.ORIGIN, contextual.MAPPING
    elif name in _LEVELS:
        levels = _LEVELS[name]
        values = [value for count, value in levels for _ in range(count)]
        origin, only = "synthetic: a few levels", ", ".join(f"{count} of {value:g}" for count, value in levels)
    else:
        raise KeyError(closest("profile", name, profiles()))
    if mapping not in (None, only):
        raise ValueError(f"profile {name!r} has the one mapping {only!r}, not {mapping!r}")
    if name == _FILMS:
        return Profile(name, np.round(values, 12), origin, only, np.round(features, 12))
    return _bundled(name, values, origin, only)


def _drawn(number: int) -> tuple[list[float], str]:
    """Attractions of a drawn world, and the name of their distribution."""
    rng = random.Random(f"drawn-{number}")
    n_items, mean, sd = 200 + int(401 * rng.random()), -4.0 + 3.0 * rng.random(), 0.6 + rng.random()
    law = statistics.NormalDist(mean, sd)
    values = [sigmoid(law.inv_cdf((i + 0.5) / n_items)) for i in range(n_items)]
    return values, f"sigmoid(N({mean:.2f}, {sd:.2f}))"


def _bundled(name: str, values: Sequence[float], origin: str, mapping: str) -> Profile:
    shuffle = random.Random(name)
    order = sorted(range(len(values)), key=lambda _: shuffle.random())
    return Profile(name, np.round(np.array(values)[order], 12), origin, mapping)


def _from_file(path: pathlib.Path, mapping: str | None) -> Profile:
    ratings = Ratings.load(path)
    chosen = mapping or DEFAULT
    values = np.round(np.array(ratings.attractions(chosen)), 12)
    if ratings.features is None:
        return Profile(ratings.name, values, ratings.origin, chosen)
    features, who = np.array(ratings.features, np.float64), np.array(ratings.visitors, np.float64)
    return Profile(ratings.name, values, ratings.origin, chosen, features, who)
