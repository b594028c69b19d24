"""Learners, data sets and rates that several studies share."""

from typing import Any

PAPER: list[dict[str, Any]] = [
    {"learner": name} for name in ("M2UCBV", "CascadeUCBV", "FTRL", "CascadeRAC", "CascadeCBARBAR")
]
# The paper prints two sizes for the blocks of its estimator, and its source has a third in a paragraph that is
# commented out, the only one about its experiments. All three are judged alike; the third is the learner's default.
BLOCKS: dict[str, dict[str, Any]] = {
    "blocks of the paragraph commented out": {},
    "blocks of Algorithm 3 as printed": {"preset": "paper-alg"},
    "blocks of the appendix": {"preset": "paper-app"},
}
OTHER_BLOCKS: list[dict[str, Any]] = [
    {"learner": "M2UCBV", "settings": settings} for settings in BLOCKS.values() if settings
]
# shown for comparison: our learner, and one that learns nothing; no claim compares them
SHOWN_OURS: dict[str, Any] = {"learner": "SteadyRank", "shown": True}
SHOWN_RANDOM: dict[str, Any] = {"learner": "Random", "shown": True}
SHOWN_BESIDE = [SHOWN_OURS, SHOWN_RANDOM]
# the reference: a learner that never sees a false click, which none can be expected to beat
OMNISCIENT: dict[str, Any] = {"learner": "CascadeTS", "omniscient": True}
DATA_SETS = ["yelp-pizza", "movielens-32m", "lastfm"]
LASTFM: dict[str, Any] = {"profile": "lastfm", "shown": True}  # another release than the paper's
JUDGED = ["saturated", "centred", "moderate", "sparse"]  # mappings under which claims are judged
CURVE_RATES = [0.05, 0.10, 0.15, 0.20]
RATES = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25]
