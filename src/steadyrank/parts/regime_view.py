"""Regimes, and how far people look, for people to read."""

import numpy as np

from ..views import Change, Regime, View
from .attention import Attention
from .evidence import Rule, inversion_between
from .regimes import CHANGES, CURRENT, LEARNT, LOG, STORED, Regimes


def view_of(regimes: Regimes, rule: Rule, attention: Attention) -> View:
    """Regimes and what they say of the feedback, with item estimates, and how far people look: a copy. O(K)."""
    r = regimes
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
    log: list[list[int]] = [r.log[i % LOG].tolist() for i in range(max(0, n - LOG), n)]
    told = {pair: inversion_between(r, rule, *pair) for pair in {(before, after) for _, _, before, after in log}}
    changes = tuple(Change(start, noticed, x, y, told[x, y]) for start, noticed, x, y in log)
    seen = tuple(map(float, attention.chance))
    return View(tuple(found), current, trusted.number, rounds, 0, share, n, changes, seen)
