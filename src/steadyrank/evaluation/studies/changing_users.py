"""Honest users whose taste changes: learners made for this, beside others (docs/rivals.md)."""

from typing import Any

from ..lab.cells import Cell, Study

WORLDS = [{"profile": "yelp-pizza", "mapping": "sparse"}, {"profile": "movielens", "mapping": "moderate"}]
# changes of taste, by description
CHANGES: dict[str, dict[str, Any]] = {
    "the best items change at half-time": {"pattern": "jump", "span": 20_000},
    "every item drifts by up to 0.1": {"pattern": "slow", "span": 40_000},
}
COLUMNS = {  # column titles by profile and users
    (world["profile"], Cell("", "", users="DriftingCascade", users_settings=settings).crowd): f"{where}: {what}"
    for where, world in zip(("Yelp", "MovieLens"), WORLDS, strict=True)
    for what, settings in CHANGES.items()
}
LEARNERS = [
    "SteadyRank",
    "CascadeTS",
    "ChangePointTS",
    "CascadeUCB1",
    "CascadeDUCB",
    "CascadeSWUCB",
    "GLRTCascadeUCB",
    "GLRTCascadeKLUCB",
    "BubbleRank",
    "FTRL",
    "M2UCBV",
    "Random",
]

STUDY = Study(
    place=18,
    name="changing-users",
    title="Users whose taste changes",
    paper="beyond the paper",
    exhibit="tastes",
    question="What do learners lose when nobody attacks, but taste jumps or drifts?",
    axes={
        "world": WORLDS,
        "users": [{"users": "DriftingCascade", "users_settings": settings} for settings in CHANGES.values()],
        "adversary": ["Honest"],
        "who": [{"learner": name} for name in LEARNERS],
    },
    default=False,
)
