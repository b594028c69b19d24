"""Times as an audit reports them, and counts over time of the most frequent items or cohorts."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..click_logs.agents import POINTS
from ..click_logs.click_log import ClickLog
from ..click_logs.holidays import time_unit
from ..click_logs.looks import ItemNumbers, blocks
from ..core.arrays import Ints

OTHERS = "all others"


def over_time(log: ClickLog, values: list[Any], of: ItemNumbers, most: int) -> dict[str, Any]:
    """Counts of the `most` frequent values and of all others together, in total and in POINTS intervals of time.

    `of`: index into `values` of each impression; -1, unknown, counts among the others. For JSON and the HTML page.
    O(impressions).
    """
    counts: Ints = np.bincount(of[of >= 0], minlength=len(values))
    often = np.argsort(-counts, kind="stable")[:most]
    column: Ints = np.full(len(values) + 1, often.size, np.int64)  # the last is for -1
    column[often] = np.arange(often.size)
    when = log.row if log.time is None else log.time
    first, last = float(when.min()), float(when.max())
    table = np.zeros((POINTS, often.size + 1), np.int64)
    for some in blocks(of.size):
        place = ((when[some] - first) / max(last - first, 1e-9) * POINTS).astype(np.int64)
        np.add.at(table, (np.clip(place, 0, POINTS - 1), column[of[some]]), 1)
    names = [*(str(values[k]) for k in often.tolist()), OTHERS]
    return {"columns": names, "counts": table.sum(axis=0).tolist(), "points": table.tolist()}


def time_for_json(log: ClickLog, time: float) -> Any:
    """A time of a log for JSON: in ISO 8601 if the log has dates, else the number."""
    if log.dated:
        return datetime.datetime.fromtimestamp(time, datetime.UTC).isoformat()
    return int(time) if time.is_integer() else time


def ticks(log: ClickLog, places: Sequence[float], times: Sequence[float]) -> list[tuple[float, str]]:
    """Labels of a time line, each with its position from 0 to 1: dates, or numbers if times are not dates."""
    unit = time_unit(log)
    if unit is None:
        return [(place, f"{time:,.6g}") for place, time in zip(places, times, strict=True)]
    form = "%m-%d %H:%M" if times[-1] - times[0] < 3 * 86_400 * unit else "%Y-%m-%d"
    dates = [datetime.datetime.fromtimestamp(time / unit, datetime.UTC) for time in times]
    return [(place, date.strftime(form)) for place, date in zip(places, dates, strict=True)]
