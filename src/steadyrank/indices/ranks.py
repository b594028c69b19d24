"""Lists from the bounds: the same as from all indices, at a fraction of the cost."""

import numpy as np

from .._jit import stack_floats, stack_ints, uncounted
from ..kernels import place_index, value_of
from .bounds import ALIKE, FEWEST, FIRST, GUESS, LAST, LEVEL, LINEAR, POOL, REACH, ROOT, SURE, counts_tie, time_parts
from .shortlist import ROOM, gather, name, place
from .tied_at_cap import CHUNK, GROUP, draw_tied

LONGEST = 256  # longer lists gain nothing here


@uncounted
def hold(bounds, t, least):
    """Whether the bounds hold at round t and every item was seen `least` times."""
    return bounds.window[FIRST] <= t <= bounds.window[LAST] and bounds.window[FEWEST] >= least


@uncounted
def rank_by_bounds(bounds, looks, level, root, linear, t, least, cap, allowed, ranking, note, rng):
    """`rank_by_index` by way of the bounds where they hold: the same ranking and the same draws from `rng`.

    Returns the next guess, for `keep`. The front of `note` holds the uniforms meanwhile and is zero again afterwards.
    """
    pool, window, marks = bounds.pool, bounds.window, bounds.marks
    d, size, guess = ranking.size, window[POOL], marks[GUESS]
    s, lt = time_parts(t, 0)
    for p in range(d):
        note[p] = rng.random()
    n = 0
    if d <= LONGEST and hold(bounds, t, least):
        items, values = stack_ints(room(d)), stack_floats(room(d))
        spare, equals = stack_ints(room(d) + 1), stack_ints(room(d))
        if counts_tie(bounds):
            n = rank_tied(
                bounds, level, root, linear, s, lt, cap, allowed, ranking, note, items, values, spare, equals
            )
        else:
            index = level, root, linear, s, lt, 0.0, cap
            n = gather(pool, size, marks[REACH], guess, *index, allowed, d, items, values)
            if n > 0:
                guess = place(values, n, ranking, note, spare)
                name(items, ranking)
    if n == 0:
        place_index(looks, level, root, linear, lt, least, cap, allowed, ranking, note[:d])
    for p in range(d):
        note[p] = 0.0
    return guess


@uncounted
def room(d):
    """How many candidates are kept at a time for a list of d."""
    return max(ROOM, 3 * d, d + CHUNK + CHUNK // GROUP)


@uncounted
def rank_tied(bounds, level, root, linear, s, lt, cap, allowed, ranking, note, items, values, spare, equals):
    """Rank where a list's worth ties: what beats the tie comes first, then the tie. 0 if that is not enough."""
    pool, marks, d = bounds.pool, bounds.marks, ranking.size
    size = bounds.window[POOL]
    if size > items.size or not all_true(allowed):
        return 0
    tie = min(marks[LEVEL] + marks[ROOT] * s + marks[LINEAR] * lt, cap) if marks[ALIKE] > 0.0 else cap
    n = n_equal = 0
    for i in range(size):
        k = np.uint64(pool[i])
        v = value_of(level, root, linear, k, s, lt, cap)
        items[n], values[n], equals[n_equal] = pool[i], v, pool[i]
        n += v > tie
        n_equal += v == tie
    if n + n_equal + bounds.window[SURE] < d:
        return 0
    fill_tied(bounds, items, values, n, equals, n_equal, ranking, note, spare)
    return d


@uncounted
def all_true(flags):
    """Whether all flags are set; no early exit: a plain conjunction runs 64 at a time."""
    every = True
    for k in range(flags.size):
        every &= flags[k]
    return every


@uncounted
def fill_tied(bounds, items, values, n, equals, n_equal, ranking, uniforms, spare):
    """The list from n candidates that beat the tie, and the tie."""
    first = min(n, ranking.size)
    if n > 0:
        place(values, n, ranking[:first], uniforms, spare)
        name(items, ranking[:first])
    if first < ranking.size:
        draw_tied(bounds.ahead, bounds.sure, bounds.window[SURE], equals, n_equal, ranking, first, uniforms, spare)
