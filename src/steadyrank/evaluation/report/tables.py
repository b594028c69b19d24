"""Results as tables for the page, CSV files and the terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ...comparison.intervals import half_width
from ...core.arrays import Floats
from .text import aligned, plus_minus


def number(value: float) -> str:
    """Format with three significant digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def finals(rows: pl.DataFrame) -> pl.DataFrame:
    """The last mark of every run."""
    return rows.filter(pl.col("mark") == pl.col("horizon"))


def by_rate(rows: pl.DataFrame, by: str = "rate") -> pl.DataFrame:
    """Mean final regret with 95 % intervals: learners as rows, best at the last rate first, rates as columns.

    `by`: another numeric column in place of the rate.
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


def last_quarters(rows: pl.DataFrame, prices: Mapping[str, float]) -> list[dict[str, Any]]:
    """Regret in the last quarter of the rounds, the half width of its 95 % interval, and its limit after an attack.

    One dictionary per world, attack and learner, honest users first. The limit, `may`, is 1.5 times the loss with
    honest users in these rounds, plus the price of the learner's trials, `prices` per round.
    """
    of = ["profile", "mapping", "rate", "adversary", "who"]
    before = rows.filter(4 * pl.col("mark") == 3 * pl.col("horizon")).select(*of, "seed", start="regret")
    after = finals(rows).join(before, on=[*of, "seed"])
    after = after.sort("profile", "mapping", pl.col("rate") > 0, "adversary", "rate", "who", "seed")
    honest: dict[tuple[Any, ...], float] = {}
    quarters = []
    for key, part in after.group_by(of, maintain_order=True):
        cell = dict(zip(of, key, strict=True))
        values = (part["regret"] - part["start"]).to_numpy()
        where = cell["profile"], cell["mapping"], cell["who"]
        if cell["rate"] == 0.0:
            honest[where] = float(values.mean())
        rounds = part["horizon"][0]
        quarters.append(
            cell
            | {
                "visits": round(cell["rate"] * rounds),
                "lost": float(values.mean()),
                "half": float(half_width(values)),
            }
            | {"may": 1.5 * honest[where] + prices[cell["who"]] * rounds / 4 if where in honest else math.nan}
        )
    return quarters


def by_price(found: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """`last_quarters` as a table: one row per attack; for each learner its loss and the limit."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for cell in found:
        attack = f"{cell['adversary']}, {cell['visits']} visits" if cell["visits"] else "honest users"
        line = lines.setdefault((cell["profile"], attack), {"": f"{cell['profile']}, {attack}"})
        line[cell["who"]] = f"{cell['lost']:,.0f} {plus_minus(cell['half'], 0)}"
        line[f"{cell['who']} may"] = f"{cell['may']:,.0f}"
    return pl.DataFrame(list(lines.values()))


def final_cells(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Final regret of every cell: mean, half width of its 95 % interval, and the attacker's spent budget."""
    of = ["profile", "mapping", "adversary", "schedule", "rate", "users", "who"]
    return [
        dict(zip(of, key, strict=True))
        | {
            "regret": float(part["regret"].mean()),  # type: ignore[arg-type]
            "half": float(half_width(part["regret"].to_numpy())),
            "spent": part["spent"].mean(),
        }
        for key, part in finals(rows).group_by(of, maintain_order=True)
    ]


def by_taste(cells: Sequence[Mapping[str, Any]], columns: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """Regret as text: learners as rows, sorted by the first column; one column per profile and users.

    `columns`: their names, by profile and users. Without attacks.
    """
    regret: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for cell in cells:
        regret.setdefault(cell["who"], {})[cell["profile"], cell["users"]] = cell
    first = next(iter(columns))
    order = sorted(regret, key=lambda who: regret[who][first]["regret"] if first in regret[who] else math.inf)
    table: dict[str, list[str]] = {"learner": order}
    for at, name in columns.items():
        there = [regret[who].get(at) for who in order]
        table[name] = ["-" if one is None else f"{one['regret']:,.0f} {plus_minus(one['half'], 0)}" for one in there]
    return pl.DataFrame(table)


def text(table: pl.DataFrame) -> str:
    """A table as aligned text, for a terminal."""
    return aligned(table.columns, [[str(value) for value in row] for row in table.rows()])


def _with_interval(values: Floats) -> str:
    digits = 0 if values.mean() >= 100 else 1 if values.mean() >= 10 else 2
    return f"{values.mean():,.{digits}f} {plus_minus(float(half_width(values)), digits)}"
