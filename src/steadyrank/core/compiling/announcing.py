"""Tell users on the standard error stream that the compiler is running, once it takes longer than a second.

Separate from `jit`, because a change of that module invalidates all cached code.
"""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator

from .jit import cache_root, told_of_compiling

_DELAY = 1.0  # seconds of compiling before the message
_unannounced: list[None] = []  # one entry per open `unannounced`


@contextlib.contextmanager
def unannounced() -> Iterator[None]:
    """While open, `announcing` prints nothing, because the caller does."""
    _unannounced.append(None)
    try:
        yield
    finally:
        _unannounced.pop()


@contextlib.contextmanager
def announcing(what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """While open, report that `what` is compiled once that takes a second; silent in workers of a pool."""
    if _unannounced or multiprocessing.parent_process() is not None:
        yield
        return
    began: list[float] = []
    printed: list[float] = []  # times of messages
    shown = sys.stderr.isatty()

    def tell(begins: bool) -> None:
        now = clock()
        if not began:
            began.append(now)
        if now - (printed[-1] if printed else began[0]) <= _DELAY or (printed and not shown):
            return
        printed.append(now)
        words = f"steadyrank: compiling {what}, once on this machine: up to a minute, longer if it is busy"
        # a line with a running time, in place of a progress bar
        sys.stderr.write(f"\r\x1b[K{words} ({now - began[0]:.0f} s) ..." if shown else f"{words} ...\n")
        sys.stderr.flush()

    try:
        with told_of_compiling(tell):
            yield
    finally:
        if printed:
            clear = "\r\x1b[K" if shown else ""
            sys.stderr.write(f"{clear}steadyrank: compiled in {clock() - began[0]:.0f} s, kept in {cache_root()}\n")
