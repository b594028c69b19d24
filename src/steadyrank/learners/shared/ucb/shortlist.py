"""The best of a few candidates, in branch-free comparisons; and places drawn from many items that tie.

If many items tie, places are drawn from their counts in blocks instead of one by one."""

from typing import NamedTuple

import numpy as np

from ....core.arrays import Floats, Ints
from ....core.compiling.intrinsics import stack_floats
from ....core.compiling.jit import no_refcount
from ....core.kernels import deal_ties, largest, value_of

ITEMS = 8  # items in a block, whose tied items are counted
GROUP = 8  # blocks counted together
CHUNK = 64  # blocks processed together


@no_refcount
def draw_tied(ahead, sure, n_sure, equals, ranking, first, uniforms, spare):
    """Fill the places from `first` on with items of the tie: those with an infinite bound, and the few `equals`.

    Each place takes a drawn position among the tied ones in item order, as `arrange` does; the few exchanges of
    its shuffle are recorded instead of made. Then one pass over the blocks finds the items.
    """
    d, n_equal = ranking.size - first, equals.size
    draw_places(n_sure + n_equal, ranking[first:], spare, uniforms[first:])
    counts, before, e = spare[d:], 0, 0
    for p in range(d):
        spare[p] = ranking[first + p]
    for start in range(0, sure.size, CHUNK):
        inside = count_chunk(sure, start, counts)
        while e < n_equal and equals[e] < (start + CHUNK) * ITEMS:
            j = equals[e] // ITEMS - start
            counts[j] += 1
            counts[CHUNK + j // GROUP] += 1
            inside += 1
            e += 1
        for p in range(d):
            if before <= spare[p] < before + inside:
                j, left = locate(counts, spare[p] - before)
                ranking[first + p] = pick(ahead, start + j, left, equals)
        before += inside


@no_refcount
def count_chunk(sure, start, counts):
    """Count the tied items in each block of a chunk, in each eight blocks, and in total."""
    total, size = 0, min(CHUNK, sure.size - start)
    for g in range(CHUNK // GROUP):
        number = 0
        for j in range(g * GROUP, (g + 1) * GROUP):
            counts[j] = sure[start + j] if j < size else 0
            number += counts[j]
        counts[CHUNK + g] = number
        total += number
    return total


@no_refcount
def locate(counts, place):
    """The block of a chunk that contains this position among the tied ones, and the position within it."""
    start = block = reached = before = 0
    for g in range(CHUNK // GROUP):
        reached += counts[CHUNK + g]
        start += GROUP if reached <= place else 0
        before = reached if reached <= place else before
    reached = before
    for j in range(start, start + GROUP):
        reached += counts[j]
        block += reached <= place
        before = reached if reached <= place else before
    return start + block, place - before


@no_refcount
def pick(ahead, j, left, equals):
    """The tied item of block j with `left` others before it there."""
    item, here = j * ITEMS, 0
    for k in range(j * ITEMS, min((j + 1) * ITEMS, ahead.size)):
        tied = ahead[k] == np.inf
        for e in range(equals.size):
            tied |= equals[e] == k
        here += tied
        item += here <= left
    return item


@no_refcount
def draw_places(total, places, rest, uniforms):
    """The first entries of range(total) under a Fisher-Yates shuffle with the given uniforms, in O(d^2)."""
    d = places.size
    for i in range(d):
        j = i + int(uniforms[i] * (total - i))
        at_j, at_i = j, i
        for e in range(i):  # later exchanges overwrite earlier ones
            at_j = rest[d + e] if rest[e] == j else at_j
            at_i = rest[d + e] if rest[e] == i else at_i
        places[i] = at_j
        rest[i] = j
        rest[d + i] = at_i


MORE = 4  # candidates beyond the length of the list
FEW = 64  # up to so many candidates, compare all pairs
ROOM = 512  # candidates at a time
SLACK = 1e-9  # margin for an index known only between bounds


class Moment(NamedTuple):
    """The time at which indices are compared: s and l of the round, and how far an index may lie below its bound."""

    s: float
    lt: float
    w: float  # in units of an item's `root`; 0: the bound is the index


class Candidates(NamedTuple):
    """Scratch memory of a search for the best items."""

    items: Ints  # [room]
    values: Floats  # [room]
    spare: Ints  # [room + 1]
    equals: Ints  # [room] items that tie


@no_refcount
def at_least(value, root, w):
    """A lower bound of an index, given its upper bound `value`; equal if w is 0."""
    return value - root * w - 2.0 * SLACK if w > 0.0 else value


@no_refcount
def count_reaching(values, floor):
    """How many values are at least `floor`."""
    n = 0
    for k in range(values.size):
        n += values[k] >= floor
    return n


@no_refcount
def gather(pool, least, guess, table, now, allowed, d, candidates):
    """Collect from the pool every item that may be among the d best, in item order; returns how many, at least d.

    An index lies between `at_least` and its value. Returns 0 if the pool does not decide it, or too many tie.
    """
    for reach in (max(guess, least), least):
        n = collect(pool, table, now, allowed, d, reach, candidates)
        enough = count_reaching(candidates.values[:n], reach)
        if now.w > 0.0:
            enough = 0
            for i in range(n):
                enough += at_least(candidates.values[i], table.root[candidates.items[i]], now.w) >= reach
        if enough >= d:
            return n
    return 0


@no_refcount
def collect(pool, table, now, allowed, d, floor, candidates):
    """Collect the allowed items of the pool whose value reaches the floor; raises the floor if room runs out."""
    items, values, size = candidates.items, candidates.values, pool.size
    n = start = 0
    while True:
        stop = min(size, start + items.size - n)
        for i in range(start, stop):
            k = np.uint64(pool[i])  # never negative: saves numba a check
            v = value_of(table, k, now.s, now.lt)
            items[n] = pool[i]
            values[n] = v
            n += (v >= floor) & allowed[k]
        if stop == size:
            return n
        start = stop
        if n == items.size:
            n, floor = thin(items, values, n, d, table.root, now.w)
            if n == items.size:
                return 0


@no_refcount
def thin(items, values, n, d, root, w):
    """Keep, of n candidates, those that may be among the d best; returns how many, and the new floor."""
    best = stack_floats(d)
    for p in range(d):
        best[p] = -np.inf
    for i in range(n):
        v = at_least(values[i], root[items[i]], w)
        if v > best[d - 1]:
            p = d - 1
            while p > 0 and best[p - 1] < v:
                best[p] = best[p - 1]
                p -= 1
            best[p] = v
    kept, floor = 0, best[d - 1]
    for i in range(n):
        v = values[i]
        items[kept] = items[i]
        values[kept] = v
        kept += v >= floor
    return kept, floor


@no_refcount
def pad(values, n):
    """Pad to a multiple of 16 with -infinity, so that vectorized comparisons need no remainder loop; the new size."""
    end = (n + 15) & ~15
    for i in range(n, end):
        values[i] = -np.inf
    return end


@no_refcount
def count_larger(values, end, v):
    """How many of the values are larger than v."""
    larger = 0
    for j in range(end):
        larger += values[j] > v
    return larger


@no_refcount
def order(values, n, spare):
    """Write the n candidates into `spare`, best first, and from index FEW on their ranks.

    If values tie, the ranks after the first one hold -1.

    A rank is the number of larger values: n^2 comparisons without a branch are faster than a sort with many.
    """
    end = pad(values, n)
    for p in range(n):
        spare[p] = -1
    for i in range(n):
        p = count_larger(values, end, values[i])
        spare[p] = i
        spare[FEW + i] = p


@no_refcount
def place(values, n, ranking, uniforms, spare):
    """Write the numbers of the best of n candidates into `ranking` as `arrange` does; returns the next guess."""
    if n > FEW:
        deal_ties(values, n, ranking, largest(values[:n], ranking), uniforms, spare)
        return values[ranking[-1]]
    order(values, n, spare)
    return place_few(values, n, ranking, uniforms, spare)


@no_refcount
def name(items, ranking):
    """Convert the candidates' numbers to items."""
    for p in range(ranking.size):
        ranking[p] = items[ranking[p]]


@no_refcount
def place_few(values, n, ranking, uniforms, spare):
    """Write the numbers of the best candidates; returns a value that slightly more candidates than the list reach."""
    d = ranking.size
    tie, high, low = False, values[spare[0]], -np.inf
    for p in range(min(d + 1, n)):
        tie |= spare[p] < 0
    for p in range(min(d + MORE, n)):
        low = values[spare[p]] if spare[p] >= 0 else low
    for p in range(d):
        ranking[p] = spare[p]
    if tie:
        place_ties(values, n, ranking, uniforms, spare)
    return low - (high - low) * (d + MORE - n) / n if n < d + MORE else low


@no_refcount
def place_ties(values, n, ranking, uniforms, spare):
    """Fill the empty places behind each item with its equals, in item order, and shuffle these as `arrange` does."""
    d, left_out = ranking.size, 0
    for p in range(d):
        ranking[p] = -1
    for i in range(n):
        p = spare[FEW + i]
        left_out += p < d
        while p < d and ranking[p] >= 0:
            p += 1
        if p < d:
            ranking[p] = i
            left_out -= 1
    deal_ties(values, n, ranking, left_out, uniforms, spare)
