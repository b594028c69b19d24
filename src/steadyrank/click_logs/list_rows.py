"""Rows that are one impression each: the list shown, and what of it was clicked."""

import numpy as np
import polars as pl

from ..core.arrays import Bools
from .cells import as_text, seconds, split_lists
from .columns import Columns
from .files import ROW
from .impressions import BlockImpressions, FlatLists, examples, extras


def of_impressions(frame: pl.DataFrame, columns: Columns) -> BlockImpressions:
    """Impressions of rows that are one each.

    Without a click all of a list was looked at, else all down to the last click.
    """
    lists, clicked = split_lists(frame[columns.items or ""], columns.separator), frame[columns.clicked or ""]
    if columns.clicked_is in ("bits", "items"):
        clicked = split_lists(clicked, columns.separator)
    why = _wrong_list(lists)
    size = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    shown = FlatLists.of(lists.list.explode(empty_as_null=False, keep_nulls=False), size)
    bits, wrong = _CLICKS[columns.clicked_is](clicked, shown, columns)
    why = _else(why, wrong, "the click is none of the list")
    if columns.time is not None:
        why = _else(
            why, ~np.isfinite(seconds(frame[columns.time], columns.time_format)[0]), "a time that cannot be read"
        )
    if columns.board is not None:
        why = _else(why, frame[columns.board].is_null().to_numpy(), "no board")
    good = why.is_null().to_numpy()
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
        repeats=_repeats(lists, good),
        n_broken=n_broken,
        broken=examples(frame, why) if n_broken else [],
        **extras(frame.filter(pl.Series(good)), columns),
    )


def _else(why: pl.Series, wrong: Bools, reason: str) -> pl.Series:
    """What is wrong with each row, with one more thing that may be."""
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


def _repeats(lists: pl.Series, good: Bools) -> int:
    """How many lists show an item twice: each place of it is a look of its own."""
    frame = lists.filter(pl.Series(good)).alias("list").to_frame()
    return int(frame.select((pl.col("list").list.n_unique() < pl.col("list").list.len()).sum()).item())


def _by_position(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
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


def _by_item(clicked: pl.Series, shown: FlatLists, columns: Columns) -> tuple[Bools, Bools]:
    given = as_text(clicked).fill_null("")
    given = given if columns.separator is None else given.str.strip_chars()
    named = (given.gather(shown.row) == as_text(shown.item)).fill_null(False).to_numpy()
    bits = _first_of_each(named, shown)
    found: Bools = np.zeros(shown.size.size, np.bool_)
    found[shown.row[bits]] = True
    return bits, ~given.is_in(["", "-1"]).to_numpy() & ~found


def _first_of_each(named: Bools, shown: FlatLists) -> Bools:
    """Of the places of each list that hold what was clicked, the first: an item shown twice was clicked once."""
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
    found = there.join(asked.with_columns(hit=True), on=["row", "item"], how="left", maintain_order="left")
    bits = (
        found["hit"].fill_null(False) & there.select(pl.struct("row", "item").is_first_distinct())["row"]
    ).to_numpy()
    lost = asked.join(there, on=["row", "item"], how="anti")["row"].to_numpy()
    wrong: Bools = np.zeros(shown.size.size, np.bool_)
    wrong[lost] = True
    return bits, wrong


_CLICKS = {"position": _by_position, "item": _by_item, "bits": _by_bits, "items": _by_items}
