"""The best of a few candidates, without a branch that a processor could mistake; and places drawn from many that tie.

Where many items tie, places are drawn from their counts in blocks instead of one by one."""

from typing import NamedTuple

import numpy as np

from ....core.arrays import Floats, Ints
from ....core.compiling.intrinsics import stack_floats
from ....core.compiling.jit import no_refcount
from ....core.kernels import deal_ties, largest, value_of

ITEMS = 8  # a block, whose tied items are counted
GROUP = 8  # blocks counted together
CHUNK = 64  # blocks looked at together


@no_refcount
def draw_tied(ahead, sure, n_sure, equals, ranking, first, uniforms, spare):
    """Fill the places from `first` on with items of the tie: those with an infinite bound, and the few `equals`.

    Place p goes to the item at a drawn place of the tied ones in item order, as `arrange` does; the few exchanges of
    its shuffle are remembered instead of made. Then one walk over the blocks finds the items.
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
    """How many items tie in each block of a chunk, in each eight blocks, and in all."""
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
    """The block of a chunk with the item at this place of those that tie, and its place there."""
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
    """The tied item of block j that has `left` others before it there."""
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
    """The first entries of range(total) shuffled by Fisher and Yates with the uniforms given, in O(d^2)."""
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


MORE = 4  # candidates wanted beyond the list
FEW = 64  # candidates that are compared each with each
ROOM = 512  # candidates at a time
SLACK = 1e-9  # of an index that is known between bounds only


class Moment(NamedTuple):
    """When indices are compared: s and l of the round, and how far an index may lie below its value."""

    s: float
    lt: float
    w: float  # in units of an item's `root`; 0: the value is the index


class Candidates(NamedTuple):
    """Scratch for the items of which the best are wanted."""

    items: Ints  # [room]
    values: Floats  # [room]
    spare: Ints  # [room + 1]
    equals: Ints  # [room] items that tie


@no_refcount
def at_least(value, root, w):
    """A lower bound of an index, of which `value` is an upper one: the same if w is 0."""
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

    An index lies between `at_least` and its value. 0 means that the pool does not tell, or that too many tie.
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
    """Collect the allowed items of the pool whose value reaches the floor, which rises when there is no more room."""
    items, values, size = candidates.items, candidates.values, pool.size
    n = start = 0
    while True:
        stop = min(size, start + items.size - n)
        for i in range(start, stop):
            k = np.uint64(pool[i])  # never negative: numba need not look
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
    """Keep, of n candidates, those that may be among the d best; returns how many, and the floor they reach."""
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
    """Round n up to sixteens, which a processor compares without a rest, by values that are never larger."""
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
    """Write the n candidates into `spare`, best first, and from place FEW on their places.

    Where values tie, the places behind the first hold -1.

    A place is the number of larger values: n^2 comparisons without a branch are quicker than a sort with many.
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
    """From the candidates' numbers to items."""
    for p in range(ranking.size):
        ranking[p] = items[ranking[p]]


@no_refcount
def place_few(values, n, ranking, uniforms, spare):
    """The numbers of the best candidates, and a value that a few more than the list reach."""
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
    """Fill the empty places behind each one with its equals, in item order, and shuffle these as `arrange` does."""
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
