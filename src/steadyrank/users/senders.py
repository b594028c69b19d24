"""Clients: how often each comes, and what each likes."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import ANYONE
from ..core.philox import philox
from ..core.settings import real, whole

_LOW = 0xFFFFFFFF
_KEY = 0x5E4DE45  # tastes are the same in every run; the seed changes only the draws of visits
_NODES = 32  # of the quadrature over clients' tastes: exact to 1e-9 up to taste 3
MOST_TASTE = 3.0
MOST_CHANCES = 1 << 24  # entries of the table items x clients that are kept, 128 MiB


class Senders(NamedTuple):
    """The clients 0 to n - 1 of a crowd; none, if all visits are anonymous.

    Client c comes with a chance proportional to (c + 1)^-skew, a Zipf-like law. Its logit for item k is that of the
    crowd plus `taste` times a standard normal number, recomputed from (c, k) at each use: memory does not grow with
    items times clients. A client of the second taste likes item k as the first taste likes item `other[k]`.
    """

    upto: Floats  # [clients] cumulative chance of clients up to this one
    minor: Bools  # [clients] whether the client has the second taste
    other: Ints  # [K]
    weight: float  # share of visits by clients of the second taste
    taste: float
    agree: bool  # whether all clients have the same taste

    @classmethod
    def create(cls, n_items: int, clients: int, skew: float, taste: float, tastes: int, minority: float) -> "Senders":
        """Check the settings and draw: `clients` at least 0, `skew` 0 to 4, `taste` 0 to 3, one or two `tastes`."""
        n = whole("clients", clients, 0, 10_000_000)
        skew = real("skew", skew, 0.0, 4.0)
        taste = real("taste", taste, 0.0, MOST_TASTE)
        second = whole("tastes", tastes, 1, 2) == 2
        minority = real("minority", minority, 0.0, 0.5)
        if n == 0 and (taste > 0.0 or second):
            raise ValueError(f"taste={taste} and tastes={tastes} are of clients: clients must be at least 1, not 0")
        rng = np.random.default_rng(_KEY)
        other = rng.permutation(n_items) if second else np.arange(n_items)
        chance = np.arange(1.0, n + 1.0) ** -skew
        chance /= chance.sum() if n else 1.0
        minor = rng.random(n) < minority if second else np.zeros(n, np.bool_)
        weight = float(chance[minor].sum())
        return cls(np.cumsum(chance), minor, other.astype(np.int64), weight, taste, taste == 0.0 and not second)

    def shares(self) -> Floats:
        """Share of the visits of each client, float64[clients]."""
        return np.diff(self.upto, prepend=0.0)

    def chances(self, attraction: Floats) -> Floats:
        """Chance that each item attracts each client, float64[K, clients].

        float64[K, 0] if all agree, or if there are more than MOST_CHANCES entries. Then averages use the distribution
        that clients are drawn from: at that size, 31,000 clients with 529 items, this error costs the best list 1.5
        clicks in 40,000 rounds.
        """
        n = self.upto.size
        chances = np.empty((attraction.size, 0 if self.agree or attraction.size * n > MOST_CHANCES else n))
        if chances.size:
            fill_chances(self, attraction, chances)
        return chances

    def average(self, attraction: Floats) -> Floats:
        """Mean attraction of each item over visits, float64[K]; `attraction` itself if all clients agree.

        Uses the distribution of clients' tastes if there are too many clients to look at each.
        """
        return self.average_of(attraction, self.chances(attraction))

    def average_of(self, attraction: Floats, chances: Floats) -> Floats:
        """`average`, given the chances of the clients."""
        if chances.size:
            mean: Floats = chances @ self.shares()
            return mean
        if self.taste > 0.0:
            nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
            inner = (attraction > 0.0) & (attraction < 1.0)
            logit = np.log(attraction[inner] / (1.0 - attraction[inner]))
            mean = 1.0 / (1.0 + np.exp(-(logit[:, None] + self.taste * nodes))) @ (weights / weights.sum())
            attraction = attraction.copy()
            attraction[inner] = mean
        if self.weight > 0.0:
            attraction = (1.0 - self.weight) * attraction + self.weight * attraction[self.other]
        return attraction


@kernel
def fill_chances(senders, attraction, chances):
    """Write the chance that each item attracts each client. O(K clients)."""
    for k in range(chances.shape[0]):
        for client in range(chances.shape[1]):
            chances[k, client] = attracts(senders, attraction, client, k)


class Crowd(NamedTuple):
    """What every click model starts from: attractions and clients."""

    attraction: Floats  # [K]
    average: Floats  # [K] mean over visits; equal to `attraction` if all clients agree
    favourites: Ints  # [length] the most attractive items on average, best first
    senders: Senders
    chances: Floats  # [K, clients] of each client; [K, 0] if all agree, or there are too many

    @classmethod
    def create(
        cls, attraction: Floats, length: int, clients: int, skew: float, taste: float, tastes: int, minority: float
    ) -> "Crowd":
        """Check the settings of clients and draw them, as in `Senders`."""
        attraction = np.ascontiguousarray(attraction, np.float64)
        senders = Senders.create(attraction.size, clients, skew, taste, tastes, minority)
        chances = senders.chances(attraction)
        average = senders.average_of(attraction, chances)
        best = np.argsort(-average, kind="stable")[:length].astype(np.int64)
        return cls(attraction, average, best, senders, chances)


@no_refcount
def draw_client(senders, rng):
    """Draw the client of the next visit; draws nothing if all visits are anonymous."""
    low, high = 0, senders.upto.size - 1
    if high < 0:
        return ANYONE
    u = rng.random()
    while low < high:
        middle = (low + high) // 2
        if u < senders.upto[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@no_refcount
def group_of_client(senders, client):
    """1 for a client of the second taste, else 0."""
    return 1 if 0 <= client < senders.minor.size and senders.minor[client] else 0


@no_refcount
def seen_as(senders, client, k):
    """The item that the first taste likes as much as this client's taste likes item k."""
    return senders.other[k] if group_of_client(senders, client) > 0 else k


@no_refcount
def liked_by(senders, client, k, chance):
    """The chance that item k attracts this client; `chance`: by its taste. One Box-Muller draw from (client, k)."""
    if senders.taste == 0.0 or client < 0 or not 0.0 < chance < 1.0:
        return chance
    low, high = philox(k, client & _LOW, _KEY)
    z = math.sqrt(-2.0 * math.log((low + 1.0) / 4294967296.0)) * math.cos(2.0 * math.pi * high / 4294967296.0)
    odds = chance / (1.0 - chance) * math.exp(senders.taste * z)
    return odds / (1.0 + odds)


@no_refcount
def attracts(senders, attraction, client, k):
    """The chance that item k attracts this client; `attraction`: that of the first taste."""
    return liked_by(senders, client, k, attraction[seen_as(senders, client, k)])
