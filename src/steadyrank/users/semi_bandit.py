"""Semi-bandit users: look at the whole list and click all that attracts them."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Floats, Ints
from ..core.kernels import cascade_value
from .senders import Senders, draw_client, group_of_client, liked_by, seen_as


class SemiBandit(NamedTuple):
    """`Cascade` without its end: the same bits, all of them reported, several clicks possible (Chen et al. 2013).

    The value of a list stays the chance that something in it attracts: regrets compare with those of `Cascade`.
    Some public code gives learners for cascades this richer feedback. Settings: those of `Cascade`.
    """

    attraction: Floats
    average: Floats  # over visits
    favourites: Ints  # the best list, best first
    senders: Senders

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "SemiBandit":
        attraction = np.ascontiguousarray(attraction, np.float64)
        senders = Senders.create(attraction.size, clients, skew, taste, tastes, minority)
        average = senders.average(attraction)
        return cls(attraction, average, np.argsort(-average, kind="stable")[:length].astype(np.int64), senders)

    def liking(self, attraction: Floats) -> "SemiBandit":
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                k = ranking[p]
                chance = self.attraction[k]
                if not self.senders.agree:
                    chance = self.attraction[seen_as(self.senders, visit.client, k)]
                    chance = liked_by(self.senders, visit.client, k, chance)
                clicks[p] = u < chance
        return ranking.size

    def reach(self, clicks, size):
        return size

    def value(self, visit, ranking):
        return cascade_value(self.average, ranking)

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[p]
