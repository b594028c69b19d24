"""SteadyRank: regimes found across items, Thompson sampling inside one, a list hedged between two."""

from typing import NamedTuple

import numpy as np

from ..contract import LATE, Ints, Problem
from ..indices.draws import draw_all, draw_top
from ..kernels import cascade_like, top
from ..parts.evidence import Rule, close_window
from ..parts.hedge import hedged_list
from ..parts.regimes import CHANGES, CURRENT, LEARNT, LOG, STORED, Regimes, count, count_late, rival, totals
from ..settings import flag, real, whole
from ..views import Change, Regime, View


class SteadyRank(NamedTuple):
    """Learns from clicks of which an unknown part is false, at no cost when none is (ours: docs/steadyrank.md).

    An attack is an event in time that touches many items at once. Feedback that the past does not explain opens a new
    regime, or takes up a stored one; what was learnt in each is kept apart. The list is drawn by Thompson sampling
    from the current regime, with a prior fitted across items; while another regime is longer, the list serves both.

    `caution`: weight of that longer regime in the list, at most; 0 follows every change at once, 1 hardly follows one
    that has just begun. `window`: rounds between tests; shorter notices sooner and takes more time.
    `reject_impossible`: leave out feedback that no cascade user can give (several clicks, or an early end
    without one); off, because real users sometimes click twice or leave early.
    """

    regimes: Regimes
    rejected: Ints  # [1] rounds
    rule: Rule
    caution: float
    window: int
    reject_impossible: bool

    live = True
    VERSION = 2  # of the memory: since then, what comes late is counted apart

    @classmethod
    def create(
        cls, problem: Problem, *, caution: float = 0.5, window: int = 50, reject_impossible: bool = False
    ) -> "SteadyRank":
        caution = real("caution", caution, 0.0, 1.0)
        window = whole("window", window, 1, 1_000_000)
        reject = flag("reject_impossible", reject_impossible)
        return cls(Regimes.create(problem.n_items), np.zeros(1, np.int64), Rule(), caution, window, reject)

    def rank(self, visit, allowed, ranking, note, rng):
        regimes = self.regimes
        current = regimes.tally[CURRENT]
        a, b = regimes.prior[current, 0], regimes.prior[current, 1]
        looks, clicks = totals(regimes, current)
        index = np.empty(allowed.size)
        other = rival(regimes, self.window)
        if other < 0 or self.caution == 0.0:
            draw_top(looks, clicks, a, b, allowed, rng, index, np.empty(ranking.size))
            top(index, ranking, rng)
            return
        draw_all(looks, clicks, a, b, allowed, rng, index)
        a, b = regimes.prior[other, 0], regimes.prior[other, 1]
        looks, clicks = totals(regimes, other)
        mean = np.empty(allowed.size)
        for k in range(allowed.size):
            mean[k] = (a + clicks[k]) / (a + b + looks[k])
        weight = self.caution * (1.0 - (regimes.rounds[current] + self.window) / regimes.rounds[other])
        hedged_list(index, mean, weight, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # says nothing
        if self.reject_impossible and not cascade_like(clicks, ranking.size, examined):
            self.rejected[0] += 1
            return
        if note[LATE] > 0.0:
            count_late(self.regimes, ranking, clicks, examined, visit.t)
            return
        count(self.regimes, ranking, clicks, examined, visit.t)
        if self.regimes.span_rounds[0] >= self.window:
            close_window(self.regimes, self.rule, self.window, visit.t)

    def view(self) -> View:
        """Regimes and what they say of the feedback, with item estimates: a copy."""
        r, rejected = self.regimes, int(self.rejected[0])
        found = []
        for place in np.argsort(r.number[: r.tally[STORED]]):
            a, b = r.prior[place]
            looks, clicks = r.looks[place] + r.late_looks[place], r.clicks[place] + r.late_clicks[place]
            estimate = (a + clicks) / (a + b + looks)
            sizes = int(r.number[place]), int(r.start[place]), int(r.rounds[place])
            found.append(Regime(*sizes, estimate, looks, a + b + looks))
        current = int(r.number[r.tally[CURRENT]])
        trusted = max(found, key=lambda regime: (regime.rounds, regime.number == current))
        rounds = int(r.tally[LEARNT])
        share = 1.0 - trusted.rounds / (rounds + rejected) if rounds + rejected else 0.0
        n = int(r.tally[CHANGES])
        log = [Change(*map(int, r.log[i % LOG])) for i in range(max(0, n - LOG), n)]
        return View(tuple(found), current, trusted.number, rounds, rejected, share, n, tuple(log))
