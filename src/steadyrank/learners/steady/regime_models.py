"""A mixed model for each regime, and the latest visits, so that one regime can hand them to another. Ours."""

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Counts, Floats, Ints, Small
from ...core.compiling.jit import kernel, uncounted
from ..shared.linear_posterior import LinearPosterior, meet
from ..shared.mixed_model import (
    BEFORE,
    BEFORE_PRECISION,
    FIRST_FIT,
    OWN,
    MixedModel,
    add_sums,
    fit,
    observe,
    rebuild,
    scale_of,
    unobserve,
)

MOST_PLACES = 100_000  # of lists in a log of visits, unless it needs more
_FLATTEST = 1e-3  # curvature, as in a mixed model


class Models(NamedTuple):
    """The fields of R mixed models, one a regime, of the same items."""

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
    tilt: Floats  # [R, 2] by how much logits of answers are above those of all lists, and the curvature behind it
    scale: Floats  # [F] the units that features are measured in
    visitors: Floats  # [F + 1] features of all visitors so far, added up; last, how many there were

    @classmethod
    def create(cls, features: Floats, n: int) -> "Models":
        """`n` models with nothing observed, of items with these `features` [K, F]."""
        one = MixedModel.create(features)
        parts: dict[str, Any] = {**one.shared._asdict(), **one._asdict(), "tilt": np.zeros(2)}
        known, _ = parts.pop("features"), parts.pop("shared")
        stacked = {name: np.repeat(np.asarray(part)[None], n, 0) for name, part in parts.items()}
        return cls(features=known, scale=scale_of(features), visitors=np.zeros(features.shape[1] + 1), **stacked)


class VisitLog(NamedTuple):
    """The latest N visits as they were learnt; the visit numbered i, from 0 on, is at place i % N."""

    seen: Floats  # [N, F + 1] the visitor's features, and 1
    items: Counts  # [N, length]
    clicks: Bools  # [N, length]
    weight: Floats  # [N, length] with which a place counts
    target: Floats  # [N, length] what it says of the logit
    round: Ints  # [N]
    regime: Ints  # [N] number of the one that it was told to
    examined: Small  # [N] 0: taken back
    answer: Bools  # [N] neither silence nor vouched for
    first: Ints  # [spans + 1] number of the first visit of each span; last, how many visits there were

    @classmethod
    def create(cls, window: int, n_features: int, length: int, spans: int) -> "VisitLog":
        """An empty one, with room for the longest span unless that has more than `MOST_PLACES`."""
        n = max(4 * window, min(64 * window, MOST_PLACES // length))
        places, rounds = (n, length), (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int16))
        lists = np.zeros(places, np.int32), np.zeros(places, np.bool_), np.zeros(places), np.zeros(places)
        return cls(
            np.zeros((n, n_features + 1)), *lists, *rounds, np.zeros(n, np.bool_), np.zeros(spans + 1, np.int64)
        )


@kernel
def model_of(models, r):
    """The model of regime r: its own memory."""
    shared = LinearPosterior(models.features, models.inverse[r], models.estimate[r], models.growth[r])
    sums = models.cross[r], models.weight[r], models.pull[r], models.precision[r], models.moment[r]
    return MixedModel(shared, sums[0], sums[1], sums[2], sums[3], sums[4], models.prior[r], models.counts[r])


@uncounted
def held_from(log, i):
    """The number of the oldest visit from number i on that is still in the log."""
    return max(i, log.first[-1] - log.round.size)


@uncounted
def empty_model(models, r, like):
    """Let the model of regime r have observed nothing; its priors begin with those of regime `like`."""
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


@uncounted
def learn_tilt(tilt, eta, y):
    """One answer more says by how much logits of answers are above those of all lists, silence included."""
    p = 1.0 / (1.0 + math.exp(-eta - tilt[0]))
    tilt[1] += max(p * (1.0 - p), _FLATTEST)
    tilt[0] += (y - p) / (tilt[1] + 1.0)


@kernel
def tell(models, log, i, r, tilted):
    """Let the model of regime r observe visit number i of the log; `tilted`: it has observed silence as well."""
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
def untell(models, log, i, r):
    """Take visit number i of the log back from the model of regime r."""
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
    """Put a visit into the log in place of the oldest one, for the regime of this number; returns its number."""
    n, i = models.moment.shape[1], log.first[-1]
    at = i % log.round.size
    log.seen[at, n - 1] = 1.0
    meet(visit.features, log.seen[at, : n - 1])
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
def tell_anew(models, log, numbers, k, known):
    """Let item k have these features [F], in their units; what the log has of it is observed anew with them.

    `numbers` [R]: of the regimes that there are. Otherwise visits in the log would be taken back as they were never
    told. What is older stays as it was. O(visits of the item F^2).
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
            models.features[f, k] = known[f]


@uncounted
def find_visit(log, t, ranking, clicks, examined):
    """The number of the latest visit of round t with this feedback that is in the log; -1 if there is none."""
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
def untell_unknown(models, r, ranking, clicks, examined):
    """Take back a visit that the log no longer has, as that of a visitor like those whom each item was shown to."""
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
    """The model of regime r, which has this number, without the visits from number `first` on: a copy. O(K F^2)."""
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
