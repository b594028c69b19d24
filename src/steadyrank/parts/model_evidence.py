"""Which regime recent visits belong to, where models with features say what is to be expected. Ours, no paper's.

As `evidence`, with the same bars: but what a regime expects of an item in a span is the mean of its model's chances
over the very visitors who were shown it, as a Beta law with the mean and the variance that the model gives.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import kernel, uncounted
from ..arrays import Floats, Ints
from ..item_evidence import log_beta, log_predictive
from .evidence import blend, due, novelty, restless
from .linear_posterior import image
from .mixed_model import OWN
from .models import empty_model, held_from, model_before, model_of, tell
from .regimes import CURRENT, STORED, move, room
from .spans import SPAN_FACTOR, SPANS, clear_span

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
