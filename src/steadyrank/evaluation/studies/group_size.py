"""The ablation that the paper describes in a comment of its source."""

from ..lab.cells import Study
from .lineup import JUDGED, RATES, SHOWN_BESIDE

_SIZES = [{"learner": "M2UCBV", "settings": {"alpha": alpha}} for alpha in (0.5, 1.0, 2.0)]

STUDY = Study(
    place=6,
    name="group-size",
    title="The group size of M2UCB-V",
    paper="the comment on choosing the group size",
    exhibit="rates",
    question="Blocks of log T / 2, log T or 2 log T bits (alpha = 0.5, 1, 2): which is best?",
    axes={"profile": ["yelp-pizza"], "mapping": JUDGED, "rate": RATES, "who": _SIZES + SHOWN_BESIDE},
)
