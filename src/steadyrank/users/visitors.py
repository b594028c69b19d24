"""Features of visitors, and their effect on attractions."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import kernel, no_refcount
from ..core.kernels import largest
from ..core.philox import philox
from ..core.settings import real, whole
from .senders import liked_by, seen_as

LOGIT, LINEAR = range(2)  # whether features shift the logit of a chance, or the chance
_LOW = 0xFFFFFFFF
_KEY = 0xFEA7E5  # clients are the same in every run; the seed changes only the draws of visits


class Visitors(NamedTuple):
    """Features of the items, and the weight of each in a visitor's taste.

    A visitor has as many features as an item. The first `constant` are 1 for everybody; the others are a row of
    `pool`, or uniform in [-1, 1] if that is empty, drawn for each anonymous visit and fixed for a client. They shift
    attraction by sum_f w_f x_kf v_f, x of the item and v of the visitor. w is 0 for the constant ones, whose effect
    is part of the common attraction.
    """

    features: Floats  # [K, F]
    weights: Floats  # [F]
    constant: int
    link: int  # LOGIT or LINEAR
    pool: Floats  # [V, F - constant], V may be 0

    @classmethod
    def create(
        cls, n_items: int, features: Any, weight: float, constant: int, link: int, pool: Any = None
    ) -> "Visitors":
        """Check the settings; without `features` all visitors are alike. A `pool` implies `constant`."""
        table = np.zeros((n_items, 0)) if features is None else np.ascontiguousarray(features, np.float64)
        if table.ndim != 2 or table.shape[0] != n_items:
            raise ValueError(f"features must have one row for each of {n_items} items; their shape is {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError(f"features must be finite; those of item {np.argmin(np.isfinite(table).all(1))} are not")
        weights = np.full(table.shape[1], real("weight", weight, 0.0, 100.0))
        constant = whole("constant", constant, 0, table.shape[1])
        who = (
            np.zeros((0, table.shape[1] - constant))
            if pool is None
            else _checked_pool(pool, table.shape[1], constant)
        )
        constant = table.shape[1] - who.shape[1]
        weights[:constant] = 0.0
        return cls(table, weights, constant, link, who)

    def alike(self) -> "Visitors":
        """The same visitors with features that have no effect."""
        return self._replace(weights=np.zeros(self.weights.size))


def _checked_pool(pool: Any, n_features: int, constant: int) -> Floats:
    who = np.ascontiguousarray(pool, np.float64)
    if who.ndim != 2 or who.shape[0] < 1 or who.shape[1] > n_features or not np.isfinite(who).all():
        raise ValueError(
            f"visitors must be rows of at most {n_features} finite numbers, as many as items have features; "
            f"their shape is {who.shape}"
        )
    if constant not in (0, n_features - who.shape[1]):
        raise ValueError(
            f"visitors of {who.shape[1]} numbers leave {n_features - who.shape[1]} of {n_features} features that are "
            f"1 for everybody; constant says {constant}: leave it out"
        )
    return who


@no_refcount
def draw_features(visitors, client, features, rng):
    """Write the features of this visit, as many as there is room for."""
    n_pool = visitors.pool.shape[0]
    if n_pool > 0:
        if client < 0:
            row = int(rng.random() * n_pool)
        else:
            low, _ = philox(0, client & _LOW, _KEY)
            row = low % n_pool
        for f in range(min(visitors.weights.size, features.size)):
            features[f] = 1.0 if f < visitors.constant else visitors.pool[row, f - visitors.constant]
        return
    for f in range(min(visitors.weights.size, features.size)):
        if f < visitors.constant:
            features[f] = 1.0
        elif client < 0:
            features[f] = 2.0 * rng.random() - 1.0
        else:
            low, _ = philox(f, client & _LOW, _KEY)
            features[f] = 2.0 * (low / 4294967296.0) - 1.0


@no_refcount
def moved(visitors, k, features):
    """The shift of item k's attraction for this visitor, relative to one whose features are all 0."""
    total = 0.0
    for f in range(min(visitors.weights.size, features.size)):
        total += visitors.weights[f] * visitors.features[k, f] * features[f]
    return total


@no_refcount
def chance_of(users, visit, k):
    """The chance that item k attracts this visitor: features first, then the client's own taste."""
    base = users.attraction[seen_as(users.senders, visit.client, k)]
    shift = moved(users.visitors, k, visit.features)
    if users.visitors.link == LINEAR:
        base = min(max(base + shift, 0.0), 1.0)
    elif 0.0 < base < 1.0:
        odds = base / (1.0 - base) * math.exp(shift)
        base = odds / (1.0 + odds)
    return liked_by(users.senders, visit.client, k, base)


@kernel
def find_best(users, visit, ranking):
    """Write the most attractive items for this visitor, best first. O(K F)."""
    chances = np.empty(users.attraction.size)
    for k in range(chances.size):
        chances[k] = chance_of(users, visit, k)
    largest(chances, ranking)
