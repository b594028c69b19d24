"""Figure 4 of the paper."""

from ..lab.cells import Study
from .lineup import CURVE_RATES, JUDGED, LASTFM, OTHER_BLOCKS, PAPER, SHOWN_BESIDE

STUDY = Study(
    place=4,
    name="curves-lastfm",
    title="Regret over the rounds on Last.fm",
    paper="Figure 4",
    exhibit="curves",
    question="When does each learner stop losing at 5, 10, 15 and 20 % corruption?",
    axes={"profile": [LASTFM], "mapping": JUDGED, "rate": CURVE_RATES, "who": [*PAPER, *OTHER_BLOCKS, *SHOWN_BESIDE]},
)
