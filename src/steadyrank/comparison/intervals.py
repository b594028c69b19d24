"""Intervals of a mean over seeds."""

import numpy as np

from ..core.arrays import Floats

_STUDENT = (
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


def half_width(values: Floats) -> Floats:
    """Half a 95 % interval of the mean over the last axis, by Student's law; nan for one value."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(student(n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n))


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's law: tabulated to 30 degrees of freedom, then within 0.001."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + (z**3 + z) / (4 * freedom) + second  # Cornish and Fisher's expansion
