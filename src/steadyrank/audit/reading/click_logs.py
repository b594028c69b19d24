"""Click logs as a whole: rows are checked, items, clients and boards numbered, impressions put in order of time."""

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ...arrays import Floats, Ints
from ..impressions import Impressions, Slots
from .block_impressions import BlockImpressions
from .blocks import EXAMPLES, ROW, Broken
from .columns import Columns
from .converting import chosen_format, converted
from .formats import Format
from .guessing import check_roles, understand
from .impression_blocks import impression_blocks
from .log_files import kind_of, peek
from .numbering import Names

LONGEST = 32_000  # places of a list that are told apart


@dataclass
class ClickLog:
    """A click log: impressions in the order of their rows, of one board or of many."""

    files: list[str]
    columns: Columns
    items: list[Any]
    boards: list[Any]  # [None] without a column for them
    clients: list[Any]
    impressions: Impressions
    row: Ints  # [n] first row of each impression, over all files, from 0
    last_row: Ints  # [n] its last row
    time: Floats | None  # [n] seconds since 1970, or numbers as they are
    dated: bool  # whether times are dates
    client: Slots | None  # [n]
    board: Slots  # [n]
    rows: int
    broken: int
    examples: list[Broken]
    repeats: int = 0  # impressions that show an item twice
    notes: list[str] = field(default_factory=list)  # of reading another system's schema
    sources: list[pathlib.Path | pl.DataFrame] = field(default_factory=list)  # what `impression_blocks` reads again
    scattered: bool = False  # whether rows of an impression stand apart in them


class _Parts:
    """Arrays that grow by blocks."""

    def __init__(self) -> None:
        self.parts: dict[str, list[npt.NDArray[Any]]] = {}

    def add(self, **arrays: npt.NDArray[Any]) -> None:
        for name, array in arrays.items():
            self.parts.setdefault(name, []).append(array)

    def take(self, name: str, kind: Any) -> npt.NDArray[Any]:
        parts = self.parts.pop(name, [])
        return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, kind)


def read(
    logs: Sequence[pathlib.Path | pl.DataFrame],
    told: dict[str, str | None],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    most_broken: float = 0.01,
    progress: Callable[[int], None] | None = None,
) -> ClickLog:
    """The log in some files or data frames, in the order given.

    `told`: columns by role, as far as they are not to be guessed. More than `most_broken` of the rows that cannot be
    used is an error, which shows some. `progress` is called with the number of rows read so far.
    """
    check_roles(told)
    if not logs:
        raise ValueError("name at least one log")
    paths = [log for log in logs if isinstance(log, pathlib.Path)]
    for i, path in enumerate(paths):
        kind_of(path)
        if path.resolve() in (other.resolve() for other in paths[:i]):
            raise ValueError(f"{path} is named twice; its impressions would count twice")
    logs_read = [str(log) if isinstance(log, pathlib.Path) else "a data frame" for log in logs]
    sample = peek(logs)
    schema = format_of(sample, told, first_position, time_format, format)
    broken: list[Broken] = []
    rows = 0
    notes: list[str] = []
    if schema is not None:
        frame, broken, rows, notes = converted(logs, schema)
        logs, sample, told = [frame], frame.drop(ROW), {"items": "items", "clicked": "clicked"}
    columns = understand(sample, told, first_position, None if schema is not None else time_format)
    reader = _Reader(columns)
    for part in impression_blocks(logs, columns, progress):
        reader.take(part)
    scattered = columns.items is None and columns.impression is not None and reader.scattered()
    if scattered:
        reader = _Reader(columns)
        for part in impression_blocks(logs, columns, together=True):
            reader.take(part)
    if schema is not None:
        reader.n_rows = rows
        reader.note(broken, len(broken))
    _refuse_broken(reader.n_broken, reader.n_rows, most_broken, reader.broken)
    return replace(reader.log(logs_read), notes=notes, sources=list(logs), scattered=scattered)


def format_of(
    sample: pl.DataFrame, told: dict[str, str | None], first: int | None, written: str | None, format: str | None
) -> Format | None:
    """The schema of another system that a log has; None for a plain one, or one whose columns are told."""
    if format is None and any(told.get(role) for role in ("items", "item", "clicked")):
        return None
    try:
        understand(sample, told, first, written)
        plain = True
    except ValueError:
        plain = False
    return chosen_format(sample, format, plain)


def explained(
    logs: Sequence[pathlib.Path | pl.DataFrame],
    told: dict[str, str | None],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
) -> dict[str, str]:
    """What would be read as what, from the first rows alone."""
    check_roles(told)
    sample = peek(logs)
    schema = format_of(sample, told, first_position, time_format, format)
    if schema is not None:
        return {"format": f"{schema.name}: {schema.words}", "columns found": ", ".join(sample.columns)}
    return {"format": "plain", **understand(sample, told, first_position, time_format).told()}


class _Reader:
    """Takes the impressions of blocks and gives a log."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.items, self.boards, self.clients, self.parts = Names(), Names(), Names(), _Parts()
        self.broken: list[Broken] = []
        self.n_broken = self.n_rows = self.repeats = 0
        self.dated: bool | None = None

    def scattered(self) -> bool:
        """Whether rows of an impression stand apart."""
        keys = np.sort(np.concatenate(self.parts.parts.get("key", [np.zeros(0, np.uint64)])))
        return bool(np.any(keys[1:] == keys[:-1]))

    def note(self, broken: list[Broken], count: int) -> None:
        """Count rows that cannot be used, and keep some to show."""
        self.n_broken += count
        self.broken += broken[: EXAMPLES - len(self.broken)]

    def take(self, rows: BlockImpressions) -> None:
        """Add the impressions of a block."""
        self.n_rows += rows.rows
        self.note(rows.broken, rows.n_broken)
        if rows.time is not None and rows.time.size:
            if self.dated not in (None, rows.dated):
                raise ValueError(f"column {self.columns.time} holds dates in some rows and numbers in others")
            self.dated = rows.dated
        looked_at = rows.looked_at()
        self.parts.add(
            item=self.items.numbers(rows.item.filter(pl.Series(looked_at))),
            bits=rows.bits[looked_at],
            size=rows.size,
            shown=np.minimum(rows.shown, LONGEST).astype(np.int16),
            row=rows.row,
        )
        if rows.last_row is not rows.row:
            self.parts.add(last_row=rows.last_row)
        self.repeats += rows.repeats
        if rows.key is not None:
            self.parts.add(key=rows.key)
        if rows.top is not None:
            self.parts.add(top=np.clip(rows.top - self.columns.first_position, 0, LONGEST).astype(np.int16))
        if rows.time is not None:
            self.parts.add(time=rows.time)
        if rows.client is not None:
            self.parts.add(client=self.clients.numbers(rows.client))
        if rows.board is not None:
            self.parts.add(board=self.boards.numbers(rows.board))

    def log(self, files: list[str]) -> ClickLog:
        """All of it, in order of time."""
        parts, columns = self.parts, self.columns
        size = parts.take("size", np.int64)
        first: Ints = np.zeros(size.size + 1, np.int64)
        np.cumsum(size, out=first[1:])
        impressions = Impressions(
            parts.take("item", np.int32),
            parts.take("bits", np.bool_),
            first,
            len(self.items.values),
            parts.take("shown", np.int16),
            parts.take("top", np.int16) if columns.items is None and columns.position else None,
        )
        row = parts.take("row", np.int64)
        last_row = row if columns.item is None else parts.take("last_row", np.int64)
        time = parts.take("time", np.float64) if columns.time else None
        client = parts.take("client", np.int32) if columns.client else None
        board = parts.take("board", np.int32) if columns.board else np.zeros(row.size, np.int32)
        if time is not None and np.any(time[1:] < time[:-1]):
            order = np.argsort(time, kind="stable")
            impressions, row, last_row, time = impressions.only(order), row[order], last_row[order], time[order]
            board, client = board[order], None if client is None else client[order]
        return ClickLog(
            files=files,
            columns=columns,
            items=self.items.values,
            boards=self.boards.values if columns.board else [None],
            clients=self.clients.values,
            impressions=impressions,
            row=row,
            last_row=last_row,
            time=time,
            dated=bool(self.dated),
            client=client,
            board=board,
            rows=self.n_rows,
            broken=self.n_broken,
            examples=self.broken,
            repeats=self.repeats,
        )


def _refuse_broken(n_broken: int, rows: int, most: float, examples: list[Broken]) -> None:
    if rows == 0:
        raise ValueError("the log holds no rows")
    if n_broken > most * rows or n_broken == rows:
        shown = "; ".join(f"row {row}: {why}: {text!r}" for row, why, text in examples)
        raise ValueError(
            f"{n_broken} of {rows} rows cannot be used, more than {most:.2%} (--most-broken); for instance {shown}"
        )
