"""Cascade users of several segments, each with its own taste."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import kernel, no_refcount
from ..core.kernels import cascade_stop, largest
from ..core.settings import real, whole
from .senders import Senders, draw_client, group_of_client, liked_by, seen_as

_KEY = 0x5E63E27  # segments are the same in every run; the seed changes only the draws of visits


class SegmentedCascade(NamedTuple):
    """Cascade users in segments, each with its own taste; a visit's first feature is its segment (ours).

    Each segment has the same attractions as the whole, on other items: an item's ranks in the segments come from
    normal numbers whose correlation between segments is `alike`. At 1 all segments want the same, at 0 their tastes
    are independent. Settings: `segments`, how many there are, numbered from 1; `alike`; `uneven`: segment s comes
    with a chance proportional to s^-uneven. Value and best list are those for this visit. Client settings: those of
    `Cascade`.
    """

    attraction: Floats  # [S, K]
    upto: Floats  # [S] cumulative chance of segments up to this one
    senders: Senders
    length: int

    visit_features = 1  # features of each visit

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        segments: int = 4,
        alike: float = 0.5,
        uneven: float = 0.0,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "SegmentedCascade":
        base = np.ascontiguousarray(attraction, np.float64)
        n, alike = whole("segments", segments, 1, 1000), real("alike", alike, 0.0, 1.0)
        rng = np.random.default_rng(_KEY)
        common = np.empty(base.size)
        common[np.argsort(base, kind="stable")] = np.sort(rng.normal(size=base.size))
        own = np.empty((n, base.size))
        for s in range(n):
            score = np.sqrt(alike) * common + np.sqrt(1.0 - alike) * rng.normal(size=base.size)
            own[s, np.argsort(score)] = np.sort(base)
        chance = np.arange(1.0, n + 1.0) ** -real("uneven", uneven, 0.0, 4.0)
        senders = Senders.create(base.size, clients, skew, taste, tastes, minority)
        return cls(own, np.cumsum(chance / chance.sum()), senders, int(length))

    def liking(self, attraction: Floats) -> "SegmentedCascade":
        return self._replace(attraction=np.tile(attraction, (self.upto.size, 1)))

    def arrive(self, t, features, rng):
        client = draw_client(self.senders, rng)
        u = rng.random()
        s = 0
        while s < self.upto.size - 1 and u >= self.upto[s]:
            s += 1
        for f in range(features.size):
            features[f] = s + 1.0 if f == 0 else 0.0
        return client

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < chance_in_segment(self, visit, ranking[p])
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        miss = 1.0
        for p in range(ranking.size):
            miss *= 1.0 - chance_in_segment(self, visit, ranking[p])
        return 1.0 - miss

    def best(self, visit, ranking):
        find_best_in_segment(self, visit, ranking)


@no_refcount
def chance_in_segment(users, visit, k):
    """The chance that item k attracts this visitor; without a segment, that of the first segment."""
    s = 0
    if visit.features.size > 0 and 1.0 <= visit.features[0] <= users.upto.size:
        s = int(visit.features[0]) - 1
    base = users.attraction[s, seen_as(users.senders, visit.client, k)]
    return liked_by(users.senders, visit.client, k, base)


@kernel
def find_best_in_segment(users, visit, ranking):
    """Write the most attractive items for this visitor, best first. O(K)."""
    chances = np.empty(users.attraction.shape[1])
    for k in range(chances.size):
        chances[k] = chance_in_segment(users, visit, k)
    largest(chances, ranking)
