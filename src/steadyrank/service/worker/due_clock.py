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
        self._longer: list[DelayQueue] = []  # of impressions shown while the lifetime was longer, in order
        self._due: dict[str, int] = {}

    def due(self, now: float, reached: Reached, lifetime: float, settle: float) -> Iterator[AnyEvent]:
        """Events that say which impressions are settled or over; the same again until the log has them."""
        for kind, delay, upto in (("over", lifetime, reached.over), ("settled", settle, reached.settled)):
            queue = self._queues.get(kind)
            if queue is None or queue.delay != delay:
                if kind == "over" and queue is not None and delay < queue.delay:
                    _note(queue, now, reached.last)
                    self._longer.append(queue)  # ids that were given out say for how long they can be answered
                queue = self._queues[kind] = DelayQueue(delay)
            longer = self._still_longer(reached.over) if kind == "over" else None
            number = self._due[kind] = max((longer or queue).due(now), self._due.get(kind, 0))
            _note(queue, now, reached.last)
            if number > upto and kind == "over":
                yield events.Expired(min(number, upto + _AT_ONCE))
            elif number > upto and 0 < delay < lifetime:
                yield events.Settled(min(number, upto + _AT_ONCE))

    def _still_longer(self, over: int) -> DelayQueue | None:
        """The queue of a longer lifetime whose impressions are not all over yet, if there is any."""
        while self._longer and (not self._longer[0].moments or self._longer[0].moments[-1][1] <= over):
            self._longer.pop(0)
        return self._longer[0] if self._longer else None

    def next(self, reached: Reached) -> float:
        """When something is due next, if nothing else happens; infinite if nothing is open."""
        over, settled = self._queues.get("over"), self._queues.get("settled")
        at = math.inf
        if over is not None:
            first = self._still_longer(reached.over) or over
            at = min([t + first.delay for t, number in first.moments if number > reached.over], default=math.inf)
            if settled is not None and 0 < settled.delay < over.delay:
                waiting = [t + settled.delay for t, number in settled.moments if number > reached.settled]
                at = min([at, *waiting])
        return at

    def thin(self) -> None:
        """Take few bytes: moments within an eighth of a delay become one, the latest of them."""
        for queue in (*self._queues.values(), *self._longer):
            kept: list[tuple[float, int]] = []
            for moment in queue.moments:
                if len(kept) > 1 and moment[0] - kept[-2][0] < queue.delay / _PARTS:
                    kept[-1] = moment
                else:
                    kept.append(moment)
            queue.moments.clear()
            queue.moments.extend(kept)


def _note(queue: DelayQueue, now: float, last: int) -> None:
    """Impressions up to the last one are there now, if they were not before."""
    if not queue.moments or queue.moments[-1][1] < last:
        queue.note(now, last)
