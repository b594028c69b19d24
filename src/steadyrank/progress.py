"""A progress bar with the remaining time, on a terminal; a line now and then elsewhere."""

import time
from collections.abc import Callable
from typing import TextIO


class Progress:
    """Counts finished jobs of `total` and shows how far it is on `stream`."""

    def __init__(self, total: int, label: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.label, self.stream, self.clock = total, label, stream, clock
        self.done = 0
        self.started = clock()
        self._terminal = stream.isatty()
        self._next = 0.0

    def step(self, amount: int = 1) -> None:
        """Count `amount` more jobs."""
        self.done += amount
        elapsed = self.clock() - self.started
        if elapsed < self._next and self.done < self.total:
            return
        self._next = elapsed + (0.1 if self._terminal else 10.0)
        left = elapsed / max(self.done, 1) * (self.total - self.done)
        filled = 24 * self.done // self.total
        bar = "█" * filled + "·" * (24 - filled)
        text = f"{self.label:<24.24} {bar} {self.done}/{self.total}  {_span(left)} left"
        self.stream.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave a line that says how long it took."""
        took = f"{self.label:<24.24} {self.done}/{self.total} in {_span(self.clock() - self.started)}"
        self.stream.write(f"\r{took}\x1b[K\n" if self._terminal else f"{took}\n")
        self.stream.flush()


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
