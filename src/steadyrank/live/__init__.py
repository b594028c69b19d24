"""A learner kept alive between requests: one fold of feedback, in your own process and behind the service."""

from .ranker import Ranker, Shown, replay

__all__ = ["Ranker", "Shown", "replay"]
