"""Which regime recent feedback belongs to: a Bayes factor over all items at once. Ours, no paper's.

The feedback of each span is predicted from the rounds of the current regime before it, from each stored regime, and
from a new one that may differ in any item. Nothing here reads what is counted apart. What a single item says is
judged as in the audit of click logs; where not, `item_evidence` says so.

Which regime recent visits belong to, where models with features say what is to be expected. Ours, no paper's.

As `evidence`, with the same bars: but what a regime expects of an item in a span is the mean of its model's chances
over the very visitors who were shown it, as a Beta law with the mean and the variance that the model gives.

What SteadyRank does when a window of rounds is full.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.intrinsics import stack_floats
from ...core.compiling.jit import kernel, uncounted
from ...core.item_evidence import KNOWN, MOST, SHARE_CHANGED, changed_with, inversion, log_beta, log_predictive
from ..shared.linear_posterior import image
from ..shared.mixed_model import OWN
from .attention import learn_attention, rewatch
from .hedge import keep_favourites
from .regime_models import empty_model, held_from, model_before, model_of, tell
from .regime_posteriors import fit_priors, learn_priors, learn_regime
from .regimes import (
    CHANGES,
    CURRENT,
    LOG,
    MOST_REGIMES,
    NOTICED,
    SPAN_FACTOR,
    SPANS,
    STORED,
    Regimes,
    clear_span,
    move,
    recount,
    room,
)

CALM = 16  # windows in which three changes are too many


class Rule(NamedTuple):
    """When recent feedback is taken for another regime. Defaults and what they decide: docs/steadyrank.md."""

    known: int = KNOWN  # looks at an item before it can testify
    most: float = MOST  # looks at an item that count at most: smaller moves than their error are no change
    changed: float = SHARE_CHANGED  # of the items in a new regime
    back: float = 10.0  # nats of evidence before a stored regime is taken up again
    open: float = 15.0  # nats of evidence before a new one is opened


@uncounted
def predict(regimes, r, looks, clicks, before, won, most):
    """Log chance of `clicks` in `looks` looks at an item of regime r, after `won` in `before`.

    The prior counts no more than the looks before: an item unlike the others is no change.
    """
    a = regimes.test_prior[r, 0]
    b = regimes.test_prior[r, 1]
    weight = min(1.0, before / (a + b))
    return log_predictive(clicks, looks, a * weight + won, b * weight + before - won, most)


@uncounted
def blend(x, y, share):
    """log(share e^x + (1 - share) e^y)."""
    most = max(x, y)
    return most + math.log(share * math.exp(x - most) + (1.0 - share) * math.exp(y - most))


@uncounted
def restless(regimes, window, t):
    """Whether the last three changes came within `CALM` windows: regimes that take turns have missed another one."""
    changes = regimes.tally[CHANGES]
    return changes >= 3 and t - regimes.log[(changes - 3) % LOG, NOTICED] <= CALM * window


@uncounted
def novelty(same, looks, clicks, changed):
    """Evidence of an item for a new regime: it keeps its attraction, or with chance `changed` draws it uniformly.

    `same` is the log chance of its feedback in the current regime. An item that did not change costs little.
    """
    anew = log_beta(1.0 + clicks, 1.0 + looks - clicks) - same
    if anew > 50.0:
        return anew + math.log(changed)  # the item kept adds nothing that a float holds
    return math.log(changed_with(changed, math.exp(anew)))


@uncounted
def weigh(regimes, rule, j, evidence):
    """Write the evidence of span `j` for each stored regime, and last for a new one, against the current one.

    In nats, summed over items. Only items that the current regime knows testify; one that a stored regime does not
    know counts for it as for a new one.
    """
    current = regimes.tally[CURRENT]
    stored = regimes.tally[STORED]
    for r in range(stored + 1):
        evidence[r] = 0.0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        looks = regimes.span_looks[j, k]
        before = regimes.looks[current, k] - looks
        if looks == 0 or before < rule.known:
            continue
        clicks = regimes.span_clicks[j, k]
        same = predict(regimes, current, looks, clicks, before, regimes.clicks[current, k] - clicks, rule.most)
        unknown = novelty(same, looks, clicks, rule.changed)
        evidence[stored] += unknown
        for r in range(stored):
            if r == current:
                continue
            if regimes.looks[r, k] >= rule.known:
                then = predict(regimes, r, looks, clicks, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
                evidence[r] += then - same
            else:
                evidence[r] += unknown


@uncounted
def distinct_evidence(regimes, rule, j, r):
    """The evidence of span `j` for stored regime `r` without what items say that behave in it as in the current one.

    They are the same in both, and whichever regime knows them longer predicts them better.
    """
    current = regimes.tally[CURRENT]
    total = 0.0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        looks = regimes.span_looks[j, k]
        before = regimes.looks[current, k] - looks
        if looks == 0 or before < rule.known:
            continue
        clicks = regimes.span_clicks[j, k]
        won = regimes.clicks[current, k] - clicks
        same = predict(regimes, current, looks, clicks, before, won, rule.most)
        if regimes.looks[r, k] < rule.known:
            total += novelty(same, looks, clicks, rule.changed)
            continue
        then = predict(regimes, r, looks, clicks, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
        alike = predict(regimes, r, before, won, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
        alike -= log_beta(1.0 + won, 1.0 + before - won)
        share = 1.0 / (1.0 + math.exp(-min(max(alike, -30.0), 30.0)))  # never certain
        total += then - blend(then, same, share)
    return total


@uncounted
def due(regimes, j, quarter):
    """Whether span `j` is to be weighed: it grew by a `quarter` in this window, and no shorter one is the same."""
    rounds = regimes.span_rounds[j]
    grown = rounds // quarter > (rounds - regimes.span_rounds[0]) // quarter
    return grown and (j == 0 or rounds != regimes.span_rounds[j - 1])


@uncounted
def judge(regimes, rule, window, t):
    """The regime that the recent feedback belongs to and the span it came in with; -1 and 0 for the current one.

    `tally[STORED]` stands for a new one. A span is weighed whenever it has grown by a quarter of its full size, the
    shortest one when it is full. O(items of the span) a span and regime, with Beta functions.
    """
    evidence = stack_floats(MOST_REGIMES + 1)
    stored = regimes.tally[STORED]
    turns = restless(regimes, window, t)
    to = -1
    span = 0
    excess = 0.0
    quarter = window
    for j in range(SPANS):
        if j > 1:
            quarter *= SPAN_FACTOR
        if not due(regimes, j, quarter):
            continue
        weigh(regimes, rule, j, evidence)
        for r in range(stored + 1):
            if r == regimes.tally[CURRENT] or (turns and r < stored):
                continue
            bar = rule.back if r < stored else rule.open
            over = evidence[r] - bar
            if over > excess and (r == stored or distinct_evidence(regimes, rule, j, r) > bar):
                to = r
                span = j
                excess = over
    return to, span


@uncounted
def close_window(regimes, rule, window, t):
    """Test the recent feedback after a window, and change the regime if it says so; returns whether it was changed.

    The current one's priors are fitted afterwards, by `learn_priors`.
    """
    to, span = judge(regimes, rule, window, t)
    if to == regimes.tally[STORED]:
        to = room(regimes)
    if to >= 0:
        left = regimes.tally[CURRENT]
        move(regimes, to, span, t)
        fit_priors(regimes, left)
    full = window
    for j in range(SPANS):
        if regimes.span_rounds[j] >= full:
            clear_span(regimes, j)
        full *= SPAN_FACTOR
    return to >= 0


def inversion_between(regimes: Regimes, rule: Rule, before: int, after: int) -> float:
    """Nats by which the regime numbered `before`, inverted, predicts the feedback of `after` better than as learnt.

    Items that `before` knows testify; 0 if one of the two is forgotten. O(K).
    """
    places = {int(n): place for place, n in enumerate(regimes.number[: regimes.tally[STORED]])}
    if before not in places or after not in places:
        return 0.0
    old, new = places[before], places[after]
    known = regimes.looks[old] >= rule.known
    a, b = regimes.test_prior[old]
    rate = (a + regimes.clicks[old, known]) / (a + b + regimes.looks[old, known])
    return inversion(regimes.looks[new, known], regimes.clicks[new, known], rate)


_LEAST_CHANCE, _LEAST_STRENGTH = 1e-3, 1.0


class Forecast(NamedTuple):
    """What there was of each item in a span, and what each of R regimes expects of it: Beta(a, b)."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    a: Floats  # [R, K]
    b: Floats  # [R, K]


@kernel
def foresee(model, tilt, log, number, first, looks, a, b):
    """Write what a model expects of each item in the answers from visit number `first` on. O(visits F^2).

    Chances are averaged over the posterior of a logit with variance v as sigmoid(eta / sqrt(1 + pi v / 8))
    (MacKay 1992). A Beta law of mean m and strength s has the variance m (1 - m) / (s + 1), here that of the chance,
    (m (1 - m))^2 v.
    """
    n = model.moment.size
    c, u = np.empty(n), np.empty(n)
    a[:] = 0.0  # first, chances added up
    b[:] = 0.0  # and variances
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        for p in range(log.examined[at] if log.answer[at] and log.regime[at] == number else 0):
            k = log.items[at, p]
            d = model.weight[k] + model.prior[OWN]
            eta = model.pull[k] / d + tilt
            for f in range(n):
                c[f] = model.shared.features[f, k] * log.seen[at, f] - model.cross[f, k] / d
                eta += c[f] * model.shared.estimate[f]
            v = 1.0 / d + image(model.shared.inverse, c, u)
            a[k] += 1.0 / (1.0 + math.exp(-eta / math.sqrt(1.0 + math.pi * v / 8.0)))
            b[k] += v
    for k in range(looks.size):
        if looks[k] > 0:
            m = min(max(a[k] / looks[k], _LEAST_CHANCE), 1.0 - _LEAST_CHANCE)
            strength = max(1.0 / (m * (1.0 - m) * (b[k] / looks[k])) - 1.0, _LEAST_STRENGTH)
            a[k] = m * strength
            b[k] = (1.0 - m) * strength


@kernel
def forecast_of(regimes, models, log, first):
    """What there was since visit number `first`, and what each stored regime expects; the current one without it."""
    k, stored, current = models.weight.shape[1], regimes.tally[STORED], regimes.tally[CURRENT]
    number = regimes.number[current]
    looks, clicks = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        for p in range(log.examined[at] if log.answer[at] and log.regime[at] == number else 0):
            looks[log.items[at, p]] += 1
            clicks[log.items[at, p]] += 1 if log.clicks[at, p] else 0
    a, b = np.zeros((stored, k)), np.zeros((stored, k))
    for r in range(stored):
        if r == current:
            model = model_before(models, log, r, number, first)
            foresee(model, models.tilt[r, 0], log, number, first, looks, a[r], b[r])
        else:
            foresee(model_of(models, r), models.tilt[r, 0], log, number, first, looks, a[r], b[r])
    return Forecast(looks, clicks, a, b)


@uncounted
def expected(forecast, r, k, most):
    """Log chance of what there was of item k, by regime r."""
    return log_predictive(forecast.clicks[k], forecast.looks[k], forecast.a[r, k], forecast.b[r, k], most)


@uncounted
def weigh_forecast(forecast, regimes, rule, r):
    """Evidence for regime r against the current one, in nats, and without what items say that are alike in both.

    `tally[STORED]` stands for a new one. Only items that the current regime knows testify; one that a stored regime
    does not know counts for it as for a new one.
    """
    current, stored = regimes.tally[CURRENT], regimes.tally[STORED]
    total = distinct = 0.0
    for k in range(forecast.looks.size):
        looks, clicks = forecast.looks[k], forecast.clicks[k]
        if looks == 0 or regimes.looks[current, k] - looks < rule.known:
            continue
        same = expected(forecast, current, k, rule.most)
        if r == stored or regimes.looks[r, k] < rule.known:
            new = novelty(same, looks, clicks, rule.changed)
            total += new
            distinct += new
            continue
        then = expected(forecast, r, k, rule.most)
        total += then - same
        strength = forecast.a[current, k] + forecast.b[current, k]
        before = min(strength, rule.most)  # as if the current regime had seen so many looks
        won = before * forecast.a[current, k] / strength
        a, b = forecast.a[r, k], forecast.b[r, k]
        scale = min(1.0, rule.most / (a + b))
        alike = log_beta(a * scale + won, b * scale + before - won) - log_beta(a * scale, b * scale)
        alike -= log_beta(1.0 + won, 1.0 + before - won)
        share = 1.0 / (1.0 + math.exp(-min(max(alike, -30.0), 30.0)))  # never certain
        distinct += then - blend(then, same, share)
    return total, distinct


@kernel
def judge_visits(regimes, models, log, rule, window, t):
    """The regime that recent visits belong to and the span they came in with; -1 and 0 for the current one.

    As `evidence.judge`.
    """
    stored, turns = regimes.tally[STORED], restless(regimes, window, t)
    to, span, excess, quarter = -1, 0, 0.0, window
    for j in range(SPANS):
        if j > 1:
            quarter *= SPAN_FACTOR
        if not due(regimes, j, quarter):
            continue
        forecast = forecast_of(regimes, models, log, log.first[j])
        for r in range(stored + 1):
            if r == regimes.tally[CURRENT] or (turns and r < stored):
                continue
            bar = rule.back if r < stored else rule.open
            total, distinct = weigh_forecast(forecast, regimes, rule, r)
            if total - bar > excess and distinct > bar:
                to, span, excess = r, j, total - bar
    return to, span


@kernel
def move_visits(regimes, models, log, source, to, first):
    """Hand the visits from number `first` on over to the model of regime `to`, which observes them anew."""
    before = model_before(models, log, source, regimes.number[source], first)
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        if log.regime[at] == regimes.number[source]:
            log.regime[at] = regimes.number[to]
            tell(models, log, i, to, regimes.apart_rounds[to] > 0)
    model = model_of(models, source)
    model.shared.inverse[:] = before.shared.inverse
    model.shared.estimate[:] = before.shared.estimate
    model.cross[:] = before.cross
    model.weight[:] = before.weight
    model.pull[:] = before.pull
    model.precision[:] = before.precision
    model.moment[:] = before.moment


@kernel
def close_window_of_visits(regimes, models, log, rule, window, t):
    """Test the recent visits after a window, and change the regime if they say so."""
    to, span = judge_visits(regimes, models, log, rule, window, t)
    if to == regimes.tally[STORED]:
        to = room(regimes)
        empty_model(models, to, regimes.tally[CURRENT])
    if to >= 0:
        for j in range(SPANS):
            if regimes.span_rounds[j] > regimes.span_rounds[span]:
                log.first[j] = log.first[span]
        move_visits(regimes, models, log, regimes.tally[CURRENT], to, log.first[span])
        move(regimes, to, span, t)
    full = window
    for j in range(SPANS):
        if regimes.span_rounds[j] >= full:
            clear_span(regimes, j)
            log.first[j] = log.first[-1]
        full *= SPAN_FACTOR


@kernel
def end_window(learner, bar, t):
    """Learn how far people look, take up another regime if the feedback says so, and fit its prior.

    `bar`: nats of evidence before attention is believed; below 0, nothing is learnt of it. O(G + items of the spans)
    with G groups of items of equal counts; O(K) if the regime changes.
    """
    share = 1.0
    if bar >= 0.0:
        share = learn_attention(learner.attention, learner.posteriors.prior[0], bar)
        recount(learner.regimes, share)
    changed = close_window(learner.regimes, learner.rule, learner.window, t)
    if changed:
        rewatch(learner.attention)
    if changed or share != 1.0:
        learn_regime(learner.regimes, learner.posteriors)
    learn_priors(learner.regimes, learner.posteriors, learner.length)
    keep_favourites(learner.regimes, learner.favourites, learner.window, changed or share != 1.0)
