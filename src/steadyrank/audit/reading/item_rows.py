"""Rows that are one shown item each, several of them an impression."""

import numpy as np
import polars as pl

from .block_impressions import BlockImpressions, FlatLists, examples, extras, seconds
from .blocks import ROW
from .columns import Columns

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
    good = facts.filter(pl.col("__why__").is_null())
    if columns.position is not None:
        good = good.sort("__turn__", "__place__", maintain_order=True)
    group = good["__turn__"].to_numpy().astype(np.int64)
    _, start, size = np.unique(group, return_index=True, return_counts=True)
    shown = FlatLists.of(good[columns.item or ""], size.astype(np.int64))
    bits = good["__click__"].to_numpy().astype(np.bool_)
    examined = shown.examined(bits)
    looked_at = shown.place < examined[shown.row]
    rows = good[ROW].to_numpy().astype(np.int64)
    heads = good[start.astype(np.int64)]
    n_broken = facts.height - good.height
    return BlockImpressions(
        item=shown.item.filter(pl.Series(looked_at)),
        bits=bits[looked_at],
        size=examined,
        row=np.minimum.reduceat(rows, start) if rows.size else rows,
        last_row=np.maximum.reduceat(rows, start) if rows.size else rows,
        n_broken=n_broken,
        broken=examples(frame, facts["__why__"]) if n_broken else [],
        rest=rest,
        key=heads.select(pl.struct(columns.key()).hash(seed=0)).to_series().to_numpy(),
        **extras(heads, columns),
    )


def _with_turns(facts: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows with the number of their impression in turn; all rows of one that shows an item twice are wrong."""
    facts = facts.with_columns(pl.struct(columns.key()).rle_id().alias("__turn__"))
    again = ~pl.struct("__turn__", columns.item or "").is_first_distinct() & pl.col("__why__").is_null()
    twice = pl.when(again.any().over("__turn__")).then(pl.lit("an item twice"))
    return facts.with_columns(pl.coalesce("__why__", twice).alias("__why__"))


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
