"""Cascade users: scan from the top, click the first attractive item, stop."""

from typing import NamedTuple, Self

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.kernels import cascade_stop, cascade_value
from .each_client import EachClient, mean_cascade_value
from .senders import Crowd, Senders, attracts, draw_client, group_of_client


class Cascade(NamedTuple):
    """Cascade users with fixed attractions (Craswell et al. 2008; Kveton et al. 2015, section 2).

    Settings: `clients`, how many there are, 0 for anonymous visits; `skew`, how unevenly often they come; `taste`,
    the standard deviation of each client's logits from the common ones; `tastes`, 2 for a second honest taste, held
    by a share `minority` of the clients. The value of a list is its mean over clients, weighted by how often each
    comes.
    """

    attraction: Floats
    average: Floats  # mean over visits; equal to `attraction` if all clients agree
    favourites: Ints  # the best list
    senders: Senders
    clients: EachClient

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
    ) -> Self:
        crowd = Crowd.create(attraction, length, clients, skew, taste, tastes, minority)
        each = EachClient.create(crowd, crowd.favourites, lambda chances: 1.0 - np.prod(1.0 - chances, axis=0))
        return cls(crowd.attraction, crowd.average, each.favourites, crowd.senders, each)

    def liking(self, attraction: Floats) -> Self:
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                clicks[p] = u < chance
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        if self.clients.shares.size > 0:
            return mean_cascade_value(self.clients, ranking)
        return cascade_value(self.average, ranking)

    def expect(self, visit, ranking, chances):
        here = 1.0
        for p in range(ranking.size):
            chances[p] = here * self.average[ranking[p]]
            here -= chances[p]

    def best(self, visit, ranking):
        for p in range(ranking.size):  # numba compiles a loop in a tenth of the time of a slice
            ranking[p] = self.favourites[p]
