"""Value of a list to all clients together, where each has a taste of its own."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.intrinsics import stack_floats
from ..core.compiling.jit import no_refcount
from .senders import Crowd

Worth: TypeAlias = Callable[[Floats], Floats]  # chances [length, clients] -> value of the list to each [clients]
_CANDIDATES = 32  # items among which pairs are tried in a list
_SEARCHED = 1 << 20  # chances that a search may read repeatedly
_STARTS = 32
_LEAST = 1e-13  # a smaller improvement of a list's value is rounding error
_BLOCK = 128  # clients that are multiplied in parallel


class EachClient(NamedTuple):
    """The clients of a crowd, one by one: the value of a list is its mean over them, weighted by their visits.

    The mean of a product over clients is not the product of the means: a list with something for everybody is worth
    more than a list of the items that are most liked on average. So the best list is found by a local search that
    exchanges one or two items until nothing helps. It starts from the items most liked on average and, in small
    worlds, from the favourites of single clients too. In small worlds it finds the optimum of an exhaustive search;
    there is no proof in general.
    """

    chances: Floats  # [K, clients] of an item to attract a client; [K, 0] if all agree, or there are too many
    shares: Floats  # [clients] share of the visits
    favourites: Ints  # [length] the best list, from the top
    most: float  # its value

    @classmethod
    def create(cls, crowd: Crowd, favourites: Ints, worth: Worth) -> "EachClient":
        """The clients of a crowd; `favourites`: best list for the average taste; `worth`: value of a list."""
        chances, shares = crowd.chances, crowd.senders.shares()
        if not chances.size:
            return cls(chances, np.zeros(0), favourites, 0.0)
        # a few clients may like what hardly anybody else does; of many, only the items that many like matter
        liked = np.argsort(-crowd.average, kind="stable")
        liked = liked[: max(_SEARCHED // shares.size, 4 * favourites.size)]
        starts = [favourites]
        for client in range(min(shares.size, _STARTS, _SEARCHED // chances.size)):
            starts.append(np.argsort(-chances[:, client], kind="stable")[: favourites.size])
        most, best = -1.0, favourites
        for start in starts:
            places = {int(k): i for i, k in enumerate(liked)}
            some = np.concatenate([liked, [k for k in start if int(k) not in places]]).astype(np.int64)
            places = {int(k): i for i, k in enumerate(some)}
            found = some[_improved(np.array([places[int(k)] for k in start]), chances[some], shares, worth)]
            value = float(worth(chances[found]) @ shares)
            if value > most + _LEAST:
                most, best = value, found
        return cls(chances, shares, best, most)


def _improved(best: Ints, chances: Floats, shares: Floats, worth: Worth) -> Ints:
    """Exchange single items, places, and two items at once, until no exchange improves the list."""
    while True:
        candidates = _exchange_one(best, chances, shares, worth)
        if _exchange_places(best, chances, shares, worth):
            continue
        if not _exchange_two(best, candidates, chances, shares, worth):
            return best


def _exchange_one(best: Ints, chances: Floats, shares: Floats, worth: Worth) -> Ints:
    """Put into each place the item that is worth most there, until none is better; returns the best items not shown.

    The value of a list is linear in the chance at each place: its value at two chances gives that of all items.
    """
    while True:
        changed, merit = False, np.full(chances.shape[0], -np.inf)
        for p in range(best.size):
            none, sure = (worth(_with(chances[best], {p: chance})) for chance in (0.0, 1.0))
            gain = chances @ (shares * (sure - none))
            now = gain[best[p]]
            gain[np.delete(best, p)] = -np.inf
            merit = np.maximum(merit, gain - now)
            k = int(np.argmax(gain))
            if gain[k] > now + _LEAST:
                best[p], changed = k, True
        if not changed:
            return np.argsort(-merit, kind="stable")[:_CANDIDATES].astype(np.int64)


def _exchange_places(best: Ints, chances: Floats, shares: Floats, worth: Worth) -> bool:
    """Let two places trade their items if that is better; return whether any did."""
    changed, now = False, float(worth(chances[best]) @ shares)
    for p in range(best.size):
        for q in range(p + 1, best.size):
            other = best.copy()
            other[p], other[q] = best[q], best[p]
            then = float(worth(chances[other]) @ shares)
            if then > now + _LEAST:
                best[:], now, changed = other, then, True
    return changed


def _exchange_two(best: Ints, candidates: Ints, chances: Floats, shares: Floats, worth: Worth) -> bool:
    """Put two of the candidates into two places: the first pair that is better. Return whether there was one."""
    now, liked = float(worth(chances[best]) @ shares), chances[candidates]
    for p in range(best.size):
        for q in range(p + 1, best.size):
            parts = {
                (a, b): worth(_with(chances[best], {p: float(a), q: float(b)})) * shares
                for a in (0, 1)
                for b in (0, 1)
            }
            both = parts[1, 1] - parts[1, 0] - parts[0, 1] + parts[0, 0]
            value = parts[0, 0].sum() + (liked * both) @ liked.T
            value += (liked @ (parts[1, 0] - parts[0, 0]))[:, None] + liked @ (parts[0, 1] - parts[0, 0])
            taken = np.isin(candidates, np.delete(best, [p, q]))
            value[taken, :] = value[:, taken] = -np.inf
            np.fill_diagonal(value, -np.inf)
            i, j = np.unravel_index(int(np.argmax(value)), value.shape)
            if value[i, j] > now + _LEAST:
                best[p], best[q] = candidates[i], candidates[j]
                return True
    return False


def _with(chances: Floats, places: dict[int, float]) -> Floats:
    """Set the chances at some places of a list, in place, and return the array."""
    for p, chance in places.items():
        chances[p] = chance
    return chances


@no_refcount
def is_favourite(clients, ranking):
    """Whether this is the best list."""
    if ranking.size != clients.favourites.size:
        return False
    for p in range(ranking.size):
        if ranking[p] != clients.favourites[p]:
            return False
    return True


@no_refcount
def mean_cascade_value(clients, ranking):
    """Mean over all clients of the chance of a click, computed in blocks that fit into the fastest cache."""
    if is_favourite(clients, ranking):
        return clients.most
    miss, total = stack_floats(_BLOCK), 0.0
    for start in range(0, clients.shares.size, _BLOCK):
        size = min(_BLOCK, clients.shares.size - start)
        for i in range(size):
            miss[i] = 1.0
        for p in range(ranking.size):
            chances = clients.chances[ranking[p], start : start + size]
            for i in range(size):  # one index from 0: the compiler vectorizes this form
                miss[i] *= 1.0 - chances[i]
        for i in range(size):
            total += clients.shares[start + i] * (1.0 - miss[i])
    return total
