"""Cascade users whose taste moves: slowly, at once, or with the time of day."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from .._jit import kernel
from ..contract import ANYONE, Floats
from ..kernels import cascade_stop, cascade_value, largest
from ..settings import choice, real, whole

Pattern: TypeAlias = Literal["slow", "jump", "daily"]
SLOW, JUMP, DAILY = range(3)  # as in Pattern


@kernel
def share(pattern, span, t):
    """How far taste has moved from its start to its target in round t, in [0, 1]."""
    if pattern == SLOW:
        return min(t / span, 1.0)
    if pattern == JUMP:
        return 1.0 if t > span else 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * t / span)


class DriftingCascade(NamedTuple):
    """Cascade users whose attractions move between `attraction` and a target (ours, to test for false alarms).

    `slow`: linearly over the first `span` rounds, each item by up to `amount`. `jump`: after round `span` the
    best list's items trade attractions with items drawn from the rest. `daily`: there and back every `span`
    rounds, each item by up to `amount`. Regret compares with the best list of the round.
    """

    attraction: Floats
    target: Floats
    length: int
    pattern: int
    span: float

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        pattern: Pattern = "slow",
        amount: float = 0.1,
        span: int = 20_000,
        seed: int = 0,
    ) -> "DriftingCascade":
        code = choice("pattern", pattern, get_args(Pattern))
        amount = real("amount", amount, 0.0, 1.0)
        span = whole("span", span, 1)
        attraction = np.ascontiguousarray(attraction, np.float64)
        rng = np.random.default_rng([whole("seed", seed, 0), 0xD41F7])
        if code == JUMP:
            order = np.argsort(-attraction, kind="stable")
            traded = min(length, attraction.size - length)
            others = rng.choice(order[length:], traded, replace=False)
            target = attraction.copy()
            target[order[:traded]], target[others] = attraction[others], attraction[order[:traded]]
        else:
            target = np.clip(attraction + amount * rng.uniform(-1.0, 1.0, attraction.size), 0.0, 1.0)
        return cls(attraction, target, int(length), code, float(span))

    def arrive(self, t, features, rng):
        return ANYONE

    def click(self, visit, ranking, clicks, rng):
        x = share(self.pattern, self.span, visit.t)
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                k = ranking[p]
                clicks[p] = u < (1.0 - x) * self.attraction[k] + x * self.target[k]
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        x = share(self.pattern, self.span, visit.t)
        return cascade_value((1.0 - x) * self.attraction + x * self.target, ranking)

    def best(self, visit, ranking):
        x = share(self.pattern, self.span, visit.t)
        largest((1.0 - x) * self.attraction + x * self.target, ranking)
