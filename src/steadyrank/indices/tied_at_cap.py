"""Places drawn from the many items whose indices tie, by their counts in blocks instead of one by one."""

import numpy as np

from .._jit import uncounted

ITEMS = 8  # a block, whose tied items are counted
GROUP = 8  # blocks counted together
CHUNK = 64  # blocks looked at together


@uncounted
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


@uncounted
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


@uncounted
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


@uncounted
def pick(ahead, j, left, equals):
    """The tied item of block j that has `left` others before it there."""
    found, here = j * ITEMS, 0
    for k in range(j * ITEMS, min((j + 1) * ITEMS, ahead.size)):
        tied = ahead[k] == np.inf
        for e in range(equals.size):
            tied |= equals[e] == k
        here += tied
        found += here <= left
    return found


@uncounted
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
