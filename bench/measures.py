"""Measures of what an audit finds: shares with intervals, and the overlap of reported and true rows."""

import math

import numpy as np

from steadyrank.core.arrays import Bools


def share_of(hits: int, of: int, digits: int = 1) -> str:
    """A share with its 95 % interval (Wilson 1927) as text; empty if `of` is 0."""
    if of == 0:
        return ""
    z2, p = 1.96**2, hits / of
    middle, half = p + z2 / (2 * of), math.sqrt(z2 * (p * (1 - p) / of + z2 / (4 * of * of)))
    low, high = ((middle + sign * half) / (1 + z2 / of) for sign in (-1, 1))
    return f"{hits:,} of {of:,} ({100 * max(low, 0.0):.{digits}f} to {100 * min(high, 1.0):.{digits}f} %)"


def overlap(told: Bools, truth: Bools) -> float:
    """The Jaccard index; 1 if both are empty."""
    either = int(np.count_nonzero(told | truth))
    return int(np.count_nonzero(told & truth)) / either if either else 1.0


def rows_between(start: int, end: int, n: int) -> Bools:
    """Which of n rows lie in an interval, bool[n]."""
    rows: Bools = np.zeros(n, np.bool_)
    rows[start:end] = True
    return rows
