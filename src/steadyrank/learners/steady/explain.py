"""Views of regimes and attention for people to read."""

from collections.abc import Callable

import numpy as np

from ...core.views import Change, Regime, View
from .attention import Attention
from .evidence import Rule, inversion_between
from .regimes import CHANGES, CURRENT, LEARNT, LOG, STORED, Regimes


def view_of(regimes: Regimes, rule: Rule, attention: Attention) -> View:
    """A copy of the regimes, what they imply for the feedback, item estimates, and how far people look. O(K)."""
    r = regimes

    def read(place: int) -> Regime:
        a, b = r.prior[place]
        looks, clicks = r.looks[place] + r.untested_looks[place], r.clicks[place] + r.untested_clicks[place]
        estimate = (a + clicks) / (a + b + looks)
        sizes = int(r.number[place]), int(r.start[place]), int(r.rounds[place])
        return Regime(*sizes, estimate, looks, a + b + looks)

    return view_with(regimes, rule, read, tuple(map(float, attention.chance)))


def view_with(regimes: Regimes, rule: Rule, read: Callable[[int], Regime], attention: tuple[float, ...]) -> View:
    """A copy of the regimes, each read by `read` from its index, and what they imply for the feedback. O(K)."""
    r = regimes
    stored = [read(int(place)) for place in np.argsort(r.number[: r.tally[STORED]])]
    current = int(r.number[r.tally[CURRENT]])
    trusted = max(stored, key=lambda regime: (regime.rounds, regime.number == current))
    rounds = int(r.tally[LEARNT])
    share = 1.0 - trusted.rounds / rounds if rounds else 0.0
    n = int(r.tally[CHANGES])
    log: list[list[int]] = [r.log[i % LOG].tolist() for i in range(max(0, n - LOG), n)]
    inversions = {
        pair: inversion_between(r, rule, *pair) for pair in {(before, after) for _, _, before, after in log}
    }
    changes = tuple(Change(start, noticed, x, y, inversions[x, y]) for start, noticed, x, y in log)
    return View(tuple(stored), current, trusted.number, rounds, 0, share, n, changes, attention)
