"""Tells people that they wait for the compiler: on the standard error stream, once a second has gone by.

It stands apart from `jit`, whose text decides about all compiled code that is kept.
"""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator

from .jit import cache_root, told_of_compiling

_SILENT = 1.0  # seconds of compiling that nobody is told of
_unannounced: list[None] = []  # one for each `unannounced` that is open


@contextlib.contextmanager
def unannounced() -> Iterator[None]:
    """While open, `announcing` says nothing: somebody else does."""
    _unannounced.append(None)
    try:
        yield
    finally:
        _unannounced.pop()


@contextlib.contextmanager
def announcing(what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """While open, say that `what` is compiled if it is, and takes a second; nothing in a worker of a pool."""
    if _unannounced or multiprocessing.parent_process() is not None:
        yield
        return
    began: list[float] = []
    said: list[float] = []  # when
    shown = sys.stderr.isatty()

    def tell(begins: bool) -> None:
        now = clock()
        if not began:
            began.append(now)
        if now - (said[-1] if said else began[0]) <= _SILENT or (said and not shown):
            return
        said.append(now)
        words = f"steadyrank: compiling {what}, once on this machine: up to a minute, longer where others work"
        # a line that counts; it takes the place of progress that is shown there
        sys.stderr.write(f"\r\x1b[K{words} ({now - began[0]:.0f} s) ..." if shown else f"{words} ...\n")
        sys.stderr.flush()

    try:
        with told_of_compiling(tell):
            yield
    finally:
        if said:
            clear = "\r\x1b[K" if shown else ""
            sys.stderr.write(f"{clear}steadyrank: compiled in {clock() - began[0]:.0f} s, kept in {cache_root()}\n")
