"""What a list is worth to all clients together, where each likes something of its own."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.intrinsics import stack_floats
from ..core.compiling.jit import no_refcount
from .senders import Crowd

Worth: TypeAlias = Callable[[Floats], Floats]  # chances [length, clients] -> what the list is worth to each [clients]
_CANDIDATES = 32  # items of which two at once are tried in a list
_SEARCHED = 1 << 20  # chances that a search looks at, again and again
_STARTS = 32
_LEAST = 1e-13  # by which a list has to be better: less is rounding
_BLOCK = 128  # clients that are multiplied side by side


class EachClient(NamedTuple):
    """The clients of a crowd one by one: the value of a list is its mean over them, weighted by their visits.

    The mean over clients of a product is not the product of the means: a list that has something for everybody is
    worth more than one of the items that are liked most. So the best list is searched for, by exchanging one or two
    of its items until nothing helps: from the items that are liked most on average, and in small worlds from the
    favourites of single clients as well. There this finds what trying all lists finds; in general nobody proves it.
    """

    chances: Floats  # [K, clients] that an item attracts a client; [K, 0] where all are alike, or too many
    shares: Floats  # [clients] of the visits
    favourites: Ints  # [length] the best list, from the top
    most: float  # what it is worth

    @classmethod
    def create(cls, crowd: Crowd, favourites: Ints, worth: Worth) -> "EachClient":
        """Those of a crowd. `favourites`: the best list if all clients were the average one; `worth`: of a list."""
        chances, shares = crowd.chances, crowd.senders.shares()
        if not chances.size:
            return cls(chances, np.zeros(0), favourites, 0.0)
        # few clients may want what hardly anybody else does; of many, those items alone that many like
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
    """The list after exchanges of single items, of places, and of two items at once, until none makes it better."""
    while True:
        candidates = _exchange_one(best, chances, shares, worth)
        if _exchange_places(best, chances, shares, worth):
            continue
        if not _exchange_two(best, candidates, chances, shares, worth):
            return best


def _exchange_one(best: Ints, chances: Floats, shares: Floats, worth: Worth) -> Ints:
    """Put into each place the item that is worth most there, until none is better; returns the items that come next.

    The worth of a list is linear in the chance at each place: two values of it give that of all items.
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
    """Let two places trade their items if that is better; returns whether any did."""
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
    """Put two of the candidates into two places if that is better; ends with the first such pair; says if any was."""
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
    """The chances of a list with others at some places."""
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
    """The chance that a cascade user clicks, over all clients, in blocks that stay in the nearest memory."""
    if is_favourite(clients, ranking):
        return clients.most
    miss, total = stack_floats(_BLOCK), 0.0
    for start in range(0, clients.shares.size, _BLOCK):
        size = min(_BLOCK, clients.shares.size - start)
        for i in range(size):
            miss[i] = 1.0
        for p in range(ranking.size):
            chances = clients.chances[ranking[p], start : start + size]
            for i in range(size):  # one index from 0 on: this is what the compiler puts side by side
                miss[i] *= 1.0 - chances[i]
        for i in range(size):
            total += clients.shares[start + i] * (1.0 - miss[i])
    return total
