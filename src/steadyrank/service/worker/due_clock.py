"""When impressions of a board are settled or over, by a worker's own clock."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from ...live.delay_queue import DelayQueue
from ..board import events
from ..board.events import AnyEvent

_AT_ONCE = 2_000  # impressions settled or expired by one event: applying it must not take long
_PARTS = 8  # into which a delay is divided for a board that sleeps


class Reached(NamedTuple):
    """How far the impressions of a board have come."""

    last: int  # number of the latest one
    over: int
    settled: int


class DueClock:
    """Which impressions are due; delays count from when this worker saw them."""

    def __init__(self) -> None:
        self._queues: dict[str, DelayQueue] = {}
        self._due: dict[str, int] = {}

    def due(self, now: float, reached: Reached, lifetime: float, settle: float) -> Iterator[AnyEvent]:
        """Events that say which impressions are settled or over; the same again until the log has them."""
        for kind, delay, upto in (("over", lifetime, reached.over), ("settled", settle, reached.settled)):
            queue = self._queues.get(kind)
            if queue is None or queue.delay != delay:
                queue = self._queues[kind] = DelayQueue(delay)
            number = self._due[kind] = max(queue.due(now), self._due.get(kind, 0))
            if not queue.moments or queue.moments[-1][1] < reached.last:
                queue.note(now, reached.last)
            if number > upto and kind == "over":
                yield events.Expired(min(number, upto + _AT_ONCE))
            elif number > upto and 0 < delay < lifetime:
                yield events.Settled(min(number, upto + _AT_ONCE))

    def next(self, reached: Reached) -> float:
        """When something is due next, if nothing else happens; infinite if nothing is open."""
        over, settled = self._queues.get("over"), self._queues.get("settled")
        at = math.inf
        if over is not None:
            at = min([t + over.delay for t, number in over.moments if number > reached.over], default=math.inf)
            if settled is not None and 0 < settled.delay < over.delay:
                waiting = [t + settled.delay for t, number in settled.moments if number > reached.settled]
                at = min([at, *waiting])
        return at

    def thin(self) -> None:
        """Take few bytes: moments within an eighth of a delay become one, the latest of them."""
        for queue in self._queues.values():
            kept: list[tuple[float, int]] = []
            for moment in queue.moments:
                if len(kept) > 1 and moment[0] - kept[-2][0] < queue.delay / _PARTS:
                    kept[-1] = moment
                else:
                    kept.append(moment)
            queue.moments.clear()
            queue.moments.extend(kept)
