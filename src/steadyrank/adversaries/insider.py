"""An attacker who runs the learner's own change test, and stops before it fires."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import ANYONE, Problem, Visit
from ..core.item_evidence import KNOWN, MOST, SHARE_CHANGED, changed_with, log_beta, log_predictive
from ..core.settings import real, whole
from .budget import Budget, can_spend, remember, settle
from .schedules import Schedule
from .tastes import Taste, visitors_of

SPANS, SPAN_FACTOR = 4, 4  # SteadyRank's spans: 1, 4, 16 and 64 windows
OPEN = 15.0  # nats at which SteadyRank opens a regime


class Book(NamedTuple):
    """What the learner has seen since its regime began, and in each span of its test."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    span_looks: Ints  # [SPANS, K]
    span_clicks: Ints  # [SPANS, K]
    nats: Floats  # [SPANS, K] evidence of each item for a change
    total: Floats  # [SPANS] their sums
    rounds: Ints  # [SPANS]
    prior: Floats  # [2] Beta with the mean and variance of the attractions, as the learner will fit it

    @classmethod
    def create(cls, problem: Problem) -> "Book":
        """Empty counts."""
        k = problem.n_items
        mean, spread = float(np.mean(problem.attraction)), float(np.var(problem.attraction))
        strength = min(max(mean * (1.0 - mean) / spread - 1.0, 0.01), MOST) if spread > 0.0 else MOST
        prior = strength * np.clip(np.array([mean, 1.0 - mean]), 1e-3, 1.0)
        return cls(
            np.zeros(k, np.int64),
            np.zeros(k, np.int64),
            np.zeros((SPANS, k), np.int64),
            np.zeros((SPANS, k), np.int64),
            np.zeros((SPANS, k)),
            np.zeros(SPANS),
            np.zeros(SPANS, np.int64),
            prior,
        )


@no_refcount
def nats_of_item(book, j, k, looks, clicks):
    """Evidence of item k that it changed with span j, given its looks and clicks there."""
    before, won = book.looks[k] - book.span_looks[j, k], book.clicks[k] - book.span_clicks[j, k]
    if before < KNOWN:
        return 0.0
    weight = min(1.0, before / (book.prior[0] + book.prior[1]))
    a, b = book.prior[0] * weight + won, book.prior[1] * weight + before - won
    same = log_predictive(clicks, looks, a, b, MOST)
    anew = log_beta(1.0 + clicks, 1.0 + looks - clicks) - same
    return math.log(changed_with(SHARE_CHANGED, math.exp(min(anew, 500.0))))


@no_refcount
def most_nats(book, ranking, clicks, examined):
    """The most evidence of any span if the learner sees this visit."""
    most = 0.0
    for j in range(SPANS):
        total = book.total[j]
        for p in range(examined):
            k = ranking[p]
            looks, won = book.span_looks[j, k] + 1, book.span_clicks[j, k] + clicks[p]
            total += nats_of_item(book, j, k, looks, won) - book.nats[j, k]
        most = max(most, total)
    return most


@no_refcount
def tell(book, ranking, clicks, examined, window):
    """Count a visit that the learner sees, and follow its test at the end of a window."""
    for j in range(SPANS):
        for p in range(examined):
            k = ranking[p]
            looks, won = book.span_looks[j, k] + 1, book.span_clicks[j, k] + clicks[p]
            now = nats_of_item(book, j, k, looks, won)
            book.total[j] += now - book.nats[j, k]
            book.nats[j, k] = now
    for p in range(examined):
        k = ranking[p]
        book.looks[k] += 1
        book.clicks[k] += clicks[p]
        for j in range(SPANS):
            book.span_looks[j, k] += 1
            book.span_clicks[j, k] += clicks[p]
    for j in range(SPANS):
        book.rounds[j] += 1
    if book.rounds[0] >= window:
        end_window(book, window)


@kernel
def end_window(book, window):
    """Clear the full spans; if the learner has opened a regime, take the counts of its span and clear all."""
    first = -1
    for j in range(SPANS):
        if book.total[j] > OPEN and (first < 0 or book.total[j] > book.total[first]):
            first = j
    if first >= 0:
        book.looks[:] = book.span_looks[first]
        book.clicks[:] = book.span_clicks[first]
    full = window
    for j in range(SPANS):
        if first >= 0 or book.rounds[j] >= full:
            book.span_looks[j] = 0
            book.span_clicks[j] = 0
            book.nats[j] = 0.0
            book.total[j] = 0.0
            book.rounds[j] = 0
        full *= SPAN_FACTOR


class Insider(NamedTuple):
    """Visitors of another taste who come only as often as SteadyRank's test does not notice.

    It knows the windows, thresholds and settings of the learner and all that it sees, and runs the same test: a visit
    is false only if no span then has more than `bar` nats of evidence for a change. From round 1 (`front`) or from
    the middle of the horizon (`late`), until the budget is spent. Settings: `bar`; `window`, of
    the learner, in rounds; `taste`, as for OtherTaste. From no paper.
    """

    budget: Budget
    visitors: Any  # users of the other taste
    book: Book
    window: int
    bar: float

    cascade = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        users: Any,
        budget: int,
        *,
        schedule: Schedule = "front",
        bar: float = OPEN,
        window: int = 50,
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> "Insider":
        if schedule not in ("front", "late"):
            raise ValueError(f"schedule of Insider must be 'front' or 'late', not {schedule!r}")
        active = np.arange(problem.horizon + 1) > (problem.horizon // 2 if schedule == "late" else 0)
        owned = Budget.of_rounds(problem, budget, active, bots)
        visitors, book = visitors_of(taste, problem, users), Book.create(problem)
        return cls(owned, visitors, book, whole("window", window, 1, 1_000_000), real("bar", bar, 0.0))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if self.budget.left[0] == 0:
            return 0.0, examined, visit.client  # no further need of the book
        spent, reach, client = 0.0, examined, visit.client
        if can_spend(self.budget, visit.t):
            remember(self.budget, clicks, ranking.size)
            self.visitors.click(Visit(visit.t, ANYONE, visit.features), ranking, clicks, rng)
            if most_nats(self.book, ranking, clicks, self.visitors.reach(clicks, ranking.size)) <= self.bar:
                spent, reach, client = settle(
                    self.budget, self.visitors, visit, clicks, ranking.size, examined, ANYONE
                )
            else:
                for p in range(ranking.size):
                    clicks[p] = self.budget.truth[p]
        tell(self.book, ranking, clicks, reach, self.window)
        return spent, reach, client
