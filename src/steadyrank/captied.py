"""A list drawn from the many items whose indices tie at the cap, by their counts."""

import numpy as np

from ._jit import lean
from .kernels import value_of

ITEMS = 8  # a block, whose items at the cap are counted
GROUP = 8  # blocks counted together
CHUNK = 64  # blocks looked at together


@lean
def rank_at_cap(ahead, sure, pool, size, n_sure, level, root, linear, s, lt, cap, allowed, ranking, uniforms, spare):
    """At least a list's worth of items ties at the cap: shuffle their places without gathering them.

    Place p goes to the item at a drawn place of the tied ones in item order, as `arrange` does; the few exchanges of
    its shuffle are remembered instead of made. Then one walk over the blocks finds the items. Returns how many tie;
    0, and nothing done, unless all items are allowed.
    """
    every = True
    for k in range(allowed.size):  # no early exit: a plain conjunction runs 64 items at a time
        every &= allowed[k]
    if not every:
        return 0
    d, total = ranking.size, n_sure
    for i in range(size):
        total += value_of(level, root, linear, pool[i], s, lt, cap) >= cap
    draw_places(total, ranking, spare, uniforms)
    counts, before, i = spare[d:], 0, 0
    for p in range(d):
        spare[p] = ranking[p]
    for start in range(0, sure.size, CHUNK):
        inside = count_chunk(sure, start, counts)
        while i < size and pool[i] < (start + CHUNK) * ITEMS:
            arrived = value_of(level, root, linear, pool[i], s, lt, cap) >= cap
            j = pool[i] // ITEMS - start
            counts[j] += arrived
            counts[CHUNK + j // GROUP] += arrived
            inside += arrived
            i += 1
        for p in range(d):
            if before <= spare[p] < before + inside:
                j, left = locate(counts, spare[p] - before)
                ranking[p] = at_cap(ahead, start + j, left, level, root, linear, s, lt, cap, total > n_sure)
        before += inside
    return total


@lean
def count_chunk(sure, start, counts):
    """How many items are at the cap in each block of a chunk, in each eight blocks, and in all."""
    total, size = 0, min(CHUNK, sure.size - start)
    for g in range(CHUNK // GROUP):
        number = 0
        for j in range(g * GROUP, (g + 1) * GROUP):
            counts[j] = sure[start + j] if j < size else 0
            number += counts[j]
        counts[CHUNK + g] = number
        total += number
    return total


@lean
def locate(counts, place):
    """The block of a chunk with the item at this place of those at the cap, and its place there."""
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


@lean
def at_cap(ahead, j, left, level, root, linear, s, lt, cap, some):
    """The item of block j at the cap that has `left` others before it there; `some` if any came there meanwhile."""
    found, here = j * ITEMS, 0
    for k in range(j * ITEMS, min((j + 1) * ITEMS, ahead.size)):
        v = ahead[k]
        if some and cap <= v < np.inf:
            v = np.inf if value_of(level, root, linear, k, s, lt, cap) >= cap else v
        here += v == np.inf
        found += here <= left
    return found


@lean
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
