"""Rank by an index without evaluating it for every item: a pool of those that may be among the best.

An index `min(level + root s + linear l, cap)` with s = sqrt(l) and l the logarithm of the round rises slowly between
two observations of its item. So its value at the end of a short window of rounds is a bound until then. Items whose
bound reaches a floor form the pool; while d of them reach the floor themselves, no other item matters.

If as many items as the list has places tie, at the cap or because they were observed alike, they are not in the pool
but counted in blocks, and places are drawn from these counts. The rankings equal those of `rank_by_index`, tie for
tie and bit for bit: every index that matters is evaluated by the same formula, and rounding keeps order.
"""

import math
from typing import NamedTuple

import numpy as np

from ....core.arrays import Counts, Floats, Ints
from ....core.compiling.intrinsics import borrowed, stack_floats, stack_ints
from ....core.compiling.jit import no_refcount
from ....core.kernels import KL_CLOCK, LOG_CLOCK, place_index, value_of
from .shortlist import (
    CHUNK,
    GROUP,
    ITEMS,
    MORE,
    ROOM,
    Candidates,
    Moment,
    count_reaching,
    draw_tied,
    gather,
    name,
    place,
)

_WINDOW = 1000  # bounds hold for a thousandth of the rounds so far, and a few rounds more
_SHORTEST = 6
_STALE = 8  # an eighth of the pool may be items that no longer belong
LARGEST = 1.7976931348623157e308
FIRST, LAST, SURE, FEWEST, POOL, STALE = range(6)  # indices in `window`
GUESS, REACH, FLOOR, CEILING, S0, L0, S1, L1, ALIKE, LEVEL, ROOT, LINEAR = range(12)  # indices in `marks`


class Bounds(NamedTuple):
    """Bounds for ranking in rounds `window[FIRST]` to `window[LAST]`; 17 bytes an item."""

    ahead: Floats  # [K] the item's index in the last of these rounds, infinite if it belongs to the tie
    sure: Counts  # [blocks] number of infinite bounds
    pool: Ints  # [K] items, in order, with bounds between floor and ceiling: the first `window[POOL]` entries
    window: Ints  # [6] first and last round, sum of `sure`, least observations of an item, pool's size, stale items
    marks: Floats  # [12] guess, reach, floor and ceiling, s and l of both rounds, index of the items observed alike

    @classmethod
    def create(cls, n_items: int, rows: int = 0) -> "Bounds":
        """Bounds valid for no round yet; with `rows`, one more axis in front."""
        shape = (rows,) if rows else ()
        window, marks = np.zeros((*shape, 6), np.int64), np.zeros((*shape, 12))
        window[..., LAST] = -1
        marks[..., CEILING] = np.inf
        blocks = np.zeros((*shape, -(-n_items // ITEMS)), np.int32)
        return cls(np.zeros((*shape, n_items)), blocks, np.zeros((*shape, n_items), np.int64), window, marks)


@no_refcount
def bounds_row(bounds, j):
    """The j-th row of bounds with rows, borrowed."""
    return borrowed(Bounds(bounds.ahead[j], bounds.sure[j], bounds.pool[j], bounds.window[j], bounds.marks[j]))


@no_refcount
def void(bounds):
    """Invalidate the bounds, because an item's index changed otherwise than by an update."""
    bounds.window[FIRST] = 0
    bounds.window[LAST] = -1


@no_refcount
def forget(bounds):
    """Invalidate all rows of bounds."""
    for j in range(bounds.window.shape[0]):
        bounds.window[j, FIRST] = 0
        bounds.window[j, LAST] = -1


@no_refcount
def time_parts(t, clock):
    """s and l of a round by a clock of `kernels`; log t is at least log 2.

    KL-UCB's is log t + 3 log log t (Garivier and Cappe 2011).
    """
    lt = math.log(max(t, 2))
    return (0.0, lt + 3.0 * max(math.log(lt), 0.0)) if clock == KL_CLOCK else (math.sqrt(lt), lt)


@no_refcount
def look_ahead(table, k, marks):
    """Item k's index at the end of the window, infinite if it belongs to the tie: at the cap already, or alike."""
    then = value_of(table, k, marks[S1], marks[L1])
    if marks[ALIKE] > 0.0:
        if table.level[k] == marks[LEVEL] and table.root[k] == marks[ROOT] and table.linear[k] == marks[LINEAR]:
            return np.inf
    elif then >= table.cap and value_of(table, k, marks[S0], marks[L0]) >= table.cap:
        return np.inf
    return then


@no_refcount
def keep(bounds, table, t, ranking, examined, guess):
    """Make the bounds valid for the coming rounds, after an update at round t that changed the examined items.

    `guess` is what the ranking function returned. About O(sqrt(d K)), and O(K) once per thousandth of t.
    """
    ahead, sure, pool, window, marks = bounds
    marks[GUESS] = guess
    if t >= window[LAST]:
        renew(bounds, table, t + 1, ranking.size)
        return
    d = ranking.size
    were, gone, outside = counts_tie(bounds), 0, -np.inf
    for p in range(examined):
        k = ranking[p]
        before, now = ahead[k], look_ahead(table, k, marks)
        ahead[k] = now
        if (now == np.inf) != (before == np.inf):
            change = 1 if now == np.inf else -1
            sure[k // ITEMS] += change
            window[SURE] += change
        was, stays = belongs(before, marks), belongs(now, marks)
        gone += stays < was
        if stays > was:
            insert(pool, window, k)
        outside = now if outside < now < marks[FLOOR] else outside
    window[STALE] += gone
    marks[REACH] = max(marks[REACH], np.nextafter(outside, np.inf))
    tied = window[SURE] >= d
    if tied != were or (not tied and window[POOL] - window[STALE] < min(d + 3 * MORE, ahead.size)):
        refill(bounds, table, d)
    elif window[STALE] > (0 if tied else window[POOL] // _STALE):
        drop_stale(ahead, pool, window, marks)


@no_refcount
def renew(bounds, table, first, d):
    """Recompute the bounds of all items from round `first` on."""
    ahead, window, marks = bounds.ahead, bounds.window, bounds.marks
    last = first + first // _WINDOW + _SHORTEST
    marks[S0], marks[L0] = time_parts(first, table.clock)
    marks[S1], marks[L1] = time_parts(last, table.clock)
    marks[ALIKE] = 0.0
    fewest = table.looks[0]
    for k in range(ahead.size):
        ahead[k] = look_ahead(table, k, marks)
        fewest = min(fewest, table.looks[k])
    window[FIRST], window[LAST], window[FEWEST] = first, last, fewest
    refill(bounds, table, d)


@no_refcount
def count_sure(bounds):
    """Count the items of the tie in each block."""
    bounds.window[SURE] = 0
    for j in range(bounds.sure.size):
        number = 0
        for k in range(j * ITEMS, min((j + 1) * ITEMS, bounds.ahead.size)):
            number += bounds.ahead[k] == np.inf
        bounds.sure[j] = number
        bounds.window[SURE] += number


@no_refcount
def counts_tie(bounds):
    """Whether the items of a tie are counted separately from the pool."""
    return bounds.marks[CEILING] < np.inf


@no_refcount
def belongs(bound, marks):
    """Whether an item with this bound is in the pool."""
    return marks[FLOOR] <= bound <= marks[CEILING]


@no_refcount
def drop_stale(ahead, pool, window, marks):
    """Remove the items that no longer belong from the pool; until then they cost only a little time."""
    n = 0
    for i in range(window[POOL]):
        k = np.uint64(pool[i])
        pool[n] = pool[i]
        n += belongs(ahead[k], marks)
    window[POOL], window[STALE] = n, 0


@no_refcount
def insert(pool, window, k):
    """Insert item k into the pool in order, unless it is already there as a stale item."""
    n = window[POOL]
    p = n
    while p > 0 and pool[p - 1] > k:
        p -= 1
    if p > 0 and pool[p - 1] == k:
        window[STALE] -= 1
        return
    for i in range(n, p, -1):
        pool[i] = pool[i - 1]
    pool[p] = k
    window[POOL] = n + 1


@no_refcount
def refill(bounds, table, d):
    """Rebuild the pool: about sqrt(d K) items, or those that may beat the items of a large tie."""
    ahead, pool, window, marks = bounds.ahead, bounds.pool, bounds.window, bounds.marks
    if marks[ALIKE] > 0.0:
        marks[ALIKE] = 0.0
        for k in range(ahead.size):
            ahead[k] = look_ahead(table, k, marks)
    count_sure(bounds)
    if window[SURE] >= d:
        marks[FLOOR], marks[CEILING] = table.cap, LARGEST
    else:
        wanted = min(max(d + 2 * MORE, int(0.6 * math.sqrt(d * ahead.size))), ahead.size - window[SURE])
        marks[FLOOR], marks[CEILING] = choose_floor(ahead, marks[FLOOR], wanted), np.inf
        if count_reaching(ahead, marks[FLOOR]) > 4 * wanted:
            find_tie(bounds, table, wanted)
    n, outside = 0, -np.inf
    for k in range(ahead.size):
        pool[n] = k
        n += belongs(ahead[k], marks)
        outside = ahead[k] if outside < ahead[k] < marks[FLOOR] else outside
    window[POOL], window[STALE] = n, 0
    marks[REACH] = np.nextafter(outside, np.inf)


@no_refcount
def find_tie(bounds, table, wanted):
    """If too many bounds reach the floor and most of them are alike, count those separately."""
    ahead, marks = bounds.ahead, bounds.marks
    k = 0
    for i in range(ahead.size):
        if ahead[i] >= marks[FLOOR] and (ahead[k] < marks[FLOOR] or ahead[i] < ahead[k]):
            k = i
    marks[ALIKE], marks[LEVEL], marks[ROOT], marks[LINEAR] = 1.0, table.level[k], table.root[k], table.linear[k]
    lowest = value_of(table, k, marks[S0], marks[L0])
    alike = others = 0
    for i in range(ahead.size):
        same = look_ahead(table, i, marks) == np.inf
        alike += same
        others += (ahead[i] >= lowest) & (not same)
    if alike < 2 * wanted or others > 2 * wanted:
        marks[ALIKE] = 0.0
        return
    for i in range(ahead.size):
        ahead[i] = look_ahead(table, i, marks)
    marks[FLOOR], marks[CEILING] = lowest, LARGEST
    count_sure(bounds)


@no_refcount
def choose_floor(ahead, floor, wanted):
    """A floor that about `wanted` bounds reach, more if they tie; starting from a floor that too few reach now."""
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


LONGEST = 256  # longer lists do not benefit
GUESSED = 0  # index in the note of the guess that `rank_by_bounds` returns and `keep` needs


@no_refcount
def hold(bounds, t, least):
    """Whether the bounds are valid at round t and every item was seen at least `least` times."""
    return bounds.window[FIRST] <= t <= bounds.window[LAST] and bounds.window[FEWEST] >= least


@no_refcount
def rank_by_bounds(bounds, table, t, least, allowed, ranking, note, rng):
    """`rank_by_index` through the bounds if they are valid: the same ranking and the same draws from `rng`.

    Returns the next guess, for `keep`. Uses the front of `note` for the uniforms and zeroes it again.
    """
    d, guess = ranking.size, bounds.marks[GUESS]
    s, lt = time_parts(t, LOG_CLOCK)
    for p in range(d):
        note[p] = rng.random() * table.tie_noise
    n = 0
    if d <= LONGEST and hold(bounds, t, least):
        items, values = stack_ints(room(d)), stack_floats(room(d))
        candidates = Candidates(items, values, stack_ints(room(d) + 1), stack_ints(room(d)))
        now = Moment(s, lt, 0.0)
        if counts_tie(bounds):
            n = rank_tied(bounds, table, now, allowed, ranking, note, candidates)
        else:
            pool, reach = bounds.pool[: bounds.window[POOL]], bounds.marks[REACH]
            n = gather(pool, reach, guess, table, now, allowed, d, candidates)
            if n > 0:
                guess = place(values, n, ranking, note, candidates.spare)
                name(items, ranking)
    if n == 0:
        place_index(table, lt, least, allowed, ranking, note[:d])
    for p in range(d):
        note[p] = 0.0
    return guess


@no_refcount
def room(d):
    """Number of candidates held at a time for a list of d."""
    return max(ROOM, 3 * d, d + CHUNK + CHUNK // GROUP)


@no_refcount
def rank_tied(bounds, table, now, allowed, ranking, note, candidates):
    """Rank if a list's worth of items ties: first what beats the tie, then the tie. Returns 0 if too few do."""
    pool, marks, size, d = bounds.pool, bounds.marks, bounds.window[POOL], ranking.size
    items, values, equals = candidates.items, candidates.values, candidates.equals
    if size > items.size or not all_true(allowed):
        return 0
    tie = table.cap
    if marks[ALIKE] > 0.0:
        tie = min(marks[LEVEL] + marks[ROOT] * now.s + marks[LINEAR] * now.lt, tie)
    n = n_equal = 0
    for i in range(size):
        k = np.uint64(pool[i])
        v = value_of(table, k, now.s, now.lt)
        items[n], values[n], equals[n_equal] = pool[i], v, pool[i]
        n += v > tie
        n_equal += v == tie
    if n + n_equal + bounds.window[SURE] < d:
        return 0
    fill_tied(bounds, candidates, n, n_equal, ranking, note)
    return d


@no_refcount
def all_true(flags):
    """Whether all flags are set; without an early exit, so that the compiler vectorizes it, 64 at a time."""
    every = True
    for k in range(flags.size):
        every &= flags[k]
    return every


@no_refcount
def fill_tied(bounds, candidates, n, n_equal, ranking, uniforms):
    """Build the list from n candidates that beat the tie, followed by the tie."""
    spare = candidates.spare
    first = min(n, ranking.size)
    if n > 0:
        place(candidates.values, n, ranking[:first], uniforms, spare)
        name(candidates.items, ranking[:first])
    if first < ranking.size:
        n_sure, equals = bounds.window[SURE], candidates.equals[:n_equal]
        draw_tied(bounds.ahead, bounds.sure, n_sure, equals, ranking, first, uniforms, spare)
