"""Cascade users: scan from the top, click the first attractive item, stop."""

from typing import NamedTuple, Self

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import inlined
from ..core.kernels import cascade_stop, cascade_value
from .senders import Crowd, Senders, draw_client, group_of_client, liked_by, seen_as


@inlined
def like_or_not(users, visit, ranking, clicks, rng):
    """Write for each place whether its item attracts; a number is drawn for each place that a list may have."""
    for p in range(users.favourites.size):
        u = rng.random()
        if p < ranking.size:
            k = ranking[p]
            chance = users.attraction[k]
            if not users.senders.agree:
                chance = users.attraction[seen_as(users.senders, visit.client, k)]
                chance = liked_by(users.senders, visit.client, k, chance)
            clicks[p] = u < chance


class Cascade(NamedTuple):
    """Cascade users with fixed attractions (Craswell et al. 2008; Kveton et al. 2015, section 2).

    Settings: `clients`, how many there are, 0 for anonymous visits; `skew`, how unevenly they come; `taste`, how far
    each client's logits differ; `tastes`, 2 for a second honest taste, which a share `minority` of the clients has.
    The value of a list is that to the average visit.
    """

    attraction: Floats
    average: Floats  # over visits; the same where all clients agree
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
    ) -> Self:
        return cls(*Crowd.create(attraction, length, clients, skew, taste, tastes, minority))

    def liking(self, attraction: Floats) -> Self:
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        like_or_not(self, visit, ranking, clicks, rng)
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        return cascade_value(self.average, ranking)

    def best(self, visit, ranking):
        for p in range(ranking.size):  # numba compiles a loop in a tenth of the time of a slice
            ranking[p] = self.favourites[p]
