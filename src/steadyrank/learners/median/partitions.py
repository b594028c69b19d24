"""How an item's bits are split into blocks: block sizes in every reading, and one step of each partition.

`book` is an `estimators.Medians`; k is an item.
"""

import math
from typing import Literal, TypeAlias

from ...core.compiling.jit import no_refcount
from ...core.philox import hypergeometric, hypergeometric_at, uniform
from .calibration import minority

Reading: TypeAlias = Literal["mean", "A1", "A2", "A3", "A4"]
Partition: TypeAlias = Literal["random", "consecutive", "averaged", "fresh", "every-round"]

MEAN, A1, A2, A3, A4 = range(5)  # as in Reading
RANDOM, CONSECUTIVE, AVERAGED, FRESH, EVERY_ROUND = range(5)  # as in Partition


def odd_below(size: int) -> int:
    """The largest odd number of at most `size` (the paper adjusts "by +-1 if needed")."""
    return size - 1 + size % 2


@no_refcount
def block_size(reading, n, fixed, alpha):
    """The odd block size b of a reading for n bits; A2's logarithm is rounded up to an odd number.

    `fixed` depends on the horizon: the size itself (A3) or the number of blocks (A4).
    """
    if reading == A3:
        return fixed
    if reading == A4:
        return 2 * (n // (2 * fixed)) + 1
    count = math.ceil(alpha * math.log(max(n, 2)))
    if reading == A1:
        return 2 * (n // (2 * count)) + 1
    return count + 1 - count % 2


@no_refcount
def octave(n):
    """The largest power of two of at most n."""
    power = 1
    while 2 * power <= n:
        power *= 2
    return power


@no_refcount
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


@no_refcount
def shuffle_in(book, k, bit, chance):
    """Insert a bit into item k's random partition: one step of the inside-out shuffle, kept as counts of its blocks.

    The new bit takes a uniformly random position among n (`looks` already counts it); the bit that was there moves
    to the end. Positions are numbered block by block, blocks by their number of ones, ones first within a block.
    Returns whether the estimate may have changed. O(b).
    """
    b = book.block
    place = int(uniform(chance) * book.looks[k])
    moved = bit
    changed = False
    if place < book.blocks[k] * b:
        target = int(place / float(b))  # exact below 2^40, in a third of the time of an integer division
        ones = 0
        below = book.histogram[k, 0]
        while target >= below:
            ones += 1
            below += book.histogram[k, ones]
        moved = 1 if place - target * b < ones else 0
        if moved != bit:
            now = ones + bit - moved
            book.histogram[k, ones] -= 1
            book.histogram[k, now] += 1
            if (now > b // 2) != (ones > b // 2):
                book.tally[k] += bit - moved
                changed = True
    return fill_block(book, k, moved, b) or changed


@no_refcount
def consecutive_in(book, k, bit, b, n):
    """Append a bit to blocks in order of arrival; returns whether the estimate may have changed.

    If b grows with n (A1, A2), it is the size at the start of n's octave, and the tally restarts there:
    earlier bits are not kept (our reconstruction; the paper does not say).
    """
    if book.reading != A3 and n & (n - 1) == 0:
        book.blocks[k] = book.tally[k] = book.open_seen[k] = book.open_wins[k] = 0
    return fill_block(book, k, bit, b)


@no_refcount
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


@no_refcount
def draw_majority(n, ones, b, u):
    """Draw how many of b out of n bits are ones, given a majority of ones; u is uniform in [0, chance of that)."""
    x = (b + 1) // 2
    p = hypergeometric_at(x, n, ones, b)
    while u >= p and x < min(b, ones):
        u -= p
        p *= (ones - x) * (b - x) / ((x + 1.0) * (n - ones - b + x + 1.0))
        x += 1
    return x


@no_refcount
def expect_rare(book, k, b):
    """Store the expected number of item k's blocks with a majority of its rarer bit; 0 if nothing is drawn."""
    n, ones, m = book.looks[k], book.clicks[k], book.blocks[k]
    drawn = b > 1 and m >= book.least_blocks
    book.chain[k, 0] = m * minority(n, min(ones, n - ones), b) if drawn else 0.0


@no_refcount
def redraw_tally(book, k, b, chance):
    """`fresh_tally` of item k, by a single uniform if a majority of the rarer bit is rare.

    Let e < 1 be the expected number of such blocks (`expect_rare`) and N their number. With chance e one block is
    given such a majority, the others are drawn after it, and the result is accepted with chance 1 / N; else N = 0.
    Exact: the block is one of those N with chance N P(N) / e, so N results with chance e (N P(N) / e) / N = P(N). O(1
    + e m), and O(m) from e = 1 on.
    """
    n, ones, m, expected = book.looks[k], book.clicks[k], book.blocks[k], book.chain[k, 0]
    if expected >= 1.0:
        return fresh_tally(n, ones, b, m, chance)
    rare, tally, u = min(ones, n - ones), 0, uniform(chance)
    if u < expected:
        drawn = draw_majority(n, rare, b, u / m)
        tally = 1 + fresh_tally(n - b, rare - drawn, b, m - 1, chance)
        tally = tally if uniform(chance) * tally < 1.0 else 0
    return tally if 2 * ones <= n else m - tally
