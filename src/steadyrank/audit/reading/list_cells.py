"""The text of lists into lists, and of names into names alike, whatever they are written as."""

import ast
import json
from typing import Any

import polars as pl


def split_lists(lists: pl.Series, separator: str | None) -> pl.Series:
    """A column of lists as lists of items. What stands in brackets is read as JSON, or as Python writes lists."""
    if lists.dtype == pl.Null:
        return lists.cast(pl.List(pl.String))
    if lists.dtype != pl.String:
        return lists
    text = lists.str.strip_chars().replace("", None)
    bracketed = text.str.starts_with("[") & text.str.ends_with("]")
    inner = text.str.split("," if separator in ("[", None) else separator).list.eval(pl.element().str.strip_chars())
    if not bracketed.any():
        return inner
    within = text.set(~bracketed, None)
    try:
        parsed = within.str.json_decode(pl.List(pl.String))
    except pl.exceptions.PolarsError:
        parsed = pl.Series([None if one is None else _parsed(one) for one in within], dtype=pl.List(pl.String))
    return pl.select(pl.coalesce(parsed, inner)).to_series().alias(lists.name)


def _parsed(text: str) -> list[str | None]:
    for parse in (json.loads, ast.literal_eval):
        try:
            found: list[Any] = parse(text)
            return [None if one is None else str(one) for one in found]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return [one.strip(" \"'") for one in text.strip("[]").split(",")]


def as_text(values: pl.Series) -> pl.Series:
    """Names as text. Whole numbers are written alike, whether a gap in their column made them floats or not."""
    if not values.dtype.is_float():
        return values.cast(pl.String)
    whole = pl.when(values == values.floor()).then(values.cast(pl.Int64, strict=False).cast(pl.String))
    return pl.select(whole.otherwise(values.cast(pl.String))).to_series().alias(values.name)
