"""Rows that are one shown item each, several of them an impression."""

import numpy as np
import polars as pl

from .cells import seconds
from .columns import Columns
from .files import ROW
from .impressions import BlockImpressions, FlatLists, examples, extras

_YES = ("1", "1.0", "true", "yes", "t", "y")
_NO = ("0", "0.0", "false", "no", "f", "n", "")


def of_items(
    frame: pl.DataFrame, columns: Columns, carry: pl.DataFrame | None, last: bool = False
) -> BlockImpressions:
    """Impressions of rows that are one a shown item, those of an impression next to each other.

    The rows of the last impression wait for the next block, unless this is the `last`. Rows come from the top of the
    list unless there is a column for positions.
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
    return BlockImpressions(
        item=shown.item,
        bits=bits,
        size=examined,
        shown=shown.size,
        top=None if columns.position is None else heads["__place__"].to_numpy().astype(np.int64),
        repeats=_repeats(facts, columns),
        row=np.minimum.reduceat(rows, start) if rows.size else rows,
        last_row=np.maximum.reduceat(rows, start) if rows.size else rows,
        n_broken=n_broken,
        broken=examples(frame, facts["__why__"]) if n_broken else [],
        rest=rest,
        key=heads.select(pl.struct(columns.key()).hash(seed=0)).to_series().to_numpy(),
        **extras(heads, columns),
    )


def _with_turns(facts: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows with the number of their impression in turn, and whether each tells of a look told of before.

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


def _repeats(facts: pl.DataFrame, columns: Columns) -> int:
    """How many impressions show an item twice."""
    if columns.impression is None:
        return 0
    looks = facts.filter(pl.col("__why__").is_null()).select("__turn__", columns.item or "")
    return int(looks.filter(looks.is_duplicated())["__turn__"].n_unique())


def _item_facts(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows with what is wrong with each, whether it was clicked, and its place."""
    word = pl.col(columns.clicked or "").cast(pl.String).str.strip_chars().str.to_lowercase().fill_null("")
    place = pl.lit(0.0) if columns.position is None else pl.col(columns.position).cast(pl.Float64, strict=False)
    undated = pl.lit(False)
    if columns.time is not None and frame.height:
        undated = pl.lit(pl.Series(~np.isfinite(seconds(frame[columns.time], columns.time_format)[0])))
    boardless = pl.lit(False) if columns.board is None else pl.col(columns.board).is_null()
    name = pl.col(columns.item or "")
    why = (
        pl.when(name.is_null() | (name.cast(pl.String) == ""))
        .then(pl.lit("no item"))
        .when(pl.col(columns.key()[0]).is_null())
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
