"""Who runs in which study, and where: shared by the studies."""

from typing import Any

PAPER: list[dict[str, Any]] = [
    {"learner": name} for name in ("M2UCBV", "CascadeUCBV", "FTRL", "CascadeRAC", "CascadeCBARBAR")
]
# ours, and the two ends of every scale: who does not beat Random has learnt nothing
BESIDE: list[dict[str, Any]] = [{"learner": "SteadyRank"}, {"learner": "Random"}, {"learner": "Oracle"}]
# none can be expected to beat a learner that never sees a false click
TOLD: dict[str, Any] = {"learner": "CascadeTS", "omniscient": True}
DATA_SETS = ["yelp-pizza", "movielens", "lastfm"]
JUDGED = ["saturated", "centred", "moderate", "sparse"]  # mappings under which claims are judged
CURVE_RATES = [0.05, 0.10, 0.15, 0.20]
RATES = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25]
# the reading of the estimator in the paper's appendix, which runs beside that of its experiments
APPENDIX: dict[str, Any] = {"learner": "M2UCBV", "settings": {"preset": "paper-app"}}
