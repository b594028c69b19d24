"""Click logs as a whole: rows are checked, items, clients and boards numbered, impressions put in order of time.

The impressions of a log, block by block, in the order of its rows.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..core.arrays import Floats, Ints
from .columns import Columns, check_roles, understand
from .files import EXAMPLES, ROW, Block, Broken, kind_of, peek, read_blocks
from .formats import Format, chosen_format, converted
from .impressions import BlockImpressions
from .item_rows import of_items
from .list_rows import of_impressions
from .looks import Impressions, ItemNumbers
from .names import Names

Source = pathlib.Path | pl.DataFrame


def impression_blocks(
    logs: Sequence[Source],
    columns: Columns,
    progress: Callable[[int], None] | None = None,
    together: bool = False,
) -> Iterator[BlockImpressions]:
    """Impressions with their whole lists. `progress` is called with the number of rows read so far.

    `together`: rows of an impression may stand apart; all are read into memory, and each impression is where its
    first row stands.
    """
    blocks = _numbered(logs, columns, progress)
    if together:
        blocks = iter([_sorted(list(blocks), columns)])
    rest: pl.DataFrame | None = None
    for block in blocks:
        try:
            if columns.items is not None:
                part = of_impressions(block.frame, columns)
            else:
                part = of_items(block.frame, columns, rest, last=together)
        except pl.exceptions.PolarsError as error:
            kinds = ", ".join(f"{name} ({kind})" for name, kind in block.frame.drop(ROW).schema.items())
            first, why = block.frame[ROW][0], str(error).splitlines()[0]
            raise ValueError(f"rows from {first} on are not as those before; they hold {kinds}: {why}") from None
        rest = part.rest
        yield replace(
            part,
            rows=block.frame.height + len(block.broken),
            n_broken=part.n_broken + len(block.broken),
            broken=[*block.broken, *part.broken],
        )
    if rest is not None and rest.height:
        yield of_items(rest.clear(), columns, rest, last=True)


def _sorted(blocks: list[Block], columns: Columns) -> Block:
    """All blocks as one, the rows of each impression next to each other."""
    frame = pl.concat([block.frame for block in blocks], how="vertical_relaxed")
    first = pl.col(ROW).min().over(columns.key())
    return Block(frame.sort(first, maintain_order=True), [one for block in blocks for one in block.broken])


def _numbered(logs: Sequence[Source], columns: Columns, progress: Callable[[int], None] | None) -> Iterator[Block]:
    """The blocks of all files, their rows numbered on from file to file."""
    rows = 0
    for log in logs:
        offset = rows
        for frame, broken in read_blocks(log, columns.used()):
            rows += frame.height + len(broken)
            if progress is not None:
                progress(rows)
            yield Block(
                _named(frame, columns).with_columns(pl.col(ROW) + offset),
                [Broken(offset + row, why, text) for row, why, text in broken],
            )


def _named(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows with null in place of names that are infinite: these cannot be told in JSON."""
    roles = {columns.item, columns.client, columns.board} - {None}
    names = [name for name, kind in frame.schema.items() if name in roles and kind.is_float()]
    return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in names)


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
    client: ItemNumbers | None  # [n]
    board: ItemNumbers  # [n]
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
