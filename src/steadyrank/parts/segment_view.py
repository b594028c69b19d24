"""What segments make of the feedback, each and together, for people to read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..arrays import Counts, Ints
from ..views import Regime, View


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
