"""A whole audit: every board of a log, as objects, as JSON and as Parquet."""

import contextlib
import datetime
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from .. import workers
from ..files import replacing
from ..settings import real
from .boards import Part, parts
from .clients import Client
from .findings import Finding, Job, Suspect, analyse
from .reading import Log, read

Source: TypeAlias = str | pathlib.Path | pl.DataFrame
MOST_ITEMS = 1_000  # in JSON, those whose rate differs most
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
    items: list[dict[str, Any]]  # that gained or lost by it, the most first


@dataclass(frozen=True)
class Board:
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
    clients: list[Client]
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
    boards: list[Board]
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
                "board": _text(board.board),
                "interval": number,
                "start_row": part.start_row,
                "end_row": part.end_row,
                "start_time": _text(part.start_time),
                "end_time": _text(part.end_time),
                "impressions": part.impressions,
                "certainty": part.certainty,
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
            "items": pl.List(pl.String),
        }
        paths = [folder / "intervals.parquet", folder / "impressions.parquet"]
        for path, frame in zip(paths, (pl.DataFrame(table, schema=schema), self.flagged), strict=True):
            with replacing(path) as file:
                frame.write_parquet(file)
        return paths


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def run(
    log: Source | Sequence[Source],
    *,
    first_position: int | None = None,
    most_broken: float = 0.01,
    on: str = "local",
    progress: Callable[[str, int, int], None] | None = None,
    **columns: str | None,
) -> Audit:
    """Audit logs: Parquet, CSV or JSON lines, or polars frames, oldest rows first unless there are times.

    `columns`: `items`, `item`, `clicked`, `impression`, `position`, `time`, `client`, `board`, as far as they are not
    to be guessed. `first_position`: what the top position is called, 0 or 1. `most_broken`: share of rows that may
    be unusable. `on`: where boards are audited, "local" or "ray". `progress(step, done, of)` is called now and then;
    `of` is 0 while it is not known.
    """
    logs = _sources(log)
    real("most_broken", most_broken, 0.0, 1.0)
    workers.check_place(on)
    if first_position not in (None, 0, 1):
        raise ValueError(f"first_position must be 0 or 1, not {first_position!r}")
    say = progress or (lambda step, done, of: None)
    told = read(
        logs,
        columns,
        first_position=first_position,
        most_broken=most_broken,
        progress=lambda rows: say("reading", rows, 0),
    )
    boards = parts(told)
    threads = max(1, (os.cpu_count() or 1) // len(boards))
    jobs = [
        Job(part.board, part.looks, part.client, [told.clients[c] for c in part.clients.tolist()], threads)
        for part in boards
    ]
    found: dict[int, Finding] = {}
    say("auditing", 0, len(jobs))
    with contextlib.closing(workers.run(analyse, jobs, on=on)) as ended:
        for job, finding in ended:
            found[job.board] = finding
            say("auditing", len(found), len(jobs))
    return _assemble(told, boards, [found[job.board] for job in jobs])


def _sources(log: Source | Sequence[Source]) -> list[pathlib.Path | pl.DataFrame]:
    """What is to be read, as paths and data frames."""
    sources: list[Any] = list(log) if isinstance(log, (list, tuple)) else [log]
    for source in sources:
        if not isinstance(source, (str, pathlib.Path, pl.DataFrame)):
            kind = type(source).__module__.partition(".")[0] + "." + type(source).__name__
            raise ValueError(f"log must be a path, a polars.DataFrame, or a list of them, not {kind}")
    return [pathlib.Path(source) if isinstance(source, str) else source for source in sources]


def _assemble(log: Log, parts: list[Part], findings: list[Finding]) -> Audit:
    boards, flagged = [], []
    for part, finding in zip(parts, findings, strict=True):
        boards.append(_board(log, part, finding))
        flagged += [_flags(log, part, suspect, i) for i, suspect in enumerate(finding.intervals, 1)]
    least, most = (sum(finding.suspect[i] for finding in findings) for i in (0, 1))
    total = max(log.looks.n, 1)
    empty = pl.DataFrame(schema={"row": pl.Int64, "board": pl.String, "interval": pl.Int64})
    examples = [(b.row, b.why, b.text) for b in log.examples]
    return Audit(
        log.files,
        log.columns.told(),
        log.rows,
        log.looks.n,
        log.broken,
        examples,
        (least / total, most / total),
        boards,
        pl.concat(flagged) if flagged else empty,
    )


def _flags(log: Log, part: Part, suspect: Suspect, number: int) -> pl.DataFrame:
    board = pl.lit(_text(log.boards[part.board]), pl.String).alias("board")
    rows = log.row[part.chosen[suspect.start : suspect.end]]
    return pl.DataFrame({"row": rows}).with_columns(board, pl.lit(number, pl.Int64).alias("interval"))


def _board(log: Log, part: Part, finding: Finding) -> Board:
    total = max(finding.impressions, 1)
    names = [log.items[k] for k in part.items.tolist()]
    return Board(
        log.boards[part.board],
        finding.impressions,
        finding.clicks,
        (finding.suspect[0] / total, finding.suspect[1] / total),
        finding.unseen,
        [_interval(log, part, names, suspect) for suspect in finding.intervals],
        _items(names, finding),
        [names[k] for k in finding.ranking.tolist()],
        [names[k] for k in finding.clean_ranking.tolist()],
        finding.n_clients,
        finding.clients,
        np.round(finding.points, 3).tolist(),
        [(suspect.start, suspect.end) for suspect in finding.intervals],
    )


def _interval(log: Log, part: Part, names: list[Any], suspect: Suspect) -> Interval:
    rows, ends = log.row[part.chosen], log.last_row[part.chosen] + 1
    inside = slice(suspect.start, suspect.end)
    last = rows.size - 1
    starts = sorted(int(rows[min(i, last)]) for i in suspect.starts)
    stops = sorted(int(ends[max(i, 1) - 1]) for i in suspect.ends)
    items = [{**asdict(change), "item": names[change.item]} for change in suspect.changes]
    return Interval(
        log.boards[part.board],
        int(rows[inside].min()),
        int(ends[inside].max()),
        _time(log, part.chosen, suspect.start),
        _time(log, part.chosen, suspect.end - 1),
        (starts[0], starts[1]),
        (stops[0], stops[1]),
        bool((np.diff(rows) >= 0).all()),
        suspect.end - suspect.start,
        suspect.certainty,
        items,
    )


def _time(log: Log, chosen: Any, i: int) -> Any:
    if log.time is None:
        return None
    value = float(log.time[chosen[i]])
    if log.dated:
        return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat()
    return int(value) if value.is_integer() else value


def _items(names: list[Any], finding: Finding) -> list[dict[str, Any]]:
    """Items whose rate differs most without the suspect part, all of them if they are few."""
    rank, clean = ({int(k): i + 1 for i, k in enumerate(order)} for order in (finding.ranking, finding.clean_ranking))
    gap = np.abs(finding.rate - finding.clean_rate)[finding.ranking]
    most = finding.ranking[np.argsort(-gap, kind="stable")][:MOST_ITEMS].tolist()
    return [
        {
            "item": names[k],
            "looks": int(finding.looks[k]),
            "rate": float(finding.rate[k]),
            "clean_rate": float(finding.clean_rate[k]),
            "rank": rank[k],
            "clean_rank": clean[k],
        }
        for k in most
    ]
