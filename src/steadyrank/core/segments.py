"""Records with a row a segment, and which segment a visit belongs to."""

from typing import Any

import numpy as np
from numba.extending import overload

from .compiling.intrinsics import row_of
from .compiling.jit import no_refcount

SEGMENT = -2  # the place of a note that says which segment its list was for
REST = 0  # the segment of visits of which none is known
MOST_SEGMENTS = 64  # beside that one: each costs the memory of a learner


def stacked(record: Any, n: int) -> Any:
    """A record each of whose arrays is n times that of another, one below the other.

    Zeros are not copied: memory of large arrays is taken only where it is written.
    """
    if isinstance(record, np.ndarray):
        copies = np.zeros((n, *record.shape), record.dtype)
        if record.any():
            copies[:] = record
        return copies
    return type(record)(*(stacked(value, n) for value in record)) if isinstance(record, tuple) else record


def row(record: Any, s: int) -> Any:
    """The record of row s of a `stacked` one: the same memory."""
    if isinstance(record, np.ndarray):
        return record[s]
    return type(record)(*(row(value, s) for value in record)) if isinstance(record, tuple) else record


@overload(row)
def _compiled_row(record, s):
    return lambda record, s: row_of(record, s)


@no_refcount
def segment_at(numbers, place, n):
    """The segment that this place of an array names, one of n; REST if it names none."""
    if numbers.size == 0:
        return REST
    named = numbers[place]
    return int(named) if 0.0 < named < n else REST


@no_refcount
def segment_told(visit, note, n):
    """The segment of a visit that is learnt from: its list's note says it, or else the visit itself."""
    s = segment_at(note, SEGMENT, n)
    return s if s != REST else segment_at(visit.features, 0, n)
