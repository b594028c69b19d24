"""Cascade users who may give up and leave before each further place."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.kernels import cascade_stop
from ..core.places import by_place
from ..core.settings import real
from .each_client import EachClient, is_favourite
from .senders import Crowd, Senders, attracts, draw_client, group_of_client


def worth_to_each(stay: Floats, chances: Floats) -> Floats:
    """Value of a list to each client, [clients]; `chances`, [length, clients]: how likely its items attract them."""
    here, total = np.ones(chances.shape[1]), np.zeros(chances.shape[1])
    for p in range(stay.size):
        here = here * stay[p]
        total = total + here * chances[p]
        here = here * (1.0 - chances[p])
    return total


@no_refcount
def mean_chance(clients, stay, ranking):
    """Mean over all clients of the chance of a click on the list."""
    if is_favourite(clients, ranking):
        return clients.most
    mean = 0.0
    for c in range(clients.shares.size):
        here, total = 1.0, 0.0
        for p in range(ranking.size):
            here *= stay[p]
            total += here * clients.chances[ranking[p], c]
            here *= 1.0 - clients.chances[ranking[p], c]
        mean += clients.shares[c] * total
    return mean


class Abandoning(NamedTuple):
    """Scan from the top and click the first attractive item, but leave before each further place with some chance.

    The cascade of Chapelle and Zhang 2009 (DBN) where every click satisfies; `leave` is 1 - gamma. The value of a
    list is the chance of a click. Feedback ends at the click. Without a click it covers the whole list, because
    nobody can tell where the user left. If all clients agree, the best list has the most attractive items first: of
    two neighbours a > b, trading places loses (a - b) leave.

    Settings: `leave`, one chance for all places but the first, or one for each of them, 0.15 by default; the client
    settings of `Cascade`.
    """

    attraction: Floats
    average: Floats  # mean over visits; equal to `attraction` if all clients agree
    stay: Floats  # [length] chance to look at a place after the one before it
    favourites: Ints  # the best list
    senders: Senders
    clients: EachClient

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        leave: float | Sequence[float] | str = 0.15,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "Abandoning":
        if isinstance(leave, int | float):
            stay = np.full(length, 1.0 - real("leave", leave, 0.0, 1.0))
            stay[0] = 1.0
        else:
            stay = 1.0 - by_place("leave", leave, length)
        crowd = Crowd.create(attraction, length, clients, skew, taste, tastes, minority)
        each = EachClient.create(crowd, crowd.favourites, lambda chances: worth_to_each(stay, chances))
        return cls(crowd.attraction, crowd.average, stay, each.favourites, crowd.senders, each)

    def liking(self, attraction: Floats) -> "Abandoning":
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        here = True
        for p in range(self.stay.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                here = here and u < self.stay[p]
                # given that the user stays, u is uniform again below `stay`: it decides about the click
                clicks[p] = here and u < self.stay[p] * chance
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        if self.clients.shares.size > 0:
            return mean_chance(self.clients, self.stay, ranking)
        here, total = 1.0, 0.0
        for p in range(ranking.size):
            here *= self.stay[p]
            total += here * self.average[ranking[p]]
            here *= 1.0 - self.average[ranking[p]]
        return total

    def expect(self, visit, ranking, chances):
        here = 1.0
        for p in range(ranking.size):
            here *= self.stay[p]
            chances[p] = here * self.average[ranking[p]]
            here -= chances[p]

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[p]
