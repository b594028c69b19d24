"""A fold and its open impressions as a snapshot, and back."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import snapshots
from .contract import NOTE_EXTRA
from .fold import Fold
from .intake import Impression, Intake

_UNANSWERED = -1


def keep(fold: Fold, intake: Intake, extra: Mapping[str, Any]) -> bytes:
    """Everything that decides what comes next; `extra` goes into the header."""
    header = {
        "learner": fold.learner_class.__name__, "version": version(fold.learner_class), "settings": fold.settings,
        "length": fold.length, "seed": fold.seed, "new_share": fold.new_share, "sized": fold.sized,
        "items": fold.names, "in_order": intake.in_order, "count_unanswered": intake.count_unanswered,
        "most": intake.most, "last": intake.last, "settled": intake.settled, "expired": intake.expired, **extra,
    }  # fmt: skip
    impressions = _table(intake.open.items(), fold.length, "open")
    impressions |= _table(((t, i) for t, i in intake.answered.items() if t not in intake.open), fold.length, "past")
    return snapshots.pack(header, fold.arrays() | impressions)


def version(learner: type) -> int:
    """The version of a learner's memory: another one cannot be taken over."""
    return int(getattr(learner, "VERSION", 1))


def restore(content: bytes, name: str, learner: str | type | None) -> tuple[Fold, Intake, dict[str, Any]]:
    """Fold, intake and header; `learner` gives the class of one that is not ours."""
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
    intake.last, intake.settled, intake.expired = (header[key] for key in ("last", "settled", "expired"))
    for t, impression in _impressions(arrays, "past"):
        intake.answered[t] = impression
    for t, impression in _impressions(arrays, "open"):
        intake.open[t] = impression
        if impression.clicks is not None:
            intake.answered[t] = impression
    intake.answered = type(intake.answered)(sorted(intake.answered.items()))
    return fold, intake, header


def _table(impressions: Iterable[tuple[int, Impression]], length: int, prefix: str) -> dict[str, Any]:
    rows = list(impressions)
    ranking = np.full((len(rows), length), -1, np.int64)
    note = np.zeros((len(rows), length + NOTE_EXTRA))
    clicks, examined = np.zeros((len(rows), length), np.bool_), np.full(len(rows), _UNANSWERED, np.int64)
    for i, (_, impression) in enumerate(rows):
        ranking[i, : impression.ranking.size] = impression.ranking
        note[i] = impression.note
        if impression.clicks is not None:
            clicks[i, : impression.clicks.size] = impression.clicks
            examined[i] = impression.examined
    columns = {"t": np.array([t for t, _ in rows], np.int64), "ranking": ranking, "note": note}
    return {f"{prefix}.{key}": x for key, x in {**columns, "clicks": clicks, "examined": examined}.items()}


def _impressions(arrays: Mapping[str, Any], prefix: str) -> Iterable[tuple[int, Impression]]:
    columns = (arrays[f"{prefix}.{key}"] for key in ("t", "ranking", "note", "clicks", "examined"))
    for t, ranking, note, clicks, examined in zip(*columns, strict=True):
        size = int((ranking >= 0).sum())
        answer = None if examined == _UNANSWERED else clicks[:size].copy()
        yield int(t), Impression(ranking[:size].copy(), note.copy(), answer, max(int(examined), 0))
