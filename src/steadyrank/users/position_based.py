"""Users who look at each place with a fixed chance, whatever its item."""

from collections.abc import Sequence
from typing import NamedTuple

from ..core.arrays import Floats, Ints
from ..core.places import attention_of, order_of_places, put_in_places
from .senders import Crowd, Senders, attracts, draw_client, group_of_client


class PositionBased(NamedTuple):
    """Look at place p with chance attention[p], and click the items there that attract (Richardson et al. 2007).

    The value of a list is the expected number of clicks, sum attention[p] attraction[k_p] (Lagree, Vernade, Cappe
    2016, section 2). Feedback covers all places: a bit says whether there was a click, not whether there was a look.

    Settings: `eta`, attention 1 / p^eta, 0.7 by default; or `attention`, the chance of each place. Client settings:
    those of `Cascade`.
    """

    attraction: Floats
    average: Floats  # mean over visits; equal to `attraction` if all clients agree
    attention: Floats  # [length]
    order: Ints  # [length, length] places by attention
    favourites: Ints  # the best items, best first
    senders: Senders

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        eta: float | None = None,
        attention: Sequence[float] | str | None = None,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "PositionBased":
        looks = attention_of(eta, attention, length)
        crowd = Crowd.create(attraction, length, clients, skew, taste, tastes, minority)
        return cls(crowd.attraction, crowd.average, looks, order_of_places(looks), crowd.favourites, crowd.senders)

    def liking(self, attraction: Floats) -> "PositionBased":
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.attention.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                clicks[p] = u < self.attention[p] * chance
        return ranking.size

    def reach(self, clicks, size):
        return size

    def value(self, visit, ranking):
        total = 0.0
        for p in range(ranking.size):
            total += self.attention[p] * self.average[ranking[p]]
        return total

    def expect(self, visit, ranking, chances):
        for p in range(ranking.size):
            chances[p] = self.attention[p] * self.average[ranking[p]]

    def best(self, visit, ranking):
        put_in_places(self.order, self.favourites, ranking)
