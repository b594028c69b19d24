"""The engine's scores, relative to the usual score at a candidate's place."""

import functools
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.refusals import Refused

SCORE_BITS = 8
NO_SCORE, USUAL, STEPS = 0, 128, 32.0  # codes: no score, the usual score of a place; steps per standard deviation
_FARTHEST = 127  # largest distance from USUAL, in steps


def steps_of(scores: Sequence[float] | None, size: int) -> Ints:
    """For each of `size` candidates in the engine's order, a step from 1 to 255; NO_SCORE if no scores are given.

    Scores are standardised, minus the expected normal score of that rank (Blom 1958, "Statistical estimates and
    transformed beta-variables"): so any scale of scores will do, and what places tell already is removed. O(size).
    """
    if scores is None:
        return np.zeros(size, np.int64)
    given = _checked(scores, size)
    given = given / max(float(np.abs(given).max()), 1e-300)
    spread = float(given.std())
    if spread <= 1e-9:
        return np.full(size, USUAL, np.int64)
    beyond = (given - given.mean()) / spread - _normal_scores(size)
    steps: Ints = USUAL + np.clip(np.rint(STEPS * beyond), -_FARTHEST, _FARTHEST).astype(np.int64)
    return steps


def coded(items: Ints, steps: Ints) -> Ints:
    """Codes: the id of each item and the step of its score in one integer below 2^53."""
    codes: Ints = items << SCORE_BITS | steps
    return codes


@functools.lru_cache(200)
def _normal_scores(size: int) -> Floats:
    """Approximate expected values of `size` independent standard normal numbers, largest first."""
    quantile = NormalDist().inv_cdf
    return np.array([quantile((size - rank - 0.375) / (size + 0.25)) for rank in range(size)])


def _checked(scores: Any, size: int) -> Floats:
    try:
        given = np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        raise Refused(422, f"scores must be numbers, not {scores!r:.80}") from None
    if given.shape != (size,) or not np.isfinite(given).all():
        raise Refused(422, f"scores must be one finite number for each of the {size} candidates, not {scores!r:.80}")
    return given
