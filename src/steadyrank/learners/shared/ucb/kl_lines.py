"""Rank by the KL index through its tangents, so that few of its equations are solved in a round.

q(l), the largest q with `n kl(S/n, q) <= l`, is increasing and concave. With f(q) = n kl(S/n, q), q' = 1 / f' and
q'' = -f'' / f'^3, and |q''| falls with l because f' f''' <= 2 f''^2. So from the tangent at l0, q(l) is at most
the tangent and at most `|q''(l0)| (l - l0)^2 / 2` below it. All tangents of an epoch are at the same l0: items
with equal (n, S) have equal ones, and tie as their indices do.
"""

from typing import NamedTuple

import numpy as np

from ....core.arrays import Floats, Ints
from ....core.compiling.intrinsics import stack_floats, stack_ints
from ....core.compiling.jit import kernel, no_refcount
from ....core.kernels import KL_CLOCK, IndexTable, arrange, kl_upper
from .bounds import (
    GUESS,
    LAST,
    LEVEL,
    LINEAR,
    LONGEST,
    POOL,
    REACH,
    ROOT,
    SURE,
    all_true,
    counts_tie,
    fill_tied,
    hold,
    keep,
    renew,
    room,
    time_parts,
)
from .shortlist import SLACK, Candidates, Moment, at_least, gather, name, place

_EPOCH = 20  # tangents are recomputed once t has grown by a twentieth
_MEMO = 64
L0, END = range(2)  # indices in `epoch`


class Tangents(NamedTuple):
    """Counts of the items, and the tangent of each item's KL index in an epoch of rounds."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K] with `linear`: the tangent line
    root: Floats  # [K] how fast the index departs from it
    linear: Floats  # [K]
    epoch: Floats  # [2] l0 of the tangents, and the last round for which they serve
    tie_noise: float  # as in `IndexTable`

    @classmethod
    def create(cls, n_items: int, tie_noise: float = 1.0) -> "Tangents":
        """No counts, no tangents."""
        counts = np.zeros(n_items, np.int64), np.zeros(n_items, np.int64)
        return cls(*counts, np.zeros(n_items), np.zeros(n_items), np.zeros(n_items), np.zeros(2), tie_noise)


@no_refcount
def lines(kl):
    """The tangents as a table of indices: upper bounds of the KL indices."""
    return IndexTable(kl.looks, kl.level, kl.root, kl.linear, np.inf, KL_CLOCK, kl.tie_noise)


@no_refcount
def draw_line(kl, k, l0, q):
    """Set the tangent of item k at l0, where its index is q, and half of |q''| there, as `root`."""
    n = kl.looks[k]
    mean = kl.clicks[k] / n
    slope = q * (1.0 - q) / (n * (q - mean)) if q - mean > 1e-15 else 0.0
    kl.linear[k] = slope
    kl.level[k] = q - slope * l0 + SLACK
    kl.root[k] = 0.5 * n * (mean / (q * q) + (1.0 - mean) / ((1.0 - q) * (1.0 - q))) * slope**3 if q < 1.0 else 0.0


@no_refcount
def keep_kl(bounds, kl, t, ranking, examined, guess):
    """`keep` for the KL index. O(d) tangents, and K once t has grown by a twentieth."""
    first, epoch = t + 1, kl.epoch
    if t >= bounds.window[LAST] and first > epoch[END]:
        epoch[L0] = time_parts(first, KL_CLOCK)[1]
        epoch[END] = first + first // _EPOCH + _EPOCH
        draw_all(bounds.pool, kl)
        bounds.marks[GUESS] = guess
        renew(bounds, lines(kl), first, ranking.size)
    else:
        draw_again(kl, ranking, examined)
        keep(bounds, lines(kl), t, ranking, examined, guess)


@no_refcount
def draw_again(kl, ranking, examined):
    """Recompute the tangents of the examined items, whose counts have changed, if they were seen."""
    for p in range(examined):
        k = ranking[p]
        if kl.looks[k] > 0:
            q = kl_upper(kl.clicks[k] / kl.looks[k], kl.looks[k], kl.epoch[L0])
            draw_line(kl, k, kl.epoch[L0], q)


@no_refcount
def draw_all(scratch, kl):
    """Compute the tangents of all items that were seen, at the start of the epoch."""
    n, l0 = 0, kl.epoch[L0]
    for k in range(kl.looks.size):
        scratch[n] = k
        n += kl.looks[k] > 0
    solve(scratch, kl.level, n, kl.looks, kl.clicks, l0)
    for i in range(n - 1, -1, -1):  # the i-th index is in level[i], and its item is at least i
        draw_line(kl, scratch[i], l0, kl.level[i])


@no_refcount
def rank_by_kl(bounds, kl, t, allowed, ranking, note, rng):
    """Rank by the KL index, items never seen first, ties as in `arrange`; returns the next guess, for `keep_kl`."""
    d, guess, reach = ranking.size, bounds.marks[GUESS], bounds.marks[REACH]
    pool, lt, n = bounds.pool[: bounds.window[POOL]], time_parts(t, KL_CLOCK)[1], 0
    for p in range(d):
        note[p] = rng.random() * kl.tie_noise
    bounds_hold = hold(bounds, t, 1)
    if bounds_hold and d <= LONGEST:
        items, values = stack_ints(room(d)), stack_floats(room(d))
        candidates = Candidates(items, values, stack_ints(room(d) + 1), stack_ints(room(d)))
        now = Moment(0.0, lt, (lt - kl.epoch[L0]) ** 2 + 1e-300)
        if counts_tie(bounds):
            n = rank_tied_kl(bounds, kl, now, allowed, ranking, note, candidates)
        else:
            n = gather(pool, reach, guess, lines(kl), now, allowed, d, candidates)
            if n > 0:
                guess = place(values, n, ranking, note, candidates.spare)
                if not clear(candidates, n, kl, now.w, ranking):
                    solve(items, values, n, kl.looks, kl.clicks, lt)
                    guess = place(values, n, ranking, note, candidates.spare)
                name(items, ranking)
    if n == 0:
        rank_all(
            kl, pool[:0] if counts_tie(bounds) or not bounds_hold else pool, reach, lt, allowed, ranking, note[:d]
        )
    for p in range(d):
        note[p] = 0.0
    return guess


@no_refcount
def rank_tied_kl(bounds, kl, now, allowed, ranking, note, candidates):
    """`rank_tied` for the KL index: by tangents if they decide what beats the tie and its order; else by indices."""
    pool, marks, size, d = bounds.pool, bounds.marks, bounds.window[POOL], ranking.size
    looks, clicks, items, values, equals = kl.looks, kl.clicks, candidates.items, candidates.values, candidates.equals
    tie = marks[LEVEL] + marks[LINEAR] * now.lt
    least = at_least(tie, marks[ROOT], now.w)
    if size > items.size or least < marks[REACH] or bounds.window[SURE] < d or not all_true(allowed):
        return 0
    n = n_equal = 0
    certain = True
    for i in range(size):
        k = pool[i]
        v = kl.level[k] + kl.linear[k] * now.lt
        items[n], values[n] = k, v
        above = at_least(v, kl.root[k], now.w) > tie
        n += above
        certain &= above | (v < least)
    if certain and n > 0:
        best = ranking[: min(n, d)]
        place(values, n, best, note, candidates.spare)
        certain = clear(candidates, n, kl, now.w, best)
    if not certain:
        k = 0
        while bounds.ahead[k] < np.inf:
            k += 1
        tie = kl_upper(clicks[k] / looks[k], looks[k], now.lt)
        solve(pool, values, size, looks, clicks, now.lt)
        n = 0
        for i in range(size):
            v = values[i]
            items[n], values[n], equals[n_equal] = pool[i], v, pool[i]
            n += v > tie
            n_equal += v == tie
    fill_tied(bounds, candidates, n, n_equal, ranking, note)
    return d


@no_refcount
def clear(candidates, n, kl, w, ranking):
    """Whether the tangents alone decide which candidates are the best, and in which order.

    Each must lie surely above the next; equal tangents must belong to equal (n, S). `ranking` holds candidates'
    numbers.
    """
    items, values = candidates.items, candidates.values
    last = ranking[-1]
    after = -np.inf
    for i in range(n):
        v = values[i]
        after = v if after < v < values[last] else after
        if v == values[last] and not alike(items[i], items[last], kl):
            return False
    for p in range(ranking.size - 1, -1, -1):
        i = ranking[p]
        if values[i] > values[last]:
            after, last = values[last], i
        elif not alike(items[i], items[last], kl):
            return False
        if at_least(values[i], kl.root[items[i]], w) <= after:
            return False
    return True


@no_refcount
def alike(k, m, kl):
    """Whether two items have the same counts, hence the same index."""
    return kl.looks[k] == kl.looks[m] and kl.clicks[k] == kl.clicks[m]


@no_refcount
def solve(items, values, n, looks, clicks, lt):
    """Compute the indices of n items that were seen; most equal (n, S) are solved once."""
    memo_n, memo_s, memo_q = stack_ints(_MEMO), stack_ints(_MEMO), stack_floats(_MEMO)
    for i in range(_MEMO):
        memo_n[i] = 0
    for i in range(n):
        size, ones = looks[items[i]], clicks[items[i]]
        m = (31 * size + ones) % _MEMO
        if memo_n[m] != size or memo_s[m] != ones:
            memo_n[m], memo_s[m], memo_q[m] = size, ones, kl_upper(ones / size, size, lt)
        values[i] = memo_q[m]


@kernel
def rank_all(kl, pool, reach, lt, allowed, ranking, uniforms):
    """Rank by the index of every item in the pool, or of all if too few of the pool surely beat the others."""
    looks, clicks = kl.looks, kl.clicks
    index = np.full(looks.size, -np.inf)
    if pool.size > 0:
        values, enough = np.empty(pool.size), 0
        solve(pool, values, pool.size, looks, clicks, lt)
        for i in range(pool.size):
            index[pool[i]] = values[i] if allowed[pool[i]] else -np.inf
            enough += index[pool[i]] >= reach
        if enough >= ranking.size:
            arrange(index, ranking, uniforms)
            return
    unseen = 0
    for k in range(looks.size):
        index[k] = np.inf if allowed[k] and looks[k] == 0 else -np.inf
        unseen += index[k] == np.inf
    if unseen < ranking.size:
        seen = np.flatnonzero(looks > 0)
        values = np.empty(seen.size)
        solve(seen, values, seen.size, looks, clicks, lt)
        for i in range(seen.size):
            index[seen[i]] = values[i] if allowed[seen[i]] else -np.inf
    arrange(index, ranking, uniforms)
