"""Users whose clicks can lead to something of value: a purchase, minutes of reading, money."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.intrinsics import stack_floats
from ..core.compiling.jit import no_refcount
from ..core.contract import ANYONE, Visit
from ..core.discovery import find_class, make, settings_of
from ..core.dispatch import call_expect
from ..core.rounds import group_of
from ..core.settings import real, whole

_KEY = 0xB04E25
_LEAST = 1e-12  # a smaller improvement of a list's value is rounding error
_TRIED = 4  # candidates in the search for a best list: this many times its length
_ANYONE = Visit(1, ANYONE, np.zeros(0))


@no_refcount
def drawn_value(mean, tail, u, v):
    """Log-normal value with mean `mean` and log standard deviation `tail`, from uniforms u, v (Box-Muller)."""
    z = math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
    return mean * math.exp(tail * z - 0.5 * tail * tail)


class Buyers(NamedTuple):
    """Any users, some of whose clicks lead to an outcome with a value, possibly rounds later (ours).

    A click on item k leads to an outcome with chance `bought[k]`; its value is log-normal with mean `price[k]`. So a
    click on it is worth bought[k] price[k], and the value of a list is the sum over its places of the chance of a
    click times that worth. The best list is found by a local search that exchanges items and places; for `Cascade`
    users the search starts from the exact optimum.

    Settings: `of`, the users who click (a name or a class, `Cascade` by default), and `given`, a dictionary of their
    settings; `chance`, the mean chance that a click leads to an outcome, 0.02; `spread`, the standard deviation over
    items of the logarithm of a click's worth, 1; `alike`, the correlation of that logarithm with the item's rank by
    attraction, 0; `tail`, the standard deviation of the logarithm of an outcome's value, 1; `delay`, the mean number
    of rounds until an outcome is known, 0; `lost`, the share of outcomes that never become known, 0; `bought` and
    `price`, one number for each item instead; `seed`, which draws the worth of each item; the client settings of
    `Cascade`. Values of lists use each item's mean attraction over the clients.
    """

    users: Any
    average: Floats  # [K] mean attraction over visits
    bought: Floats  # [K] chance that a click leads to an outcome
    price: Floats  # [K] mean value of an outcome
    worth: Floats  # [K] expected value of a click
    favourites: Ints  # the best list
    length: int
    tail: float
    delay: float
    lost: float

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        of: str | type = "Cascade",
        given: dict[str, Any] | None = None,
        chance: float = 0.02,
        spread: float = 1.0,
        alike: float = 0.0,
        tail: float = 1.0,
        delay: float = 0.0,
        lost: float = 0.0,
        bought: Sequence[float] | Floats | None = None,
        price: Sequence[float] | Floats | None = None,
        seed: int = 0,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "Buyers":
        from . import ALL  # imported here: that package imports this module

        inner = find_class("users", of, ALL)
        if not callable(getattr(inner, "expect", None)):
            able = ", ".join(sorted(name for name, users in ALL.items() if hasattr(users, "expect")))
            raise ValueError(f"of must be users who say how likely each place is clicked, {able}; not {of!r}")
        if given is not None and not isinstance(given, dict):
            raise ValueError(f"given must be a dictionary of settings of {inner.__name__}, not {given!r}")
        senders = {"clients": clients, "skew": skew, "taste": taste, "tastes": tastes, "minority": minority}
        of_senders = {name: value for name, value in senders.items() if name in settings_of(inner)}
        users = make(inner, attraction, length, settings={**of_senders, **(given or {})})
        average, n = np.ascontiguousarray(users.average), attraction.size
        apart, along = real("spread", spread, 0.0, 4.0), real("alike", alike, -1.0, 1.0)
        some = _scores(average, whole("seed", seed, 0), along, apart)
        mean = real("chance", chance, 1e-6, 1.0)
        chances = np.minimum(mean * some[0], 1.0) if bought is None else _of_items("bought", bought, n, 1.0)
        prices = some[1] if price is None else _of_items("price", price, n, 1e9)
        worth = chances * prices
        best = _best_list(users, average, worth, int(length))
        tails = real("tail", tail, 0.0, 4.0), real("delay", delay, 0.0, 1e9), real("lost", lost, 0.0, 1.0)
        return cls(users, average, chances, prices, worth, best, int(length), *tails)

    def arrive(self, t, features, rng):
        return self.users.arrive(t, features, rng)

    def group(self, client):
        return group_of(self.users, client)

    def click(self, visit, ranking, clicks, rng):
        return self.users.click(visit, ranking, clicks, rng)

    def reach(self, clicks, size):
        return self.users.reach(clicks, size)

    def liking(self, attraction: Floats) -> Any:
        liking = getattr(self.users, "liking", None)
        return None if liking is None else self._replace(users=liking(attraction))

    def expect(self, visit, ranking, chances):
        self.users.expect(visit, ranking, chances)

    def buy(self, visit, ranking, clicks, examined, values, delays, rng):
        for p in range(self.length):
            u, v, decides, late, lost = rng.random(), rng.random(), rng.random(), rng.random(), rng.random()
            values[p] = 0.0
            if p < examined and clicks[p]:
                k = ranking[p]
                if decides < self.bought[k] and lost >= self.lost:
                    values[p] = drawn_value(self.price[k], self.tail, u, v)
                    delays[p] = -math.log(1.0 - late) * self.delay

    def value(self, visit, ranking):
        return worth_of_list(self.users, self.worth, visit, ranking)

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[p]


@no_refcount
def worth_of_list(users, worth, visit, ranking):
    """Expected value of a list: over places, the sum of the chance of a click times its worth. O(length)."""
    chances = stack_floats(ranking.size)
    users.expect(visit, ranking, chances)
    total = 0.0
    for p in range(ranking.size):
        total += chances[p] * worth[ranking[p]]
    return total


def _scores(average: Floats, seed: int, alike: float, spread: float) -> Floats:
    """Chance and price of each item as multiples of their means, float64[2, K].

    The logarithm of their product is normal over items, with standard deviation `spread` and correlation `alike` with
    the item's rank by attraction; chance and price share it equally. Beyond that they vary independently.
    """
    rng, n = np.random.default_rng([_KEY, seed]), average.size
    standing = np.empty(n)
    normal = NormalDist()
    standing[np.argsort(average, kind="stable")] = [normal.inv_cdf((i + 0.5) / n) for i in range(n)]
    own, apart = rng.normal(size=(2, n))
    both = spread * (alike * standing + math.sqrt(1.0 - alike * alike) * own)
    logs = np.array([0.5 * both + 0.5 * spread * apart, 0.5 * both - 0.5 * spread * apart])
    scores: Floats = np.exp(logs - 0.5 * (0.5 * spread) ** 2 * 2.0)
    return scores


def _of_items(name: str, given: Any, n_items: int, most: float) -> Floats:
    if not isinstance(given, Sequence | np.ndarray) or len(given) != n_items:
        raise ValueError(f"{name} must be {n_items} numbers from 0 to {most:g}, one an item, not {given!r:.80}")
    return np.array([real(name, value, 0.0, most) for value in given])


def improve(ranking: Ints, candidates: Ints, worth: Callable[[Ints], float]) -> float:
    """Improve a list in place by exchanging items for candidates and places for one another, until nothing helps.

    Overwrites `ranking` and returns its value. The result is at least as good as every list that differs from it by
    one exchange, not always the best of all; tests compare it with an exhaustive search of small worlds. Each pass
    calls `worth` O(length^2 candidates) times.
    """
    best = worth(ranking)
    while True:
        before = best
        for p in range(ranking.size):
            for other in _exchanges(ranking.copy(), p, candidates):
                if (value := worth(other)) > best + _LEAST:
                    best, ranking[:] = value, other
        if best <= before + _LEAST:
            return best


def _exchanges(ranking: Ints, p: int, candidates: Ints) -> Iterator[Ints]:
    """Lists in which a candidate (at any place) replaces the item at place p, or that item trades places."""
    shown, rest = set(ranking.tolist()), np.delete(ranking, p)
    for k in candidates.tolist():
        if k not in shown:
            for q in range(ranking.size):
                yield np.insert(rest, q, k)
    for q in range(ranking.size):
        if q != p:
            other = ranking.copy()
            other[p], other[q] = ranking[q], ranking[p]
            yield other


def by_value_of_click(attraction: Floats, value: Floats, length: int) -> Ints:
    """The most valuable list for users who scan from the top and leave with their first click. O(K length).

    `attraction`, float64[K]: chance of a click when looked at; `value`, float64[K], at least 0: of a click. Of two
    neighbours i, j with the same list around them, i first is worth a_i v_i + (1 - a_i) a_j v_j, which is more by
    a_i a_j (v_i - v_j): so items stand in the order of their value per click. A dynamic programme in that order
    selects them: the best list either skips an item, or puts it in front of the best shorter list of the items after
    it (Kempe and Mahdian 2008, for clicks that end the visit).
    """
    items = np.argsort(-value, kind="stable")
    n, d = items.size, min(length, items.size)
    taken = np.zeros((n, d + 1), np.bool_)
    best = np.full(d + 1, -np.inf)  # value of the best list of p places, of the items from i on
    best[0] = 0.0
    for i in range(n - 1, -1, -1):
        a, v = attraction[items[i]], value[items[i]]
        with_it = np.full(d + 1, -np.inf)
        with_it[1:] = a * v + (1.0 - a) * best[:-1] if a < 1.0 else np.where(best[:-1] > -np.inf, a * v, -np.inf)
        taken[i] = with_it > best
        best = np.maximum(with_it, best)
    chosen, left = [], d
    for i in range(n):
        if left and taken[i, left]:
            chosen.append(items[i])
            left -= 1
    return np.array(chosen, np.int64)


def _best_list(users: Any, average: Floats, worth: Floats, length: int) -> Ints:
    """Local search from two starts: the best cascade list, and the items whose looks are worth most."""

    def worth_of(ranking: Ints) -> float:
        chances = np.zeros(ranking.size)
        call_expect(users, _ANYONE, ranking, chances)
        return float(chances @ worth[ranking])

    scanned = by_value_of_click(average, worth, length)
    if type(users).__name__ == "Cascade":
        return scanned
    looked_at = np.argsort(-average * worth, kind="stable")
    late = np.argsort(-average * (worth - worth_of(scanned)), kind="stable")  # click beats going on
    some = np.unique([*looked_at[: _TRIED * length], *late[: _TRIED * length], *scanned])
    lists = [scanned, looked_at[:length].copy()]
    values = [improve(ranking, some, worth_of) for ranking in lists]
    return lists[int(np.argmax(values))]
