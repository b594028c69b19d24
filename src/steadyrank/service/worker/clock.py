"""The time of a worker, by the clock of the store, or of this machine if the store has none.

A clock can be wrong: set by hand, by a faulty time server, or after a start without one. So a worker combines its
last reading of the clock with a monotonic timer, which no clock setting changes. It reads the clock every second,
follows small differences, and accepts a jump only if it lasts. While the time is in doubt, nothing is deleted because
of its age.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

MOST_SKEW = 60.0  # seconds; clocks may differ by so much
STEADY = 3_600.0  # seconds until a new time is trusted, and until age counts again


def uptime() -> float:
    """Seconds since the machine booted, including time in suspension where the system reports it."""
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class Skew(NamedTuple):
    """Seconds by which clocks are ahead of the worker's time."""

    machine: float
    store: float  # of the reference clock, if it has jumped; else 0
    log: float  # of the time of the latest event, if that is in the future; else 0

    @property
    def alarming(self) -> bool:
        """Return whether any difference exceeds what is allowed."""
        return max(map(abs, self)) > MOST_SKEW

    def __str__(self) -> str:
        words = []
        if abs(self.machine) > MOST_SKEW:
            words.append(f"the clock of this machine is {_away(self.machine)} the time that it goes by")
        if abs(self.store) > MOST_SKEW and abs(self.store - self.machine) > MOST_SKEW:
            words.append(f"the clock of the database is {_away(self.store)} it")
        if self.log > MOST_SKEW:
            words.append(f"the latest event was written {self.log:,.0f} seconds in the future")
        return ", and ".join(words)


def _away(seconds: float) -> str:
    return f"{abs(seconds):,.0f} seconds {'ahead of' if seconds > 0 else 'behind'}"


class _Jump(NamedTuple):
    offset: float
    begin: float


class Clock:
    """Seconds since 1970: the time of a worker. `wall`: the clock of this machine; `steady`: a monotonic timer."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = uptime) -> None:
        self._wall, self._steady = wall, steady
        self._begin = steady()  # since when this offset has been in use
        self._offset = wall() - self._begin
        self._jump: _Jump | None = None
        self._away = self._ahead = 0.0
        self._seq = -1  # the latest event at the last call of `look`; -1 before the first
        self._settled = self._begin  # when age counts again

    def __call__(self) -> float:
        """The current time."""
        return self._offset + self._steady()

    @property
    def settled(self) -> bool:
        """Whether old data may be deleted by this time."""
        return self._steady() >= self._settled

    @property
    def skew(self) -> Skew:
        """How far the clocks differ from this time."""
        return Skew(self._wall() - self(), self._away, self._ahead)

    def look(self, store_time: float | None, seq: int, at: float) -> None:
        """Read the clock, the store's if it has one; `seq`, `at`: the store's latest event, and when it was written.

        The first reading is trusted, since nothing else is known. Age counts after a delay as long as the store was
        unused, at most an hour, so that a wrong clock can be corrected first.
        """
        now = self._steady()
        offset = (self._wall() if store_time is None else store_time) - now
        if self._seq < 0:
            self._offset, self._begin = offset, now
            self._settled = now + min(max(offset + now - at, 0.0), STEADY) if seq else now
        self._follow(now, offset, seq > self._seq and abs(at - offset - now) <= MOST_SKEW)
        self._seq = seq
        self._ahead = ahead if (ahead := at - self._offset - now) > MOST_SKEW else 0.0
        if self._away or self._ahead:
            self._settled = now + STEADY

    def _follow(self, now: float, offset: float, confirmed: bool) -> None:
        """Adopt an offset that differs little, or has lasted as long as the previous one, at most an hour.

        `confirmed`: another worker, with its own steady timer, has just written an event at this time. Then this
        worker was stopped for a while, or started with a wrong clock.
        """
        self._away = 0.0
        if abs(offset - self._offset) <= MOST_SKEW:
            self._offset, self._jump = offset, None
            return
        if self._jump is None or abs(offset - self._jump.offset) > MOST_SKEW:
            self._jump = _Jump(offset, now)
        lasted, before = now - self._jump.begin, self._jump.begin - self._begin
        if confirmed or lasted >= min(before, STEADY):
            self._offset, self._begin, self._jump, self._settled = offset, self._jump.begin, None, now + STEADY
        else:
            self._away = offset - self._offset
