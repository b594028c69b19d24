"""A learner's state and the latest impressions as a snapshot, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import archive
from .features import FeatureSpace
from .gate import CLIENT, Post
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
        **_guards(state.gate.posts),
        "shadow": state.gate.shadow,
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


def _guards(posts: Sequence[Post]) -> dict[str, Any]:
    """What a header says of the guards: of a single one as when there was no list of them."""
    rows = [
        {
            "guard": post.name,
            "guard_version": version(post.guard_class),
            "guard_settings": post.settings,
            "kinds": list(post.guards),
        }
        for post in posts
    ]
    return rows[0] if len(rows) == 1 else {"guards": rows}


def _guards_in(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What `_guards` said; a header of the past says nothing of kinds of senders."""
    if "guards" in header:
        return list(header["guards"])
    of_clients = [CLIENT] if any(name.startswith("guard.") for name in arrays) else []
    names = ("guard", "guard_version", "guard_settings")
    return [{name: header[name] for name in names} | {"kinds": header.get("kinds", of_clients)}]


def version(record: type) -> int:
    """The version of a learner's or a guard's memory: another one cannot be taken over."""
    return int(getattr(record, "VERSION", 1))


def restore(
    content: bytes, name: str, learner: str | type | None, guards: Sequence[type] = ()
) -> tuple[LearnerState, ImpressionBuffer, dict[str, Any], dict[str, Any]]:
    """Learner state, impressions, header and arrays; `learner` and `guards` give classes that are not ours."""
    header, arrays = archive.unpack(content, name)
    rows, given = _guards_in(header, arrays), {cls.__name__: cls for cls in guards}
    if others := [other for other in given if other not in [row["guard"] for row in rows]]:
        held = " and ".join(f"{row['guard']} version {row['guard_version']}" for row in rows)
        raise archive.UnreadableSnapshot(f"{name} holds {held}, not {others[0]} version {version(given[others[0]])}")
    state = LearnerState(
        ["?"],
        header["length"],
        header["learner"] if learner is None else learner,
        header["settings"],
        header["seed"],
        header["new_share"],
        [(given.get(row["guard"], row["guard"]), row["guard_settings"]) for row in rows],
        header.get("shadow", False),
        FeatureSpace(**header.get("features", {"items": {}})),
    )
    _check_version(name, state.learner_class, header["learner"], header["version"])
    for post, row in zip(state.gate.posts, rows, strict=True):
        _check_version(name, post.guard_class, row["guard"], row["guard_version"])
    state.restore(header["items"], header["sized"], [row["kinds"] for row in rows], arrays)
    impressions = ImpressionBuffer(state, header["in_order"], header["count_unanswered"], header["most"])
    impressions.restore(header["impressions"], header.get("cohorts", []), arrays)
    impressions.silence = Silence.restore(header["silence"])
    return state, impressions, header, arrays


def _check_version(name: str, cls: type, held: str, number: int) -> None:
    """Refuse a memory that is of another class, or of another version of this one."""
    if cls.__name__ != held or version(cls) != number:
        raise archive.UnreadableSnapshot(
            f"{name} holds {held} version {number}, not {cls.__name__} version {version(cls)}"
        )
