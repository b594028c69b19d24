"""Table 1 of the paper: its orders of growth beside measured growth."""

from ..lab.cells import Study
from .lineup import PAPER, SHOWN_BESIDE

PROFILE, MAPPING = "movielens-32m", "moderate"
HORIZONS = [5_000, 10_000, 20_000, 40_000, 80_000]
RATES = [0.0, 0.025, 0.05, 0.10, 0.20]
_WORLD = {"profile": [PROFILE], "mapping": [MAPPING]}
# FTRL is not in the table; MUCB-V is the learner of Theorem 1 and knows C
_WHO = [*(who for who in PAPER if who["learner"] != "FTRL"), {"learner": "MUCBV"}, *SHOWN_BESIDE]
_FORC = {"learner": "FORC"}  # is in the table, though not in the paper's evaluation

STUDY = Study(
    place=5,
    name="growth",
    title="Growth of regret in T, K, d and C",
    paper="Table 1",
    exhibit="growth",
    question="By which power does regret grow when one quantity doubles, next to the bound that is stated?",
    blocks=[
        {**_WORLD, "horizon": HORIZONS, "who": _WHO},
        {**_WORLD, "n_items": [63, 125, 250, None], "who": _WHO},
        {**_WORLD, "length": [5, 10, 20], "who": _WHO},
        {**_WORLD, "rate": RATES, "who": [*_WHO, _FORC]},
    ],
)
