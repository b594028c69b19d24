"""The change test: which regime recent feedback belongs to, by a Bayes factor over all items. Ours, no paper's.

The feedback of each span is predicted from the rounds of the current regime before it, from each stored regime, and
from a new one that may differ in any item. A regime predicts an item by a Beta distribution: a `Forecast` holds those
of all regimes, computed from counts, as here, or from models with features. Untested feedback is never
read. A single item is judged as in the audit of click logs; `item_evidence` lists the differences.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.item_evidence import KNOWN, MOST, SHARE_CHANGED, changed_with, inversion, log_beta, log_predictive
from .regimes import CHANGES, CURRENT, LOG, NOTICED, SPAN_FACTOR, SPANS, STORED, Regimes, clear_span

CALM = 16  # three changes within so many windows are too many
NONE = -1  # no other regime


class Rule(NamedTuple):
    """Thresholds of the change test. Defaults, and reasons for them: docs/steadyrank-measured.md."""

    known: int = KNOWN  # looks at an item before it counts as evidence
    most: float = MOST  # most looks at an item that count: moves smaller than their error are no change
    changed: float = SHARE_CHANGED  # share of the items that change in a new regime
    back: float = 10.0  # nats of evidence needed to resume a stored regime
    open: float = 15.0  # nats of evidence needed to open a new one


class Forecast(NamedTuple):
    """The feedback in a span for each item that counts, and the prediction of each of R regimes: Beta(a, b).

    Only items that the current regime knows count.
    """

    items: Counts  # [n]
    looks: Ints  # [n]
    clicks: Ints  # [n]
    a: Floats  # [R, n] the current regime without the span
    b: Floats  # [R, n]
    same: Floats  # [n] log probability of the feedback in the current regime
    new: Floats  # [n] nats of evidence for a new regime


class Verdict(NamedTuple):
    """The regime that recent feedback belongs to."""

    regime: Ints  # [1] NONE: the current one; `tally[STORED]`: a new one
    span: Ints  # [1] span with the evidence
    excess: Floats  # [1] nats of evidence beyond the bar


@no_refcount
def blend(x, y, share):
    """log(share e^x + (1 - share) e^y)."""
    most = max(x, y)
    return most + math.log(share * math.exp(x - most) + (1.0 - share) * math.exp(y - most))


@no_refcount
def changes_too_often(regimes, window, t):
    """Whether the last three changes came within `CALM` windows: regimes that alternate suggest an undetected one."""
    changes = regimes.tally[CHANGES]
    return changes >= 3 and t - regimes.log[(changes - 3) % LOG, NOTICED] <= CALM * window


@no_refcount
def novelty(same, looks, clicks, changed):
    """Evidence of an item for a new regime: it keeps its attraction, or with chance `changed` draws it uniformly.

    `same` is the log probability of its feedback in the current regime. An item that did not change costs little.
    """
    anew = log_beta(1.0 + clicks, 1.0 + looks - clicks) - same
    if anew > 50.0:
        return anew + math.log(changed)  # the term of an unchanged item is below rounding
    return math.log(changed_with(changed, math.exp(anew)))


@kernel
def forecast_of_counts(regimes, rule, j):
    """The feedback in span `j`, and each stored regime's prediction from its counts. O(items of the span R).

    The prior counts at most as much as the looks before: an item unlike the others is no change.
    """
    current, stored, n = regimes.tally[CURRENT], regimes.tally[STORED], 0
    items = np.empty(regimes.span_size[j], np.int32)
    for k in regimes.span_items[j, : items.size]:
        looks = regimes.span_looks[j, k]
        if looks > 0 and regimes.looks[current, k] - looks >= rule.known:
            items[n] = k
            n += 1
    looks, clicks = np.empty(n, np.int64), np.empty(n, np.int64)
    a, b = np.empty((stored, n)), np.empty((stored, n))
    for i in range(n):
        k = items[i]
        looks[i] = regimes.span_looks[j, k]
        clicks[i] = regimes.span_clicks[j, k]
        for r in range(stored):
            before, won = regimes.looks[r, k], regimes.clicks[r, k]
            if r == current:
                before -= looks[i]
                won -= clicks[i]
            prior = regimes.test_prior[r]
            weight = min(1.0, before / (prior[0] + prior[1]))
            a[r, i] = prior[0] * weight + won
            b[r, i] = prior[1] * weight + before - won
    return forecast_with(items[:n], looks, clicks, a, b, current, rule)


@kernel
def forecast_with(items, looks, clicks, a, b, current, rule):
    """Build a `Forecast` from looks and clicks in the span, and each regime's Beta(a, b)."""
    same, new = np.empty(items.size), np.empty(items.size)
    for i in range(items.size):
        same[i] = log_predictive(clicks[i], looks[i], a[current, i], b[current, i], rule.most)
        new[i] = novelty(same[i], looks[i], clicks[i], rule.changed)
    return Forecast(items, looks, clicks, a, b, same, new)


@no_refcount
def expected(forecast, r, i, most):
    """Log probability of the feedback on the forecast's item number i, by regime r."""
    return log_predictive(forecast.clicks[i], forecast.looks[i], forecast.a[r, i], forecast.b[r, i], most)


@no_refcount
def weigh(forecast, regimes, rule, r):
    """Evidence for regime r against the current one, in nats, summed over items; `tally[STORED]` is a new one.

    An item that a stored regime does not know counts as for a new one.
    """
    total = 0.0
    for i in range(forecast.items.size):
        if r == regimes.tally[STORED] or regimes.looks[r, forecast.items[i]] < rule.known:
            total += forecast.new[i]
        else:
            total += expected(forecast, r, i, rule.most) - forecast.same[i]
    return total


@no_refcount
def alike_by_counts(forecast, regimes, rule, r, i):
    """Nats by which an item's counts in the current regime before the span agree with those in regime r."""
    k = forecast.items[i]
    before = regimes.looks[regimes.tally[CURRENT], k] - forecast.looks[i]
    won = regimes.clicks[regimes.tally[CURRENT], k] - forecast.clicks[i]
    alike = log_predictive(won, before, forecast.a[r, i], forecast.b[r, i], rule.most)
    return alike - log_beta(1.0 + won, 1.0 + before - won)


@no_refcount
def distinct_evidence(forecast, regimes, rule, r, alike):
    """The evidence for stored regime `r` without that of items that behave the same in it and the current one.

    For such items, the regime that has known them longer predicts them better. `alike` [R, n]: nats of evidence that
    they are the same; None: computed from counts.
    """
    total = 0.0
    for i in range(forecast.items.size):
        if regimes.looks[r, forecast.items[i]] < rule.known:
            total += forecast.new[i]
            continue
        then = expected(forecast, r, i, rule.most)
        if alike is None:  # noqa: SIM108  (decided at compile time)
            nats = alike_by_counts(forecast, regimes, rule, r, i)
        else:
            nats = alike[r, i]
        share = 1.0 / (1.0 + math.exp(-min(max(nats, -30.0), 30.0)))  # never certain
        total += then - blend(then, forecast.same[i], share)
    return total


@no_refcount
def due(regimes, window, j):
    """Whether to test span `j`: grown by a quarter of its full size, and different from shorter spans.

    The shortest one is tested when it is full.
    """
    quarter = window * SPAN_FACTOR ** max(j - 1, 0)
    rounds = regimes.span_rounds[j]
    grown = rounds // quarter > (rounds - regimes.span_rounds[0]) // quarter
    return grown and (j == 0 or rounds != regimes.span_rounds[j - 1])


@kernel
def no_verdict():
    """Start: recent feedback belongs to the current regime."""
    return Verdict(np.full(1, NONE), np.zeros(1, np.int64), np.zeros(1))


@no_refcount
def update_verdict(verdict, forecast, regimes, rule, j, turns, alike):
    """Change the verdict if span `j` has more evidence for another regime than shorter ones. O(items of the span R).

    `turns`: regimes change too often, so that only a new one is considered. `alike`: as in `distinct_evidence`.
    """
    stored = regimes.tally[STORED]
    for r in range(stored + 1):
        if r == regimes.tally[CURRENT] or (turns and r < stored):
            continue
        bar = rule.back if r < stored else rule.open
        over = weigh(forecast, regimes, rule, r) - bar
        if over > verdict.excess[0] and (r == stored or distinct_evidence(forecast, regimes, rule, r, alike) > bar):
            verdict.regime[0] = r
            verdict.span[0] = j
            verdict.excess[0] = over


@no_refcount
def end_spans(regimes, window):
    """Clear the spans that are full."""
    full = window
    for j in range(SPANS):
        if regimes.span_rounds[j] >= full:
            clear_span(regimes, j)
        full *= SPAN_FACTOR


def inversion_between(regimes: Regimes, rule: Rule, before: int, after: int) -> float:
    """Nats by which the regime numbered `before`, inverted, predicts the feedback of `after` better than as learnt.

    Only items that `before` knows count; 0 if one of the two was dropped. O(K).
    """
    places = {int(n): place for place, n in enumerate(regimes.number[: regimes.tally[STORED]])}
    if before not in places or after not in places:
        return 0.0
    old, new = places[before], places[after]
    looked_at = regimes.looks[old] >= rule.known
    a, b = regimes.test_prior[old]
    rate = (a + regimes.clicks[old, looked_at]) / (a + b + regimes.looks[old, looked_at])
    return inversion(regimes.looks[new, looked_at], regimes.clicks[new, looked_at], rate)
