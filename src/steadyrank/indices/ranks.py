"""Lists from the bounds: the same as from all indices, at a fraction of the cost."""

import numpy as np

from .._intrinsics import stack_floats, stack_ints
from .._jit import uncounted
from ..kernels import LOG_CLOCK, place_index, value_of
from .bounds import ALIKE, FEWEST, FIRST, GUESS, LAST, LEVEL, LINEAR, POOL, REACH, ROOT, SURE, counts_tie, time_parts
from .shortlist import ROOM, Candidates, Moment, gather, name, place
from .tied_at_cap import CHUNK, GROUP, draw_tied

LONGEST = 256  # longer lists gain nothing here
GUESSED = 0  # place of a note in which learners keep the guess from `rank_by_bounds` for `keep`


@uncounted
def hold(bounds, t, least):
    """Whether the bounds hold at round t and every item was seen `least` times."""
    return bounds.window[FIRST] <= t <= bounds.window[LAST] and bounds.window[FEWEST] >= least


@uncounted
def rank_by_bounds(bounds, table, t, least, allowed, ranking, note, rng):
    """`rank_by_index` by way of the bounds where they hold: the same ranking and the same draws from `rng`.

    Returns the next guess, for `keep`. The front of `note` holds the uniforms meanwhile and is zero again afterwards.
    """
    d, guess = ranking.size, bounds.marks[GUESS]
    s, lt = time_parts(t, LOG_CLOCK)
    for p in range(d):
        note[p] = rng.random() * table.luck
    n = 0
    if d <= LONGEST and hold(bounds, t, least):
        items, values = stack_ints(room(d)), stack_floats(room(d))
        found = Candidates(items, values, stack_ints(room(d) + 1), stack_ints(room(d)))
        now = Moment(s, lt, 0.0)
        if counts_tie(bounds):
            n = rank_tied(bounds, table, now, allowed, ranking, note, found)
        else:
            pool, reach = bounds.pool[: bounds.window[POOL]], bounds.marks[REACH]
            n = gather(pool, reach, guess, table, now, allowed, d, found)
            if n > 0:
                guess = place(values, n, ranking, note, found.spare)
                name(items, ranking)
    if n == 0:
        place_index(table, lt, least, allowed, ranking, note[:d])
    for p in range(d):
        note[p] = 0.0
    return guess


@uncounted
def room(d):
    """How many candidates are kept at a time for a list of d."""
    return max(ROOM, 3 * d, d + CHUNK + CHUNK // GROUP)


@uncounted
def rank_tied(bounds, table, now, allowed, ranking, note, found):
    """Rank where a list's worth ties: what beats the tie comes first, then the tie. 0 if that is not enough."""
    pool, marks, size, d = bounds.pool, bounds.marks, bounds.window[POOL], ranking.size
    items, values, equals = found.items, found.values, found.equals
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
    fill_tied(bounds, found, n, n_equal, ranking, note)
    return d


@uncounted
def all_true(flags):
    """Whether all flags are set; no early exit: a plain conjunction runs 64 at a time."""
    every = True
    for k in range(flags.size):
        every &= flags[k]
    return every


@uncounted
def fill_tied(bounds, found, n, n_equal, ranking, uniforms):
    """The list from n candidates that beat the tie, and the tie."""
    spare = found.spare
    first = min(n, ranking.size)
    if n > 0:
        place(found.values, n, ranking[:first], uniforms, spare)
        name(found.items, ranking[:first])
    if first < ranking.size:
        n_sure, equals = bounds.window[SURE], found.equals[:n_equal]
        draw_tied(bounds.ahead, bounds.sure, n_sure, equals, ranking, first, uniforms, spare)
