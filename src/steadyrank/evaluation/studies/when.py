"""Under which mappings M2UCB-V is ahead, as in the paper, and under which it is behind."""

from ..lab.cells import Study
from .lineup import OTHER_BLOCKS, PAPER, SHOWN_BESIDE

SHIFTS = ["centred+2", "centred+1", "centred", "centred-0.5", "centred-1", "centred-1.5", "centred-2", "centred-3"]

STUDY = Study(
    place=0,
    name="when",
    title="When M2UCB-V is ahead",
    paper="the sigmoid that the paper does not give",
    exhibit="shares",
    question="How many items must attract more than half of the users for M2UCB-V to be ahead of its rivals?",
    axes={
        "profile": ["yelp-pizza"],
        "mapping": SHIFTS,
        "rate": [0.10],
        "who": [*PAPER, *OTHER_BLOCKS, *SHOWN_BESIDE],
    },
)
