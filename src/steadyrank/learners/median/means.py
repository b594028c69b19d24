"""Estimates of an item's attraction from its bits, one bit at a time, without storing them.

`Medians` is the paper's calibrated mean of medians in all its readings; `TimeMedians` is the median of means
over blocks in order of arrival.

In functions that update estimates and indices, `book` is a `Medians`; `root` and `linear`, with its estimates as
level, are the items' indices.
"""

import math
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.intrinsics import borrowed
from ...core.compiling.jit import kernel, no_refcount
from ...core.kernels import mean_index
from ...core.settings import choice, odd, real, refuse_unused, whole
from .calibration import block_majority, block_majority_step, calibrate, calibrate_bisect
from .partitions import (
    A3,
    A4,
    AVERAGED,
    CONSECUTIVE,
    EVERY_ROUND,
    MEAN,
    RANDOM,
    Partition,
    Reading,
    block_size,
    consecutive_in,
    expect_rare,
    fresh_tally,
    octave,
    odd_below,
    redraw_tally,
    shuffle_in,
)

Calibration: TypeAlias = Literal["exact", "bisection", "none"]
Edge: TypeAlias = Literal["literal", "clip", "add-half"]
Refresh: TypeAlias = Literal["always", "doubling"]
Preset: TypeAlias = Literal["paper-exp", "paper-alg", "paper-app", "small-block", "mean"]

EXACT, BISECTION, NONE = range(3)  # as in Calibration
LITERAL, CLIP, ADD_HALF = range(3)  # as in Edge

PRESETS: dict[str, dict[str, Any]] = {
    # the block size of a paragraph that is commented out in the paper's source
    "paper-exp": {"reading": "A3", "alpha": 2.0, "least_blocks": 1},
    "paper-alg": {"reading": "A1", "alpha": 2.0, "least_blocks": 1},  # Algorithm 3, as printed
    "paper-app": {"reading": "A2", "alpha": 15.7, "least_blocks": 1},  # Lemma 1 asks for more than 15
    "small-block": {"reading": "A3", "alpha": 2.0, "least_blocks": 8, "block": 5},
    "mean": {"reading": "mean", "alpha": 2.0, "least_blocks": 1},
}
_MEMO = 512
_ROOM = 1 << 20  # numbers below it fit together into one key of the memo
_PAPER_HORIZON = 40_000  # used for an unknown horizon in A3 and A4: blocks of 21 bits, or 22 blocks


class Medians(NamedTuple):
    """Calibrated mean of medians of each item's bits (Algorithm 3 of the paper, CalibratedMeanOfMedians).

    The n bits of an item are split into m = floor(n / b) blocks of b bits, b odd; the share of blocks with a
    majority of ones goes through g_b. Readings of b: `A3` the same for all n, `A2` ceil(alpha log n), `A1` such
    that there are ceil(alpha log n) blocks (b and the number of blocks share a name in the paper), `A4`
    ceil(alpha log T) blocks (its earlier MeanOfMedians); `mean` is S / n. Partitions: `random`, each new bit is
    shuffled into the current partition; `fresh`, a new random one whenever an item has a new bit; `every-round`,
    new ones of all items in each round (as printed); `consecutive` in time; `averaged` over all random ones
    (Rao-Blackwell).

    `random` and `fresh` have the same distribution at every n, not from one n to the next. Bits inside a block are
    exchangeable, so `random` needs only the histogram of ones per block, and `fresh` only
    (n, S); if b changes with n (A1, A2, A4), `random` is `fresh`. With 21 bits a block: 128 bytes an item.
    """

    looks: Ints  # [K] bits so far, n
    clicks: Ints  # [K] ones among them, S
    estimate: Floats  # [K]
    blocks: Counts  # [K] complete blocks, m
    tally: Counts  # [K] blocks with a majority of ones
    open_seen: Counts  # [K] bits in the open block
    open_wins: Counts  # [K] ones among them
    histogram: Counts  # [K, b + 1] complete blocks by number of ones (random, A3), else [K, 0]
    chain: Floats  # [K, 2] Q and f (averaged, A3), [K, 1] rare blocks expected (every-round), else [K, 0]
    asked: Ints  # [512] memo keys: shares whose g_b was computed, as blocks and majorities in one number
    answer: Floats  # [512] memo values, their g_b: many items have the same few blocks
    reading: int
    partition: int
    calibration: int
    edge: int
    block: int  # bits of a block (A3), or number of blocks (A4)
    least_blocks: int
    alpha: float
    eta: float
    rarely: int  # whether an item's estimate and index change only when its bits reach a power of two

    @classmethod
    def create(
        cls,
        shape: tuple[int, ...],
        horizon: int,
        *,
        preset: Preset,
        reading: Reading | None,
        partition: Partition,
        block: int | None,
        alpha: float | None,
        least_blocks: int | None,
        calibration: Calibration,
        eta: float | None,
        edge: Edge,
        refresh: Refresh = "always",
    ) -> "Medians":
        """Empty memory for `shape` streams of bits; None means the preset's value."""
        choice("preset", preset, PRESETS)
        chosen = PRESETS[preset]
        given = {"block": block, "alpha": alpha, "least_blocks": least_blocks}
        alpha = real("alpha", chosen["alpha"] if alpha is None else alpha, 0.01, 1000.0)
        code = choice("reading", chosen["reading"] if reading is None else reading, get_args(Reading))
        how = choice("partition", partition, get_args(Partition))
        block = chosen.get("block") if block is None else block
        named = f"reading {get_args(Reading)[code]!r}"
        if code != A3:
            refuse_unused({"block": given["block"]}, named)
        if code == MEAN:
            refuse_unused({"alpha": given["alpha"], "least_blocks": given["least_blocks"]}, named)
        elif code == A3 and block is not None:
            refuse_unused({"alpha": given["alpha"]}, f"{named} with a given block")
        inverse = choice("calibration", calibration, get_args(Calibration))
        if inverse != BISECTION:
            refuse_unused({"eta": eta}, f"calibration={calibration!r}")
        size = max(1, math.ceil(alpha * math.log(horizon or _PAPER_HORIZON)))
        size = size if code == A4 else max(3, odd_below(size)) if block is None else odd("block", block, 1, 9_999)
        kept = 2 if (code, how) == (A3, AVERAGED) else int(how == EVERY_ROUND)
        return cls(
            looks=np.zeros(shape, np.int64),
            clicks=np.zeros(shape, np.int64),
            estimate=np.zeros(shape),
            blocks=np.zeros(shape, np.int32),
            tally=np.zeros(shape, np.int32),
            open_seen=np.zeros(shape, np.int32),
            open_wins=np.zeros(shape, np.int32),
            histogram=np.zeros((*shape, size + 1 if (code, how) == (A3, RANDOM) else 0), np.int32),
            chain=np.zeros((*shape, kept)),
            asked=np.zeros(_MEMO, np.int64),
            answer=np.zeros(_MEMO),
            reading=code,
            partition=how,
            calibration=inverse,
            edge=choice("edge", edge, get_args(Edge)),
            block=size,
            least_blocks=whole(
                "least_blocks", chosen["least_blocks"] if least_blocks is None else least_blocks, 1, 1_000_000
            ),
            alpha=alpha,
            eta=real("eta", 1e-6 if eta is None else eta, 0.0, 0.5),
            rarely=choice("refresh", refresh, get_args(Refresh)),
        )


@no_refcount
def row(book, j):
    """The j-th row of a `Medians` whose memory has one more axis in front, borrowed."""
    return borrowed(
        Medians(
            book.looks[j],
            book.clicks[j],
            book.estimate[j],
            book.blocks[j],
            book.tally[j],
            book.open_seen[j],
            book.open_wins[j],
            book.histogram[j],
            book.chain[j],
            book.asked,
            book.answer,
            book.reading,
            book.partition,
            book.calibration,
            book.edge,
            book.block,
            book.least_blocks,
            book.alpha,
            book.eta,
            book.rarely,
        )
    )


@no_refcount
def from_share(book, y, m, b):
    """g_b of the share y of m blocks with a majority, with the chosen treatment of shares 0 and 1."""
    if book.edge == CLIP:
        y = min(max(y, 0.5 / m), 1.0 - 0.5 / m)
    elif book.edge == ADD_HALF:
        y = (y * m + 0.5) / (m + 1.0)
    if book.calibration == BISECTION:
        return calibrate_bisect(b, y, book.eta, 60)
    if book.calibration == NONE:
        return y
    return calibrate(b, y)


@no_refcount
def from_counts(book, tally, m, b):
    """`from_share` of `tally` blocks of m, memoized."""
    m = np.int64(m)
    asked = (m << 31) + tally
    place = (31 * m + tally) % _MEMO
    if book.reading != A3:  # b changes: part of the key if there is room
        if m >= _ROOM or b >= _ROOM:
            return from_share(book, tally / m, m, b)
        asked = (((m << 20) + tally) << 20) + b
        place = (place + 7 * b) % _MEMO
    if book.asked[place] != asked:
        book.asked[place] = asked
        book.answer[place] = from_share(book, tally / m, m, b)
    return book.answer[place]


@no_refcount
def averaged_estimate(book, k, bit, b):
    """g_b(Q), Q averaged over all random partitions of item k's n >= b bits; the counts already include `bit`."""
    n, ones = book.looks[k], book.clicks[k]
    if book.chain.shape[1] > 0:
        q, f = block_majority_step(book.chain[k, 0], book.chain[k, 1], n - 1, ones - bit, b, bit)
        book.chain[k, 0] = q
        book.chain[k, 1] = f
    else:
        q = block_majority(n, ones, b)
    if book.calibration != EXACT or book.edge != LITERAL:
        return from_share(book, min(max(q, 0.0), 1.0), n // b, b)
    if q < 1e-9:  # here g_b needs the relative accuracy of the sum itself
        return calibrate(b, block_majority(n, ones, b))
    if q > 1.0 - 1e-9:
        return 1.0 - calibrate(b, block_majority(n, n - ones, b))
    return calibrate(b, q)


@no_refcount
def observe(book, k, bit, chance):
    """Add one bit of item k and update `book.estimate[k]`."""
    book.looks[k] += 1
    book.clicks[k] += bit
    n, ones = book.looks[k], book.clicks[k]
    book.estimate[k], last = ones / n, book.estimate[k]
    if book.reading == MEAN:
        return
    grown = octave(n) if book.partition == CONSECUTIVE else n
    b = block_size(book.reading, grown, book.block, book.alpha)
    if book.partition == AVERAGED:
        if n >= b and b > 1:
            value = averaged_estimate(book, k, bit, b)
            if n // b >= book.least_blocks:
                book.estimate[k] = value
        return
    if book.partition == CONSECUTIVE:
        changed = consecutive_in(book, k, bit, b, n)
    elif book.reading == A3 and book.partition == RANDOM:
        changed = shuffle_in(book, k, bit, chance)
    else:
        changed = True
        book.blocks[k] = n // b
        if book.partition == EVERY_ROUND:
            expect_rare(book, k, b)
            book.tally[k] = redraw_tally(book, k, b, chance)
        else:
            book.tally[k] = fresh_tally(n, ones, b, n // b, chance)
    if b > 1 and book.blocks[k] >= book.least_blocks:
        book.estimate[k] = from_counts(book, book.tally[k], book.blocks[k], b) if changed or book.rarely else last


@no_refcount
def wipe(book, root, linear, clock):
    """Clear all rows of a `Medians` with two axes, and their indices and clocks."""
    book.looks[:] = 0
    book.clicks[:] = 0
    book.estimate[:] = 0.0
    book.blocks[:] = 0
    book.tally[:] = 0
    book.open_seen[:] = 0
    book.open_wins[:] = 0
    book.histogram[:] = 0
    book.chain[:] = 0.0
    root[:] = 0.0
    linear[:] = 0.0
    clock[:] = 0


class TimeMedians(NamedTuple):
    """Median of means over blocks in order of arrival (ours; a remedy for attacks confined to one stretch).

    An item has between B and 2 B - 1 complete blocks of equal length; at 2 B, neighbours merge and
    the length doubles: amortised O(1), 8 B + 12 bytes an item.
    """

    ones: Counts  # [K, 2 B] ones in each block; the one after the complete blocks is open
    full: Counts  # [K] complete blocks
    size: Counts  # [K] bits a block
    open_seen: Counts  # [K] bits in the open block

    @classmethod
    def create(cls, n_items: int, n_blocks: int) -> "TimeMedians":
        """Empty memory with at least `n_blocks` blocks an item once there are as many bits."""
        return cls(
            np.zeros((n_items, 2 * n_blocks), np.int32),
            np.zeros(n_items, np.int32),
            np.ones(n_items, np.int32),
            np.zeros(n_items, np.int32),
        )


@no_refcount
def observe_in_time(book, k, bit):
    """Add one bit of item k to its blocks of time."""
    ones = book.ones[k]
    ones[book.full[k]] += bit
    book.open_seen[k] += 1
    if book.open_seen[k] < book.size[k]:
        return
    book.open_seen[k] = 0
    book.full[k] += 1
    if book.full[k] == ones.size:
        half = ones.size // 2
        for i in range(half):
            ones[i] = ones[2 * i] + ones[2 * i + 1]
        ones[half:] = 0
        book.full[k] = half
        book.size[k] *= 2


@kernel
def median_in_time(book, k):
    """The median of the means of item k's complete blocks; it must have one."""
    m = book.full[k]
    means = np.sort(book.ones[k, :m])
    return 0.5 * (means[(m - 1) // 2] + means[m // 2]) / book.size[k]


Radius: TypeAlias = Literal["variance", "plain"]


class Width(NamedTuple):
    """The radius `a sqrt(v log t / n) + b log t / n`: v = m (1 - m) of the estimate m, or 1 (`plain`)."""

    a: float
    b: float
    plain: int

    @classmethod
    def create(cls, a: float, b: float, radius: Radius) -> "Width":
        """Check the settings of these names."""
        return cls(real("a", a, 0.0), real("b", b, 0.0), choice("radius", radius, get_args(Radius)))


@no_refcount
def refresh_index(book, root, linear, width, k):
    """Update item k's index after its estimate changed."""
    n = book.looks[k]
    mean_index(book.estimate, root, linear, k, book.estimate[k], n, width.a, width.b)
    if width.plain == 1:
        root[k] = width.a * math.sqrt(1.0 / n)


@no_refcount
def observe_list(book, root, linear, width, ranking, clicks, examined, chance):
    """Add a round's bits to `book` and update the observed items' indices; `every-round`, those of all items."""
    if book.partition == EVERY_ROUND:
        redraw_others(book, root, linear, width, ranking, examined, chance)
    for p in range(examined):
        k = ranking[p]
        last = book.estimate[k]
        observe(book, k, 1 if clicks[p] else 0, chance)
        n = book.looks[k]
        if book.rarely and n & (n - 1) != 0:
            book.estimate[k] = last
        else:
            refresh_index(book, root, linear, width, k)


@no_refcount
def redraw_others(book, root, linear, width, ranking, examined, chance):
    """Draw new partitions for all items but the observed ones. O(K d), plus the cost of `redraw_tally`."""
    for k in range(book.looks.size):
        if book.chain[k, 0] == 0.0 or among(ranking, examined, k):
            continue
        n, m, last = book.looks[k], book.blocks[k], book.tally[k]
        b = block_size(book.reading, n, book.block, book.alpha)
        book.tally[k] = redraw_tally(book, k, b, chance)
        if book.tally[k] != last:
            book.estimate[k] = from_counts(book, book.tally[k], m, b)
            refresh_index(book, root, linear, width, k)


@no_refcount
def among(ranking, size, k):
    """Whether item k is one of the first `size` of a list."""
    contained = False
    for p in range(size):
        contained |= ranking[p] == k
    return contained
