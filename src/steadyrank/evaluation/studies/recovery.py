"""The lasting effect of a past attack, with and without paying for trials (docs/steadyrank-measured.md)."""

from typing import Any

from ..lab.cells import Cell, Study
from .frontier import WORLDS

HORIZON = 400_000
PRICES = (0.0, 0.001)
ATTACKS: list[dict[str, Any]] = [  # from the first round on, with the number of visits they falsify
    {"rate": 0.0},
    *(
        {"rate": visits / HORIZON, "adversary": name}
        for name, visits in (("Demote", 60), ("Demote", 100), ("CascadeAttack", 100), ("PrefixFlip", 100))
    ),
]

WHO: list[dict[str, Any]] = [{"learner": "SteadyRank", "settings": {"revisit": price}} for price in PRICES]
PRICE_OF = {
    Cell(profile="", **who).who: who["settings"]["revisit"] for who in WHO
}  # by the learner's name in figures

STUDY = Study(
    place=25,
    name="recovery",
    title="Long after an attack",
    paper="beyond the paper",
    exhibit="recovery",
    question="What does SteadyRank lose in the last quarter of a run that began with an attack?",
    axes={
        "world": WORLDS,
        "attack": ATTACKS,
        "horizon": [HORIZON],
        "marks": [40],
        "who": WHO,
    },
    default=False,
)
