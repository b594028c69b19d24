"""Timing of lists: when their answers are learnt from, and when they can no longer be answered."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..core.arrays import Floats, Ints
from ..core.contract import Visit
from ..core.settings import real
from .impression_buffer import ImpressionBuffer


class DelayQueue:
    """Which impressions are older than a delay, in seconds: a queue of at most about 1,000 timestamps."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.moments: deque[tuple[float, int]] = deque()  # time, and the latest number at that time

    def record(self, now: float, number: int) -> None:
        """Record that impressions up to this number exist now."""
        if len(self.moments) > 1 and now - self.moments[-2][0] < self.delay / 500:
            self.moments[-1] = (now, number)
        else:
            self.moments.append((now, number))

    def due(self, now: float) -> int:
        """The latest number older than the delay that was not returned before; 0 if there is none."""
        number = 0
        while self.moments and now - self.moments[0][0] >= self.delay:
            number = self.moments.popleft()[1]
        return number


class Delays:
    """The delays of a ranker inside a process: `settle` and `lifetime`, in seconds of `clock`.

    Without a lifetime answers never wait and never expire; without `settle`, it equals the lifetime.
    """

    def __init__(self, lifetime: float | None, settle: float | None, clock: Callable[[], float]) -> None:
        if settle is not None and lifetime is None:
            raise ValueError(f"settle={settle!r} needs a lifetime: without one an unanswered list would wait forever")
        self.lifetime = None if lifetime is None else real("lifetime", lifetime, 0.0)
        self.settle = self.lifetime if settle is None else real("settle", settle, 0.0, self.lifetime)
        self.clock = clock
        both = () if self.settle is None or self.lifetime is None else (self.settle, self.lifetime)
        self.queues = tuple(DelayQueue(delay) for delay in both)

    @property
    def in_order(self) -> bool:
        """Whether answers wait, so that they are learnt in the order of their lists."""
        return bool(self.queues)

    def show(self, impressions: ImpressionBuffer, visit: Visit, ranking: Ints, note: Floats) -> int:
        """Record a list shown now; returns its number."""
        number = impressions.shown(visit, ranking, note)
        for queue in self.queues:
            queue.record(self.clock(), number)
        return number

    def pass_time(self, impressions: ImpressionBuffer) -> None:
        """Expire and settle the impressions that are due: expired ones first, answered or not, in order."""
        if self.queues:
            now, (settled, over) = self.clock(), self.queues
            impressions.expire(over.due(now))
            impressions.settle(settled.due(now))

    def keep(self) -> dict[str, Any]:
        """The state as JSON, without the clock: timestamps become ages."""
        now = self.clock()
        moments = [[[now - then, number] for then, number in queue.moments] for queue in self.queues]
        return {"lifetime": self.lifetime, "settle": self.settle, "delays": moments}

    @classmethod
    def restore(cls, kept: Mapping[str, Any], clock: Callable[[], float]) -> "Delays":
        """Restore what `keep` returned, with another clock."""
        delays, now = cls(kept["lifetime"], kept["settle"], clock), clock()
        for queue, moments in zip(delays.queues, kept["delays"], strict=True):
            queue.moments.extend((now - age, number) for age, number in moments)
        return delays
