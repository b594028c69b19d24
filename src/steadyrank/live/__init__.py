"""A learner kept alive between requests: one fold of feedback, in your own process and behind the service."""

from .collection.collection import Collection
from .collection.judgments import Judgment
from .features import FeatureSpace, features_from
from .ranker import Observed, Ranker, Shown, replay

__all__ = ["Collection", "FeatureSpace", "Judgment", "Observed", "Ranker", "Shown", "features_from", "replay"]
