"""Who runs in which study, and where: shared by the studies."""

PAPER = [{"learner": name} for name in ("M2UCBV", "CascadeUCBV", "FTRL", "CascadeRAC", "CascadeCBARBAR")]
# drawn in every figure: a learner that does not beat Random has learnt nothing, none can beat the omniscient one
REFERENCES = [{"learner": "Random"}, {"learner": "Oracle"}, {"learner": "CascadeTS", "omniscient": True}]
DATA_SETS = ["yelp-pizza", "movielens", "lastfm"]
JUDGED = ["saturated", "moderate"]  # mappings under which claims are judged
CURVE_RATES = [0.05, 0.10, 0.15, 0.20]
RATES = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25]
