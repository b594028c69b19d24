"""A learner kept alive between requests: one fold of feedback, in your own process and behind the service."""

from .ranker import Observed, Ranker, Shown, replay

__all__ = ["Observed", "Ranker", "Shown", "replay"]
