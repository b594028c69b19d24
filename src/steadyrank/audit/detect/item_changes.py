"""Items whose clicks in some impressions are not the usual ones."""

import math
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.item_evidence import SHARE_CHANGED
from .bayes_factors import EDGE, evidence_by_item
from .stretches import Tally

LISTED = 50  # items of an interval


@dataclass(frozen=True)
class ItemChange:
    """An item whose clicks in an interval are not the usual ones."""

    item: int
    looks: int
    clicks: int
    expected_clicks: float
    rate: float
    usual_rate: float
    certainty: float


def changes_of(counts: Tally, clean: Floats, clean_looks: Ints) -> list[ItemChange]:
    """Items whose clicks are not those of the clean rates, the most changed first."""
    looks, clicks = counts
    evidence = np.zeros(looks.size)
    evidence_by_item(looks, clicks, np.clip(clean, EDGE, 1.0 - EDGE), clean_looks, evidence)
    odds = evidence - math.log((1.0 - SHARE_CHANGED) / SHARE_CHANGED)
    gained = clicks - looks * clean
    order = [k for k in np.argsort(-np.abs(gained), kind="stable").tolist() if odds[k] > 0.0][:LISTED]
    return [
        ItemChange(
            item=k,
            looks=int(looks[k]),
            clicks=int(clicks[k]),
            expected_clicks=round(float(looks[k] * clean[k]), 2),
            rate=float(clicks[k] / looks[k]),
            usual_rate=float(clean[k]),
            certainty=sure_of(odds[k]),
        )
        for k in order
    ]


def sure_of(odds: float) -> float:
    """A chance from log-odds."""
    return 1.0 / (1.0 + math.exp(-min(float(odds), 700.0)))
