"""Cascade users whose taste changes: gradually, at once, or with the time of day."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import kernel
from ..core.kernels import cascade_stop, cascade_value, largest
from ..core.settings import choice, real, whole
from .senders import Senders, draw_client, group_of_client, liked_by, seen_as

Pattern: TypeAlias = Literal["slow", "jump", "daily"]
SLOW, JUMP, DAILY = range(3)  # as in Pattern


@kernel
def share(pattern, span, t):
    """How far taste has moved from its start to its target by round t, in [0, 1]."""
    if pattern == SLOW:
        return min(t / span, 1.0)
    if pattern == JUMP:
        return 1.0 if t > span else 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * t / span)


class DriftingCascade(NamedTuple):
    """Cascade users whose attractions move between `attraction` and a target (ours, to test for false alarms).

    `pattern="slow"`: linearly over the first `span` rounds, each item by up to `amount`. `"jump"`: after round `span`
    the items of the best list trade attractions with items drawn from the rest. `"daily"`: there and back every
    `span` rounds, each item by up to `amount`. Regret compares with the best list of the round. It uses each item's
    mean attraction over the clients, as if a new client met each item of a list: a search for the list that is best
    for all clients in every round would take too long. Client settings: those of `Cascade`.
    """

    attraction: Floats
    target: Floats
    average: Floats  # [K] mean attraction over visits
    average_target: Floats
    senders: Senders
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
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
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
        senders = Senders.create(attraction.size, clients, skew, taste, tastes, minority)
        averages = senders.average(attraction), senders.average(target)
        return cls(attraction, target, *averages, senders, int(length), code, float(span))

    def liking(self, attraction: Floats) -> "DriftingCascade":
        return self._replace(attraction=attraction, target=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        x = share(self.pattern, self.span, visit.t)
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                k = ranking[p] if self.senders.agree else seen_as(self.senders, visit.client, ranking[p])
                chance = (1.0 - x) * self.attraction[k] + x * self.target[k]
                if not self.senders.agree:
                    chance = liked_by(self.senders, visit.client, ranking[p], chance)
                clicks[p] = u < chance
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        x = share(self.pattern, self.span, visit.t)
        return cascade_value((1.0 - x) * self.average + x * self.average_target, ranking)

    def best(self, visit, ranking):
        x = share(self.pattern, self.span, visit.t)
        largest((1.0 - x) * self.average + x * self.average_target, ranking)
