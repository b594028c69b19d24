"""Re-rank an engine's order by posterior means, plus the value of learning more for a query's future visits."""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats
from ...core.compiling.jit import kernel, no_refcount
from ...core.contract import NOTE_EXTRA
from ...core.kernels import largest, psi
from ...core.philox import philox, start
from ...core.places import by_place
from ...core.settings import real
from .attention import BINS, CLICKS, LOOKS, bin_of, fit_attention
from .engine_prior import FIRST_LOOKS, EnginePrior, count_look, count_score, fit_when_due, mean_of
from .engine_scores import SCORE_BITS
from .id_table import NOT_THERE, find_row
from .pair_table import PairTable, QueryTable, find, find_or_add
from .surges import Surges, take_from_stretch, watch_look

PLACES = 256  # places of the engine's order with a prior of their own; items further down have that of the last one
QUERY = -NOTE_EXTRA  # index in a note of the query's id; the codes of the items shown come before it
FIRST_SLOTS = 1 << 10
LOW = 0xFFFFFFFF


class ReRanker(NamedTuple):
    """Ranks by the posterior mean plus the value of a look to future visits. Ours, no paper's.

    The posterior of a pair with n looks and w clicks is Beta(a, b), a + b = c + n, with the prior of the item's
    place in the engine's order (`engine_prior`). The index is Gittins's in the closed form of Brezzi and Lai 2002,
    its constants from memory: mean + sd psi(H / (a + b)), for H visits to come. A query with v visits so far is
    expected to have `explore` v more, so that a new query gets the engine's order, and one with much
    traffic is explored. `memory`: looks beyond which a pair forgets older ones. `attention`: the chance that a place
    is looked at; a place without a click counts as looked at with that chance.

    To a guard, and in `ranking` of `update` and `forget`, items are places of the engine's order: clients
    are judged by where in it they click, over all queries. The note has the codes of the items (`coded`), and the id
    of the query; callers of `update` make room for their pairs. Without a query, as in `rank`, lists are the
    engine's order.
    """

    VERSION = 3  # of the memory
    live = True

    queries: QueryTable
    pairs: PairTable
    surges: Surges
    prior: EnginePrior
    attention: Floats  # [length] chance that each place is looked at
    seen: Floats  # [2, BINS, length] looks and clicks, by estimate and place
    learns: bool  # whether attention is learnt
    explore: float
    memory: float
    key: int  # key of the draws that decide which places were looked at

    @classmethod
    def create(cls, problem, *, explore=3.0, memory=300.0, attention=None):
        """Empty, with little room. The items of the problem are places of the engine's order."""
        looks = np.ones(problem.length) if attention is None else by_place("attention", attention, problem.length)
        settings = real("explore", explore, 0.0, 1e6), real("memory", memory, 2.0 * FIRST_LOOKS)
        return cls(
            QueryTable.create(FIRST_SLOTS),
            PairTable.create(FIRST_SLOTS),
            Surges.create(),
            EnginePrior.create(problem.n_items),
            looks,
            np.zeros((2, BINS, problem.length)),
            attention is None,
            *settings,
            int(start(problem.seed)[0]),
        )

    def rank(self, visit, allowed, ranking, note, rng):
        place = 0
        for p in range(ranking.size):
            while not allowed[place]:
                place += 1
            ranking[p] = place
            place += 1

    def update(self, visit, ranking, note, clicks, examined):
        row = find_row(self.queries.ids, int(note[QUERY]))
        if row == NOT_THERE:  # the query was removed since
            return
        self.queries.visits[row] += 1.0
        for p in range(examined):
            code = int(note[p])
            if self.learns:
                count_place(self, row, code, ranking[p], p, clicks[p])
            if clicks[p] or looked_at(self, visit.t, p):
                slot = find_or_add(self.pairs, row, code >> SCORE_BITS, ranking[p])
                step = code & (1 << SCORE_BITS) - 1
                self.pairs.step[slot] = step
                prior, strength = mean_of(self.prior, ranking[p], step), self.prior.strength[0]
                kept = add_look(self, slot, step, clicks[p])
                watch_look(self.pairs, self.surges, slot, note[QUERY], prior, strength, visit.t, clicks[p], kept)
        if clicks[:examined].any():
            self.queries.clicked[row] += 1.0
        if fit_when_due(self.prior) and self.learns:
            fit_attention(self.seen, self.attention)

    def forget(self, visit, ranking, note, clicks, examined):
        row = find_row(self.queries.ids, int(note[QUERY]))
        if row == NOT_THERE:
            return
        self.queries.visits[row] = max(self.queries.visits[row] - 1.0, 0.0)
        for p in range(examined):
            if clicks[p] or looked_at(self, visit.t, p):
                code = int(note[p])
                slot = find(self.pairs, row, code >> SCORE_BITS)
                if slot != NOT_THERE:
                    take_look(self, slot, code & (1 << SCORE_BITS) - 1, clicks[p])
        if clicks[:examined].any():
            self.queries.clicked[row] = max(self.queries.clicked[row] - 1.0, 0.0)


@no_refcount
def looked_at(ranker, t, p):
    """Whether place p of the list of round t counts as looked at without a click there."""
    if ranker.attention[p] >= 1.0:
        return True
    drawn, _ = philox(t & LOW, (t >> 32 << 16 | p) & LOW, ranker.key)
    return drawn < ranker.attention[p] * 4294967296.0


@no_refcount
def count_place(ranker, row, code, place, p, clicked):
    """Count an item shown at place p of a list, clicked or not, to learn how far people look."""
    prior = mean_of(ranker.prior, place, code & (1 << SCORE_BITS) - 1)
    mean, _ = estimate(ranker, row, code >> SCORE_BITS, prior)
    at = bin_of(mean)
    ranker.seen[LOOKS, at, p] += mean
    if clicked:
        ranker.seen[CLICKS, at, p] += 1.0


@no_refcount
def add_look(ranker, slot, step, clicked):
    """Add a look at a pair, with this step of its score; returns the share of earlier looks that is kept."""
    pairs, memory = ranker.pairs, ranker.memory
    looks, place = pairs.looks[slot], pairs.place[slot]
    if looks == 0.0 and place >= 0:
        count_score(ranker.prior, place, step, clicked, 1.0)
    if place >= 0 and looks < FIRST_LOOKS:
        count_look(ranker.prior, place, int(looks), int(pairs.clicks[slot]), clicked, 1)
    elif place >= 0:
        pairs.place[slot] = -1 - place
    kept = 1.0 - 1.0 / memory if looks >= memory else 1.0
    pairs.looks[slot] = looks * kept + 1.0
    pairs.clicks[slot] = pairs.clicks[slot] * kept + (1.0 if clicked else 0.0)
    return kept


@no_refcount
def take_look(ranker, slot, step, clicked):
    """Remove a look from a pair: exact up to `memory` looks."""
    pairs = ranker.pairs
    looks, clicks = pairs.looks[slot] - 1.0, pairs.clicks[slot] - (1.0 if clicked else 0.0)
    if looks < 0.0 or clicks < 0.0 or clicks > looks:  # it was not counted, or was dropped
        return
    pairs.looks[slot], pairs.clicks[slot] = looks, clicks
    take_from_stretch(pairs, slot, clicked)
    if pairs.place[slot] >= 0:
        count_look(ranker.prior, pairs.place[slot], int(looks), int(clicks), clicked, -1)
        if looks == 0.0:
            count_score(ranker.prior, pairs.place[slot], step, clicked, -1.0)


@no_refcount
def estimate(ranker, row, item, prior):
    """Posterior mean of an item with this prior mean, and its number of looks including those of the prior.

    `row`: of the query, NOT_THERE if it is unknown.
    """
    total = ranker.prior.strength[0]
    clicks = total * prior
    if row != NOT_THERE:
        slot = find(ranker.pairs, row, item)
        if slot != NOT_THERE:
            clicks += ranker.pairs.clicks[slot]
            total += ranker.pairs.looks[slot]
    return clicks / total, total


@no_refcount
def index_of(ranker, row, mean, total):
    """Ranking index of an item of a query, with this mean from so many looks."""
    ahead = 0.0 if row == NOT_THERE else ranker.explore * ranker.queries.visits[row]
    return mean + math.sqrt(mean * (1.0 - mean) / (total + 1.0)) * psi(ahead / total)


@kernel
def indices_of(ranker, row, means, totals):
    """`index_of` for several items of a query."""
    index = np.empty(means.size)
    for i in range(means.size):
        index[i] = index_of(ranker, row, means[i], totals[i])
    return index


@kernel
def index_candidates(ranker, query, codes, index, means):
    """Write the ranking index of each candidate, and its posterior mean.

    `query`: its id; `codes`, int64[n]: of the candidates in the engine's order (`coded`). O(n).
    """
    row = find_row(ranker.queries.ids, query)
    prior = 1.0
    for i in range(codes.size):
        item, step = codes[i] >> SCORE_BITS, codes[i] & (1 << SCORE_BITS) - 1
        # never above the prior of the item before, so that a query without visits keeps the engine's order
        prior = min(prior, mean_of(ranker.prior, min(i, ranker.prior.mean.size - 1), step))
        means[i], total = estimate(ranker, row, item, prior)
        index[i] = index_of(ranker, row, means[i], total)


@kernel
def re_rank(ranker, query, codes, ranking):
    """Write the places, from 0, of the best candidates in the engine's order into `ranking`; ties in that order."""
    index, means = np.empty(codes.size), np.empty(codes.size)
    index_candidates(ranker, query, codes, index, means)
    largest(index, ranking)
