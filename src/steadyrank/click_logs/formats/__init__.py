"""Schemas of other systems, each turned into lists and what of them was clicked; one file a schema."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

from ...core.settings import closest
from ..files import ROW, Broken, read_blocks
from . import dsjson, events, ga4, metarank, personalize, sessions, ubi
from .joiner import Pile


class Format(NamedTuple):
    """A schema: its name, what it is, whether rows look like it, and how a row is taken."""

    name: str
    words: str
    fits: Callable[[dict[str, Any]], bool]  # of the first row that is not empty
    take: Callable[[dict[str, Any], int, Pile], None]
    plain_first: bool  # whether rows that can be read as a plain log are one


PLAIN = "plain"
_MODULES = (ubi, ga4, personalize, dsjson, metarank, sessions, events)
FORMATS = {
    module.NAME: Format(module.NAME, module.WORDS, module.fits, module.take, module in (sessions, events))
    for module in _MODULES
}


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
