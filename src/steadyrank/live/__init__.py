"""A learner kept alive between requests: one fold of feedback, in your own process and behind the service."""

from .features import FeatureSpace, features_from
from .past_clicks import replay
from .ranker import Observed, Ranker, Shown

__all__ = ["FeatureSpace", "Observed", "Ranker", "Shown", "features_from", "replay"]
