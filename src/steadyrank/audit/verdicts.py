"""What an audit says: of a log, of each board and of each suspect interval; as objects, as JSON and as Parquet."""

import json
import pathlib
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..files import replacing
from .detect.clients import SuspectClient

LIMITS = (
    "An attack spread thinly over the whole log, or one that began before it and never stops, looks like taste.",
    "Fake users who click as true ones do, or always alike from first to last, cannot be told from true ones.",
    "A sudden honest change, such as a new layout, looks like an attack; a slow attack looks like honest drift.",
    "The longest behaviour is taken for the true one: if most of the log is false, the rest is called suspect.",
    "Lists are read as a cascade: everything above the last click was looked at, and all of a list without one.",
)


@dataclass(frozen=True)
class Interval:
    """Rows `start_row` to before `end_row` of the log (from 0, over all files), whose clicks are suspect."""

    board: Any
    start_row: int
    end_row: int
    start_time: Any  # of its first impression; None in a log without times
    end_time: Any  # of its last impression
    start_rows: tuple[int, int]  # where the first row lies, with a chance of 95 %
    end_rows: tuple[int, int]
    ordered: bool  # whether the rows of its board are in order of time; else its own lie between others
    impressions: int
    certainty: float  # that clicks behave otherwise in it, from 0 to 1
    inverted: bool  # whether they look like the usual ones inverted: on what is rarely clicked, not on what is
    items: list[dict[str, Any]]  # that gained or lost by it, the most first


@dataclass(frozen=True)
class BoardAudit:
    """What the log of one board shows."""

    board: Any  # its name, None in a log without boards
    impressions: int
    clicks: int
    suspect_share: tuple[float, float]
    unseen: int  # an inversion of all clicks of fewer impressions than this would not have been noticed
    intervals: list[Interval]
    items: list[dict[str, Any]]  # rate and rank with everything and without the suspect part
    ranking: list[Any]
    clean_ranking: list[Any]
    n_clients: int
    clients: list[SuspectClient]
    points: list[list[float]]  # along the log: impressions, clicks, clicks expected
    places: list[tuple[int, int]]  # of intervals: first impression of this board, and the one after the last


@dataclass(frozen=True)
class Audit:
    """What a log shows."""

    files: list[str]
    columns: dict[str, str]
    rows: int
    impressions: int
    broken: int
    examples: list[tuple[int, str, str]]  # broken rows: number, reason, beginning
    suspect_share: tuple[float, float]  # of impressions, at least and at most
    boards: list[BoardAudit]
    flagged: pl.DataFrame  # impressions in suspect intervals

    @property
    def intervals(self) -> list[Interval]:
        """Those of all boards, by their first row."""
        return sorted((part for board in self.boards for part in board.intervals), key=lambda part: part.start_row)

    def as_dict(self) -> dict[str, Any]:
        """For machines. With one board its items and rankings stand at the top, too."""
        boards = [
            {**vars(b), "intervals": list(map(vars, b.intervals)), "clients": list(map(vars, b.clients))}
            for b in self.boards
        ]
        shared = ("items", "ranking", "clean_ranking", "clients")
        top = boards[0] if len(boards) == 1 else dict.fromkeys(shared)
        return {
            "suspect_share": self.suspect_share,
            "intervals": list(map(vars, self.intervals)),
            **{key: top[key] for key in shared},
            "files": self.files,
            "columns": self.columns,
            "rows": self.rows,
            "impressions": self.impressions,
            "broken_rows": self.broken,
            "broken_examples": self.examples,
            "cannot_tell": LIMITS,
            "boards": boards,
        }

    def to_json(self) -> str:
        """`as_dict` as text."""
        return json.dumps(self.as_dict(), allow_nan=False, default=str)

    def write_parquet(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write suspect intervals and impressions as two tables; `board` and `interval` say which belong together."""
        folder.mkdir(parents=True, exist_ok=True)
        table = [
            {
                "board": text_of(board.board),
                "interval": number,
                "start_row": part.start_row,
                "end_row": part.end_row,
                "start_time": text_of(part.start_time),
                "end_time": text_of(part.end_time),
                "impressions": part.impressions,
                "certainty": part.certainty,
                "inverted": part.inverted,
                "items": [str(item["item"]) for item in part.items],
            }
            for board in self.boards
            for number, part in enumerate(board.intervals, 1)
        ]
        schema: dict[str, Any] = {
            "board": pl.String,
            "interval": pl.Int64,
            "start_row": pl.Int64,
            "end_row": pl.Int64,
            "start_time": pl.String,
            "end_time": pl.String,
            "impressions": pl.Int64,
            "certainty": pl.Float64,
            "inverted": pl.Boolean,
            "items": pl.List(pl.String),
        }
        paths = [folder / "intervals.parquet", folder / "impressions.parquet"]
        for path, frame in zip(paths, (pl.DataFrame(table, schema=schema), self.flagged), strict=True):
            with replacing(path) as file:
                frame.write_parquet(file)
        return paths


def text_of(value: Any) -> str | None:
    """A name or a time as tables hold it."""
    return None if value is None else str(value)
