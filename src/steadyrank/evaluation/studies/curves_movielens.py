"""Figure 3 of the paper."""

from ..lab.cells import Study
from .lineup import CURVE_RATES, JUDGED, OTHER_BLOCKS, PAPER, SHOWN_BESIDE

STUDY = Study(
    place=3,
    name="curves-movielens",
    title="Regret over the rounds on MovieLens",
    paper="Figure 3",
    exhibit="curves",
    question="When does each learner stop losing at 5, 10, 15 and 20 % corruption?",
    axes={
        "profile": ["movielens-32m"],
        "mapping": JUDGED,
        "rate": CURVE_RATES,
        "who": [*PAPER, *OTHER_BLOCKS, *SHOWN_BESIDE],
    },
)
