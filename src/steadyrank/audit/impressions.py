"""Rows of a click log into impressions: one row each, or one row a shown item."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..arrays import Bools, Floats, Ints
from .blocks import EXAMPLES, ROW, Broken
from .columns import Columns
from .lists import as_text, split_lists


@dataclass
class Rows:
    """Impressions of a block: the items looked at, from the top, and clicks on them."""

    item: pl.Series  # [look]
    click: Bools  # [look]
    size: Ints  # [impression] looks
    row: Ints  # [impression] first row in the file
    last_row: Ints
    time: Floats | None
    dated: bool
    client: pl.Series | None
    board: pl.Series | None
    n_broken: int = 0
    broken: list[Broken] = field(default_factory=list)
    rest: pl.DataFrame | None = None  # rows of an impression that may go on in the next block
    key: npt.NDArray[np.uint64] | None = None  # [impression] a hash of its name, in rows of shown items


def seconds(values: pl.Series) -> tuple[Floats, bool]:
    """Times as numbers, NaN where there is none, and whether they are dates."""
    if values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers.to_numpy(), False
        values = values.str.replace(" ", "T").str.to_datetime(time_unit="us", strict=False, time_zone="UTC")
    if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        micro = values.cast(pl.Datetime("us")).cast(pl.Int64)
        return (micro.cast(pl.Float64) / 1e6).to_numpy(), True
    return values.cast(pl.Float64, strict=False).to_numpy(), False


def _extras(frame: pl.DataFrame, columns: Columns) -> dict[str, Any]:
    time, dated = (None, False) if columns.time is None else seconds(frame[columns.time])
    client = None if columns.client is None else frame[columns.client]
    board = None if columns.board is None else frame[columns.board]
    return {"time": time, "dated": dated, "client": client, "board": board}


def _examples(frame: pl.DataFrame, why: pl.Series) -> list[Broken]:
    chosen = frame.with_columns(why.alias("__why__")).filter(pl.col("__why__").is_not_null()).head(EXAMPLES)
    return [
        Broken(row[ROW], row["__why__"], str({k: v for k, v in row.items() if not k.startswith("__")})[:160])
        for row in chosen.to_dicts()
    ]


def of_impressions(frame: pl.DataFrame, columns: Columns) -> Rows:
    """Impressions of rows that are one each.

    Without a click all of a list was looked at, else all down to the last click.
    """
    lists, clicked = split_lists(frame[columns.items or ""], columns.separator), frame[columns.clicked or ""]
    if columns.clicked_is in ("bits", "items"):
        clicked = split_lists(clicked, columns.separator)
    why = _wrong_list(lists)
    size = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    shown = Places.of(lists.list.explode(empty_as_null=False, keep_nulls=False), size)
    bits, wrong = _CLICKS[columns.clicked_is](clicked, shown, columns)
    why = _else(why, wrong, "the click is none of the list")
    if columns.time is not None:
        why = _else(why, ~np.isfinite(seconds(frame[columns.time])[0]), "a time that cannot be read")
    if columns.board is not None:
        why = _else(why, frame[columns.board].is_null().to_numpy(), "no board")
    good = why.is_null().to_numpy()
    examined = shown.examined(bits)
    seen = good[shown.row] & (shown.place < examined[shown.row])
    row = frame[ROW].to_numpy().astype(np.int64)[good]
    n_broken = int((~good).sum())
    broken = _examples(frame, why) if n_broken else []
    extras = _extras(frame.filter(pl.Series(good)), columns)
    return Rows(
        shown.item.filter(pl.Series(seen)),
        bits[seen],
        examined[good],
        row,
        row,
        n_broken=n_broken,
        broken=broken,
        **extras,
    )


def _else(why: pl.Series, wrong: Bools, reason: str) -> pl.Series:
    """What is wrong with each row, with one more thing that may be."""
    return pl.select(pl.coalesce(why, pl.when(pl.Series(wrong)).then(pl.lit(reason)))).to_series()


@dataclass
class Places:
    """All lists of a block, one after the other."""

    item: pl.Series  # [place of a list]
    row: Ints  # [place of a list] which list
    place: Ints  # [place of a list] from 0
    size: Ints  # [list]
    first: Ints  # [list]

    @classmethod
    def of(cls, item: pl.Series, size: Ints) -> "Places":
        """Lists of these sizes."""
        first = np.cumsum(size) - size
        row = np.repeat(np.arange(size.size), size)
        return cls(item, row, np.arange(row.size) - first[row], size, first)

    def examined(self, bits: Bools) -> Ints:
        """How many places of each list were looked at: down to the last click, all without one."""
        last: Ints = np.zeros(self.size.size, np.int64)
        np.maximum.at(last, self.row[bits], self.place[bits] + 1)
        return np.where(last > 0, last, self.size)


def _wrong_list(lists: pl.Series) -> pl.Series:
    frame = lists.alias("list").to_frame()
    size = pl.col("list").list.len()
    holes = pl.col("list").list.eval(pl.element().is_null() | (pl.element().cast(pl.String) == "")).list.any()
    return frame.select(
        pl.when(pl.col("list").is_null() | (size == 0))
        .then(pl.lit("no items"))
        .when(holes)
        .then(pl.lit("an item without a name"))
        .when(pl.col("list").list.n_unique() < size)
        .then(pl.lit("an item twice"))
    ).to_series()


def _by_position(clicked: pl.Series, shown: Places, columns: Columns) -> tuple[Bools, Bools]:
    """Bits of the places shown, and lists whose click cannot be: a position that is no number or not of the list."""
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


def _by_item(clicked: pl.Series, shown: Places, columns: Columns) -> tuple[Bools, Bools]:
    given = as_text(clicked).fill_null("")
    given = given if columns.separator is None else given.str.strip_chars()
    bits = (given.gather(shown.row) == as_text(shown.item)).fill_null(False).to_numpy()
    found: Bools = np.zeros(shown.size.size, np.bool_)
    found[shown.row[bits]] = True
    return bits, ~given.is_in(["", "-1"]).to_numpy() & ~found


def _by_bits(clicked: pl.Series, shown: Places, columns: Columns) -> tuple[Bools, Bools]:
    sizes = clicked.list.len().fill_null(0).to_numpy().astype(np.int64)
    wrong = (sizes != shown.size) & (sizes > 0)
    bits: Bools = np.zeros(shown.row.size, np.bool_)
    values = (
        clicked.list.explode(empty_as_null=False, keep_nulls=False).cast(pl.Float64, strict=False).fill_null(-1.0)
    )
    given = Places.of(values, sizes)
    flags = values.to_numpy()
    odd = given.row[(flags != 0.0) & (flags != 1.0)]
    wrong[odd] = True
    chosen = ~wrong[given.row]
    bits[shown.first[given.row[chosen]] + given.place[chosen]] = flags[chosen] == 1.0
    return bits, wrong


def _by_items(clicked: pl.Series, shown: Places, columns: Columns) -> tuple[Bools, Bools]:
    sizes = clicked.list.len().fill_null(0).to_numpy().astype(np.int64)
    given = Places.of(clicked.list.explode(empty_as_null=False, keep_nulls=False), sizes)
    asked = pl.DataFrame({"row": given.row, "item": as_text(given.item)}).unique()
    there = pl.DataFrame({"row": shown.row, "item": as_text(shown.item)})
    found = there.join(asked.with_columns(hit=True), on=["row", "item"], how="left", maintain_order="left")
    bits = found["hit"].fill_null(False).to_numpy()
    lost = asked.join(there, on=["row", "item"], how="anti")["row"].to_numpy()
    wrong: Bools = np.zeros(shown.size.size, np.bool_)
    wrong[lost] = True
    return bits, wrong


_CLICKS = {"position": _by_position, "item": _by_item, "bits": _by_bits, "items": _by_items}


def of_items(frame: pl.DataFrame, columns: Columns, carry: pl.DataFrame | None, last: bool = False) -> Rows:
    """Impressions of rows that are one a shown item, those of an impression next to each other.

    The rows of the last impression wait for the next block, unless this is the `last`. Rows come from the top of the
    list unless there is a column for positions.
    """
    if carry is not None and carry.height:
        frame = pl.concat([carry, frame], how="vertical_relaxed") if frame.height else carry
    key = columns.key()
    facts = _item_facts(frame, columns).with_columns(pl.struct(key).rle_id().alias("__turn__"))
    again = ~pl.struct("__turn__", columns.item or "").is_first_distinct() & pl.col("__why__").is_null()
    twice = pl.when(again.any().over("__turn__")).then(pl.lit("an item twice"))
    facts = facts.with_columns(pl.coalesce("__why__", twice).alias("__why__"))
    rest = None
    if not last and facts.height:
        going = facts["__turn__"] == facts["__turn__"][-1]
        rest = frame.filter(going)
        frame, facts = frame.filter(~going), facts.filter(~going)
    good = facts.filter(pl.col("__why__").is_null())
    if columns.position is not None:
        good = good.sort("__turn__", "__place__", maintain_order=True)
    group = good["__turn__"].to_numpy().astype(np.int64)
    _, start, size = np.unique(group, return_index=True, return_counts=True)
    shown = Places.of(good[columns.item or ""], size.astype(np.int64))
    bits = good["__click__"].to_numpy().astype(np.bool_)
    examined = shown.examined(bits)
    seen = shown.place < examined[shown.row]
    rows = good[ROW].to_numpy().astype(np.int64)
    heads = good[start.astype(np.int64)]
    n_broken = facts.height - good.height
    first = np.minimum.reduceat(rows, start) if rows.size else rows
    latest = np.maximum.reduceat(rows, start) if rows.size else rows
    return Rows(
        shown.item.filter(pl.Series(seen)),
        bits[seen],
        examined,
        first,
        latest,
        n_broken=n_broken,
        broken=_examples(frame, facts["__why__"]) if n_broken else [],
        rest=rest,
        key=heads.select(pl.struct(key).hash(seed=0)).to_series().to_numpy(),
        **_extras(heads, columns),
    )


_YES = ("1", "1.0", "true", "yes", "t", "y")
_NO = ("0", "0.0", "false", "no", "f", "n", "")


def _item_facts(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows with what is wrong with each, whether it was clicked, and its place."""
    word = pl.col(columns.clicked or "").cast(pl.String).str.strip_chars().str.to_lowercase().fill_null("")
    place = pl.lit(0.0) if columns.position is None else pl.col(columns.position).cast(pl.Float64, strict=False)
    undated = pl.lit(False)
    if columns.time is not None and frame.height:
        undated = pl.lit(pl.Series(~np.isfinite(seconds(frame[columns.time])[0])))
    boardless = pl.lit(False) if columns.board is None else pl.col(columns.board).is_null()
    name = pl.col(columns.item or "")
    why = (
        pl.when(name.is_null() | (name.cast(pl.String) == ""))
        .then(pl.lit("no item"))
        .when(pl.col(columns.impression or "").is_null())
        .then(pl.lit("no impression"))
        .when(~word.is_in([*_YES, *_NO]))
        .then(pl.lit("clicked is neither 0 nor 1"))
        .when(place.is_null())
        .then(pl.lit("the position is no number"))
        .when(undated)
        .then(pl.lit("a time that cannot be read"))
        .when(boardless)
        .then(pl.lit("no board"))
    )
    return frame.with_columns(why.alias("__why__"), word.is_in(_YES).alias("__click__"), place.alias("__place__"))
