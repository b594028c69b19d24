"""Counts over the rounds of a board, at most 200 points: neighbouring points are merged as rounds accumulate."""

from typing import Any

import numpy as np

from ...core.arrays import Floats, Ints
from .schema import Schema

POINTS = 200
_COUNTS = ("impressions", "feedback", "clicks", "examined", "rejected", "fraud")  # rows of a snapshot, in order


class PointOut(Schema):
    """Counts of a run of consecutive rounds.

    `time`: of the earliest list, in seconds since 1970, null in old logs. `impressions`: lists shown. `feedback`:
    those whose feedback is final, learnt from or left out; `clicks` and `examined`: in it. `rejected`: feedback that
    the guard kept from the learner. `fraud`: feedback left out by a label.
    """

    start: int
    time: float | None
    impressions: int
    feedback: int
    clicks: int
    examined: int
    rejected: int
    fraud: int


class TimelineOut(Schema):
    """At most 200 points of `size` rounds each, from round 1."""

    size: int
    points: list[PointOut]


class Timeline:
    """Counts in at most `POINTS` points of `size` rounds each, from round 1. `size` doubles when points run out."""

    def __init__(self) -> None:
        self.size = 1
        self.impressions, self.feedback, self.clicks, self.examined, self.rejected, self.fraud = (
            [0] * POINTS for _ in range(6)
        )
        self.time = [0.0] * POINTS  # 0: unknown
        self.used = 0

    def _place(self, t: int) -> int:
        place = max(t - 1, 0) // self.size
        while place >= POINTS:
            for name in _COUNTS:
                old = getattr(self, name)
                setattr(self, name, [*map(sum, zip(old[::2], old[1::2], strict=True)), *[0] * (POINTS // 2)])
            pairs = zip(self.time[::2], self.time[1::2], strict=True)
            self.time = [min(filter(None, pair), default=0.0) for pair in pairs] + [0.0] * (POINTS // 2)
            self.size, self.used, place = 2 * self.size, 0, place // 2  # all used points are before this one
        if place >= self.used:
            self.used = place + 1
        return place

    def show(self, t: int, time: float) -> None:
        """Record that a list was shown in round `t`; `time` is 0 if unknown."""
        self._show(self._place(t), 1, time)

    def show_several(self, rounds: Ints, times: Floats) -> None:
        """Record several lists, as `show` does."""
        self._place(int(rounds.max()))
        places = np.maximum(rounds - 1, 0) // self.size
        for place in np.unique(places).tolist():
            told = times[places == place]
            self._show(place, told.size, float(min(told[told != 0.0], default=0.0)))

    def _show(self, place: int, count: int, time: float) -> None:
        self.impressions[place] += count
        if time and (not self.time[place] or time < self.time[place]):
            self.time[place] = time

    def learn(self, t: int, clicks: int, examined: int, rejected: int, fraud: int) -> None:
        """Record that feedback of round `t` is final: learnt from, `rejected` by the guard, or left out (`fraud`)."""
        place = self._place(t)
        self.feedback[place] += 1
        self.clicks[place] += clicks
        self.examined[place] += examined
        self.rejected[place] += rejected
        self.fraud[place] += fraud

    def time_of(self, t: int) -> float | None:
        """Estimate when a round was, by interpolation between the first times of points; None if unknown."""
        place = min(max(t - 1, 0) // self.size, POINTS - 1)
        here = next((i for i in range(place, -1, -1) if self.time[i]), None)
        if here is None:
            return None
        start, end = self.time[here], self.time[here + 1] if here + 1 < POINTS else 0.0
        part = min((max(t - 1, 0) - here * self.size) / self.size, 1.0)
        return start + max(end - start, 0.0) * part if end else start

    def summary(self) -> TimelineOut:
        """All points from the first round to the latest."""
        counts = zip(*(getattr(self, name) for name in _COUNTS), strict=True)
        rows = zip(range(self.used), self.time, counts, strict=False)
        points = [
            PointOut(start=1 + i * self.size, time=time or None, **dict(zip(_COUNTS, row, strict=True)))
            for i, time, row in rows
        ]
        return TimelineOut(size=self.size, points=points)

    def arrays(self) -> dict[str, Any]:
        """Everything, as arrays by name."""
        counts = np.array([getattr(self, name) for name in _COUNTS], np.int64)
        return {
            "timeline.counts": counts,
            "timeline.time": np.array(self.time),
            "timeline.size": np.array([self.size, self.used], np.int64),
        }

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> "Timeline":
        """Restore the timeline from `arrays`."""
        line = cls()
        for name, row in zip(_COUNTS, arrays["timeline.counts"].tolist(), strict=True):
            setattr(line, name, row)
        line.time = arrays["timeline.time"].tolist()
        line.size, line.used = arrays["timeline.size"].tolist()
        return line
