"""Logs of other systems: detect their schema, and convert them to one row per list with its clicks."""

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

from ..core.settings import closest
from .columns import flag
from .files import ROW, Broken, Source, read_blocks
from .formats import dsjson, events, ga4, metarank, personalize, sessions, ubi
from .formats.fields import WrongRow
from .formats.joiner import EventJoiner, ShownList


class Format(NamedTuple):
    """A schema: its name and description, how to detect it, and how to read a row."""

    name: str
    words: str
    fits: Callable[[dict[str, Any]], bool]  # whether a row looks like it
    take: Callable[[dict[str, Any], int, EventJoiner], None]
    plain_first: bool  # whether rows that can be read as a plain log are read as one
    roles: tuple[str, ...]  # roles that options may assign to a column
    boards: tuple[str, ...]  # columns that may name the board: of the query, of the surface; empty: only the latter
    values: bool  # whether an option may select the rows with outcomes of clicks

    def by_query(self, board: str | None, where_known: bool) -> bool:
        """Whether the lists of a query form a board: as the column `board` says, by default `where_known`."""
        return bool(self.boards) and (where_known if board is None else board == self.boards[0])


PLAIN = "plain"
FORMATS = {
    module.NAME: Format(
        module.NAME,
        module.WORDS,
        module.fits,
        module.take,
        module in (sessions, events),
        events.ROLES if module is events else (),
        ubi.BOARDS if module is ubi else (),
        module is ubi,
    )
    for module in (ubi, ga4, personalize, dsjson, metarank, sessions, events)
}


class Converted(NamedTuple):
    """A log of another system after conversion."""

    frame: pl.DataFrame  # one row per list, with the column ROW
    broken: list[Broken]
    rows: int  # of the original log
    notes: list[str]  # for the report


def chosen_format(sample: pl.DataFrame, name: str | None, plain: bool) -> Format | None:
    """The schema with this name, or that of the first rows; None for plain logs.

    `plain`: whether the columns can be interpreted as those of a plain log.
    """
    if name == PLAIN:
        return None
    if name is not None:
        if name not in FORMATS:
            raise ValueError(closest("format", name, [PLAIN, *FORMATS]))
        return FORMATS[name]
    rows = sample.head(20).to_dicts()
    for schema in FORMATS.values():
        if not (plain and schema.plain_first) and any(schema.fits(row) for row in rows):
            return schema
    return None


def check_options(
    schema: Format, sample: pl.DataFrame, roles: dict[str, str | None], first: int | None, written: str | None
) -> None:
    """Raise ValueError for options without effect, since the schema has fixed names, and for unknown columns."""
    options: list[tuple[str, Any]] = [(flag(role), name) for role, name in roles.items() if name is not None]
    options += [("--first-position", first), ("--time-format", written)]
    for option, value in options:
        role = option.removeprefix("--")
        if value is None or (value == "" and role in _LEFT_OUT):
            continue
        if role == "board" and value in schema.boards:
            continue
        if role == "value" and schema.values:
            ubi.parse_values(value)
            continue
        if role == "board" and schema.boards:
            raise ValueError(
                f"{value!r} cannot tell boards or queries of {schema.name}: {' or '.join(schema.boards)} can"
            )
        if role not in schema.roles:
            raise ValueError(
                f"{option} {value!r} has no effect: the log is read as {schema.name} ({schema.words}), whose names "
                "are fixed; leave it out, or add --format plain if it is another log"
            )
        if value not in sample.columns:
            raise ValueError(
                f"{option} names {value!r}, which is not a column; columns found: {', '.join(sample.columns)}"
            )


_LEFT_OUT = ("time", "client", "board")  # roles that any log may be read without


def converted(
    logs: Sequence[Source], schema: Format, roles: dict[str, str | None], by_query: bool = False
) -> Converted:
    """Convert a log to one row per list, all in memory. `roles`: columns by role, "" for none, checked before.

    `by_query`: whether the lists of a query form a board.
    """
    named = {role: name for role, name in roles.items() if name and name not in schema.boards}
    take, worth = schema.take, named.pop("value", None) if schema.values else None
    if worth is not None:
        take = functools.partial(ubi.take, values=ubi.parse_values(worth))
    role_of = {name: role for role, name in named.items()}
    joiner = EventJoiner()
    broken: list[Broken] = []
    rows = 0
    for frame, unreadable in read_blocks(logs):
        rows += frame.height + len(unreadable)
        broken += unreadable
        for row in frame.iter_rows(named=True):
            number = row.pop(ROW)
            values = {name: value for name, value in row.items() if value is not None and name not in role_of}
            told = {role: row[name] for name, role in role_of.items() if row.get(name) is not None}
            try:
                take({**values, **told}, number, joiner)
            except WrongRow as error:
                broken.append(Broken(number, str(error), str(row)[:80]))
    notes = joiner.join()
    if by_query:
        _name_by_query(joiner.lists)
    frame = _frame(joiner.lists, worth is not None).filter(pl.col("items").list.len() > 0)
    frame = frame.drop([role for role, name in roles.items() if name == ""], strict=False)
    if frame.is_empty():
        raise ValueError(f"no list can be read as {schema.name} ({schema.words}); {' '.join(notes)}".strip())
    return Converted(frame, broken, rows, [f"Read as {schema.name}: {schema.words}.", *notes])


def _name_by_query(lists: list[ShownList]) -> None:
    """Name boards by query, prefixed with the surface if the log has several; without a query, by surface."""
    several = len({one.board for one in lists}) > 1
    for one in lists:
        if one.query is not None:
            one.board = f"{one.board}: {one.query}" if several else one.query
        elif one.board is None:
            one.board = ""


def _frame(lists: list[ShownList], valued: bool) -> pl.DataFrame:
    """One row per list, with the value of its outcomes if `valued`, and columns that any list has values for."""
    columns: dict[str, list[Any]] = {
        "time": [math.nan if one.time is None else one.time for one in lists],
        "client": [None if one.client is None else str(one.client) for one in lists],
        "board": [None if one.board is None else str(one.board) for one in lists],
        "segment": [None if one.segment is None else str(one.segment) for one in lists],
        "features": [None if one.features is None else json.dumps(one.features) for one in lists],
    }
    given = {name: values for name, values in columns.items() if any(getattr(o, name) is not None for o in lists)}
    return pl.DataFrame(
        {
            "items": pl.Series([one.items for one in lists], dtype=pl.List(pl.String)),
            "clicked": pl.Series([one.bits for one in lists], dtype=pl.List(pl.Int64)),
            **{name: pl.Series(of, dtype=pl.Float64 if name == "time" else pl.String) for name, of in given.items()},
            **({"value": pl.Series([one.value for one in lists], dtype=pl.Float64)} if valued else {}),
            ROW: pl.Series([one.row for one in lists], dtype=pl.Int64),
        }
    )
