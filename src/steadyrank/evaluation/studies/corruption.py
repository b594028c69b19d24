"""Figure 1 of the paper."""

from ..lab.cells import Study
from .lineup import DATA_SETS, JUDGED, LASTFM, OTHER_BLOCKS, PAPER, RATES, SHOWN_BESIDE

STUDY = Study(
    place=1,
    name="corruption",
    title="Final regret against the share of corrupted rounds",
    paper="Figure 1",
    exhibit="rates",
    question="Who has the least regret after 40,000 rounds when the first 0 to 25 % of them are inverted?",
    axes={
        "profile": [*DATA_SETS[:2], LASTFM],
        "mapping": JUDGED,
        "rate": RATES,
        "who": [*PAPER, *OTHER_BLOCKS, *SHOWN_BESIDE],
    },
)
