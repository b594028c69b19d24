"""Records with one row per segment, and the segment of a visit."""

from typing import Any

import numpy as np
from numba.extending import overload

from .compiling.intrinsics import row_of
from .compiling.jit import no_refcount

SEGMENT = -2  # index in a note of the segment that its list was for
REST = 0  # the segment of visits without a known one
MOST_SEGMENTS = 64  # besides that one: each costs the memory of a learner


def stacked(record: Any, n: int) -> Any:
    """A record whose arrays are those of `record` repeated n times along a new first axis.

    Zeros are not copied: memory of large arrays is committed only where it is written.
    """
    if isinstance(record, np.ndarray):
        copies = np.zeros((n, *record.shape), record.dtype)
        if record.any():
            copies[:] = record
        return copies
    return type(record)(*(stacked(value, n) for value in record)) if isinstance(record, tuple) else record


def row(record: Any, s: int) -> Any:
    """The record in row s of a `stacked` one, sharing its memory."""
    if isinstance(record, np.ndarray):
        return record[s]
    return type(record)(*(row(value, s) for value in record)) if isinstance(record, tuple) else record


@overload(row)
def _compiled_row(record, s):
    return lambda record, s: row_of(record, s)


@no_refcount
def segment_at(numbers, place, n):
    """The segment named at this index of an array, one of n; REST if there is none."""
    if numbers.size == 0:
        return REST
    named = numbers[place]
    return int(named) if 0.0 < named < n else REST


@no_refcount
def segment_told(visit, note, n):
    """The segment of a visit to learn from: from the note of its list, else from the visit."""
    s = segment_at(note, SEGMENT, n)
    return s if s != REST else segment_at(visit.features, 0, n)
