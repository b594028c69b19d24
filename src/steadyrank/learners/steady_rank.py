"""SteadyRank: regimes found across items, Thompson sampling inside one, a list hedged between views."""

from typing import NamedTuple

import numpy as np

from ..contract import ANSWER, KIND, SILENCE, Problem
from ..indices.posteriors import Posteriors
from ..parts.evidence import Rule, close_window, inversion_between
from ..parts.forgetting import uncount, uncount_apart
from ..parts.hedge import drawn_list, expect, hedged_list
from ..parts.regimes import (
    BEFORE,
    CHANGES,
    CURRENT,
    LEARNT,
    LOG,
    STORED,
    Regimes,
    count,
    count_apart,
    learn_all,
    learn_items,
    rival,
    totals,
)
from ..settings import real, whole
from ..views import Change, Regime, View


class SteadyRank(NamedTuple):
    """Learns from clicks of which an unknown part is false, at no cost when none is (ours: docs/steadyrank.md).

    An attack is an event in time that touches many items at once. Feedback that the past does not explain opens a new
    regime, or takes up a stored one; what was learnt in each is kept apart. The list is drawn by Thompson sampling
    from the current regime, with a prior fitted across items; while another regime is longer, the list serves both.
    Places that it can spare are insured: they go to users who like just what was learnt to be bad.

    `insurance`: weight in the list of the view that everything learnt is inverted; 0 insures nothing.
    `caution`: weight of that longer regime in the list, at most; 0 follows every change at once, 1 hardly follows one
    that has just begun. `window`: rounds between tests; shorter notices sooner and takes more time.
    """

    regimes: Regimes
    posteriors: Posteriors  # of the current regime
    rule: Rule
    insurance: float
    caution: float
    window: int
    length: int

    live = True
    VERSION = 5  # of the memory: since then, what is left out is counted by a guard

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        insurance: float = 0.3,
        caution: float = 0.5,
        window: int = 50,
    ) -> "SteadyRank":
        insurance = real("insurance", insurance, 0.0, 0.5)
        caution = real("caution", caution, 0.0, 1.0)
        window = whole("window", window, 1, 1_000_000)
        regimes = Regimes.create(problem.n_items)
        posteriors = Posteriors.create(problem.n_items, problem.length, 1.0, 1.0)
        return cls(regimes, posteriors, Rule(), insurance, caution, window, problem.length)

    def rank(self, visit, allowed, ranking, note, rng):
        regimes = self.regimes
        other = rival(regimes, self.window) if self.caution > 0.0 else -1
        if other < 0 and self.insurance == 0.0:
            drawn_list(self.posteriors, allowed, ranking, rng)
            return
        longer, weights = self.posteriors.miss, np.zeros(2 if other < 0 else 3)
        weights[1] = self.insurance
        if other >= 0:
            longer = np.empty(allowed.size)
            looks, clicks = totals(regimes, other)
            expect(looks, clicks, regimes.prior[other, 0], regimes.prior[other, 1], longer)
            younger = 1.0 - (regimes.rounds[regimes.tally[CURRENT]] + self.window) / regimes.rounds[other]
            weights[2] = (1.0 - self.insurance) * self.caution * younger
        weights[0] = 1.0 - weights.sum()
        hedged_list(self.posteriors, longer, weights, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # says nothing
        if note[KIND] == ANSWER:
            count(self.regimes, ranking, clicks, examined, visit.t)
        else:
            count_apart(self.regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)
        if self.regimes.span_rounds[0] >= self.window:
            close_window(self.regimes, self.rule, self.window, visit.t)
            learn_all(self.regimes, self.posteriors, self.length)
        else:
            learn_items(self.regimes, self.posteriors, ranking, examined, self.length)

    def forget(self, visit, ranking, note, clicks, examined):
        if examined > 0:
            if note[KIND] == ANSWER:
                uncount(self.regimes, ranking, clicks, examined, visit.t)
            else:
                uncount_apart(self.regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)
            learn_items(self.regimes, self.posteriors, ranking, examined, self.length)

    def view(self) -> View:
        """Regimes and what they say of the feedback, with item estimates: a copy."""
        r = self.regimes
        found = []
        for place in np.argsort(r.number[: r.tally[STORED]]):
            a, b = r.prior[place]
            looks, clicks = r.looks[place] + r.apart_looks[place], r.clicks[place] + r.apart_clicks[place]
            estimate = (a + clicks) / (a + b + looks)
            sizes = int(r.number[place]), int(r.start[place]), int(r.rounds[place])
            found.append(Regime(*sizes, estimate, looks, a + b + looks))
        current = int(r.number[r.tally[CURRENT]])
        trusted = max(found, key=lambda regime: (regime.rounds, regime.number == current))
        rounds = int(r.tally[LEARNT])
        share = 1.0 - trusted.rounds / rounds if rounds else 0.0
        n = int(r.tally[CHANGES])
        log = [tuple(map(int, r.log[i % LOG])) for i in range(max(0, n - LOG), n)]
        told = {pair: inversion_between(r, self.rule, *pair) for pair in {entry[BEFORE:] for entry in log}}
        changes = tuple(Change(*entry, told[entry[BEFORE:]]) for entry in log)
        return View(tuple(found), current, trusted.number, rounds, 0, share, n, changes)
