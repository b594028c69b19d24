"""Processor time of a test run: total seconds of its processes, and by test file.

A process's time includes that of its children; without /proc, children that still run count
when they end. PostgreSQL detaches from its parent, and is not counted, as in the shell's `time`.
"""

import collections
import os
import pathlib

_TICKS = os.sysconf("SC_CLK_TCK")


def _children(pid):
    """The running children of a process; none if the system does not tell."""
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += task.read_text().split()
        except OSError:  # it has just ended
            continue
    return children


def _below(pid):
    """Seconds of a process's running descendants: ended ones are part of their parents' time."""
    total = 0.0
    for child in _children(pid):
        try:
            fields = pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / _TICKS + _below(child)
    return total


def spent():
    """Seconds of processor time of this process and all below it."""
    return sum(os.times()[:4]) + _below(os.getpid())


class Account:
    """Seconds by test file, in one process; time before the first file is under ''."""

    def __init__(self):
        self._seconds, self._file, self._since = collections.Counter(), "", 0.0

    def turn_to(self, file):
        """Account time from now on to another file."""
        if file != self._file:
            now = spent()
            self._seconds[self._file] += now - self._since
            self._file, self._since = file, now

    def close(self):
        """Seconds of each file; call it after shared processes have ended."""
        self.turn_to(None)
        return dict(self._seconds)


def told(seconds):
    """Summary lines for the end of a run."""
    files = collections.Counter({file: taken for file, taken in seconds.items() if file})
    yield f"{seconds.total():.0f} s in all, {seconds['']:.0f} of them before the tests; most in:"
    for file, taken in files.most_common(10):
        yield f"{taken:6.1f} s  {file}"
