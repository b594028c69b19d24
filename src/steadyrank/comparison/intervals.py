"""Confidence intervals of a mean over seeds.

A comparison that is evaluated twice, adding seeds where the first time did not decide it, needs wider intervals: all
`looks` intervals hold together with a probability of at least 95 % (Bonferroni).
"""

import numpy as np

from ..core.arrays import Floats

_ONE_LOOK = (
    12.7062,
    4.3027,
    3.1824,
    2.7764,
    2.5706,
    2.4469,
    2.3646,
    2.3060,
    2.2622,
    2.2281,
    2.2010,
    2.1788,
    2.1604,
    2.1448,
    2.1314,
    2.1199,
    2.1098,
    2.1009,
    2.0930,
    2.0860,
    2.0796,
    2.0739,
    2.0687,
    2.0639,
    2.0595,
    2.0555,
    2.0518,
    2.0484,
    2.0452,
    2.0423,
)
_TWO_LOOKS = (25.4517, 6.2053, 4.1765, 3.4954, 3.1634, 2.9687, 2.8412, 2.7515, 2.6850, 2.6338)
_STUDENT = {1: _ONE_LOOK, 2: _TWO_LOOKS}
NORMAL = {1: 1.959964, 2: 2.241403}  # normal quantiles by number of looks


def half_width(values: Floats, looks: int = 1) -> Floats:
    """Half width of Student's t interval for the mean over the last axis, 95 % for one look; NaN for one value."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(student(n - 1, looks) * values.std(axis=-1, ddof=1) / np.sqrt(n))


def student(freedom: int, looks: int = 1) -> float:
    """The quantile of Student's t distribution for an interval: 97.5 % for one look, 98.75 % for two.

    Tabulated up to 30 or 10 degrees of freedom; beyond, the error is at most 0.001 or 0.005.
    """
    table, z = _STUDENT[looks], NORMAL[looks]
    if freedom <= len(table):
        return table[freedom - 1]
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + (z**3 + z) / (4 * freedom) + second  # Cornish and Fisher's expansion
