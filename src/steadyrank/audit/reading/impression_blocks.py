"""The impressions of a log, block by block, in the order of its rows."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import polars as pl

from .block_impressions import BlockImpressions
from .blocks import ROW, Block, Broken
from .columns import Columns
from .item_rows import of_items
from .list_rows import of_impressions
from .log_files import read_blocks

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
