"""Lists of items, and what a log says of the clicks on them, whatever they are written as."""

import ast
import json
from typing import Any

import polars as pl

_SEPARATORS = ("|", ";", " ", ",")


def separator_of(values: pl.Series) -> str | None:
    """What stands between the items of most lists in a column of text; "[" for lists as in JSON."""
    text = values.drop_nulls().head(1000)
    text = text.filter(text.str.len_chars() > 0)
    if text.is_empty():
        return None
    if text.str.starts_with("[").sum() > 0.9 * text.len():
        return "["
    return next((s for s in _SEPARATORS if text.str.contains(s, literal=True).sum() > 0.5 * text.len()), None)


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


def clicked_is(clicked: pl.Series, lists: pl.Series, separator: str | None) -> str:
    """How clicks are told: by position or item, or in lists, by bits or items."""
    if clicked.dtype == pl.String and separator is not None:
        mark = "[" if separator == "[" else separator
        if clicked.str.contains(mark, literal=True).any():
            return _listed_as(split_lists(clicked, separator).cast(pl.List(pl.String)), lists)
    if isinstance(clicked.dtype, pl.List):
        return "items" if clicked.dtype.inner == pl.String else _listed_as(clicked, lists)
    both = pl.DataFrame({"clicked": as_text(clicked), "list": lists.cast(pl.List(pl.String))})
    both = both.filter(pl.col("clicked").str.len_chars() > 0).head(1000)
    shown = both.select(pl.col("list").list.contains(pl.col("clicked"))).to_series().sum()
    place = pl.col("clicked").cast(pl.Float64, strict=False)
    places = both.select(place.is_between(0, pl.col("list").list.len()).fill_null(False)).to_series().sum()
    by_name = shown == places == both.height > 0 and "item" in clicked.name
    return "item" if shown > places or by_name else "position"


def _listed_as(clicked: pl.Series, lists: pl.Series) -> str:
    """Bits if there is one of them, 0 or 1, for each item of most lists."""
    both = pl.DataFrame({"clicked": clicked, "list": lists}).filter(pl.col("clicked").list.len() > 0)
    bit = pl.col("clicked").list.eval(pl.element().cast(pl.Float64, strict=False).is_in([0.0, 1.0])).list.all()
    alike = pl.col("clicked").list.len() == pl.col("list").list.len()
    bits = both.select((bit & alike).fill_null(False)).to_series().sum()
    return "bits" if bits >= 0.5 * both.height else "items"


def first_position(clicked: pl.Series, lists: pl.Series) -> int:
    """0 or 1: what the top position is called. A log that never says 0, or says it for no click, counts from 1."""
    numbers = clicked.cast(pl.Float64, strict=False)
    if not bool((numbers == 0).any()) or bool((numbers >= lists.list.len()).any()):
        return 1
    return 0 if bool((numbers < 0).any()) or numbers.null_count() > 0 else 1  # no click is -1, or nothing
