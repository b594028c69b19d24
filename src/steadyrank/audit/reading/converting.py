"""Logs in the schema of another system, as one frame of lists and clicks."""

import pathlib
from collections.abc import Sequence
from typing import Any

import polars as pl

from ...settings import closest
from .blocks import ROW, Broken
from .formats import FORMATS, Format
from .formats.pile import Pile
from .log_files import read_blocks

PLAIN = "plain"


def chosen_format(sample: pl.DataFrame, told: str | None, plain: bool) -> Format | None:
    """The schema that is told, or that the first rows look like; None for plain logs.

    `plain`: whether the columns can be understood as those of a plain log.
    """
    if told == PLAIN:
        return None
    if told is not None:
        if told not in FORMATS:
            raise ValueError(closest("format", told, [PLAIN, *FORMATS]))
        return FORMATS[told]
    rows = sample.head(20).to_dicts()
    for schema in FORMATS.values():
        if not (plain and schema.plain_first) and any(schema.fits(row) for row in rows):
            return schema
    return None


def converted(
    logs: Sequence[pathlib.Path | pl.DataFrame], schema: Format
) -> tuple[pl.DataFrame, list[Broken], int, list[str]]:
    """One row a list, rows that cannot be read, how many rows there are, and what is to be said. In memory."""
    pile = Pile()
    broken: list[Broken] = []
    rows = 0
    for log in logs:
        start = rows
        for frame, wrong in read_blocks(log):
            rows += frame.height + len(wrong)
            broken += [Broken(start + row, why, text) for row, why, text in wrong]
            for row in frame.iter_rows(named=True):
                schema.take(_there(row), start + row[ROW], pile)
    frame, notes = pile.log()
    if frame.is_empty():
        raise ValueError(f"no list can be read as {schema.name} ({schema.words}); {' '.join(notes)}".strip())
    return frame, broken, rows, [f"Read as {schema.name}: {schema.words}.", *notes]


def _there(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name != ROW}
