"""Model selection among base learners that assume different amounts of corruption.

Our reconstruction of the paper's prose (section 3, "Integration into Model Selection Framework"), with
constants that can act within 40,000 rounds. Rewards are compared as self-normalised means: importance-weighted
sums fluctuate with the number of plays even if rewards do not. Statistics are cleared at each epoch: during an attack
the rewards are false too.

In each round one base ranks; more bases may learn from it.
"""

import math

import numpy as np

from ...core.compiling.intrinsics import stack_floats
from ...core.compiling.jit import kernel, no_refcount
from ...core.kernels import LOG_CLOCK, IndexTable, any_click, rank_by_index, top_allowed
from ..shared.ucb.bounds import GUESSED, bounds_row, forget, keep, rank_by_bounds
from . import gcobe
from .means import observe_list, row, wipe
from .partitions import EVERY_ROUND

LASTS, GONE = range(2)  # indices in `epoch`: its length, and its rounds so far
UNKNOWN_HORIZON = 2**20  # end of the grid of guesses if the horizon is unknown
_TEST_EVERY, _LEAST_PLAYS = 100, 50
_LOG = 10.0  # log(tests / 0.05) for about 1,200 tests a run


@no_refcount
def threshold(guess, share, cap):
    """Observations below which an item goes first, for a base that assumes `guess` corrupted rounds; at least 1."""
    return max(1, int(min(math.ceil(10.0 * guess * share), cap)))


@no_refcount
def draw_base(active, u):
    """An active base, i with chance proportional to 2^-i; u is uniform in [0, 1)."""
    total, weight = 0.0, 1.0
    for i in range(active.size):
        total += weight if active[i] else 0.0
        weight *= 0.5
    chosen, weight = 0, 1.0
    u *= total
    for i in range(active.size):
        if active[i]:
            chosen = i
            u -= weight
        if u < 0.0:
            break
        weight *= 0.5
    return chosen


@kernel
def rank_stored(stored, allowed, ranking, rng):
    """Show a stored list; random items replace those not allowed now."""
    index = np.zeros(allowed.size)
    for p in range(stored.size):
        index[stored[p]] = stored.size - p
    top_allowed(index, allowed, ranking, rng)


@kernel
def rank_otherwise(stored, table, t, least, allowed, ranking, rng):
    """If `ranking` is the stored list in any order, rank again without its last item, if another item is available.

    A challenger never shows the list that it challenges.
    """
    same = free = 0
    for p in range(ranking.size):
        for q in range(stored.size):
            same += 1 if ranking[p] == stored[q] else 0
    for k in range(allowed.size):
        free += 1 if allowed[k] else 0
    if same == stored.size and free > ranking.size:
        left = allowed.copy()
        left[ranking[-1]] = False
        rank_by_index(table, t, least, left, ranking, rng)


@no_refcount
def suspend(active, gains, plays):
    """Suspend every base whose reward is surely below another's (empirical Bernstein bounds)."""
    best = -np.inf
    high = stack_floats(active.size)
    high[:] = np.inf
    for i in range(active.size):
        if active[i] and plays[i] >= _LEAST_PLAYS:
            n = plays[i]
            r = gains[i] / n
            s = math.sqrt(2.0 * max(r * (1.0 - r), 1.0 / n) * _LOG / n) + 3.0 * _LOG / n
            high[i] = r + s
            best = max(best, r - s)
    for i in range(active.size):
        if high[i] < best:
            active[i] = False


@no_refcount
def judge(active, gains, plays, epoch, i, gain):
    """Count a round of base i; test every 100 rounds; at the epoch's end clear all and double its length."""
    gains[i] += 1 if gain else 0
    plays[i] += 1
    epoch[GONE] += 1
    if epoch[GONE] % _TEST_EVERY == 0:
        suspend(active, gains, plays)
    if epoch[GONE] == epoch[LASTS]:
        epoch[LASTS] *= 2
        epoch[GONE] = 0
        active[:] = True
        gains[:] = 0
        plays[:] = 0


BASE, GENERATION = 1, 2  # further indices in the note: which base ranked, and of which generation


@no_refcount
def table_of(book, root, linear, tie_noise):
    """The table of indices of one row of estimates."""
    return IndexTable(book.looks, book.estimate, root, linear, 1.0, LOG_CLOCK, tie_noise)


@no_refcount
def rank_by_base(learner, t, allowed, ranking, note, rng):
    """Draw a base and rank by it; writes base, generation of bases, and the guess for `keep` into the note."""
    u = rng.random()
    i = gcobe.choose(learner.plan, u, rng.random()) if learner.exact else draw_base(learner.active, u)
    if i < 0:
        rank_stored(learner.plan.favourite, allowed, ranking, rng)
    else:
        private = learner.clock.size > 1
        j = i if private else 0
        expected = gcobe.theta(learner.plan, i) if learner.exact else learner.guesses[i]
        least = threshold(expected, learner.share, learner.cap)
        when = learner.clock[j] + 1 if private else t
        table = table_of(row(learner.book, j), learner.root[j], learner.linear[j], learner.tie_noise)
        note[GUESSED] = rank_by_bounds(bounds_row(learner.bounds, j), table, when, least, allowed, ranking, note, rng)
        if learner.plan.counts[gcobe.PHASE] == 2:
            rank_otherwise(learner.plan.favourite, table, when, least, allowed, ranking, rng)
    note[BASE] = i
    note[GENERATION] = learner.plan.counts[gcobe.GENERATION]


@no_refcount
def learn_from(learner, t, ranking, note, clicks, examined):
    """Give a round's bits to the base that ranked, or to all, and judge bases by whether there was a click."""
    i, gain, generation = int(note[BASE]), any_click(clicks, examined), learner.plan.counts[gcobe.GENERATION]
    if note[GENERATION] != generation:
        return  # answer to a list of instances that were discarded
    if i >= 0:
        private = learner.clock.size > 1
        j = i if private else 0
        book, root, linear = row(learner.book, j), learner.root[j], learner.linear[j]
        observe_list(book, root, linear, learner.width, ranking, clicks, examined, learner.chance)
        learner.clock[j] += 1
        when, bounds = learner.clock[j] if private else t, bounds_row(learner.bounds, j)
        if book.partition != EVERY_ROUND:  # if all indices change, bounds are never valid
            keep(bounds, table_of(book, root, linear, learner.tie_noise), when, ranking, examined, note[GUESSED])
    if not learner.exact:
        judge(learner.active, learner.gains, learner.plays, learner.epoch, i, gain)
        return
    gcobe.advance(learner.plan, i, ranking, 1 if gain else 0)
    if learner.plan.counts[gcobe.GENERATION] != generation:
        wipe(learner.book, learner.root, learner.linear, learner.clock)
        forget(learner.bounds)
