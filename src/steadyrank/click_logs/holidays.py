"""Holidays: days that are known to differ, such as those of a sale. An audit leaves out their impressions."""

import datetime
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools
from .click_log import ClickLog, only


class Holiday(NamedTuple):
    """Times from `start` to before `end`, in seconds since 1970, and the name of the event."""

    start: float
    end: float
    name: str


def holiday(days: str, name: str) -> Holiday:
    """Parse a holiday: a day such as 2026-11-27, or the first and last, 2026-11-27..2026-11-30, in UTC."""
    try:
        one, two = (datetime.date.fromisoformat(day) for day in (days.split("..") if ".." in days else (days, days)))
    except (ValueError, TypeError):
        raise ValueError(f"--event {days!r} must be a day such as 2026-11-27, or 2026-11-27..2026-11-30") from None
    if two < one:
        raise ValueError(f"--event {days!r} ends before it begins")
    edges = [datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp() for day in (one, two)]
    return Holiday(edges[0], edges[1] + 86_400.0, name)


def time_unit(log: ClickLog) -> float | None:
    """The number of a log's units of time per second; None if its times cannot be dates."""
    if log.dated or log.time is None or not log.time.size:
        return 1.0
    return next((unit for unit in (1.0, 1e3, 1e6) if 1e9 * unit <= log.time[0] < 4e9 * unit), None)


def without_holidays(log: ClickLog, holidays: list[Holiday]) -> tuple[ClickLog, list[str]]:
    """Return the log without impressions on holidays, and notes for the report."""
    if not holidays:
        return log, []
    if log.time is None:
        raise ValueError(f"--event {holidays[0].name}: the log has no column of times; name it with --time")
    unit = time_unit(log)
    if unit is None:
        raise ValueError(f"--event {holidays[0].name}: times such as {log.time[0]:g} are not dates")
    kept: Bools = np.ones(log.impressions.n, np.bool_)
    notes = []
    for start, end, name in holidays:
        inside = (log.time >= start * unit) & (log.time < end * unit)
        notes.append(f"{int(np.count_nonzero(inside & kept)):,} impressions of the event {name} were left out.")
        kept &= ~inside
    if not kept.any():
        raise ValueError(f"--event {holidays[0].name}: nothing is left of the log without it")
    return only(log, kept), notes
