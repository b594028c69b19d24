"""The part of `matrix` that runs by default: SteadyRank under attack, beside other learners."""

from typing import Any

from ..lab.cells import Study
from .lineup import OMNISCIENT

PROFILES = [
    {"profile": "yelp-pizza", "mapping": "sparse"},
    {"profile": "movielens", "mapping": "moderate"},
    {"profile": "lastfm-listeners"},
]
WHEN = [{"schedule": "front", "rate": 0.15}, {"schedule": "late", "rate": 0.15}]
WHO: list[dict[str, Any]] = [
    *({"learner": name} for name in ("SteadyRank", "CascadeTS", "M2UCBV", "Random")),
    OMNISCIENT,
]

STUDY = Study(
    place=6,
    name="attacks",
    title="Attacks on SteadyRank",
    paper="beyond the paper, a part of the study matrix",
    exhibit="attacks",
    question="How many times the regret of a learner that never sees a false click?",
    blocks=[
        {"world": PROFILES, "adversary": ["PrefixFlip", "FakeUser"], "when": WHEN, "who": WHO},
        {"world": PROFILES, "adversary": ["Honest"], "who": WHO},
    ],
)
