"""Convert rows to impressions, block by block in the order of the rows: times as numbers, lists and their clicks.

A row is either an impression with its list, or one shown item of an impression.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ..core.arrays import Bools, Floats, Ints
from .cells import as_text, seconds, split_lists
from .columns import Columns
from .files import EXAMPLES, ROW, Block, Broken, Source, read_blocks

TIME = "__time__"  # the column with times as numbers, NaN for those that cannot be parsed
_YES = ("1", "1.0", "true", "yes", "t", "y")
_NO = ("0", "0.0", "false", "no", "f", "n", "")


@dataclass
class FlatLists:
    """All lists of a block, concatenated."""

    item: pl.Series  # [entry]
    row: Ints  # [entry] number of its list
    place: Ints  # [entry] its place, from 0
    size: Ints  # [list]
    first: Ints  # [list] number of its first entry

    @classmethod
    def of(cls, item: pl.Series, size: Ints) -> "FlatLists":
        """Split concatenated items into lists of these sizes."""
        first = np.cumsum(size) - size
        row = np.repeat(np.arange(size.size), size)
        return cls(item, row, np.arange(row.size) - first[row], size, first)

    def examined(self, bits: Bools) -> Ints:
        """How many places of each list were examined: down to the last click, or all without a click."""
        last: Ints = np.zeros(self.size.size, np.int64)
        np.maximum.at(last, self.row[bits], self.place[bits] + 1)
        return np.where(last > 0, last, self.size)


@dataclass
class BlockImpressions:
    """Impressions of a block: concatenated lists from the top, how far they were examined, and clicks."""

    item: pl.Series  # [entry]
    bits: Bools  # [entry] whether it was clicked
    size: Ints  # [impression] places examined
    shown: Ints  # [impression] length of its list
    row: Ints  # [impression] its first row
    last_row: Ints
    time: Floats | None
    client: pl.Series | None
    board: pl.Series | None
    cohorts: dict[str, pl.Series] = field(default_factory=dict)  # by role
    bought: Bools | None = None  # [impression] whether any of its rows has a value above 0
    dated: bool | None = None  # whether times are dates; None before any could be parsed
    n_broken: int = 0
    broken: list[Broken] = field(default_factory=list)
    rest: pl.DataFrame | None = None  # rows of the last impression, which may continue in the next block
    top: Ints | None = None  # [impression] place of its first look, in rows of shown items with a position
    repeats: int = 0  # impressions that show an item twice
    key: npt.NDArray[np.uint64] | None = None  # [impression] hash of its id, in rows of shown items
    rows: int = 0  # rows of the log in this block, broken ones included

    def looked_at(self) -> Bools:
        """Which entries of the lists were examined, bool[entry]."""
        first = np.cumsum(self.shown) - self.shown
        place = np.arange(self.bits.size) - np.repeat(first, self.shown)
        looked: Bools = place < np.repeat(self.size, self.shown)
        return looked


class ReadBefore(NamedTuple):
    """The state after the files of a log read so far, on which reading the next files depends."""

    rows: int = 0
    dated: bool | None = None  # whether times are dates; None before any could be parsed
    rest: pl.DataFrame | None = None  # rows of the last impression, which may continue


NOTHING_READ = ReadBefore()


def impression_blocks(
    logs: Sequence[Source],
    columns: Columns,
    progress: Callable[[int], None] | None = None,
    together: bool = False,
    before: ReadBefore = NOTHING_READ,
    last: bool = True,
) -> Iterator[BlockImpressions]:
    """Iterate over blocks of impressions with their whole lists.

    `progress` is called with the number of rows read so far. `together`: the rows of an impression may not be
    contiguous; all rows are read into memory, and each impression takes the position of its first row. `before`: the
    state after earlier files of the log. `last`: whether the log ends with these files.
    """
    blocks = _named_blocks(logs, columns, progress, before.rows)
    if together:
        blocks = iter([_sorted(list(blocks), columns)])
    rest, dated = before.rest, before.dated
    for frame, broken in blocks:
        try:
            timed, dated = _timed(frame, columns, dated)
            if columns.items is not None:
                part = _of_lists(timed, columns)
            else:
                part = _of_items(timed, columns, rest, last=together)
        except pl.exceptions.PolarsError as error:
            kinds = ", ".join(f"{name} ({kind})" for name, kind in frame.drop(ROW).schema.items())
            first, why = frame[ROW][0], str(error).splitlines()[0]
            raise ValueError(f"rows from {first} on are not as those before; they hold {kinds}: {why}") from None
        rest = part.rest
        yield replace(
            part,
            dated=dated,
            rows=frame.height + len(broken),
            n_broken=part.n_broken + len(broken),
            broken=[*broken, *part.broken],
        )
    if last and rest is not None and rest.height:
        yield replace(_of_items(rest.clear(), columns, rest, last=True), dated=dated)


def _named_blocks(
    logs: Sequence[Source], columns: Columns, progress: Callable[[int], None] | None, rows: int
) -> Iterator[Block]:
    """The rows, numbered from `rows`; infinite names become null, since JSON cannot represent them."""
    roles = {columns.item, columns.client, columns.board} - {None}
    for frame, broken in read_blocks(logs, columns.used(), start=rows):
        rows += frame.height + len(broken)
        if progress is not None:
            progress(rows)
        names = [name for name, kind in frame.schema.items() if name in roles and kind.is_float()]
        yield Block(frame.with_columns(pl.when(pl.col(n).is_finite()).then(pl.col(n)) for n in names), broken)


def _sorted(blocks: list[Block], columns: Columns) -> Block:
    """All blocks as one, with the rows of each impression contiguous."""
    frame = pl.concat([block.frame for block in blocks], how="vertical_relaxed")
    first = pl.col(ROW).min().over(columns.key())
    return Block(frame.sort(first, maintain_order=True), [one for block in blocks for one in block.broken])


def _timed(frame: pl.DataFrame, columns: Columns, before: bool | None) -> tuple[pl.DataFrame, bool | None]:
    """Add the column TIME. Returns the rows and whether times are dates, which must be the same in all blocks.

    `before`: whether those of earlier blocks are; None if none could be parsed.
    """
    if columns.time is None:
        return frame, None
    times, dated = seconds(frame[columns.time], columns.time_format)
    frame = frame.with_columns(times.fill_null(math.nan).alias(TIME))
    if not frame[TIME].is_finite().any():
        return frame, before
    if before not in (None, dated):
        raise ValueError(f"column {columns.time} holds dates in some rows and numbers in others")
    return frame, dated


def _of_lists(frame: pl.DataFrame, columns: Columns) -> BlockImpressions:
    """Impressions from rows of one impression each.

    Lists are taken as examined down to the last click, or wholly without a click.
    """
    lists, clicked = split_lists(frame[columns.items or ""], columns.separator), frame[columns.clicked or ""]
    if columns.clicked_is in ("bits", "items"):
        clicked = split_lists(clicked, columns.separator)
    why = _wrong_list(lists)
    size = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    shown = FlatLists.of(lists.list.explode(empty_as_null=False, keep_nulls=False), size)
    bits, wrong = _CLICKS[columns.clicked_is](clicked, shown, columns)
    why = _else(why, wrong, "the click is not in the list")
    if columns.time is not None:
        why = _else(why, ~frame[TIME].is_finite().to_numpy(), "a time that cannot be read")
    if columns.board is not None:
        why = _else(why, frame[columns.board].is_null().to_numpy(), "no board")
    if columns.value is not None:
        why = _else(why, _values(frame, columns).is_null().to_numpy(), _NO_VALUE)
    good = why.is_null().to_numpy()
    value = None if columns.value is None else _values(frame, columns).to_numpy()[good] > 0.0
    examined = shown.examined(bits)
    there = good[shown.row]
    row = frame[ROW].to_numpy().astype(np.int64)[good]
    n_broken = int((~good).sum())
    return BlockImpressions(
        item=shown.item.filter(pl.Series(there)),
        bits=bits[there],
        size=examined[good],
        shown=shown.size[good],
        row=row,
        last_row=row,
        repeats=_repeats_in_lists(lists, good),
        n_broken=n_broken,
        broken=_examples(frame, why) if n_broken else [],
        bought=value,
        **_extras(frame.filter(pl.Series(good)), columns),
    )


def _else(why: pl.Series, wrong: Bools, reason: str) -> pl.Series:
    """Add a reason for rows that are wrong and have none yet."""
    return pl.select(pl.coalesce(why, pl.when(pl.Series(wrong)).then(pl.lit(reason)))).to_series()


def _wrong_list(lists: pl.Series) -> pl.Series:
    frame = lists.alias("list").to_frame()
    size = pl.col("list").list.len()
    holes = pl.col("list").list.eval(pl.element().is_null() | (pl.element().cast(pl.String) == "")).list.any()
    return frame.select(
        pl.when(pl.col("list").is_null() | (size == 0))
        .then(pl.lit("no items"))
        .when(holes)
        .then(pl.lit("an item without a name"))
    ).to_series()


def _repeats_in_lists(lists: pl.Series, good: Bools) -> int:
    """The number of lists that show an item twice; each of its places is a separate look."""
    frame = lists.filter(pl.Series(good)).alias("list").to_frame()
    return int(frame.select((pl.col("list").list.n_unique() < pl.col("list").list.len()).sum()).item())


def _by_position(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
    """Bits of the entries, and which lists have an invalid click: a position that is no number or beyond the list."""
    text = clicked.cast(pl.String).str.strip_chars()
    number = text.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    none = text.str.to_lowercase().fill_null("").is_in(["", "nan"]).to_numpy()
    place = number - columns.first_position
    none = none | (place < 0)
    wrong = ~none & ~((place < shown.size) & (place == np.floor(place)))
    bits: Bools = np.zeros(shown.row.size, np.bool_)
    there = ~none & ~wrong
    bits[shown.first[there] + place[there].astype(np.int64)] = True
    return bits, wrong


def _by_item(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
    given = as_text(clicked).fill_null("")
    given = given if columns.separator is None else given.str.strip_chars()
    named = (given.gather(shown.row) == as_text(shown.item)).fill_null(False).to_numpy()
    bits = _first_of_each(named, shown)
    clicked_lists: Bools = np.zeros(shown.size.size, np.bool_)
    clicked_lists[shown.row[bits]] = True
    return bits, ~given.is_in(["", "-1"]).to_numpy() & ~clicked_lists


def _first_of_each(named: Bools, shown: FlatLists) -> Bools:
    """The first entry of each list that holds the clicked item: an item shown twice was clicked once."""
    at = np.flatnonzero(named)
    row = shown.row[at]
    bits: Bools = np.zeros(named.size, np.bool_)
    bits[at[np.concatenate([[True], row[1:] != row[:-1]])[: at.size]]] = True
    return bits


def _by_bits(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
    sizes = clicked.list.len().fill_null(0).to_numpy().astype(np.int64)
    wrong = (sizes != shown.size) & (sizes > 0)
    bits: Bools = np.zeros(shown.row.size, np.bool_)
    values = (
        clicked.list.explode(empty_as_null=False, keep_nulls=False).cast(pl.Float64, strict=False).fill_null(-1.0)
    )
    given = FlatLists.of(values, sizes)
    flags = values.to_numpy()
    odd = given.row[(flags != 0.0) & (flags != 1.0)]
    wrong[odd] = True
    chosen = ~wrong[given.row]
    bits[shown.first[given.row[chosen]] + given.place[chosen]] = flags[chosen] == 1.0
    return bits, wrong


def _by_items(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
    sizes = clicked.list.len().fill_null(0).to_numpy().astype(np.int64)
    given = FlatLists.of(clicked.list.explode(empty_as_null=False, keep_nulls=False), sizes)
    asked = pl.DataFrame({"row": given.row, "item": as_text(given.item)}).unique()
    there = pl.DataFrame({"row": shown.row, "item": as_text(shown.item)})
    hits = there.join(asked.with_columns(hit=True), on=["row", "item"], how="left", maintain_order="left")
    bits = (
        hits["hit"].fill_null(False) & there.select(pl.struct("row", "item").is_first_distinct())["row"]
    ).to_numpy()
    lost = asked.join(there, on=["row", "item"], how="anti")["row"].to_numpy()
    wrong: Bools = np.zeros(shown.size.size, np.bool_)
    wrong[lost] = True
    return bits, wrong


_CLICKS = {"position": _by_position, "item": _by_item, "bits": _by_bits, "items": _by_items}


def _of_items(
    frame: pl.DataFrame, columns: Columns, carry: pl.DataFrame | None, last: bool = False
) -> BlockImpressions:
    """Impressions from rows of one shown item each; the rows of an impression must be contiguous.

    The rows of the last impression are carried over to the next block, unless this is the `last`. Rows are in list
    order unless there is a column for positions.
    """
    if carry is not None and carry.height:
        frame = pl.concat([carry, frame], how="vertical_relaxed") if frame.height else carry
    facts = _with_turns(_item_facts(frame, columns), columns)
    rest = None
    if not last and facts.height:
        going = facts["__turn__"] == facts["__turn__"][-1]
        rest = frame.filter(going)
        frame, facts = frame.filter(~going), facts.filter(~going)
    n_broken = int(facts["__why__"].is_not_null().sum())
    good = facts.filter(pl.col("__why__").is_null() & ~pl.col("__again__"))
    if columns.position is not None:
        good = good.sort("__turn__", "__place__", maintain_order=True)
    group = good["__turn__"].to_numpy().astype(np.int64)
    _, start, size = np.unique(group, return_index=True, return_counts=True)
    shown = FlatLists.of(good[columns.item or ""], size.astype(np.int64))
    bits = good["__click__"].to_numpy().astype(np.bool_)
    examined = shown.examined(bits)
    rows = good[ROW].to_numpy().astype(np.int64)
    heads = good[start.astype(np.int64)]
    value = None if columns.value is None else _values(good, columns).to_numpy() > 0.0
    if value is not None and value.size:
        value = np.logical_or.reduceat(value, start)
    return BlockImpressions(
        item=shown.item,
        bits=bits,
        size=examined,
        shown=shown.size,
        top=None if columns.position is None else heads["__place__"].to_numpy().astype(np.int64),
        repeats=_repeats_in_rows(facts, columns),
        row=np.minimum.reduceat(rows, start) if rows.size else rows,
        last_row=np.maximum.reduceat(rows, start) if rows.size else rows,
        n_broken=n_broken,
        broken=_examples(frame, facts["__why__"]) if n_broken else [],
        rest=rest,
        bought=value,
        key=heads.select(pl.struct(columns.key()).hash(seed=0)).to_series().to_numpy(),
        **_extras(heads, columns),
    )


def _with_turns(facts: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Add to the rows the sequence number of their impression, and whether each repeats an earlier row's look.

    Rows of an impression with the same item at the same place (or without places) are one look, clicked if any is.
    """
    facts = facts.with_columns(pl.struct(columns.key()).rle_id().alias("__turn__"))
    if columns.impression is None:
        return facts.with_columns(pl.lit(False).alias("__again__"))
    good = pl.col("__why__").is_null()
    look = ["__turn__", columns.item or "", "__place__"]
    click = (pl.col("__click__") & good).any().over(look) | pl.col("__click__")
    again = good & pl.struct(*look, "__why__").is_duplicated() & ~pl.struct(*look, "__why__").is_first_distinct()
    facts = facts.with_columns(again.alias("__again__"))
    return facts.with_columns(click.alias("__click__")) if facts["__again__"].any() else facts


def _repeats_in_rows(facts: pl.DataFrame, columns: Columns) -> int:
    """The number of impressions that show an item twice."""
    if columns.impression is None:
        return 0
    looks = facts.filter(pl.col("__why__").is_null()).select("__turn__", columns.item or "")
    return int(looks.filter(looks.is_duplicated())["__turn__"].n_unique())


def _item_facts(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Add to the rows the reason why one cannot be used, whether it was clicked, and its place."""
    word = pl.lit(_YES[0])  # an event is a click on its item
    if columns.clicked is not None:
        word = pl.col(columns.clicked).cast(pl.String).str.strip_chars().str.to_lowercase().fill_null("")
    place = pl.lit(0.0) if columns.position is None else pl.col(columns.position).cast(pl.Float64, strict=False)
    undated = pl.lit(False) if columns.time is None else ~pl.col(TIME).is_finite()
    boardless = pl.lit(False) if columns.board is None else pl.col(columns.board).is_null()
    valueless = pl.lit(False) if columns.value is None else _values(frame, columns).is_null()
    name = pl.col(columns.item or "")
    why = (
        pl.when(name.is_null() | (name.cast(pl.String) == ""))
        .then(pl.lit("no item"))
        .when(pl.col(columns.key()[0]).is_null())
        .then(pl.lit("no impression"))
        .when(~word.is_in([*_YES, *_NO]))
        .then(pl.lit("clicked is neither 0 nor 1"))
        .when(place.is_null())
        .then(pl.lit("the position is not a number"))
        .when(undated)
        .then(pl.lit("a time that cannot be read"))
        .when(boardless)
        .then(pl.lit("no board"))
        .when(valueless)
        .then(pl.lit(_NO_VALUE))
    )
    return frame.with_columns(why.alias("__why__"), word.is_in(_YES).alias("__click__"), place.alias("__place__"))


_NO_VALUE = "the value is not a number"


def _values(frame: pl.DataFrame, columns: Columns) -> pl.Series:
    """The value of each row: 0 if none is given, null if it is not a number."""
    values = frame[columns.value or ""]
    if values.dtype == pl.String:
        values = values.replace("", None)
    return values.cast(pl.Float64, strict=False).set(values.is_null(), 0.0)


def _extras(frame: pl.DataFrame, columns: Columns) -> dict[str, Any]:
    """Fields of `BlockImpressions` for time, client, board and cohorts, from the first rows of impressions."""
    return {
        "time": None if columns.time is None else frame[TIME].to_numpy(),
        "client": None if columns.client is None else frame[columns.client],
        "board": None if columns.board is None else frame[columns.board],
        "cohorts": {role: frame[name] for role, name in columns.cohorts().items()},
    }


def _examples(frame: pl.DataFrame, why: pl.Series) -> list[Broken]:
    """The first rows that cannot be used; `why`: the reason for each row, null if it can be used."""
    chosen = frame.with_columns(why.alias("__why__")).filter(pl.col("__why__").is_not_null()).head(EXAMPLES)
    return [
        Broken(row[ROW], row["__why__"], str({k: v for k, v in row.items() if not k.startswith("__")})[:160])
        for row in chosen.to_dicts()
    ]
