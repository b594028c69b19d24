"""The impressions of a block of rows, whichever way the rows tell of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..core.arrays import Bools, Floats, Ints
from .cells import seconds
from .columns import Columns
from .files import EXAMPLES, ROW, Broken


@dataclass
class FlatLists:
    """All lists of a block, one after the other."""

    item: pl.Series  # [place of a list]
    row: Ints  # [place of a list] which list
    place: Ints  # [place of a list] from 0
    size: Ints  # [list]
    first: Ints  # [list]

    @classmethod
    def of(cls, item: pl.Series, size: Ints) -> "FlatLists":
        """Lists of these sizes."""
        first = np.cumsum(size) - size
        row = np.repeat(np.arange(size.size), size)
        return cls(item, row, np.arange(row.size) - first[row], size, first)

    def examined(self, bits: Bools) -> Ints:
        """How many places of each list were looked at: down to the last click, all without one."""
        last: Ints = np.zeros(self.size.size, np.int64)
        np.maximum.at(last, self.row[bits], self.place[bits] + 1)
        return np.where(last > 0, last, self.size)


@dataclass
class BlockImpressions:
    """Impressions of a block: their lists, from the top, how far they were looked at, and clicks."""

    item: pl.Series  # [place of a list]
    bits: Bools  # [place of a list] whether it was clicked
    size: Ints  # [impression] places looked at
    shown: Ints  # [impression] places of its list
    row: Ints  # [impression] first row in the file
    last_row: Ints
    time: Floats | None
    dated: bool
    client: pl.Series | None
    board: pl.Series | None
    n_broken: int = 0
    broken: list[Broken] = field(default_factory=list)
    rest: pl.DataFrame | None = None  # rows of an impression that may go on in the next block
    top: Ints | None = None  # [impression] place of its first look, in rows of shown items with a position
    repeats: int = 0  # impressions that show an item twice
    key: npt.NDArray[np.uint64] | None = None  # [impression] a hash of its name, in rows of shown items
    rows: int = 0  # of the log that were read for it

    def looked_at(self) -> Bools:
        """Which places of the lists were looked at."""
        first = np.cumsum(self.shown) - self.shown
        place = np.arange(self.bits.size) - np.repeat(first, self.shown)
        looked: Bools = place < np.repeat(self.size, self.shown)
        return looked


def extras(frame: pl.DataFrame, columns: Columns) -> dict[str, Any]:
    """When, who and where: fields of `BlockImpressions` from the first rows of impressions."""
    time, dated = (None, False) if columns.time is None else seconds(frame[columns.time], columns.time_format)
    client = None if columns.client is None else frame[columns.client]
    board = None if columns.board is None else frame[columns.board]
    return {"time": time, "dated": dated, "client": client, "board": board}


def examples(frame: pl.DataFrame, why: pl.Series) -> list[Broken]:
    """The first rows that cannot be used; `why`: what is wrong with each row, null where nothing is."""
    chosen = frame.with_columns(why.alias("__why__")).filter(pl.col("__why__").is_not_null()).head(EXAMPLES)
    return [
        Broken(row[ROW], row["__why__"], str({k: v for k, v in row.items() if not k.startswith("__")})[:160])
        for row in chosen.to_dicts()
    ]
