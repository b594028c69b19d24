"""Impressions of people, suspects and declared agents over time, as an audit reports them."""

from typing import Any

import numpy as np

from ..click_logs.agents import KINDS, PEOPLE, POINTS, Visitors
from ..click_logs.click_log import ClickLog
from ..core.arrays import Bools

COLUMNS = ("people", "suspects", "AI agents", "crawlers")  # of points


def count_visitors(visitors: Visitors, log: ClickLog, suspect: Bools) -> dict[str, Any]:
    """Counts for JSON and the HTML page. `log`: without declared agents; `suspect`: bool[n], its suspect ones."""
    when = log.row if log.time is None else log.time
    suspects = np.bincount(visitors.place(when[suspect]), minlength=POINTS)
    points = np.array(visitors.points, np.int64)
    people = points[:, PEOPLE] - suspects
    table = np.column_stack([people, suspects, points[:, PEOPLE + 1 :]])
    return {
        "list": visitors.by,
        "counts": {**dict(zip(KINDS, visitors.counts, strict=True)), "suspects": int(suspects.sum())},
        "columns": list(COLUMNS),
        "points": table.tolist(),
    }


def describe_visitors(visitors: dict[str, Any]) -> str:
    """The shares of declared agents in a sentence."""
    counts = visitors["counts"]
    total = max(counts["people"] + counts["AI agents"] + counts["crawlers"], 1)
    shares = ", ".join(f"{100 * counts[name] / total:.1f} % {name}" for name in ("AI agents", "crawlers"))
    return f"Set apart by what they say of themselves: {shares} of {total:,} ({visitors['list']})."
