"""The cost of hidden clicks, and of protection from them (docs/steadyrank-measured.md)."""

from typing import Any

from ..lab.cells import Study

HORIZON = 1_000_000
HIDDEN = (0, 60, 100, 200, 400, 1_000, 4_000)  # clicks that the attacker may hide
PRICES = (0.0, 0.001, 0.003, 0.01)
WORLDS = [{"profile": "yelp-pizza", "mapping": "sparse"}, {"profile": "movielens", "mapping": "sparse"}]
WHO: list[dict[str, Any]] = [
    *({"learner": "SteadyRank", "settings": {"revisit": price}} for price in PRICES),
    *({"learner": name} for name in ("M2UCBV", "CascadeUCBV", "FTRL", "CascadeCBARBAR", "CascadeTS", "TimeBlocks")),
    *({"learner": name} for name in ("ChangePointTS", "CascadeRAC", "FORC")),
    {"learner": "Random"},
]

STUDY = Study(
    place=24,
    name="frontier",
    title="A few hidden clicks, for ever",
    paper="beyond the paper",
    exhibit="frontier",
    question="What do so many hidden clicks cost in a million rounds, and what does it cost to be safe from them?",
    axes={
        "world": WORLDS,
        "hidden": [{"rate": clicks / HORIZON, "adversary": "Demote"} for clicks in HIDDEN],
        "horizon": [HORIZON],
        "who": WHO,
    },
    default=False,
)
