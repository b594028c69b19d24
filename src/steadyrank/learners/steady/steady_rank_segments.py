"""SteadyRankSegments: one SteadyRank per segment of the visits, each borrowing from the others. Ours.

Segments lend one another looks at items, as many as the segments agree. An item's prior in a segment is that
of the segment plus looks lent by the others: their click rate, in fewer looks. How few is fitted to how well the
others, each alone and all together, predict what was seen here: the most likely strength of a Beta prior. A segment
under attack predicts badly what honest ones see, so they borrow little from it. Lent looks are counted as untested:
lists use them, tests ignore them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.contract import ANSWER, KIND, Problem
from ...core.item_evidence import log_beta
from ...core.philox import philox
from ...core.segments import MOST_SEGMENTS, SEGMENT, row, segment_at, segment_told, stacked
from ...core.settings import whole
from ...core.views import Regime, View
from ..shared.thompson import check_bar
from .regime_posteriors import learn_item, learn_priors
from .regimes import CURRENT, STORED, find_place
from .steady_rank import Looks, SteadyRank

START = 10.0  # initial strength of one segment's evidence for another, in looks
STRENGTH = (0.5, 2000.0)  # range of it
DOUBT = 1.0  # standard deviation of its logarithm over segments
EXAMPLE = 200  # rounds after which a segment counts as an example for others
GROWN = 16  # loans are recomputed when there are a 16th more rounds
ROUNDS, DUE = range(2)  # indices in Pool.tally
_KEY = 0x10A2ED


class Pool(NamedTuple):
    """Looks and clicks lent to each of S segments; K items."""

    looks: Counts  # [S, K]
    clicks: Counts  # [S, K]
    number: Ints  # [S] number of the regime that they were lent to; 0: nothing is lent
    strength: Floats  # [S, S] strength of segment j's evidence for i, in looks; diagonal: of all others together
    tally: Ints  # [2] rounds, and the round after which loans are recomputed

    @classmethod
    def create(cls, segments: int, n_items: int, first: int) -> "Pool":
        """No loans before round `first`."""
        counts = np.zeros((segments, n_items), np.int32), np.zeros((segments, n_items), np.int32)
        strength = np.full((segments, segments), START)
        return cls(*counts, np.zeros(segments, np.int64), strength, np.array([0, first], np.int64))


@no_refcount
def trusted_place(regimes):
    """Index of the longest regime; the current one among equals."""
    longest = regimes.tally[CURRENT]
    for r in range(regimes.tally[STORED]):
        if regimes.rounds[r] > regimes.rounds[longest]:
            longest = r
    return longest


@no_refcount
def call_in(regimes, pool, s):
    """Subtract the loan to segment s from its counts, not from its posteriors. Returns the index of the regime."""
    r = find_place(regimes, pool.number[s]) if pool.number[s] > 0 else -1
    if r >= 0:
        for k in range(pool.looks.shape[1]):
            if pool.looks[s, k] > 0:  # feedback that a guard retracted may have been part of a loan
                regimes.untested_looks[r, k] = max(regimes.untested_looks[r, k] - pool.looks[s, k], 0)
                clicks = max(regimes.untested_clicks[r, k] - pool.clicks[s, k], 0)
                regimes.untested_clicks[r, k] = min(clicks, regimes.untested_looks[r, k])
    return r


@no_refcount
def pay_out(regimes, posteriors, pool, s):
    """Add the loan to segment s to the counts of its current regime, and to its posteriors."""
    r = regimes.tally[CURRENT]
    pool.number[s] = regimes.number[r]
    for k in range(pool.looks.shape[1]):
        if pool.looks[s, k] > 0:
            regimes.untested_looks[r, k] += pool.looks[s, k]
            regimes.untested_clicks[r, k] += pool.clicks[s, k]
            learn_item(regimes, posteriors, k)


@no_refcount
def worth(looks, strength):
    """The number of looks here that so many looks elsewhere are worth."""
    return looks * (strength + 1.0) / (looks + strength + 1.0)


@no_refcount
def log_likelihood(strength, typical, prior, looks, clicks, far, rate):
    """Log likelihood of what was seen here, given `strength`, plus the log prior of `strength`. O(K).

    An item has `far` looks elsewhere, at this `rate`, and here a Beta prior of the looks that they are worth.
    """
    off = math.log(strength / typical) / DOUBT
    total = -0.5 * off * off
    for k in range(looks.size):
        if looks[k] > 0.0 and far[k] > 0.0:
            w = worth(far[k], strength)
            a = prior[0] + w * rate[k]
            b = prior[1] + w * (1.0 - rate[k])
            total += log_beta(a + clicks[k], b + looks[k] - clicks[k]) - log_beta(a, b)
    return total


@no_refcount
def fit_strength(strength, typical, prior, looks, clicks, far, rate):
    """The most likely strength of looks elsewhere, up to a factor of 2; the search starts from `strength`."""
    best = log_likelihood(strength, typical, prior, looks, clicks, far, rate)
    for factor in (2.0, 0.5):
        moved = False
        while STRENGTH[0] <= strength * factor <= STRENGTH[1]:
            other = log_likelihood(strength * factor, typical, prior, looks, clicks, far, rate)
            if other <= best:
                break
            best = other
            strength *= factor
            moved = True
        if moved:
            break
    return strength


@no_refcount
def typical_strength(strength, rounds, s, j):
    """The largest strength of segment j's evidence for a segment other than s; if j is s, of all others for it.

    The largest, because a segment under attack agrees with nobody, which is no reason for others not to borrow: a
    single example may be such a segment.
    """
    most = 0.0
    examples = 0
    for i in range(rounds.size):
        if i not in (s, j) and rounds[i] >= EXAMPLE:
            most = max(most, strength[i, i if j == s else j])
            examples += 1
    return most if examples > 1 else START


@no_refcount
def lend(pool, s, most, far, rate):
    """Write the loans of the others to segment s: at most `most` looks at an item, as many as theirs are worth."""
    for k in range(far.size):
        looks = 0
        clicks = 0
        if far[k] > 0.0:
            looks = int(min(worth(far[k], pool.strength[s, s]), most) + 0.5)
            low, _ = philox(k, s, _KEY)  # rounded at random per item, so that the sum is unbiased
            clicks = min(int(rate[k] * looks + low / 4294967296.0), looks)
        pool.looks[s, k] = looks
        pool.clicks[s, k] = clicks


@kernel
def share(each, pool, most, length):
    """Fit how much segments agree, and recompute all loans. O(S^2 K)."""
    segments, n = pool.looks.shape
    looks, clicks = np.empty((segments, n)), np.empty((segments, n))
    rounds = np.empty(segments)
    for s in range(segments):
        regimes = row(each.regimes, s)
        call_in(regimes, pool, s)
        r = trusted_place(regimes)
        rounds[s] = regimes.rounds[r]
        for k in range(n):
            looks[s, k] = regimes.looks[r, k] + regimes.untested_looks[r, k]
            clicks[s, k] = regimes.clicks[r, k] + regimes.untested_clicks[r, k]
    for s in range(segments):
        borrow(row(each.regimes, s), row(each.posteriors, s), pool, s, most, looks, clicks, rounds, length)


@no_refcount
def trust(pool, s, looks, clicks, rounds, prior, rate):
    """Fit the strength of each other segment's evidence for segment s; returns the largest. Overwrites `rate` [K]."""
    most = STRENGTH[0]
    for j in range(rounds.size):
        if j != s and rounds[j] > 0.0:
            for k in range(rate.size):
                rate[k] = clicks[j, k] / max(looks[j, k], 1.0)
            typical = typical_strength(pool.strength, rounds, s, j)
            now = fit_strength(pool.strength[s, j], typical, prior, looks[s], clicks[s], looks[j], rate)
            pool.strength[s, j] = now
            most = max(most, now)
    return most


@kernel
def borrow(regimes, posteriors, pool, s, most, looks, clicks, rounds, length):
    """Recompute the loans of segment s from each segment's own `looks`, `clicks` [S, K] and `rounds` [S].

    Other segments count by what their looks are worth here, times the ratio of their strength to the largest: for
    items with few looks everywhere, a segment under attack would otherwise count like any other.
    """
    n = looks.shape[1]
    far, rate, prior = np.zeros(n), np.zeros(n), regimes.prior[trusted_place(regimes)]
    best = trust(pool, s, looks, clicks, rounds, prior, rate)
    rate[:] = 0.0
    for j in range(rounds.size):
        if j != s and rounds[j] > 0.0:
            strength = pool.strength[s, j]
            for k in range(n):
                w = strength / best * worth(looks[j, k], strength)
                far[k] += w
                rate[k] += w * clicks[j, k] / max(looks[j, k], 1.0)
    for k in range(n):
        rate[k] /= max(far[k], 1e-12)
    typical = typical_strength(pool.strength, rounds, s, s)
    pool.strength[s, s] = fit_strength(pool.strength[s, s], typical, prior, looks[s], clicks[s], far, rate)
    before = pool.looks[s].copy()
    lend(pool, s, most, far, rate)
    pay_out(regimes, posteriors, pool, s)
    for k in range(n):
        if before[k] > 0 and pool.looks[s, k] == 0:
            learn_item(regimes, posteriors, k)
    r = regimes.tally[CURRENT]
    regimes.untested_rounds[r] += 1  # so that the prior of tests is fitted to answers only
    learn_priors(regimes, posteriors, length)
    regimes.untested_rounds[r] -= 1


def view_of_all(views: Sequence[View], lent: Counts, number: Ints) -> View:
    """The joint view of all segments, with theirs in it; of a single segment, its own view.

    `lent` [S, K]: borrowed looks, in the regime with this `number` [S]. The joint view has one regime: its estimates
    are those that lists use, averaged over the rounds of the segments. Changes are in the views of the segments.
    """
    each = [_own_looks(view, lent[s], int(number[s])) for s, view in enumerate(views)]
    if len(each) == 1:
        return each[0]
    rounds = np.array([view.rounds for view in each])
    total = int(rounds.sum())
    share = rounds / total if total else np.full(len(each), 1.0 / len(each))
    now = [view.regime(view.current) for view in each]
    regime = Regime(
        1,
        1,
        total,
        np.average([one.estimate for one in now], axis=0, weights=share),
        np.sum([one.looks for one in now], axis=0),
        np.sum([one.weight for one in now], axis=0),
    )
    doubted = float(sum(part * view.corrupted for part, view in zip(share, each, strict=True)))
    attention = tuple(float(x) for x in share @ np.array([view.attention for view in each]))
    changes = sum(view.n_changes for view in each)
    return View((regime,), 1, 1, total, 0, doubted, changes, (), attention, segments=tuple(each))


def _own_looks(view: View, lent: Counts, number: int) -> View:
    """Subtract the borrowed looks; estimates stay."""
    regimes = (replace(one, looks=one.looks - lent) if one.number == number else one for one in view.regimes)
    return replace(view, regimes=tuple(regimes))


class SteadyRankSegments(NamedTuple):
    """Lists for each segment of the visits, by a SteadyRank of its own (ours: docs/context.md).

    A visit's first feature is the number of its segment, 1 to `segments`; all other visits form one more segment. A
    segment borrows looks at items from the others, at most `lent` an item, and the fewer the less they agree with
    what it saw itself. Each segment has its own regimes: an attack on one opens none in another. `lent` 0: segments
    share nothing. All other settings are SteadyRank's, and without segments it behaves as SteadyRank.
    """

    each: SteadyRank  # arrays have one row per segment
    pool: Pool
    lent: int

    live = True
    VERSION = 2

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        segments: int = 0,
        lent: int = 200,
        insurance: float = 0.3,
        caution: float = 0.5,
        window: int = 50,
        looks: Looks = "learn",
        attention: Sequence[float] | str | None = None,
    ) -> "SteadyRankSegments":
        n = 1 + whole("segments", segments, 0, MOST_SEGMENTS)
        lent = whole("lent", lent, 0, 10_000)
        one = SteadyRank.create(
            problem, insurance=insurance, caution=caution, window=window, looks=looks, attention=attention
        )
        return cls(stacked(one, n), Pool.create(n, problem.n_items, one.window), lent if n > 1 else 0)

    def rank(self, visit, allowed, ranking, note, rng):
        s = segment_at(visit.features, 0, self.pool.number.size)
        one = row(self.each, s)
        one.rank(visit, allowed, ranking, note, rng)
        note[SEGMENT] = s

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # no place was examined
        pool, s = self.pool, segment_told(visit, note, self.pool.number.size)
        one = row(self.each, s)
        ends = note[KIND] == ANSWER and one.regimes.span_rounds[0] + 1 >= one.window
        r = call_in(one.regimes, pool, s) if ends else -1
        if r >= 0:
            one.regimes.untested_rounds[r] += 1  # so that the prior of tests is fitted to answers only
        one.update(visit, ranking, note, clicks, examined)
        if r >= 0:
            one.regimes.untested_rounds[r] -= 1
            pay_out(one.regimes, one.posteriors, pool, s)
            check_bar(one.posteriors, one.length)
        pool.tally[ROUNDS] += 1
        if self.lent > 0 and pool.tally[ROUNDS] >= pool.tally[DUE]:
            pool.tally[DUE] += max(one.window, pool.tally[DUE] // GROWN)
            share(self.each, pool, self.lent, one.length)

    def forget(self, visit, ranking, note, clicks, examined):
        one = row(self.each, segment_told(visit, note, self.pool.number.size))
        one.forget(visit, ranking, note, clicks, examined)

    def view(self) -> View:
        """A copy of the joint view, with a view of each segment in it, that of visits without a segment first."""
        n = self.pool.number.size
        return view_of_all([row(self.each, s).view() for s in range(n)], self.pool.looks, self.pool.number)
