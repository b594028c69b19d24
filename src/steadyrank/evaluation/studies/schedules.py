"""The same false visits at different times: the first table of docs/corruption.md."""

from ..lab.cells import Study
from .lineup import OMNISCIENT

# schedules, with descriptions
WHEN = {
    "front": "all at the start",
    "late": "all in the middle",
    "bursts": "in five bursts",
    "spread": "evenly spread",
}
_WORLD = [{"profile": "yelp-pizza", "mapping": "sparse"}]
_WHO = [
    *({"learner": name} for name in ("SteadyRank", "CascadeTS", "FTRL", "TimeBlocks")),
    {"learner": "MUCBV", "settings": {"corruption": 0}},
    *({"learner": name} for name in ("M2UCBV", "CascadeUCBV", "Random")),
    OMNISCIENT,
]

STUDY = Study(
    place=18,
    name="schedules",
    title="The same false visits at another time",
    paper="beyond the paper",
    exhibit="attacks",
    question="How much do 6,000 false visits of 40,000 cost when they come at the start, later, or all the time?",
    blocks=[
        {"world": _WORLD, "adversary": ["FakeUser"], "schedule": list(WHEN), "rate": [0.15], "who": _WHO},
        {"world": _WORLD, "adversary": ["Honest"], "who": _WHO},
    ],
    default=False,
)
