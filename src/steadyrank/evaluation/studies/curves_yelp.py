"""Figure 2 of the paper."""

from ..lab.cells import Study
from .lineup import CURVE_RATES, JUDGED, OTHER_BLOCKS, PAPER, SHOWN_BESIDE

STUDY = Study(
    place=2,
    name="curves-yelp",
    title="Regret over the rounds on Yelp",
    paper="Figure 2",
    exhibit="curves",
    question="When does each learner stop losing at 5, 10, 15 and 20 % corruption?",
    axes={
        "profile": ["yelp-pizza"],
        "mapping": JUDGED,
        "rate": CURVE_RATES,
        "who": [*PAPER, *OTHER_BLOCKS, *SHOWN_BESIDE],
    },
)
