"""Which learner for which click model, with honest and with false clicks."""

from typing import Any

from ..lab.cells import Study

PROFILES = [{"profile": "yelp-pizza", "mapping": "sparse"}, {"profile": "movielens", "mapping": "moderate"}]
# click models, with descriptions
USERS = {
    "Cascade": "click once, then stop",
    "DependentClick": "may go on after a click",
    "Abandoning": "click once, or tire",
    "PositionBased": "look at places",
    "UserBrowsing": "look near the last click",
    "Noisy": "as the first; some at random",
}
ATTACKS: dict[str, dict[str, Any]] = {
    "honest clicks": {"adversary": "Honest"},
    "15 % false visits in one stretch": {"adversary": "FakeUser", "schedule": "late", "rate": 0.15},
    "15 % false visits, spread": {"adversary": "FakeUser", "schedule": "spread", "rate": 0.15},
}
# Told how places are looked at: attention 1 / p^0.7, which is true of PositionBased alone.
TOLD_ATTENTION = ["PBMTS", "PBMUCB", "PBMPIE"]
NOT_TOLD_ATTENTION = ["SteadyRank", "PBMHB", "GRAB", "UniRank", "TopRank", "PBMFTRL"]
FOR_CASCADES = ["CascadeTS", "CascadeKLUCB", "DCMKLUCB", "PIE", "FTRL", "M2UCBV"]

STUDY = Study(
    place=23,
    name="click-models",
    title="Which learner for which way of looking",
    paper="beyond the paper",
    exhibit="looking",
    question="Whom to take when it is known, or not known, how people look at lists?",
    blocks=[
        {
            "world": PROFILES,
            "users": list(USERS),
            "when": list(ATTACKS.values()),
            "learner": [*NOT_TOLD_ATTENTION, *TOLD_ATTENTION, *FOR_CASCADES, "Random"],
        }
    ],
    default=False,
)
