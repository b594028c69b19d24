"""A learner's state and the latest impressions as a snapshot, and back."""

from collections.abc import Mapping
from typing import Any

from . import archive
from .features import FeatureSpace
from .gate import CLIENT
from .impression_buffer import ImpressionBuffer
from .learner_state import LearnerState
from .silence import Silence


def take(
    state: LearnerState, impressions: ImpressionBuffer, extra: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything that decides what comes next, as a header and arrays to be packed, not copies; `extra` is added."""
    header = {
        "learner": state.learner_class.__name__,
        "version": version(state.learner_class),
        "settings": state.settings,
        "guard": state.gate.guard_class.__name__,
        "guard_version": version(state.gate.guard_class),
        "guard_settings": state.gate.settings,
        "shadow": state.gate.shadow,
        "kinds": list(state.gate.guards),
        "length": state.length,
        "seed": state.seed,
        "new_share": state.new_share,
        "sized": state.sized,
        "items": state.names,
        "in_order": impressions.in_order,
        "count_unanswered": impressions.count_unanswered,
        "most": impressions.most,
        "impressions": impressions.counters(),
        "cohorts": list(impressions.kinds),
        "silence": impressions.silence.keep(),
        **({"features": state.features.declared()} if state.features.visit_size else {}),
        **extra,
    }
    return header, state.arrays() | impressions.arrays()


def version(record: type) -> int:
    """The version of a learner's or a guard's memory: another one cannot be taken over."""
    return int(getattr(record, "VERSION", 1))


def restore(
    content: bytes, name: str, learner: str | type | None, guard: type | None = None
) -> tuple[LearnerState, ImpressionBuffer, dict[str, Any], dict[str, Any]]:
    """Learner state, impressions, header and arrays; `learner` and `guard` give classes that are not ours."""
    header, arrays = archive.unpack(content, name)
    state = LearnerState(
        ["?"],
        header["length"],
        header["learner"] if learner is None else learner,
        header["settings"],
        header["seed"],
        header["new_share"],
        header["guard"] if guard is None else guard,
        header["guard_settings"],
        header.get("shadow", False),
        FeatureSpace(**header.get("features", {"items": {}})),
    )
    for cls, kind, number in (
        (state.learner_class, "learner", "version"),
        (state.gate.guard_class, "guard", "guard_version"),
    ):
        if cls.__name__ != header[kind] or version(cls) != header[number]:
            raise archive.UnreadableSnapshot(
                f"{name} holds {header[kind]} version {header[number]}, not {cls.__name__} version {version(cls)}"
            )
    kinds = header.get("kinds", [CLIENT] if any(array.startswith("guard.") for array in arrays) else [])
    state.restore(header["items"], header["sized"], kinds, arrays)
    impressions = ImpressionBuffer(state, header["in_order"], header["count_unanswered"], header["most"])
    impressions.restore(header["impressions"], header.get("cohorts", []), arrays)
    impressions.silence = Silence.restore(header["silence"])
    return state, impressions, header, arrays
