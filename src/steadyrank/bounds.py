"""Ranks by an index without evaluating it for every item: a pool of those that may be among the best.

An index `min(level + root s + linear l, cap)` with s = sqrt(l) and l the logarithm of the round rises slowly between
two observations of its item. So its value at the end of a short window of rounds bounds it until then. Items whose
bound reaches a floor form the pool; while d of them reach the floor themselves, no other item matters. An item at the
cap stays there until it is observed; when a list's worth of items is, the list is drawn from these by their counts.
The rankings are those of `rank_by_index`, tie for tie and bit for bit: every index that matters is evaluated by the
same formula, and rounding keeps order.
"""

import math
from typing import NamedTuple

import numpy as np

from ._jit import lean, lent, stack_floats, stack_ints
from .arrays import Counts, Floats, Ints
from .captied import CHUNK, GROUP, ITEMS, rank_at_cap
from .kernels import place_index, value_of
from .shortlist import MORE, ROOM, count_reaching, gather, name, place

_WINDOW = 1000  # bounds hold for a thousandth of the rounds so far, and a few rounds more
_SHORTEST = 6
_STALE = 8  # an eighth of the pool may be items that left it
LONGEST = 256  # longer lists gain nothing here
LARGEST = 1.7976931348623157e308
FIRST, LAST, SURE, FEWEST, POOL, STALE = range(6)  # places of `window`
GUESS, REACH, FLOOR, CEILING, S0, L0, S1, L1 = range(8)  # places of `marks`


class Bounds(NamedTuple):
    """What is known for ranks of rounds `window[FIRST]` to `window[LAST]`; 17 bytes an item."""

    ahead: Floats  # [K] the item's index in the last of these rounds, infinite if it is at the cap in the first
    sure: Counts  # [blocks] how many are infinite
    pool: Ints  # [K] items, in order, whose bounds lie between floor and ceiling: the first `window[POOL]` places
    window: Ints  # [6] first and last round, sum of `sure`, least observations of an item, pool's size, stale items
    marks: Floats  # [8] guess, reach, the pool's floor and ceiling, s and l of the first and of the last round

    @classmethod
    def create(cls, n_items: int, rows: int = 0) -> "Bounds":
        """Bounds that hold for no round yet; with `rows`, one more axis in front."""
        shape = (rows,) if rows else ()
        window, marks = np.zeros((*shape, 6), np.int64), np.zeros((*shape, 8))
        window[..., LAST] = -1
        blocks = np.zeros((*shape, -(-n_items // ITEMS)), np.int32)
        return cls(np.zeros((*shape, n_items)), blocks, np.zeros((*shape, n_items), np.int64), window, marks)


@lean
def bounds_row(bounds, j):
    """The j-th row of bounds that have one, lent."""
    return lent(Bounds(bounds.ahead[j], bounds.sure[j], bounds.pool[j], bounds.window[j], bounds.marks[j]))


@lean
def forget(bounds):
    """The bounds, which have rows, hold no longer."""
    for j in range(bounds.window.shape[0]):
        bounds.window[j, FIRST] = 0
        bounds.window[j, LAST] = -1


@lean
def time_parts(t, clock):
    """The s and the l of a round: sqrt(log t) and log t, at least log 2 (clock 0), or 0 and KL-UCB's l (clock 1).

    KL-UCB's is log t + 3 log log t (Garivier and Cappe 2011).
    """
    lt = math.log(max(t, 2))
    return (0.0, lt + 3.0 * max(math.log(lt), 0.0)) if clock else (math.sqrt(lt), lt)


@lean
def look_ahead(level, root, linear, k, cap, marks):
    """Item k's index at the end of the window, infinite if it is at the cap at the beginning."""
    if value_of(level, root, linear, k, marks[S0], marks[L0], cap) >= cap:
        return np.inf
    return value_of(level, root, linear, k, marks[S1], marks[L1], cap)


@lean
def keep(bounds, seen, level, root, linear, cap, clock, t, ranking, examined, guess):
    """After an update at round t that changed the examined items: make the bounds right for the rounds to come.

    `guess` is what the rank returned. About O(sqrt(d K)), and O(K) once every thousandth of t.
    """
    ahead, sure, pool, window, marks = bounds
    marks[GUESS] = guess
    if t >= window[LAST]:
        renew(bounds, seen, level, root, linear, cap, clock, t + 1, ranking.size)
        return
    d = ranking.size
    were, come, gone, outside = window[SURE] >= d, 0, 0, -np.inf
    for p in range(examined):
        k = ranking[p]
        before, now = ahead[k], look_ahead(level, root, linear, k, cap, marks)
        ahead[k] = now
        change = int(now == np.inf) - int(before == np.inf)
        sure[k // ITEMS] += change
        window[SURE] += change
        was, stays = belongs(before, marks), belongs(now, marks)
        come += stays > was
        gone += stays < was
        outside = now if outside < now < marks[FLOOR] else outside
    window[STALE] += gone
    marks[REACH] = max(marks[REACH], np.nextafter(outside, np.inf))
    capped = window[SURE] >= d
    if come > 0 or capped != were or (not capped and window[POOL] - window[STALE] < d + 3 * MORE):
        refill(bounds, cap, d)
    elif window[STALE] > (0 if capped else window[POOL] // _STALE):
        drop(ahead, pool, window, marks)


@lean
def renew(bounds, seen, level, root, linear, cap, clock, first, d):
    """Bound all items from round `first` on."""
    ahead, sure, window, marks = bounds.ahead, bounds.sure, bounds.window, bounds.marks
    last = first + first // _WINDOW + _SHORTEST
    marks[S0], marks[L0] = time_parts(first, clock)
    marks[S1], marks[L1] = time_parts(last, clock)
    fewest = seen[0]
    for k in range(ahead.size):
        ahead[k] = look_ahead(level, root, linear, k, cap, marks)
        fewest = min(fewest, seen[k])
    window[FIRST], window[LAST], window[SURE], window[FEWEST] = first, last, 0, fewest
    for j in range(sure.size):
        number = 0
        for k in range(j * ITEMS, min((j + 1) * ITEMS, ahead.size)):
            number += ahead[k] == np.inf
        sure[j] = number
        window[SURE] += number
    refill(bounds, cap, d)


@lean
def belongs(bound, marks):
    """Whether an item with this bound is in the pool."""
    return marks[FLOOR] <= bound <= marks[CEILING]


@lean
def drop(ahead, pool, window, marks):
    """Let the items leave the pool that no longer belong; until then they cost a little time, no more."""
    n = 0
    for i in range(window[POOL]):
        k = np.uint64(pool[i])
        pool[n] = pool[i]
        n += belongs(ahead[k], marks)
    window[POOL], window[STALE] = n, 0


@lean
def refill(bounds, cap, d):
    """Choose the pool anew: about sqrt(d K) items, or those that may yet reach the cap if a list's worth is there."""
    ahead, pool, window, marks = bounds.ahead, bounds.pool, bounds.window, bounds.marks
    if window[SURE] >= d:
        marks[FLOOR], marks[CEILING] = cap, LARGEST
    else:
        marks[FLOOR], marks[CEILING] = choose_floor(ahead, marks[FLOOR], d), np.inf
    n, outside = 0, -np.inf
    for k in range(ahead.size):
        pool[n] = k
        n += belongs(ahead[k], marks)
        outside = ahead[k] if outside < ahead[k] < marks[FLOOR] else outside
    window[POOL], window[STALE] = n, 0
    marks[REACH] = np.nextafter(outside, np.inf)


@lean
def choose_floor(ahead, floor, d):
    """A floor that about sqrt(d K) bounds reach, more if they tie; from the one before, which too few reach now."""
    wanted = max(d + 2 * MORE, int(0.6 * math.sqrt(d * ahead.size)))
    high = -np.inf
    for k in range(ahead.size):
        high = ahead[k] if high < ahead[k] < np.inf else high
    floor = min(floor, high)
    n = count_reaching(ahead, floor)
    step = (high - floor) / max(n, 1) * wanted
    step = step if step > 0.0 else 1e-3
    for _ in range(60):
        if n >= wanted:
            break
        high, floor = floor, floor - step
        n, step = count_reaching(ahead, floor), 2.0 * step
    for _ in range(20):
        if n <= 2 * wanted:
            break
        middle = 0.5 * (floor + high)
        there = count_reaching(ahead, middle)
        if there >= wanted:
            floor, n = middle, there
        else:
            high = middle
    return floor


@lean
def hold(bounds, t, least):
    """Whether the bounds hold at round t and every item was seen `least` times."""
    return bounds.window[FIRST] <= t <= bounds.window[LAST] and bounds.window[FEWEST] >= least


@lean
def rank_by_bounds(bounds, seen, level, root, linear, t, least, cap, allowed, ranking, note, rng):
    """`rank_by_index` by way of the bounds where they hold: the same ranking and the same draws from `rng`.

    Returns the next guess, for `keep`. The front of `note` holds the uniforms meanwhile and is zero again afterwards.
    """
    ahead, sure, pool, window, marks = bounds
    d, size, guess = ranking.size, window[POOL], marks[GUESS]
    s, lt = time_parts(t, 0)
    for p in range(d):
        note[p] = rng.random()
    n = 0
    if d <= LONGEST and hold(bounds, t, least):
        spare = stack_ints(room(d))
        if window[SURE] >= d:
            n = rank_at_cap(
                ahead, sure, pool, size, window[SURE], level, root, linear, s, lt, cap, allowed, ranking, note, spare
            )
        else:
            items, values = stack_ints(room(d)), stack_floats(room(d))
            n = gather(
                pool, size, marks[REACH], guess, level, root, linear, s, lt, 0.0, cap, allowed, d, items, values
            )
            if n > 0:
                guess = place(values, n, ranking, note, spare)
                name(items, ranking)
    if n == 0:
        place_index(seen, level, root, linear, lt, least, cap, allowed, ranking, note[:d])
    for p in range(d):
        note[p] = 0.0
    return guess


@lean
def room(d):
    """How many candidates are kept at a time for a list of d."""
    return max(ROOM, 3 * d, d + CHUNK + CHUNK // GROUP)
