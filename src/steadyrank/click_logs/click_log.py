"""A whole click log: items, clients and boards numbered, impressions in order of time, split by board.

The path of a row: `files` reads it, `columns` or `conversion` interprets it, `rows` turns rows into impressions, and
this module numbers their names.
"""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..core.arrays import Bools, Floats, Ints
from . import mapped
from .checkpoint import ROWS, Checkpoint
from .columns import Columns, check_roles, understand, understand_events
from .conversion import Format, check_options, chosen_format, converted
from .files import EXAMPLES, ROW, Broken, Source, kind_of, peek, read_blocks, rows_in
from .looks import Impressions, ItemNumbers, blocks, first_of, picked
from .rows import NOTHING_READ, BlockImpressions, ReadBefore, impression_blocks

LONGEST = 32_000  # places of a list that are distinguished: they are stored as int16


class Cohorts(NamedTuple):
    """The cohorts of one kind, such as networks."""

    values: list[Any]  # as in the log
    of: ItemNumbers  # [n] index into `values` of each impression, -1 if unknown


@dataclass
class ClickLog:
    """A click log: impressions in order of time, else of rows, of one board or several."""

    files: list[str]
    columns: Columns
    items: list[Any]
    boards: list[Any]  # [None] without a column for them
    clients: list[Any]
    impressions: Impressions
    row: Ints  # [n] first row of each impression, counted over all files from 0
    last_row: Ints  # [n] its last row
    time: Floats | None  # [n] seconds since 1970 if `dated`, else numbers as in the log
    dated: bool  # whether times are dates
    client: ItemNumbers | None  # [n]
    board: ItemNumbers  # [n]
    cohorts: dict[str, Cohorts]  # by role, from `columns.COHORTS`
    bought: Bools | None  # [n] whether it has an outcome, a value above 0
    rows: int
    broken: int
    examples: list[Broken]
    repeats: int = 0  # impressions that show an item twice
    notes: list[str] = field(default_factory=list)  # from reading another system's schema
    sources: list[Source] = field(default_factory=list)  # for `impression_blocks`, to read the log again
    scattered: bool = False  # whether rows of an impression are not contiguous in `sources`
    read_as: dict[str, str] = field(default_factory=dict)  # how columns were interpreted, for display

    @property
    def converted(self) -> bool:
        """Whether the log has another system's schema, so that its columns have names given here."""
        return any(isinstance(source, pl.DataFrame) and ROW in source.columns for source in self.sources)

    def cells(self, columns: list[str]) -> dict[int, dict[str, Any]]:
        """Some columns of the first row of each impression, by row number. Reads the log again; O(impressions)."""
        cells: dict[int, dict[str, Any]] = {}
        for frame, _ in read_blocks(self.sources, columns, gaps=False):
            number = frame[ROW].to_numpy()
            first = np.isin(number, self.row)
            rows = frame.filter(pl.Series(first)).drop(ROW).iter_rows(named=True)
            cells |= zip(number[first].tolist(), rows, strict=True)
        return cells


def read(
    logs: Sequence[Source],
    roles: dict[str, str | None],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    most_broken: float = 0.01,
    events: bool = False,
    by_query: bool = False,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ClickLog:
    """Read the log in files or data frames, in the order given.

    `roles`: columns by role; the others are guessed. `events`: whether rows are events without lists; each becomes a
    list of one item that was clicked. `by_query`: whether the lists of each query form a board, if another system's
    schema has queries and no other board is given. If more than a share `most_broken` of the rows cannot be used,
    raises ValueError with examples. `checkpoint`: to resume from and to extend; a log of another system is always
    read from the start. `progress` is called with the number of rows read so far and the total, 0 if unknown.
    """
    check_roles(roles)
    _check_files(logs)
    files = [str(log) if isinstance(log, pathlib.Path) else "a data frame" for log in logs]
    columns: Columns | Format
    if events:
        columns = understand_events(peek(logs), roles, time_format)
    else:
        columns = _sniffed(peek(logs), roles, first_position, time_format, format)
    other = None
    if isinstance(columns, Format):
        by_query = columns.by_query(roles.get("board"), by_query)
        read_as = _words(columns, roles, by_query)
        other = converted(logs, columns, roles, by_query)
        logs = [other.frame]
        told = {"value": "value"} if "value" in other.frame.columns else {}
        columns = understand(other.frame.drop(ROW), {"items": "items", "clicked": "clicked", **told}, None)
        checkpoint = None
    else:
        read_as = columns.in_words()
    reader = _Reader(columns, checkpoint)
    reader.take_all(logs, progress)
    scattered = columns.items is None and columns.impression is not None and reader.scattered()
    if scattered:
        reader = _Reader(columns)
        for part in impression_blocks(logs, columns, together=True):
            reader.take(part)
    if other is not None:
        reader.n_rows = other.rows
        reader.note(other.broken, len(other.broken))
    _refuse_broken(reader.n_broken, reader.n_rows, most_broken, reader.broken)
    notes = [] if other is None else other.notes
    log = reader.log(files)
    return replace(log, notes=notes, sources=list(logs), scattered=scattered, read_as=read_as)


def _words(schema: Format, roles: dict[str, str | None], by_query: bool) -> dict[str, str]:
    """How a log of another system is read, for display."""
    board = {"board": schema.boards[0]} if by_query else {}
    named = {role: name for role, name in roles.items() if name}
    return {"format": f"{schema.name}: {schema.words}", **board, **named}


def explained(
    logs: Sequence[Source],
    roles: dict[str, str | None],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    events: bool = False,
) -> dict[str, str]:
    """How an audit would interpret the columns, for display, from the first rows alone."""
    check_roles(roles)
    sample = peek(logs)
    if events:
        return understand_events(sample, roles, time_format).in_words()
    meaning = _sniffed(sample, roles, first_position, time_format, format)
    if isinstance(meaning, Format):
        return {
            **_words(meaning, roles, meaning.by_query(roles.get("board"), True)),
            "columns found": ", ".join(sample.columns),
        }
    return {"format": "plain", **meaning.in_words()}


def schema_of(
    logs: Sequence[Source],
    roles: dict[str, str | None],
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
) -> Format | None:
    """Detect the schema of another system from the first rows alone; None for a plain log."""
    meaning = _sniffed(peek(logs), roles, first_position, time_format, format)
    return meaning if isinstance(meaning, Format) else None


def _check_files(logs: Sequence[Source]) -> None:
    """Raise ValueError for files of an unknown kind, missing ones, and those named twice."""
    if not logs:
        raise ValueError("name at least one log")
    paths = [log for log in logs if isinstance(log, pathlib.Path)]
    for i, path in enumerate(paths):
        kind_of(path)
        if path.resolve() in (other.resolve() for other in paths[:i]):
            raise ValueError(f"{path} is named twice; its impressions would count twice")


def _sniffed(
    sample: pl.DataFrame, roles: dict[str, str | None], first: int | None, written: str | None, format: str | None
) -> Columns | Format:
    """Interpret the columns, or detect the schema of another system unless roles of columns are given."""
    columns: Columns | ValueError
    try:
        columns = understand(sample, roles, first, written)
    except ValueError as error:
        columns = error
    if format is not None or not any(roles.get(role) for role in ("items", "item", "clicked")):
        schema = chosen_format(sample, format, isinstance(columns, Columns))
        if schema is not None:
            check_options(schema, sample, roles, first, written)
            return schema
    if isinstance(columns, ValueError):
        raise columns
    return columns


def only(log: ClickLog, kept: Bools) -> ClickLog:
    """The log with the impressions to keep, bool[n]."""
    chosen = np.flatnonzero(kept)
    return replace(
        log,
        impressions=log.impressions.only(chosen),
        row=picked(log.row, chosen),
        last_row=picked(log.last_row, chosen),
        board=picked(log.board, chosen),
        time=None if log.time is None else picked(log.time, chosen),
        client=None if log.client is None else picked(log.client, chosen),
        cohorts={role: Cohorts(values, picked(of, chosen)) for role, (values, of) in log.cohorts.items()},
        bought=None if log.bought is None else picked(log.bought, chosen),
    )


class _Reader:
    """Collects the impressions of blocks into a log. `checkpoint`: where to save the state, and to resume from."""

    def __init__(self, columns: Columns, checkpoint: Checkpoint | None = None) -> None:
        self.columns, self.checkpoint = columns, checkpoint
        self.items, self.boards, self.clients = _Names(), _Names(), _Names()
        self.cohorts = {role: _Names() for role in columns.cohorts()}
        self.arrays = mapped.GrowingArrays() if checkpoint is None else checkpoint.arrays()
        self.broken: list[Broken] = []
        self.n_broken = self.n_rows = self.repeats = 0
        self.dated = False

    def take_all(self, logs: Sequence[Source], progress: Callable[[int, int], None] | None = None) -> None:
        """Collect the impressions of a log, file by file, after the last checkpoint."""
        files, before = (0, NOTHING_READ) if self.checkpoint is None else self._resume(self.checkpoint)
        total, written = rows_in(logs), before.rows
        for i, log in enumerate(logs[files:], files + 1):
            tell = None if progress is None else lambda rows: progress(rows, total)
            for part in impression_blocks([log], self.columns, tell, before=before, last=i == len(logs)):
                self.take(part)
                before = ReadBefore(self.n_rows, part.dated, part.rest)
            if self.checkpoint is not None and (i == len(logs) or self.n_rows - written >= ROWS):
                self._save_checkpoint(self.checkpoint, i, before)
                written = self.n_rows

    def _named(self) -> dict[str, "_Names"]:
        """The tables of names, by what they name."""
        return {"items": self.items, "boards": self.boards, "clients": self.clients, **self.cohorts}

    def _save_checkpoint(self, checkpoint: Checkpoint, files: int, before: ReadBefore) -> None:
        """Write a checkpoint after this many whole files."""
        pieces = {}
        for name, of in self._named().items():
            for piece, frame in of.unwritten():
                checkpoint.put_frame(f"names-{name}-{piece}", frame)
            pieces[name] = of.pieces
        rest = None
        if before.rest is not None:
            rest = f"rest-{files}"
            checkpoint.put_frame(rest, before.rest)
        counts = {name: getattr(self, name) for name in ("n_broken", "n_rows", "repeats", "dated", "broken")}
        here = {"arrays": self.arrays.written(), "names": pieces, "rest": rest, "counts": counts}
        checkpoint.save_reading({"files": files, "rows": before.rows, "dated": before.dated, **here})

    def _resume(self, checkpoint: Checkpoint) -> tuple[int, ReadBefore]:
        """Load the last checkpoint. Returns how many files it covers, and the state the next ones depend on."""
        so_far = checkpoint.reading_so_far()
        if so_far is None:
            return 0, NOTHING_READ
        self.arrays.resume(so_far["arrays"])
        for name, of in self._named().items():
            of.resume([checkpoint.frame(f"names-{name}-{piece}") for piece in range(so_far["names"][name])])
        for name, count in so_far["counts"].items():
            setattr(self, name, count)
        self.broken = [Broken(*one) for one in self.broken]
        rest = None if so_far["rest"] is None else checkpoint.frame(so_far["rest"])
        return so_far["files"], ReadBefore(so_far["rows"], so_far["dated"], rest)

    def scattered(self) -> bool:
        """Whether the rows of any impression are not contiguous."""
        keys = np.sort(self.arrays.take("key", np.uint64))
        return bool(np.any(keys[1:] == keys[:-1]))

    def note(self, broken: list[Broken], count: int) -> None:
        """Count rows that cannot be used, and keep some as examples."""
        self.n_broken += count
        self.broken += broken[: EXAMPLES - len(self.broken)]

    def take(self, rows: BlockImpressions) -> None:
        """Add the impressions of a block."""
        self.n_rows += rows.rows
        self.note(rows.broken, rows.n_broken)
        if rows.dated is not None:
            self.dated = rows.dated
        looked_at = rows.looked_at()
        self.arrays.add(
            item=self.items.numbers(rows.item.filter(pl.Series(looked_at))),
            bits=rows.bits[looked_at],
            size=rows.size.astype(np.int32),
            shown=np.minimum(rows.shown, LONGEST).astype(np.int16),
            row=rows.row,
        )
        if rows.last_row is not rows.row:
            self.arrays.add(last_row=rows.last_row)
        self.repeats += rows.repeats
        if rows.key is not None:
            self.arrays.add(key=rows.key)
        if rows.top is not None:
            self.arrays.add(top=np.clip(rows.top - self.columns.first_position, 0, LONGEST).astype(np.int16))
        if rows.time is not None:
            self.arrays.add(time=rows.time)
        if rows.client is not None:
            self.arrays.add(client=self.clients.numbers(rows.client))
        if rows.board is not None:
            self.arrays.add(board=self.boards.numbers(rows.board))
        self.arrays.add(**{role: self.cohorts[role].numbers(values) for role, values in rows.cohorts.items()})
        if rows.bought is not None:
            self.arrays.add(bought=rows.bought)

    def log(self, files: list[str]) -> ClickLog:
        """The log of all impressions added, in order of time."""
        arrays, columns = self.arrays, self.columns
        size = arrays.take("size", np.int32)
        impressions = Impressions(
            arrays.take("item", np.int32),
            arrays.take("bits", np.bool_),
            first_of(size.size, lambda some: size[some]),
            len(self.items.values),
            arrays.take("shown", np.int16),
            arrays.take("top", np.int16) if columns.items is None and columns.position else None,
        )
        row = arrays.take("row", np.int64)
        last_row = row if columns.item is None else arrays.take("last_row", np.int64)
        time = arrays.take("time", np.float64) if columns.time else None
        client = arrays.take("client", np.int32) if columns.client else None
        board = arrays.take("board", np.int32) if columns.board else None
        cohorts = {role: Cohorts(names.values, arrays.take(role, np.int32)) for role, names in self.cohorts.items()}
        bought = arrays.take("bought", np.bool_) if columns.value else None
        if time is not None and not in_order(time):
            order = np.argsort(time, kind="stable")
            impressions, row, time = impressions.only(order), picked(row, order), picked(time, order)
            last_row = row if columns.item is None else picked(last_row, order)
            board, client, bought = (None if of is None else picked(of, order) for of in (board, client, bought))
            cohorts = {role: Cohorts(values, picked(of, order)) for role, (values, of) in cohorts.items()}
        board = np.broadcast_to(np.int32(0), row.size) if board is None else board
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
            dated=self.dated,
            client=client,
            board=board,
            cohorts=cohorts,
            bought=bought,
            rows=self.n_rows,
            broken=self.n_broken,
            examples=self.broken,
            repeats=self.repeats,
        )


def in_order(values: mapped.Array) -> bool:
    """Whether the values never decrease."""
    for some in blocks(values.size):
        part = values[max(some.start - 1, 0) : some.stop]
        if bool(np.any(part[1:] < part[:-1])):
            return False
        mapped.release(values)
    return True


class _Names:
    """Numbers distinct values from 0, in order of first appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers = pl.DataFrame({"value": [], "number": []}, schema={"value": pl.Null, "number": pl.Int32})
        self._written = self.pieces = 0  # values in the checkpoint, and in how many frames

    def unwritten(self) -> list[tuple[int, pl.DataFrame]]:
        """Values that are new since the last call, as at most one pair: number of the frame, and the frame."""
        if len(self.values) == self._written:
            return []
        self._written, new = len(self.values), self._numbers[self._written :]
        self.pieces += 1
        return [(self.pieces - 1, new)]

    def resume(self, frames: list[pl.DataFrame]) -> None:
        """Restore the state from all frames that `unwritten` returned."""
        if frames:
            self._numbers = pl.concat(frames)
            self.values = self._numbers["value"].to_list()
        self._written, self.pieces = len(self.values), len(frames)

    def numbers(self, values: pl.Series) -> ItemNumbers:
        """The number of each value, -1 for null; new values get the next numbers."""
        if self.values and values.dtype != self._numbers["value"].dtype:
            values = self._alike(values)
        fresh = values.unique(maintain_order=True).drop_nulls()
        if self.values:
            fresh = fresh.filter(~fresh.is_in(self._numbers["value"].implode()))
        if len(fresh):
            more = pl.DataFrame({"value": fresh, "number": range(len(self.values), len(self.values) + len(fresh))})
            more = more.with_columns(pl.col("number").cast(pl.Int32))
            self._numbers = more if not self.values else self._numbers.vstack(more)
            self.values += fresh.to_list()
        if not self.values:
            return np.full(len(values), -1, np.int32)
        joined = values.alias("value").to_frame().join(self._numbers, on="value", how="left", maintain_order="left")
        return joined["number"].fill_null(-1).to_numpy().astype(np.int32, copy=False)

    def _alike(self, values: pl.Series) -> pl.Series:
        """Convert values to the type of the first block; ValueError if that would change them."""
        kind = self._numbers["value"].dtype
        alike = values.cast(kind, strict=False)
        lost = values.filter(~alike.cast(values.dtype, strict=False).eq_missing(values))
        if len(lost):
            raise ValueError(
                f"column {values.name} holds {kind} at first, such as {self.values[0]!r}, and {values.dtype} later, "
                f"such as {lost[0]!r}"
            )
        return alike


def _refuse_broken(n_broken: int, rows: int, most: float, examples: list[Broken]) -> None:
    if rows == 0:
        raise ValueError("the log holds no rows")
    if n_broken > most * rows or n_broken == rows:
        shown = "; ".join(f"row {row}: {why}: {text!r}" for row, why, text in examples)
        raise ValueError(
            f"{n_broken} of {rows} rows cannot be used, more than {most:.2%} (--most-broken); for instance {shown}"
        )


class BoardLog(NamedTuple):
    """The impressions of one board."""

    board: int
    chosen: Ints | None  # their indices in the log; None for all of it
    impressions: Impressions
    items: Ints  # [K] the log's numbers of its items
    client: ItemNumbers | None
    clients: Ints  # the log's numbers of its clients

    def of(self, array: mapped.Array, some: slice | Ints) -> mapped.Array:
        """Entries of an array over the whole log, such as its rows, for some of these impressions."""
        part: mapped.Array = array[some] if self.chosen is None else array[self.chosen[some]]
        return part


def by_board(log: ClickLog) -> list[BoardLog]:
    """Split the log by board, in order of first appearance."""
    if len(log.boards) == 1:
        items, clients = np.arange(len(log.items)), np.arange(len(log.clients))
        return [BoardLog(0, None, log.impressions, items, log.client, clients)]
    order = np.argsort(log.board, kind="stable")
    edges = np.searchsorted(log.board[order], np.arange(len(log.boards) + 1))
    return [_of_board(log, i, order[start:end]) for i, (start, end) in enumerate(itertools.pairwise(edges.tolist()))]


def _of_board(log: ClickLog, board: int, chosen: Ints) -> BoardLog:
    impressions = log.impressions.only(chosen)
    items = np.flatnonzero(_seen(impressions))
    number = np.zeros(log.impressions.n_items, np.int32)
    number[items] = np.arange(items.size)
    item = picked(number, impressions.item)
    impressions = impressions._replace(item=item, n_items=items.size)
    if log.client is None:
        return BoardLog(board, chosen, impressions, items, None, np.zeros(0, np.int64))
    client = picked(log.client, chosen)
    clients = np.unique(client[client >= 0])
    numbers = np.where(client >= 0, np.searchsorted(clients, client), -1).astype(np.int32)
    return BoardLog(board, chosen, impressions, items, numbers, clients.astype(np.int64))


def _seen(impressions: Impressions) -> Bools:
    """Which items were looked at, bool[K]."""
    seen: Bools = np.zeros(impressions.n_items, np.bool_)
    for _, part in impressions.parts():
        seen[part.item] = True
    return seen
