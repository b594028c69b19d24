"""Which learners suit a board: live, and able to use what is declared of items and visits."""

from collections.abc import Callable, Mapping
from typing import Any

from ..contract import settings_of
from ..learners import ALL as LEARNERS
from .features import FeatureSpace


def check_suited(learner: type, settings: Mapping[str, Any], features: FeatureSpace) -> None:
    """Refuse a learner that cannot do what is asked of it, with those that can."""
    name = learner.__name__
    if not _live(learner):
        raise ValueError(f"{name} is not live: it cannot rank items that come and go; these can: {_those(_live)}")
    if features.size and not _describes(learner):
        raise ValueError(f"{name} does not use features; these do: {_those(_describes)}; or declare none")
    if features.segments and not _has_segments(learner):
        raise ValueError(f"{name} has one list for all segments; a list each: {_those(_has_segments)}")
    if features.segments and "segments" in settings:
        raise ValueError("the setting 'segments' is counted from the names of the segments: leave it out")


def _those(can: Callable[[type], bool]) -> str:
    return ", ".join(name for name, cls in LEARNERS.items() if can(cls))


def _live(learner: type) -> bool:
    return bool(getattr(learner, "live", False))


def _describes(learner: type) -> bool:
    return callable(getattr(learner, "describe", None))


def _has_segments(learner: type) -> bool:
    return "segments" in settings_of(learner)
