"""How attraction is derived from ratings decides who wins."""

from ..lab.cells import Study
from .lineup import DATA_SETS, PAPER, REFERENCES

STUDY = Study(
    place=8,
    name="mapping",
    title="Sensitivity to the mapping from ratings to attraction",
    paper="the sigmoid that the paper does not give",
    view="ranks",
    question="Does the order of the learners survive another sigmoid?",
    axes={
        "profile": DATA_SETS,
        "mapping": ["saturated", "moderate", "sparse"],
        "rate": [0.0, 0.15],
        "who": PAPER + [{"learner": "CascadeTS"}, {"learner": "TimeBlocks"}] + REFERENCES,
    },
)
