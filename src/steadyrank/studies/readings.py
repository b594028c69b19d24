"""What the paper's text supports, side by side."""

from ..lab.cells import Study
from .lineup import JUDGED, REFERENCES

_READINGS = [
    {},
    {"preset": "paper-alg"},
    {"preset": "paper-app"},
    {"preset": "small-block"},
    {"preset": "mean"},
    {"partition": "consecutive"},
    {"partition": "averaged"},
    {"selection": "gcobe"},
]

STUDY = Study(
    place=7,
    name="readings",
    title="Readings of the paper's estimator and model selection",
    paper="sections 3 and 4: where the text allows more than one algorithm",
    view="rates",
    question="How much of the result is the reading? (M2UCBV without settings is the reading of the experiments.)",
    axes={
        "profile": ["yelp-pizza"],
        "mapping": JUDGED,
        "rate": [0.0, 0.10, 0.25],
        "who": [{"learner": "M2UCBV", "settings": reading} for reading in _READINGS]
        + [{"learner": "MUCBV"}, {"learner": "TimeBlocks"}]
        + REFERENCES,
    },
)
