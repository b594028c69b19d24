"""Every attack on every kind of profile."""

from ..cells import Study
from .lineup import PAPER, REFERENCES

ATTACKS = ["PrefixFlip", "AttractionFlip", "FakeUser", "Swap"]
_PROFILES = [
    {"profile": "yelp-pizza", "mapping": "moderate"}, {"profile": "yelp-pizza", "mapping": "sparse"},
    {"profile": "movielens", "mapping": "moderate"}, {"profile": "movielens", "mapping": "sparse"},
    {"profile": "lastfm-listeners"},
]  # fmt: skip
_WHEN = [
    {"schedule": "front", "rate": 0.05}, {"schedule": "front", "rate": 0.15}, {"schedule": "front", "rate": 0.25},
    {"schedule": "late", "rate": 0.15}, {"schedule": "bursts", "rate": 0.15}, {"schedule": "spread", "rate": 0.15},
]  # fmt: skip
LEARNERS = [*PAPER, {"learner": "CascadeTS"}, {"learner": "TimeBlocks"}]
_WHO = [*LEARNERS, *REFERENCES]

STUDY = Study(
    place=20,
    name="matrix",
    title="Every attack, every schedule",
    paper="beyond the paper",
    view="matrix",
    question="How many times the regret of a learner that never sees a false click?",
    blocks=[
        {"world": _PROFILES, "adversary": ATTACKS, "when": _WHEN, "who": _WHO},
        {"world": _PROFILES, "adversary": ["Honest"], "who": _WHO},
    ],
    default=False,
)
