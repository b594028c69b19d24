"""How an item's bits are split into blocks: sizes in every reading, and one step of each partition.

`book` is an `estimators.Medians`; k is an item.
"""

import math
from typing import Literal, TypeAlias

from .._jit import uncounted
from ..chance import hypergeometric, uniform

Reading: TypeAlias = Literal["mean", "A1", "A2", "A3"]
Partition: TypeAlias = Literal["random", "consecutive", "averaged", "fresh"]

MEAN, A1, A2, A3 = range(4)  # as in Reading
RANDOM, CONSECUTIVE, AVERAGED, FRESH = range(4)  # as in Partition


def odd_below(size: int) -> int:
    """The largest odd number of at most `size` (the paper adjusts "by +-1 if needed")."""
    return size - 1 + size % 2


@uncounted
def block_size(reading, n, fixed, alpha):
    """The odd block size b of a reading for n bits; A2's logarithm is rounded up to an odd number."""
    if reading == A3:
        return fixed
    count = math.ceil(alpha * math.log(max(n, 2)))
    if reading == A1:
        return 2 * (n // (2 * count)) + 1
    return count + 1 - count % 2


@uncounted
def octave(n):
    """The largest power of two of at most n."""
    power = 1
    while 2 * power <= n:
        power *= 2
    return power


@uncounted
def fill_block(book, k, bit, b):
    """Append a bit to the open block of item k; close it at b bits. Returns whether it was closed."""
    book.open_seen[k] += 1
    book.open_wins[k] += bit
    if book.open_seen[k] < b:
        return False
    ones = book.open_wins[k]
    book.blocks[k] += 1
    if ones > b // 2:
        book.tally[k] += 1
    if book.histogram.shape[1] > 0:
        book.histogram[k, ones] += 1
    book.open_seen[k] = 0
    book.open_wins[k] = 0
    return True


@uncounted
def shuffle_in(book, k, bit, chance):
    """Insert a bit into item k's random partition: one step of the inside-out shuffle, seen through its blocks.

    The new bit takes a uniformly random place among n (`looks` counts it already); the bit that was there moves
    to the end. Places are numbered block by block, blocks by their number of ones, ones first within a block.
    Returns whether the estimate may have changed. O(b).
    """
    b = book.block
    place = int(uniform(chance) * book.looks[k])
    moved = bit
    changed = False
    if place < book.blocks[k] * b:
        target = place // b
        ones = 0
        below = book.histogram[k, 0]
        while target >= below:
            ones += 1
            below += book.histogram[k, ones]
        moved = 1 if place % b < ones else 0
        if moved != bit:
            now = ones + bit - moved
            book.histogram[k, ones] -= 1
            book.histogram[k, now] += 1
            if (now > b // 2) != (ones > b // 2):
                book.tally[k] += bit - moved
                changed = True
    return fill_block(book, k, moved, b) or changed


@uncounted
def consecutive_in(book, k, bit, b, n):
    """Append a bit to blocks in order of arrival; returns whether the estimate may have changed.

    Where b grows with n (A1, A2) it is the size at the start of n's octave, and the tally restarts there:
    earlier bits are not kept (our reconstruction; the paper does not say).
    """
    if book.reading != A3 and n & (n - 1) == 0:
        book.blocks[k] = book.tally[k] = book.open_seen[k] = book.open_wins[k] = 0
    return fill_block(book, k, bit, b)


@uncounted
def fresh_tally(n, ones, b, m, chance):
    """How many of m blocks of b bits have a majority of ones in a new random partition of n bits. O(m)."""
    r = (b + 1) // 2
    tally = 0
    for j in range(m):
        if ones < r:
            return tally
        if n - ones < r:
            return tally + m - j
        drawn = hypergeometric(n, ones, b, chance)
        tally += 1 if drawn >= r else 0
        n -= b
        ones -= drawn
    return tally
