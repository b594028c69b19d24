"""Parse the cells of a log, whatever their notation: lists, names, and times as seconds since 1970."""

import ast
import json
from typing import Any

import polars as pl

_SHORT = r"^\s*(\d{1,2})([./-])(\d{1,2})[./-](\d{4}|\d{2})(\D.*)?$"  # 03/04/2026: day and month in either order
_CLOCK = r"^[ T](\d{1,2}:\d\d(:\d\d)?)(\.\d+)?\s*$"


def split_lists(lists: pl.Series, separator: str | None) -> pl.Series:
    """Parse a column of lists into lists of items. Text in brackets is read as JSON or as a Python list."""
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
            items: list[Any] = parse(text)
            return [None if item is None else str(item) for item in items]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return [one.strip(" \"'") for one in text.strip("[]").split(",")]


def as_text(values: pl.Series) -> pl.Series:
    """Names as text. Whole numbers get the same text whether their column holds integers or, with gaps, floats."""
    if not values.dtype.is_float():
        return values.cast(pl.String)
    whole = pl.when(values == values.floor()).then(values.cast(pl.Int64, strict=False).cast(pl.String))
    return pl.select(whole.otherwise(values.cast(pl.String))).to_series().alias(values.name)


def seconds(values: pl.Series, written: str | None = None) -> tuple[pl.Series, bool]:
    """Return times as numbers, null if missing, and whether they are dates; `written`: their `strptime` format."""
    if values.dtype == pl.String and written is not None:
        day = "%H" not in written and "%I" not in written
        text = values.str.strip_chars()
        if day:
            values = text.str.to_date(written, strict=False)
        else:
            values = text.str.to_datetime(written, time_unit="us", strict=False)
    elif values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers, False
        values = values.str.replace(" ", "T").str.to_datetime(time_unit="us", strict=False, time_zone="UTC")
    if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        micro = values.cast(pl.Datetime("us")).cast(pl.Int64)
        return micro.cast(pl.Float64) / 1e6, True
    return values.cast(pl.Float64, strict=False), False


def written_as(name: str, values: pl.Series) -> str | None:
    """Infer the `strptime` format of dates such as 13.04.2026 10:20; None if none is needed.

    With dots the day comes first. Otherwise a first or second number above 12 shows which is the day; without one,
    03/04/2026 is ambiguous, and ValueError is raised.
    """
    if values.dtype != pl.String:
        return None
    parts = pl.DataFrame({"text": values.drop_nulls()}).filter(pl.col("text").str.contains(_SHORT))
    if parts.is_empty():
        return None
    group = pl.col("text").str.extract
    fields = parts.select(
        one=group(_SHORT, 1).cast(pl.Int64),
        mark=group(_SHORT, 2),
        two=group(_SHORT, 3).cast(pl.Int64),
        year=group(_SHORT, 4).str.len_chars(),
        rest=group(_SHORT, 5).fill_null(""),
    )
    mark, year, rest = str(fields["mark"][0]), fields["year"][0], str(fields["rest"][0])
    first, second = bool((fields["one"] > 12).any()), bool((fields["two"] > 12).any())
    if first == second and (first or mark != "."):
        raise ValueError(
            f"--time {name}: {parts['text'][0]!r} can be read in two ways; write times as 2026-03-04 10:20:30, say "
            "how they are written, for instance --time-format '%d/%m/%Y %H:%M', or leave them out with --time '' if "
            "the oldest rows come first"
        )
    clock = pl.Series([rest]).str.extract_groups(_CLOCK).struct.unnest().row(0)
    day = "%m{0}%d{0}" if second else "%d{0}%m{0}"
    date = day.format(mark) + ("%Y" if year == 4 else "%y")
    if not rest.strip():
        return date
    if clock[0] is None:
        raise ValueError(
            f"--time {name}: {parts['text'][0]!r} cannot be read; say how times are written, for instance "
            "--time-format '%d/%m/%Y %I:%M %p'"
        )
    return date + rest[0] + ("%H:%M:%S" if clock[1] else "%H:%M") + ("%.f" if clock[2] else "")
