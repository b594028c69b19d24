"""Results as tables, for the page, CSV and a terminal."""

import numpy as np
import polars as pl

from ...comparison.intervals import half_width
from ...core.arrays import Floats
from .text import aligned, plus_minus


def number(value: float) -> str:
    """Three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def finals(rows: pl.DataFrame) -> pl.DataFrame:
    """The last mark of every run."""
    return rows.filter(pl.col("mark") == pl.col("horizon"))


def by_rate(rows: pl.DataFrame, by: str = "rate") -> pl.DataFrame:
    """Mean final regret with its 95 % interval: a learner a row, a corruption rate a column, best last rate first.

    `by`: another column of numbers than the rate.
    """
    means: dict[str, list[str]] = {"learner": []}
    at = sorted(rows[by].unique())
    last = rows.filter(pl.col(by) == at[-1]).group_by("who").agg(pl.col("regret").mean()).sort("regret", "who")
    for who in last["who"]:
        means["learner"].append(who)
        for rate in at:
            values = np.array(rows.filter((pl.col("who") == who) & (pl.col(by) == rate))["regret"])
            column = means.setdefault(f"{100 * rate:g}%" if by == "rate" else f"{rate:,}", [])
            column.append(_with_interval(values) if values.size else "-")
    return pl.DataFrame(means)


def text(table: pl.DataFrame) -> str:
    """A table of words for a terminal."""
    return aligned(table.columns, [[str(value) for value in row] for row in table.rows()])


def _with_interval(values: Floats) -> str:
    digits = 0 if values.mean() >= 100 else 1 if values.mean() >= 10 else 2
    return f"{values.mean():,.{digits}f} {plus_minus(float(half_width(values)), digits)}"
