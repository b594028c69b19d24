"""Figure 2 of the paper."""

from ..lab.cells import Study
from .lineup import JUDGED, PAPER, REFERENCES

STUDY = Study(
    place=2,
    name="curves-yelp",
    title="Regret over the rounds on Yelp",
    paper="Figure 2",
    view="curves",
    question="When does each learner stop losing at 5, 10, 15 and 20 % corruption?",
    axes={
        "profile": ["yelp-pizza"],
        "mapping": JUDGED,
        "rate": [0.05, 0.10, 0.15, 0.20],
        "who": PAPER + REFERENCES,
    },
)
