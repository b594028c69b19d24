"""Which impressions are older than a delay."""

from collections import deque


class DelayQueue:
    """Which impressions are older than a delay, in seconds: a queue of at most some 1,000 moments."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.moments: deque[tuple[float, int]] = deque()  # at this time, this number was the latest

    def note(self, now: float, number: int) -> None:
        """Impressions up to this number are there now."""
        if len(self.moments) > 1 and now - self.moments[-2][0] < self.delay / 500:
            self.moments[-1] = (now, number)
        else:
            self.moments.append((now, number))

    def due(self, now: float) -> int:
        """The latest number older than the delay that was not named before; 0 if there is none."""
        number = 0
        while self.moments and now - self.moments[0][0] >= self.delay:
            number = self.moments.popleft()[1]
        return number
