"""Regimes, and how far people look, for people to read.

Regimes with models of features, for people to read.

What segments make of the feedback, each and together, for people to read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...core.arrays import Counts, Ints
from ...core.views import Change, Regime, View
from ..shared.mixed_model import OWN
from .attention import Attention
from .evidence import Rule, inversion_between
from .regime_models import Models
from .regimes import CHANGES, CURRENT, LEARNT, LOG, STORED, Regimes


def view_of(regimes: Regimes, rule: Rule, attention: Attention) -> View:
    """Regimes and what they say of the feedback, with item estimates, and how far people look: a copy. O(K)."""
    r = regimes

    def read(place: int) -> Regime:
        a, b = r.prior[place]
        looks, clicks = r.looks[place] + r.apart_looks[place], r.clicks[place] + r.apart_clicks[place]
        estimate = (a + clicks) / (a + b + looks)
        sizes = int(r.number[place]), int(r.start[place]), int(r.rounds[place])
        return Regime(*sizes, estimate, looks, a + b + looks)

    return view_with(regimes, rule, read, tuple(map(float, attention.chance)))


def view_with(regimes: Regimes, rule: Rule, read: Callable[[int], Regime], attention: tuple[float, ...]) -> View:
    """Regimes, each as `read` from its place, and what they say of the feedback: a copy. O(K)."""
    r = regimes
    found = [read(int(place)) for place in np.argsort(r.number[: r.tally[STORED]])]
    current = int(r.number[r.tally[CURRENT]])
    trusted = max(found, key=lambda regime: (regime.rounds, regime.number == current))
    rounds = int(r.tally[LEARNT])
    share = 1.0 - trusted.rounds / rounds if rounds else 0.0
    n = int(r.tally[CHANGES])
    log: list[list[int]] = [r.log[i % LOG].tolist() for i in range(max(0, n - LOG), n)]
    told = {pair: inversion_between(r, rule, *pair) for pair in {(before, after) for _, _, before, after in log}}
    changes = tuple(Change(start, noticed, x, y, told[x, y]) for start, noticed, x, y in log)
    return View(tuple(found), current, trusted.number, rounds, 0, share, n, changes, attention)


def view_of_models(regimes: Regimes, rule: Rule, models: Models) -> View:
    """Regimes and what they say of the feedback, with item estimates for the mean of all visitors: a copy. O(K F)."""
    typical = models.visitors / max(models.visitors[-1], 1.0)

    def read(place: int) -> Regime:
        theta, d = models.estimate[place], models.weight[place] + models.prior[place, OWN]
        logits = (theta * typical) @ models.features + (models.pull[place] - theta @ models.cross[place]) / d
        estimate = 1.0 / (1.0 + np.exp(-logits))
        looks = regimes.looks[place] + regimes.apart_looks[place]
        sizes = int(regimes.number[place]), int(regimes.start[place]), int(regimes.rounds[place])
        return Regime(*sizes, estimate, looks, d / (estimate * (1.0 - estimate)))

    view = view_with(regimes, rule, read, ())
    effects, explained = worth_of(models, int(np.flatnonzero(regimes.number == view.trusted)[0]))
    return replace(view, effects=effects, explained=explained)


def worth_of(models: Models, place: int) -> tuple[tuple[float, ...], float]:
    """By how much each feature moves logits, and the share of their variance that all of them explain. O(F^2).

    Over what was looked at in the regime at this place, each look with its curvature as weight; the rest of the
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


def view_of_all(views: Sequence[View], lent: Counts, number: Ints) -> View:
    """One view of all segments, with theirs in it. `lent` [S, K]: looks that are none of a segment's own, in the
    regime with this `number` [S]. A segment alone is all there is.

    Together they have one regime: estimates are those that lists are made of, averaged over the rounds of the
    segments. Changes are told segment by segment.
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
    """Without the looks that were lent; estimates keep what they say."""
    found = (replace(one, looks=one.looks - lent) if one.number == number else one for one in view.regimes)
    return replace(view, regimes=tuple(found))
