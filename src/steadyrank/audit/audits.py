"""A whole audit: a log is read, each of its boards searched, and what was found told in names, rows and times."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from .. import workers
from ..arrays import Floats
from ..settings import real
from .assembly import assembled
from .clean import check_clean, weights, write_clean
from .detect.clients import NOBODY, OddClients, stand_out
from .detect.findings import BoardTask, Finding, analyse
from .reading.by_board import BoardLog, by_board
from .reading.click_logs import ClickLog, read
from .reading.events import event, without_events
from .reading.frames import from_pandas, is_pandas
from .reading.notes import notes_of
from .verdicts import Audit

Source: TypeAlias = str | pathlib.Path | pl.DataFrame | Any  # Any: a data frame of pandas


def run(
    log: Source | Sequence[Source],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    most_broken: float = 0.01,
    events: Sequence[tuple[str, str]] = (),
    propensities: Sequence[float] | None = None,
    clean: str | pathlib.Path | None = None,
    on: str = "local",
    progress: Callable[[str, int, int], None] | None = None,
    **columns: str | None,
) -> Audit:
    """Audit logs: Parquet, CSV or JSON, or frames of polars or pandas, oldest rows first unless there are times.

    `columns`: `items`, `item`, `clicked`, `impression`, `position`, `time`, `client`, `board`, as far as they are not
    to be guessed. `first_position`: what the top position is called, 0 or 1. `time_format`: how dates are written, as
    `strptime` has it, where that is not plain. `format`: the schema of another system, one of `reading.formats`, or
    "plain", as far as it is not to be guessed. `most_broken`: share of rows that may be unusable. `events`: days
    known to differ and what they are, such as ("2026-11-27", "sale"): what was shown then is left out.
    `propensities`: the chance that each place is looked at, from the top, the last for all below; it is estimated
    from the log otherwise. `clean`: a Parquet file to write, the log without what is suspect. `on`: where boards are
    audited, "local" or "ray". `progress(step, done, of)` is called now and then; `of` is 0 while unknown.
    """
    logs = _sources(log)
    real("most_broken", most_broken, 0.0, 1.0)
    workers.check_place(on)
    if first_position not in (None, 0, 1):
        raise ValueError(f"first_position must be 0 or 1, not {first_position!r}")
    if clean is not None:
        check_clean(pathlib.Path(clean), logs)
    looks = None if propensities is None else _chances(propensities)
    known = [event(*one) for one in events]
    say = progress or (lambda step, done, of: None)
    told = read(
        logs,
        columns,
        first_position=first_position,
        time_format=time_format,
        format=format,
        most_broken=most_broken,
        progress=lambda rows: say("reading", rows, 0),
    )
    told, gone = without_events(told, known)
    boards = by_board(told)
    everywhere = _on_all_boards(told, boards)
    tasks = _tasks(told, boards, everywhere, looks)
    found: dict[int, Finding] = {}
    say("auditing", 0, len(tasks))
    with contextlib.closing(workers.run(analyse, tasks, on=on)) as ended:
        for task, finding in ended:
            found[task.board] = finding
            say("auditing", len(found), len(tasks))
    findings = [found[task.board] for task in tasks]
    whole = assembled(told, boards, findings, everywhere, [*notes_of(told), *gone])
    if clean is None:
        return whole
    say("writing", 0, 0)
    return replace(whole, clean=write_clean(pathlib.Path(clean), told, weights(boards, findings, told)))


def _sources(log: Source | Sequence[Source]) -> list[pathlib.Path | pl.DataFrame]:
    """What is to be read, as paths and data frames."""
    sources: list[Any] = list(log) if isinstance(log, (list, tuple)) else [log]
    for source in sources:
        if not isinstance(source, (str, pathlib.Path, pl.DataFrame)) and not is_pandas(source):
            kind = type(source).__module__.partition(".")[0] + "." + type(source).__name__
            raise ValueError(f"log must be a path, a data frame of polars or pandas, or a list of them, not {kind}")
    return [_source(source) for source in sources]


def _source(source: Any) -> pathlib.Path | pl.DataFrame:
    if isinstance(source, pathlib.Path | pl.DataFrame):
        return source
    return pathlib.Path(source) if isinstance(source, str) else from_pandas(source)


def _on_all_boards(log: ClickLog, boards: list[BoardLog]) -> OddClients:
    """Clients that stand out on several boards together: an item of each board is an item of its own."""
    if len(boards) < 2 or log.client is None:
        return NOBODY
    board = np.repeat(log.board.astype(np.int64), np.diff(log.impressions.first))
    pair = board * log.impressions.n_items + log.impressions.item
    numbers, item = np.unique(pair, return_inverse=True)
    shown = log.impressions._replace(item=item.astype(np.int32), n_items=numbers.size)
    names = [log.items[k] for k in (numbers % max(log.impressions.n_items, 1)).tolist()]
    return stand_out(shown, log.client, log.clients, names)


def _chances(given: Sequence[float]) -> Floats:
    """Propensities as an array."""
    if not len(given):
        raise ValueError("propensities must be chances from the first place on, such as 1,0.6,0.4: there are none")
    return np.array([real("propensities", value, 1e-6, 1.0) for value in given])


def _tasks(
    log: ClickLog, boards: list[BoardLog], everywhere: OddClients, looks: Floats | None = None
) -> list[BoardTask]:
    threads = max(1, (os.cpu_count() or 1) // len(boards))
    tasks = []
    for part in boards:
        clients = [log.clients[c] for c in part.clients.tolist()]
        items = [log.items[k] for k in part.items.tolist()]
        known = np.flatnonzero(np.isin(part.clients, everywhere.named))
        tasks.append(
            BoardTask(part.board, part.impressions, part.client, clients, threads, items, len(boards), known, looks)
        )
    return tasks
