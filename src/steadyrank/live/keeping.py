"""A fold and the latest impressions as a snapshot, and back."""

from collections.abc import Mapping
from typing import Any

from . import snapshots
from .fold import Fold
from .intake import Intake


def keep(fold: Fold, intake: Intake, extra: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything that decides what comes next, as a header and arrays to be packed, not copies; `extra` is added."""
    header = {
        "learner": fold.learner_class.__name__,
        "version": version(fold.learner_class),
        "settings": fold.settings,
        "length": fold.length,
        "seed": fold.seed,
        "new_share": fold.new_share,
        "sized": fold.sized,
        "items": fold.names,
        "in_order": intake.in_order,
        "count_unanswered": intake.count_unanswered,
        "most": intake.most,
        "intake": intake.counters(),
        **extra,
    }
    return header, fold.arrays() | intake.arrays()


def version(learner: type) -> int:
    """The version of a learner's memory: another one cannot be taken over."""
    return int(getattr(learner, "VERSION", 1))


def restore(
    content: bytes, name: str, learner: str | type | None
) -> tuple[Fold, Intake, dict[str, Any], dict[str, Any]]:
    """Fold, intake, header and arrays; `learner` gives the class of one that is not ours."""
    header, arrays = snapshots.unpack(content, name)
    chosen = header["learner"] if learner is None else learner
    fold = Fold(["?"], header["length"], chosen, header["settings"], header["seed"], header["new_share"])
    known = version(fold.learner_class)
    if fold.learner_class.__name__ != header["learner"] or known != header["version"]:
        raise snapshots.Unreadable(
            f"{name} holds {header['learner']} version {header['version']}, "
            f"not {fold.learner_class.__name__} version {known}"
        )
    fold.restore(header["items"], header["sized"], arrays)
    intake = Intake(fold, header["in_order"], header["count_unanswered"], header["most"])
    intake.restore(header["intake"], arrays)
    return fold, intake, header, arrays
