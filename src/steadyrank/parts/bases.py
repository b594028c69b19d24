"""What M2UCB-V does in a round: a base ranks, and the data it may use grow."""

from .._jit import uncounted
from ..estimators.each_round import observe_list
from ..estimators.means import row, wipe
from ..estimators.partitions import EVERY_ROUND
from ..indices.bounds import bounds_row, forget, keep
from ..indices.ranks import GUESSED, rank_by_bounds
from ..kernels import LOG_CLOCK, IndexTable, any_click
from . import gcobe
from .selection import draw_base, judge, rank_otherwise, rank_stored, threshold

BASE, GENERATION = 1, 2  # further places of the note: which base ranked, and of which generation


@uncounted
def table_of(book, root, linear, luck):
    """The indices of one row of estimates."""
    return IndexTable(book.looks, book.estimate, root, linear, 1.0, LOG_CLOCK, luck)


@uncounted
def rank_by_base(learner, t, allowed, ranking, note, rng):
    """Draw a base and rank by it; notes which, the generation of bases, and the guess for `keep`."""
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
        table = table_of(row(learner.book, j), learner.root[j], learner.linear[j], learner.luck)
        note[GUESSED] = rank_by_bounds(bounds_row(learner.bounds, j), table, when, least, allowed, ranking, note, rng)
        if learner.plan.counts[gcobe.PHASE] == 2:
            rank_otherwise(learner.plan.favourite, table, when, least, allowed, ranking, rng)
    note[BASE] = i
    note[GENERATION] = learner.plan.counts[gcobe.GENERATION]


@uncounted
def learn_from(learner, t, ranking, note, clicks, examined):
    """Give a round's bits to the base that ranked, or to all, and judge the bases by whether there was a click."""
    i, gain, generation = int(note[BASE]), any_click(clicks, examined), learner.plan.counts[gcobe.GENERATION]
    if note[GENERATION] != generation:
        return  # an answer to instances that are gone
    if i >= 0:
        private = learner.clock.size > 1
        j = i if private else 0
        book, root, linear = row(learner.book, j), learner.root[j], learner.linear[j]
        observe_list(book, root, linear, learner.width, ranking, clicks, examined, learner.chance)
        learner.clock[j] += 1
        when, bounds = learner.clock[j] if private else t, bounds_row(learner.bounds, j)
        if book.partition != EVERY_ROUND:  # where all indices change, no bounds ever hold
            keep(bounds, table_of(book, root, linear, learner.luck), when, ranking, examined, note[GUESSED])
    if not learner.exact:
        judge(learner.active, learner.gains, learner.plays, learner.epoch, i, gain)
        return
    gcobe.advance(learner.plan, i, ranking, 1 if gain else 0)
    if learner.plan.counts[gcobe.GENERATION] != generation:
        wipe(learner.book, learner.root, learner.linear, learner.clock)
        forget(learner.bounds)
