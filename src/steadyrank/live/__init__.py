"""A learner kept alive between requests: one fold of feedback, in your own process and behind the service."""

from .features import FeatureSpace, features_from
from .ranker import Observed, Ranker, Shown, replay

__all__ = ["FeatureSpace", "Observed", "Ranker", "Shown", "features_from", "replay"]
