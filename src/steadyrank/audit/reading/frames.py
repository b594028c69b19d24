"""Data frames of others as polars frames: pandas is not needed, nor any other package."""

from typing import Any

import polars as pl

_NOTHING = ("NaTType", "NAType")  # what pandas calls a value that is not there


def is_pandas(source: Any) -> bool:
    """Whether it is a data frame of pandas, or of a library that stands in for it: by its methods."""
    return all(hasattr(type(source), name) for name in ("columns", "iloc", "to_dict"))


def from_pandas(source: Any) -> pl.DataFrame:
    """The columns of a pandas frame, its index left out. Lists in cells stay lists, what is missing is null.

    Not by `polars.from_pandas`, which needs pyarrow for them.
    """
    columns = list(source.columns)
    if wrong := [name for name in columns if not isinstance(name, str)]:
        raise ValueError(f"the columns of a data frame must have names, not {wrong[0]!r}")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise ValueError(f"two columns of the data frame are called {twice!r}")
    return pl.DataFrame([_series(name, source[name]) for name in columns])


def _series(name: str, column: Any) -> pl.Series:
    values = [None if _missing(value) else _plain(value) for value in column.tolist()]
    try:
        return pl.Series(name, values, strict=False)
    except (TypeError, pl.exceptions.PolarsError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise ValueError(f"column {name!r} mixes {', '.join(kinds)}, which no column can hold: {error}") from None


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in _NOTHING or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    """Arrays and tuples in cells as lists; moments of pandas as those of Python."""
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
