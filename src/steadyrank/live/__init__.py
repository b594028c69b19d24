"""Learners kept alive between requests: the same state machine in your own process and behind the service."""

from .collection.alarms import Alarm, Surge
from .collection.collection import Collection
from .collection.judgments import Judgment
from .features import FeatureSpace, features_from
from .ranker import Observed, Ranker, Shown, replay
from .rules import Rules

__all__ = [
    "Alarm",
    "Collection",
    "FeatureSpace",
    "Judgment",
    "Observed",
    "Ranker",
    "Rules",
    "Shown",
    "Surge",
    "features_from",
    "replay",
]
