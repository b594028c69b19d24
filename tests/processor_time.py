"""What a run of the tests costs: the seconds of processor time of its processes, whole and by file of tests.

The time of a process counts with those of the processes that it began; where there is no /proc, those that still run
count when they end. PostgreSQL leaves its parent, and is not in it, as it is not in the shell's `time`.
"""

import collections
import os
import pathlib

_TICKS = os.sysconf("SC_CLK_TCK")


def _children(pid):
    """The processes that this one began and that still run; none where the system does not say."""
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += task.read_text().split()
        except OSError:  # it has just ended
            continue
    return children


def _below(pid):
    """Seconds of what a process began and what still runs: a process counts all that it waited for."""
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
    """Seconds by file of tests, in one process; what comes before the first file is there as ''."""

    def __init__(self):
        self._seconds, self._file, self._since = collections.Counter(), "", 0.0

    def turn_to(self, file):
        """What is spent from here on is another file's."""
        if file != self._file:
            now = spent()
            self._seconds[self._file] += now - self._since
            self._file, self._since = file, now

    def close(self):
        """What each file took; the processes that the last one shared with others have ended."""
        self.turn_to(None)
        return dict(self._seconds)


def told(seconds):
    """Lines for the end of a run, of the seconds of all files."""
    files = collections.Counter({file: taken for file, taken in seconds.items() if file})
    yield f"{seconds.total():.0f} s in all, {seconds['']:.0f} of them before the tests; most in:"
    for file, taken in files.most_common(10):
        yield f"{taken:6.1f} s  {file}"
