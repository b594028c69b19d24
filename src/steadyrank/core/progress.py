"""A progress bar with the remaining time on a terminal; an occasional line elsewhere."""

import threading
import time
from collections.abc import Callable
from typing import TextIO


class Progress:
    """Counts finished jobs of `total` and shows progress on `stream`; thread-safe."""

    def __init__(self, total: int, label: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.label, self.stream, self.clock = total, label, stream, clock
        self.done = 0
        self.started = clock()
        self._terminal = stream.isatty()
        self._next = 0.0
        self._lock = threading.Lock()
        self._depth = 0
        self._since = self._compiled = 0.0

    def step(self, amount: int = 1) -> None:
        """Count `amount` more jobs."""
        with self._lock:
            self.done += amount
            self._show(self._remaining())

    def compiling(self, begins: bool) -> None:
        """Note that the compiler begins, or ends, a function, possibly nested.

        Its time is excluded from the estimate for the remaining jobs, because it happens once.
        """
        with self._lock:
            now = self.clock()
            if self._depth == 0:
                self._since = now
            self._depth += 1 if begins else -1
            if self._depth == 0:
                self._compiled += now - self._since
            else:
                self._show(f"compiling, once: {duration(self._compiled + now - self._since)} so far")

    def _remaining(self) -> str:
        now = self.clock()
        compiled = self._compiled + (now - self._since if self._depth else 0.0)
        spent = max(0.0, now - self.started - compiled)
        return f"{duration(spent / max(self.done, 1) * (self.total - self.done))} left"

    def _show(self, words: str) -> None:
        elapsed = self.clock() - self.started
        if elapsed < self._next and self.done < self.total:
            return
        self._next = elapsed + (0.1 if self._terminal else 10.0)
        filled = 24 * self.done // self.total
        bar = "█" * filled + "·" * (24 - filled)
        text = f"{self.label:<24.24} {bar} {self.done}/{self.total}  {words}"
        self.stream.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Write a final line with the total time."""
        took = f"{self.label:<24.24} {self.done}/{self.total} in {duration(self.clock() - self.started)}"
        if self._compiled:
            took += f", {duration(self._compiled)} of it for compiling"
        self.stream.write(f"\r{took}\x1b[K\n" if self._terminal else f"{took}\n")
        self.stream.flush()


def duration(seconds: float) -> str:
    """Format a duration for people."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
