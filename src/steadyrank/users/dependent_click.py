"""Users who may continue after a click."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.places import by_place, last_stop, order_of_places, put_in_places
from ..core.settings import real
from .each_client import EachClient, is_favourite
from .senders import Crowd, Senders, attracts, draw_client, group_of_client


@no_refcount
def mean_satisfaction(clients, onward, ranking):
    """Mean over all clients of the chance that a user leaves satisfied."""
    if is_favourite(clients, ranking):
        return clients.most
    mean = 0.0
    for c in range(clients.shares.size):
        miss = 1.0
        for p in range(ranking.size):
            miss *= 1.0 - (1.0 - onward[p]) * clients.chances[ranking[p], c]
        mean += clients.shares[c] * (1.0 - miss)
    return mean


class DependentClick(NamedTuple):
    """Scan from the top, click what attracts, and maybe continue after a click (Guo et al. 2009).

    The value of a list is the chance that a user leaves satisfied, after some click: 1 - prod(1 - v_p
    attraction[k_p]), v_p = 1 - onward_p (Katariya et al. 2016, section 3). Feedback ends at the last click, because
    nobody can tell whether the user continued. Without a click all places were looked at.

    Settings: `onward`, the chance to continue after a click, one for all places or one for each, 0.5 by default; the
    client settings of `Cascade`.
    """

    attraction: Floats
    average: Floats  # mean over visits; equal to `attraction` if all clients agree
    onward: Floats  # [length]
    order: Ints  # [length, length] places by how often a click there satisfies
    favourites: Ints  # the best items, best first
    senders: Senders
    clients: EachClient

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        onward: float | Sequence[float] | str = 0.5,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "DependentClick":
        if isinstance(onward, int | float):
            chances = np.full(length, real("onward", onward, 0.0, 1.0))
        else:
            chances = by_place("onward", onward, length)
        crowd = Crowd.create(attraction, length, clients, skew, taste, tastes, minority)
        stops, order = 1.0 - chances, order_of_places(1.0 - chances)
        each = EachClient.create(
            crowd, crowd.favourites[order[-1]], lambda liked: 1.0 - np.prod(1.0 - stops[:, None] * liked, axis=0)
        )
        favourites = np.empty_like(crowd.favourites)
        favourites[order[-1]] = each.favourites
        return cls(crowd.attraction, crowd.average, chances, order, favourites, crowd.senders, each)

    def liking(self, attraction: Floats) -> "DependentClick":
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        here = True
        for p in range(self.onward.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                clicks[p] = here and u < chance
                # given a click, u is uniform again below `chance`: it decides about continuing
                here = here and (u >= chance or u < self.onward[p] * chance)
        return last_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return last_stop(clicks, size)

    def value(self, visit, ranking):
        if self.clients.shares.size > 0:
            return mean_satisfaction(self.clients, self.onward, ranking)
        miss = 1.0
        for p in range(ranking.size):
            miss *= 1.0 - (1.0 - self.onward[p]) * self.average[ranking[p]]
        return 1.0 - miss

    def expect(self, visit, ranking, chances):
        here = 1.0
        for p in range(ranking.size):
            chances[p] = here * self.average[ranking[p]]
            here -= (1.0 - self.onward[p]) * chances[p]

    def best(self, visit, ranking):
        put_in_places(self.order, self.favourites, ranking)
