"""SteadyRankLinear: SteadyRank's regimes and hedged lists, with models that use features. Ours.

Each regime has a mixed model. The latest visits are logged, so that one regime can hand them to another.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Counts, Floats, Ints, Small
from ...core.compiling.jit import kernel, no_refcount
from ...core.contract import ANSWER, KIND, SILENCE, Problem
from ...core.item_evidence import log_beta
from ...core.kernels import top_allowed
from ...core.settings import real, whole
from ...core.views import Regime, View
from ..shared.linear_posterior import LinearPosterior, chance_of, inverse_times, visitor_features
from ..shared.mixed_model import (
    BEFORE,
    BEFORE_PRECISION,
    FIRST_FIT,
    OWN,
    MixedModel,
    add_sums,
    drawn_logits,
    expected_logits,
    fit,
    observe,
    rebuild,
    scale_of,
    unobserve,
)
from .evidence import NONE, Rule, changes_too_often, due, end_spans, forecast_with, no_verdict, update_verdict
from .explain import view_with
from .hedge import add_best, add_new, weigh_views
from .regimes import (
    CURRENT,
    MOST_REGIMES,
    SPAN_FACTOR,
    SPANS,
    STORED,
    Regimes,
    count,
    count_untested,
    find_place,
    move,
    number_at,
    place_of,
    rival,
    room,
    uncount,
    uncount_untested,
)

MOST_PLACES = 100_000  # most places of lists in the log of visits, unless its windows need more
_LEAST_CHANCE, _LEAST_STRENGTH = 1e-3, 1.0  # bounds of a model's prediction of an item
_FLATTEST = 1e-3  # least curvature, as in a mixed model


class Models(NamedTuple):
    """The fields of R mixed models of the same items, one per regime."""

    features: Floats  # [F + 1, K]
    inverse: Floats  # [R, F + 1, F + 1]
    estimate: Floats  # [R, F + 1]
    growth: Floats  # [R, 1]
    cross: Floats  # [R, F + 1, K]
    weight: Floats  # [R, K]
    pull: Floats  # [R, K]
    precision: Floats  # [R, F + 1, F + 1]
    moment: Floats  # [R, F + 1]
    prior: Floats  # [R, 2]
    counts: Floats  # [R, 2]
    tilt: Floats  # [R, 2] excess of logits of answers over those of all lists, and its curvature
    scale: Floats  # [F] the units that features are measured in
    visitors: Floats  # [F + 1] sum of the features of all visitors so far; last, their number

    @classmethod
    def create(cls, features: Floats, n: int) -> "Models":
        """`n` models without observations, of items with these `features` [K, F]."""
        one = MixedModel.create(features)
        parts: dict[str, Any] = {**one.shared._asdict(), **one._asdict(), "tilt": np.zeros(2)}
        scaled, _ = parts.pop("features"), parts.pop("shared")
        stacked = {name: np.repeat(np.asarray(part)[None], n, 0) for name, part in parts.items()}
        return cls(features=scaled, scale=scale_of(features), visitors=np.zeros(features.shape[1] + 1), **stacked)


class VisitLog(NamedTuple):
    """The latest N visits as they were learnt; visit number i, from 0, is at index i % N."""

    seen: Floats  # [N, F + 1] the visitor's features, and 1
    items: Counts  # [N, length]
    clicks: Bools  # [N, length]
    weight: Floats  # [N, length] weight of each place
    target: Floats  # [N, length] observed target logit of each place
    round: Ints  # [N]
    regime: Ints  # [N] number of the regime that learnt it
    examined: Small  # [N] 0: retracted
    answer: Bools  # [N] neither silence nor labelled honest
    first: Ints  # [spans + 1] number of the first visit of each span; last, of the next visit

    @classmethod
    def create(cls, window: int, n_features: int, length: int, spans: int) -> "VisitLog":
        """Empty, with room for the longest span unless that exceeds `MOST_PLACES`."""
        n = max(4 * window, min(64 * window, MOST_PLACES // length))
        places, rounds = (n, length), (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int16))
        lists = np.zeros(places, np.int32), np.zeros(places, np.bool_), np.zeros(places), np.zeros(places)
        return cls(
            np.zeros((n, n_features + 1)), *lists, *rounds, np.zeros(n, np.bool_), np.zeros(spans + 1, np.int64)
        )


@kernel
def model_of(models, r):
    """The model of regime r, sharing its memory."""
    shared = LinearPosterior(models.features, models.inverse[r], models.estimate[r], models.growth[r])
    sums = models.cross[r], models.weight[r], models.pull[r], models.precision[r], models.moment[r]
    return MixedModel(shared, sums[0], sums[1], sums[2], sums[3], sums[4], models.prior[r], models.counts[r])


@no_refcount
def held_from(log, i):
    """Number of the oldest visit from number i on that is still in the log."""
    return max(i, log.first[-1] - log.round.size)


@no_refcount
def empty_model(models, r, like):
    """Clear the model of regime r; its priors start from those of regime `like`."""
    n = models.moment.shape[1]
    models.cross[r] = 0.0
    models.weight[r] = 0.0
    models.pull[r] = 0.0
    models.precision[r] = 0.0
    models.moment[r] = 0.0
    models.moment[r, n - 1] = BEFORE * BEFORE_PRECISION
    models.inverse[r] = 0.0
    models.estimate[r] = 0.0
    models.estimate[r, n - 1] = BEFORE
    for i in range(2):
        models.prior[r, i] = models.prior[like, i]
        models.tilt[r, i] = models.tilt[like, i]
    for f in range(n):
        models.inverse[r, f, f] = 1.0 / (models.prior[r, 1] if f < n - 1 else BEFORE_PRECISION)
    models.counts[r, 0] = 0.0
    models.counts[r, 1] = FIRST_FIT


@no_refcount
def learn_tilt(tilt, eta, y):
    """Update, with one more answer, the excess of logits of answers over those of all lists, silence included."""
    p = 1.0 / (1.0 + math.exp(-eta - tilt[0]))
    tilt[1] += max(p * (1.0 - p), _FLATTEST)
    tilt[0] += (y - p) / (tilt[1] + 1.0)


@kernel
def observe_visit(models, log, i, r, tilted):
    """Add visit number i of the log to the model of regime r; `tilted`: the model has also learnt silence."""
    n, at, model = models.moment.shape[1], i % log.round.size, model_of(models, r)
    z, c, u = np.empty(n), np.empty(n), np.empty(n)
    for p in range(log.examined[at]):
        k, y = log.items[at, p], 1.0 if log.clicks[at, p] else 0.0
        for f in range(n):
            z[f] = models.features[f, k] * log.seen[at, f]
        w, target, eta = observe(model, k, z, c, u, y)
        if tilted and log.answer[at]:
            learn_tilt(models.tilt[r], eta, y)
        log.weight[at, p] = w
        log.target[at, p] = target
        model.counts[0] += 1.0
    if model.counts[0] >= model.counts[1]:
        model.counts[1] *= 2.0
        fit(model)


@kernel
def unobserve_visit(models, log, i, r):
    """Remove visit number i of the log from the model of regime r."""
    n, at, model = models.moment.shape[1], i % log.round.size, model_of(models, r)
    z, c, u = np.empty(n), np.empty(n), np.empty(n)
    for p in range(log.examined[at]):
        k = log.items[at, p]
        for f in range(n):
            z[f] = models.features[f, k] * log.seen[at, f]
        unobserve(model, k, z, c, u, log.weight[at, p], log.target[at, p])
        model.counts[0] -= 1.0


@kernel
def write_down(models, log, visit, ranking, clicks, examined, number, answer):
    """Log a visit for the regime of this number, overwriting the oldest; returns the visit's number."""
    n, i = models.moment.shape[1], log.first[-1]
    at = i % log.round.size
    log.seen[at, n - 1] = 1.0
    visitor_features(visit.features, log.seen[at, : n - 1])
    for f in range(n):
        models.visitors[f] += log.seen[at, f]
    for p in range(examined):
        log.items[at, p] = ranking[p]
        log.clicks[at, p] = clicks[p]
    log.round[at] = visit.t
    log.regime[at] = number
    log.examined[at] = examined
    log.answer[at] = answer
    log.first[-1] = i + 1
    return i


@kernel
def relearn_item(models, log, numbers, k, features):
    """Give item k these features [F], scaled, and relearn the logged visits that show it.

    `numbers` [R]: of the stored regimes. Without relearning, removing a logged visit would subtract what was never
    added. Older visits stay as they were learnt. O(visits of the item F^2).
    """
    n, size = models.moment.shape[1], log.round.size
    z, c, u = np.empty(n), np.empty(n), np.empty(n)
    for again in (False, True):
        for i in range(held_from(log, 0), log.first[-1]):
            at = i % size
            for p in range(log.examined[at]):
                if log.items[at, p] != k:
                    continue
                for r in range(numbers.size):
                    if numbers[r] != log.regime[at]:
                        continue
                    for f in range(n):
                        z[f] = models.features[f, k] * log.seen[at, f]
                    if again:
                        y = 1.0 if log.clicks[at, p] else 0.0
                        w, target, _ = observe(model_of(models, r), k, z, c, u, y)
                        log.weight[at, p] = w
                        log.target[at, p] = target
                    else:
                        unobserve(model_of(models, r), k, z, c, u, log.weight[at, p], log.target[at, p])
        for f in range(n - 1):
            models.features[f, k] = features[f]


@no_refcount
def find_visit(log, t, ranking, clicks, examined):
    """Number of the latest logged visit of round t with this feedback; -1 if there is none."""
    for i in range(log.first[-1] - 1, held_from(log, 0) - 1, -1):
        at = i % log.round.size
        if log.round[at] == t and log.examined[at] == examined:
            same = True
            for p in range(examined):
                same = same and log.items[at, p] == ranking[p] and log.clicks[at, p] == clicks[p]
            if same:
                return i
    return -1


@kernel
def unobserve_lost_visit(models, r, ranking, clicks, examined):
    """Remove a visit that is no longer logged, as if by the average visitor to whom each item was shown."""
    n, model = models.moment.shape[1], model_of(models, r)
    z, c, u = np.empty(n), np.empty(n), np.empty(n)
    for p in range(examined):
        k, y = ranking[p], 1.0 if clicks[p] else 0.0
        total = model.weight[k]
        if total == 0.0:
            continue
        d = total + model.prior[OWN]
        eta = model.pull[k] / d
        for f in range(n):
            z[f] = model.cross[f, k] / total
            eta += (z[f] - model.cross[f, k] / d) * model.shared.estimate[f]
        chance = 1.0 / (1.0 + math.exp(-eta))
        w = min(max(chance * (1.0 - chance), _FLATTEST), total)
        unobserve(model, k, z, c, u, w, eta + (y - chance) / w)
        model.counts[0] -= 1.0


@kernel
def model_before(models, log, r, number, first):
    """A copy of the model of regime r, number `number`, without the visits from number `first` on. O(K F^2)."""
    whole, n = model_of(models, r), models.moment.shape[1]
    shared = LinearPosterior(models.features, models.inverse[r].copy(), models.estimate[r].copy(), np.zeros(1))
    sums = whole.cross.copy(), whole.weight.copy(), whole.pull.copy(), whole.precision.copy(), whole.moment.copy()
    model = MixedModel(shared, sums[0], sums[1], sums[2], sums[3], sums[4], whole.prior, whole.counts)
    z = np.empty(n)
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        for p in range(log.examined[at] if log.regime[at] == number else 0):
            k = log.items[at, p]
            for f in range(n):
                z[f] = models.features[f, k] * log.seen[at, f]
            add_sums(model, k, z, -log.weight[at, p], log.target[at, p])
            model.weight[k] = max(model.weight[k], 0.0)
    rebuild(model)
    return model


@kernel
def foresee(model, tilt, log, number, first, looks, a, b):
    """Write a model's prediction of each item in the answers from visit number `first` on. O(visits F^2).

    Chances are averaged over the posterior of a logit with variance v as sigmoid(eta / sqrt(1 + pi v / 8))
    (MacKay 1992). A Beta distribution with mean m and strength s has variance m (1 - m) / (s + 1), here that of the
    chance, (m (1 - m))^2 v.
    """
    n = model.moment.size
    c, u = np.empty(n), np.empty(n)
    a[:] = 0.0  # here the sum of chances
    b[:] = 0.0  # and the sum of variances
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        for p in range(log.examined[at] if log.answer[at] and log.regime[at] == number else 0):
            k = log.items[at, p]
            d = model.weight[k] + model.prior[OWN]
            eta = model.pull[k] / d + tilt
            for f in range(n):
                c[f] = model.shared.features[f, k] * log.seen[at, f] - model.cross[f, k] / d
                eta += c[f] * model.shared.estimate[f]
            v = 1.0 / d + inverse_times(model.shared.inverse, c, u)
            a[k] += 1.0 / (1.0 + math.exp(-eta / math.sqrt(1.0 + math.pi * v / 8.0)))
            b[k] += v
    for k in range(looks.size):
        if looks[k] > 0:
            m = min(max(a[k] / looks[k], _LEAST_CHANCE), 1.0 - _LEAST_CHANCE)
            strength = max(1.0 / (m * (1.0 - m) * (b[k] / looks[k])) - 1.0, _LEAST_STRENGTH)
            a[k] = m * strength
            b[k] = (1.0 - m) * strength


@kernel
def forecast_of_visits(regimes, models, log, rule, j):
    """The feedback in span `j`, and the prediction of each stored regime's model; also how alike items are.

    The prediction of an item is the mean of a model's chances over the visitors who were shown it, as a Beta
    distribution with the model's mean and variance. Returns the forecast, and [R, n] nats by which the
    current regime's prediction of an item agrees with another's. O(R visits F^2 + K).
    """
    k_items, stored, current = models.weight.shape[1], regimes.tally[STORED], regimes.tally[CURRENT]
    number, first = regimes.number[current], log.first[j]
    looks, clicks = np.zeros(k_items, np.int64), np.zeros(k_items, np.int64)
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        for p in range(log.examined[at] if log.answer[at] and log.regime[at] == number else 0):
            looks[log.items[at, p]] += 1
            clicks[log.items[at, p]] += 1 if log.clicks[at, p] else 0
    a, b = np.zeros((stored, k_items)), np.zeros((stored, k_items))
    for r in range(stored):
        if r == current:
            model = model_before(models, log, r, number, first)
            foresee(model, models.tilt[r, 0], log, number, first, looks, a[r], b[r])
        else:
            foresee(model_of(models, r), models.tilt[r, 0], log, number, first, looks, a[r], b[r])
    items = np.flatnonzero((looks > 0) & (regimes.looks[current] - looks >= rule.known)).astype(np.int32)
    forecast = forecast_with(items, looks[items], clicks[items], a[:, items], b[:, items], current, rule)
    alike = np.empty((stored, items.size))
    for r in range(stored):
        for i in range(items.size):
            alike[r, i] = alike_by_models(forecast, current, r, i, rule.most)
    return forecast, alike


@no_refcount
def alike_by_models(forecast, current, r, i, most):
    """Nats by which the current regime's prediction of an item agrees with that of regime r, for equal looks."""
    strength = forecast.a[current, i] + forecast.b[current, i]
    before = min(strength, most)
    won = before * forecast.a[current, i] / strength
    a, b = forecast.a[r, i], forecast.b[r, i]
    scale = min(1.0, most / (a + b))
    alike = log_beta(a * scale + won, b * scale + before - won) - log_beta(a * scale, b * scale)
    return alike - log_beta(1.0 + won, 1.0 + before - won)


@kernel
def move_visits(regimes, models, log, source, to, first):
    """Move the visits from number `first` on to the model of regime `to`, which learns them."""
    before = model_before(models, log, source, regimes.number[source], first)
    for i in range(held_from(log, first), log.first[-1]):
        at = i % log.round.size
        if log.regime[at] == regimes.number[source]:
            log.regime[at] = regimes.number[to]
            observe_visit(models, log, i, to, regimes.untested_rounds[to] > 0)
    model = model_of(models, source)
    model.shared.inverse[:] = before.shared.inverse
    model.shared.estimate[:] = before.shared.estimate
    model.cross[:] = before.cross
    model.weight[:] = before.weight
    model.pull[:] = before.pull
    model.precision[:] = before.precision
    model.moment[:] = before.moment


@kernel
def end_window(regimes, models, log, rule, window, t):
    """Test the recent visits after a window, and change the regime if they fit another one."""
    verdict, turns = no_verdict(), changes_too_often(regimes, window, t)
    for j in range(SPANS):
        if due(regimes, window, j):
            forecast, alike = forecast_of_visits(regimes, models, log, rule, j)
            update_verdict(verdict, forecast, regimes, rule, j, turns, alike)
    to, span = verdict.regime[0], verdict.span[0]
    if to == regimes.tally[STORED]:
        to = room(regimes)
        empty_model(models, to, regimes.tally[CURRENT])
    if to != NONE:
        for j in range(SPANS):
            if regimes.span_rounds[j] > regimes.span_rounds[span]:
                log.first[j] = log.first[span]
        move_visits(regimes, models, log, regimes.tally[CURRENT], to, log.first[span])
        move(regimes, to, span, t)
    for j in range(SPANS):
        if regimes.span_rounds[j] >= window * SPAN_FACTOR**j:
            log.first[j] = log.first[-1]
    end_spans(regimes, window)


@kernel
def hedged_by_models(model, rival, weights, visit, width, allowed, ranking, rng):
    """As `hedged_list`; the views are a draw of `model`, its inverse and, with a third weight, `rival`'s mean.

    O(K F + F^3 + V^3 d^2).
    """
    size, views = ranking.size, weights.size
    drawn, mean, other = np.empty(allowed.size), np.empty(allowed.size), np.empty(allowed.size)
    drawn_logits(model, visit, width, rng, drawn)
    if weights[0] == 1.0:
        top_allowed(drawn, allowed, ranking, rng)
        return
    expected_logits(model, visit, mean)
    best, candidates = np.empty(size, np.int64), np.empty(views * size, np.int64)
    values, means = np.zeros((views, views * size)), np.empty(views * size)
    top_allowed(drawn, allowed, candidates[:size], rng)
    top_allowed(-mean, allowed, best, rng)
    n = add_new(candidates, size, best)
    if views > 2:
        expected_logits(rival, visit, other)
        top_allowed(other, allowed, best, rng)
        n = add_new(candidates, n, best)
    for i in range(n):
        k = candidates[i]
        means[i] = chance_of(mean[k])
        values[0, i] = chance_of(drawn[k]) if i < size or views > 2 else 0.0
        values[1, i] = 1.0 - means[i]
        if views > 2:
            values[2, i] = chance_of(other[k])
    add_best(values, means, np.arange(n), weights.copy(), ranking)
    for p in range(size):
        ranking[p] = candidates[ranking[p]]


def view_of_models(regimes: Regimes, rule: Rule, models: Models) -> View:
    """A copy of the regimes and what they imply for the feedback, with estimates for the average visitor. O(K F)."""
    typical = models.visitors / max(models.visitors[-1], 1.0)

    def read(place: int) -> Regime:
        theta, d = models.estimate[place], models.weight[place] + models.prior[place, OWN]
        logits = (theta * typical) @ models.features + (models.pull[place] - theta @ models.cross[place]) / d
        estimate = 1.0 / (1.0 + np.exp(-logits))
        looks = regimes.looks[place] + regimes.untested_looks[place]
        sizes = int(regimes.number[place]), int(regimes.start[place]), int(regimes.rounds[place])
        return Regime(*sizes, estimate, looks, d / (estimate * (1.0 - estimate)))

    view = view_with(regimes, rule, read, ())
    effects, explained = worth_of(models, int(np.flatnonzero(regimes.number == view.trusted)[0]))
    return replace(view, effects=effects, explained=explained)


def worth_of(models: Models, place: int) -> tuple[tuple[float, ...], float]:
    """Effect of each feature on logits, and the share of the logits' variance that all features explain. O(F^2).

    Over the looks in the regime at this index, each weighted by its curvature; the rest of the
    variance is that of the items' own effects.
    """
    theta, total = models.estimate[place], models.precision[place]
    if total[-1, -1] == 0.0:
        return (0.0,) * (theta.size - 1), 0.0
    mean = total[-1] / total[-1, -1]
    spread = total / total[-1, -1] - np.outer(mean, mean)
    effects = theta[:-1] * np.sqrt(np.maximum(np.diag(spread)[:-1], 0.0))
    variance = max(float(theta @ spread @ theta), 0.0)
    return tuple(map(float, effects)), variance / (variance + 1.0 / float(models.prior[place, OWN]))


class SteadyRankLinear(NamedTuple):
    """SteadyRank for items and visitors with features (ours: docs/context.md).

    Each regime has the model of CascadeMixedTS: the logit of a click is z' theta + e_k, with weights shared by all
    items and an effect of each item's own. Recent visits that the current regime's model does not explain open a new
    regime, or resume a stored one. Lists are drawn from the current model, serve a longer regime as well, and insure
    the places they can spare. `insurance`, `caution`, `window`: as in SteadyRank. `width`: as in CascadeMixedTS.
    Users are assumed to scan lists from the top to the first click. Without features, items have only their own
    effects.
    """

    regimes: Regimes
    models: Models
    visits: VisitLog
    rule: Rule
    insurance: float
    caution: float
    window: int
    width: float

    live = True
    VERSION = 2

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        insurance: float = 0.1,
        caution: float = 0.5,
        window: int = 50,
        width: float = 0.7,
    ) -> "SteadyRankLinear":
        insurance = real("insurance", insurance, 0.0, 0.5)
        caution = real("caution", caution, 0.0, 1.0)
        window = whole("window", window, 1, 10_000)
        width = real("width", width, 0.0, 10.0)
        features = problem.features if problem.features.shape[0] else np.zeros((problem.n_items, 0))
        models = Models.create(features, MOST_REGIMES)
        visits = VisitLog.create(window, features.shape[1], problem.length, SPANS)
        return cls(Regimes.create(problem.n_items), models, visits, Rule(), insurance, caution, window, width)

    def rank(self, visit, allowed, ranking, note, rng):
        regimes, current = self.regimes, self.regimes.tally[CURRENT]
        other = rival(regimes, self.window) if self.caution > 0.0 else -1
        weights = np.zeros(2 if other < 0 else 3)
        weigh_views(weights, regimes.rounds, current, other, self.insurance, self.caution, self.window)
        model, longer = model_of(self.models, current), model_of(self.models, max(other, 0))
        hedged_by_models(model, longer, weights, visit, self.width, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # no place was examined
        regimes, answer = self.regimes, note[KIND] == ANSWER
        r = regimes.tally[CURRENT] if answer else place_of(regimes, visit.t)
        if answer:
            count(regimes, ranking, clicks, examined, visit.t)
        else:
            count_untested(regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)
        i = write_down(self.models, self.visits, visit, ranking, clicks, examined, regimes.number[r], answer)
        observe_visit(self.models, self.visits, i, r, regimes.untested_rounds[r] > 0)
        if regimes.span_rounds[0] >= self.window:
            end_window(regimes, self.models, self.visits, self.rule, self.window, visit.t)

    def forget(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return
        regimes, i = self.regimes, find_visit(self.visits, visit.t, ranking, clicks, examined)
        if i >= 0:
            at = i % self.visits.round.size
            r = find_place(regimes, self.visits.regime[at])
            if r >= 0:
                unobserve_visit(self.models, self.visits, i, r)
            self.visits.examined[at] = 0
        else:
            r = find_place(regimes, number_at(regimes, visit.t))
            if r >= 0:
                unobserve_lost_visit(self.models, r, ranking, clicks, examined)
        if note[KIND] == ANSWER:
            uncount(regimes, ranking, clicks, examined, visit.t)
        else:
            uncount_untested(regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)

    def describe(self, item: int, features: Floats) -> None:
        """Set the features of an item; recent visits that show it are relearnt with them."""
        scaled = features / self.models.scale
        if not self.models.weight[:, item].any():
            self.models.features[:-1, item] = scaled
        elif not np.array_equal(scaled, self.models.features[:-1, item]):
            numbers = self.regimes.number[: self.regimes.tally[STORED]]
            relearn_item(self.models, self.visits, numbers, item, scaled)

    def view(self) -> View:
        """A copy of the regimes and what they imply for the feedback, with estimates for the average visitor."""
        return view_of_models(self.regimes, self.rule, self.models)
