"""A whole audit: a log is read, each of its boards searched, and what was found told in names, rows and times."""

import contextlib
import datetime
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from .. import workers
from ..settings import real
from .detect.findings import BoardTask, Finding, SuspectInterval, analyse
from .reading.by_board import BoardLog, by_board
from .reading.click_logs import ClickLog, read
from .verdicts import Audit, BoardAudit, Interval, text_of

Source: TypeAlias = str | pathlib.Path | pl.DataFrame
MOST_ITEMS = 1_000  # in JSON, those whose rate differs most


def run(
    log: Source | Sequence[Source],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    most_broken: float = 0.01,
    on: str = "local",
    progress: Callable[[str, int, int], None] | None = None,
    **columns: str | None,
) -> Audit:
    """Audit logs: Parquet, CSV or JSON lines, or polars frames, oldest rows first unless there are times.

    `columns`: `items`, `item`, `clicked`, `impression`, `position`, `time`, `client`, `board`, as far as they are not
    to be guessed. `first_position`: what the top position is called, 0 or 1. `time_format`: how dates are
    written, as `strptime` has it, where that is not plain. `most_broken`: share of rows that may
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
        time_format=time_format,
        most_broken=most_broken,
        progress=lambda rows: say("reading", rows, 0),
    )
    boards = by_board(told)
    threads = max(1, (os.cpu_count() or 1) // len(boards))
    tasks = []
    for part in boards:
        clients = [told.clients[c] for c in part.clients.tolist()]
        tasks.append(BoardTask(part.board, part.impressions, part.client, clients, threads))
    found: dict[int, Finding] = {}
    say("auditing", 0, len(tasks))
    with contextlib.closing(workers.run(analyse, tasks, on=on)) as ended:
        for task, finding in ended:
            found[task.board] = finding
            say("auditing", len(found), len(tasks))
    return _assemble(told, boards, [found[task.board] for task in tasks])


def _sources(log: Source | Sequence[Source]) -> list[pathlib.Path | pl.DataFrame]:
    """What is to be read, as paths and data frames."""
    sources: list[Any] = list(log) if isinstance(log, (list, tuple)) else [log]
    for source in sources:
        if not isinstance(source, (str, pathlib.Path, pl.DataFrame)):
            kind = type(source).__module__.partition(".")[0] + "." + type(source).__name__
            raise ValueError(f"log must be a path, a polars.DataFrame, or a list of them, not {kind}")
    return [pathlib.Path(source) if isinstance(source, str) else source for source in sources]


def _assemble(log: ClickLog, parts: list[BoardLog], findings: list[Finding]) -> Audit:
    boards, flagged = [], []
    for part, finding in zip(parts, findings, strict=True):
        boards.append(_board(log, part, finding))
        flagged += [_flags(log, part, suspect, i) for i, suspect in enumerate(finding.intervals, 1)]
    least, most = (sum(finding.suspect[i] for finding in findings) for i in (0, 1))
    total = max(log.impressions.n, 1)
    empty = pl.DataFrame(schema={"row": pl.Int64, "board": pl.String, "interval": pl.Int64})
    return Audit(
        files=log.files,
        columns=log.columns.told(),
        rows=log.rows,
        impressions=log.impressions.n,
        broken=log.broken,
        examples=[(b.row, b.why, b.text) for b in log.examples],
        suspect_share=(least / total, most / total),
        boards=boards,
        flagged=pl.concat(flagged) if flagged else empty,
    )


def _flags(log: ClickLog, part: BoardLog, suspect: SuspectInterval, number: int) -> pl.DataFrame:
    board = pl.lit(text_of(log.boards[part.board]), pl.String).alias("board")
    rows = log.row[part.chosen[suspect.start : suspect.end]]
    return pl.DataFrame({"row": rows}).with_columns(board, pl.lit(number, pl.Int64).alias("interval"))


def _board(log: ClickLog, part: BoardLog, finding: Finding) -> BoardAudit:
    total = max(finding.impressions, 1)
    names = [log.items[k] for k in part.items.tolist()]
    return BoardAudit(
        board=log.boards[part.board],
        impressions=finding.impressions,
        clicks=finding.clicks,
        suspect_share=(finding.suspect[0] / total, finding.suspect[1] / total),
        unseen=finding.unseen,
        intervals=[_interval(log, part, names, suspect) for suspect in finding.intervals],
        items=_items(names, finding),
        ranking=[names[k] for k in finding.ranking.tolist()],
        clean_ranking=[names[k] for k in finding.clean_ranking.tolist()],
        n_clients=finding.n_clients,
        clients=finding.clients,
        points=np.round(finding.points, 3).tolist(),
        places=[(suspect.start, suspect.end) for suspect in finding.intervals],
    )


def _interval(log: ClickLog, part: BoardLog, names: list[Any], suspect: SuspectInterval) -> Interval:
    rows, ends = log.row[part.chosen], log.last_row[part.chosen] + 1
    inside = slice(suspect.start, suspect.end)
    last = rows.size - 1
    starts = sorted(int(rows[min(i, last)]) for i in suspect.starts)
    stops = sorted(int(ends[max(i, 1) - 1]) for i in suspect.ends)
    return Interval(
        board=log.boards[part.board],
        start_row=int(rows[inside].min()),
        end_row=int(ends[inside].max()),
        start_time=_time(log, part.chosen, suspect.start),
        end_time=_time(log, part.chosen, suspect.end - 1),
        start_rows=(starts[0], starts[1]),
        end_rows=(stops[0], stops[1]),
        ordered=bool((np.diff(rows) >= 0).all()),
        impressions=suspect.end - suspect.start,
        certainty=suspect.certainty,
        inverted=suspect.inverted,
        items=[{**asdict(change), "item": names[change.item]} for change in suspect.changes],
    )


def _time(log: ClickLog, chosen: Any, i: int) -> Any:
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
