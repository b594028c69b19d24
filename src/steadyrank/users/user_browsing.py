"""Users whose attention falls with the place and with the distance from their last click."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.intrinsics import stack_floats
from ..core.compiling.jit import no_refcount
from ..core.settings import real
from .each_client import EachClient, is_favourite
from .senders import Crowd, Senders, attracts, draw_client, group_of_client


@no_refcount
def expected_clicks(attention, average, ranking, chances):
    """Expected clicks on a list; writes the chance of a click at each place into `chances`, [length]. O(length^2).

    Sums over the position of the last click before each place.
    """
    size = ranking.size
    last = stack_floats(size + 1)  # chance that the last click was at place r; [0]: no click yet
    last[0], total = 1.0, 0.0
    for p in range(size):
        clicked = 0.0
        for r in range(p + 1):
            chance = last[r] * attention[p, p - r] * average[ranking[p]]
            last[r] -= chance
            clicked += chance
        last[p + 1] = chances[p] = clicked
        total += clicked
    return total


@no_refcount
def clicks_in_all(attention, average, ranking):
    """Expected clicks on a list. O(length^2)."""
    return expected_clicks(attention, average, ranking, stack_floats(ranking.size))


@no_refcount
def mean_clicks(clients, attention, ranking):
    """Mean over all clients of the expected clicks on a list. O(clients length^2)."""
    if is_favourite(clients, ranking):
        return clients.most
    size, mean = ranking.size, 0.0
    last = stack_floats(size + 1)
    for c in range(clients.shares.size):
        last[0], total = 1.0, 0.0
        for p in range(size):
            clicked = 0.0
            for r in range(p + 1):
                chance = last[r] * attention[p, p - r] * clients.chances[ranking[p], c]
                last[r] -= chance
                clicked += chance
            last[p + 1] = clicked
            total += clicked
        mean += clients.shares[c] * total
    return mean


def clicks_of_each(attention: Floats, chances: Floats) -> Floats:
    """Expected clicks of each client, [clients]; `chances`, [length, clients]: how likely items attract them."""
    size, n = chances.shape
    last, total = np.zeros((size + 1, n)), np.zeros(n)
    last[0] = 1.0
    for p in range(size):
        clicked = last[: p + 1] * attention[p, p::-1][:, None] * chances[p]
        last[: p + 1] -= clicked
        last[p + 1] = clicked.sum(axis=0)
        total += last[p + 1]
    return total


def falls_fast_enough(attention: Floats, most: float) -> bool:
    """Whether, for all attractions up to `most`, the best list has the most attractive items first.

    Let V(r) be the clicks expected behind places p and p + 1 if the last click was at r; g and h the attention at p
    and p + 1 of a user whose last click was at r < p. Placing neighbours a > b in this order instead of the other
    gains (a - b) (g (1 + V(p) - V(r)) - h (1 + V(p + 1) - V(r))), which is at least 0 if g >= h (1 + D), D the
    maximum of V(p + 1) - V(p). Attention must not rise with the distance either: then V(r) rises with r.
    """
    n = attention.shape[0]
    # [q, r, s] from place q on, the most by which a last click at r is ahead of one at s < r
    ahead = np.zeros((n + 2, n + 1, n + 1))
    for q in range(n - 1, -1, -1):
        for r in range(q + 1):
            for s in range(r):
                near, far = attention[q, q - r], attention[q, q - s]
                if near < far:
                    return False
                gain = (near - far) * (1.0 + ahead[q + 1, q + 1, s])
                ahead[q, r, s] = max(most * gain + (1.0 - most * near) * ahead[q + 1, r, s], ahead[q + 1, r, s])
    for p in range(n - 1):  # places count from 0 here, and r = 0 means no click
        for r in range(p + 1):
            if attention[p, p - r] < attention[p + 1, p + 1 - r] * (1.0 + ahead[p + 2, p + 2, p + 1]):
                return False
    return True


class UserBrowsing(NamedTuple):
    """Look at place p, n places after the last click, with chance 1 / (p^eta n^fade) (Dupret, Piwowarski 2008, UBM).

    Before the first click n = p: attention is then 1 / p^(eta + fade), by default that of `PositionBased`. Each click
    renews attention. The value of a list is the expected number of clicks. Feedback covers all places: a bit says
    whether there was a click. Settings are refused if attention falls so slowly that the most attractive items need
    not come first in the best list.

    Settings: `eta` and `fade`, 0.5 and 0.2; the client settings of `Cascade`. This formula is ours, the paper fits a
    table.
    """

    attraction: Floats
    average: Floats  # mean over visits; equal to `attraction` if all clients agree
    attention: Floats  # [length, length] by place and places since the last click, less one
    favourites: Ints  # the best list
    senders: Senders
    clients: EachClient

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        eta: float = 0.5,
        fade: float = 0.2,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "UserBrowsing":
        place = np.arange(1.0, length + 1.0)
        attention = np.outer(place ** -real("eta", eta, 0.0, 10.0), place ** -real("fade", fade, 0.0, 10.0))
        crowd = Crowd.create(attraction, length, clients, skew, taste, tastes, minority)
        if not falls_fast_enough(attention, float(crowd.average[crowd.favourites[0]])):
            raise ValueError(
                f"eta={eta} must be larger for fade={fade}: attention must fall so fast from place to place "
                "that the most attractive items belong first"
            )
        each = EachClient.create(crowd, crowd.favourites, lambda chances: clicks_of_each(attention, chances))
        return cls(crowd.attraction, crowd.average, attention, each.favourites, crowd.senders, each)

    def liking(self, attraction: Floats) -> "UserBrowsing":
        return self._replace(attraction=attraction)

    def arrive(self, t, features, rng):
        return draw_client(self.senders, rng)

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        last = 0  # place of the last click, counted from 1
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                clicks[p] = u < self.attention[p, p - last] * chance
                last = p + 1 if clicks[p] else last
        return ranking.size

    def reach(self, clicks, size):
        return size

    def value(self, visit, ranking):
        if self.clients.shares.size > 0:
            return mean_clicks(self.clients, self.attention, ranking)
        return clicks_in_all(self.attention, self.average, ranking)

    def expect(self, visit, ranking, chances):
        expected_clicks(self.attention, self.average, ranking, chances)

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[p]
