"""The contribution of each part of M2UCB-V: against itself with one part changed, and against FORC."""

import math
from typing import Any

from ..lab.cells import Cell, Study
from .lineup import JUDGED, SHOWN_OURS, SHOWN_RANDOM

PROFILES = ["yelp-pizza", "movielens-32m"]
RATES = [0.0, 0.10, 0.20]
CHANGED: dict[str, dict[str, Any]] = {
    # not variance-aware: the radius of UCB1 (Kveton et al. 2015, Algorithm 1)
    "plain": {"learner": "M2UCBV", "settings": {"radius": "plain", "a": round(math.sqrt(1.5), 6), "b": 0.0}},
    "doubling": {"learner": "M2UCBV", "settings": {"refresh": "doubling"}},
    "told": {"learner": "MUCBV"},
}
_FORC = {"learner": "FORC"}


def name_of(who: dict[str, Any]) -> str:
    """The name of a learner with settings in results."""
    return Cell(profile="", **who).who


STUDY = Study(
    place=7,
    name="parts",
    title="The parts of M2UCB-V",
    paper="what sections 1, 3 and 4 say that each part is for",
    exhibit="rates",
    question="What do the variance-aware radius, estimates of every round and knowing C bring, and where is FORC?",
    blocks=[
        {"profile": PROFILES, "mapping": JUDGED, "rate": RATES, "who": [{"learner": "M2UCBV"}, *CHANGED.values()]},
        {"profile": PROFILES, "mapping": JUDGED, "rate": [0.0], "who": [_FORC, SHOWN_OURS]},
        {"profile": PROFILES, "mapping": JUDGED, "rate": RATES, "who": [SHOWN_RANDOM]},
    ],
)
