"""Map ratings to attractions: a Bayesian average, then a named sigmoid.

The paper names both steps but gives no constants (appendix, "Computing click probabilities"), so the choices here are
ours, and each has a name that is shown with every curve.
"""

import math
import re
import statistics
from collections.abc import Sequence

from ...core.settings import choice

MAPPINGS = {
    "centred": "sigmoid((r - mean) / sd)",
    "moderate": "sigmoid(r - 5)",
    "saturated": "sigmoid(r - 3)",
    "sparse": "sigmoid(3 (r - mean) - 3)",
}
DEFAULT = "moderate"
_SHIFTED = re.compile(r"centred([+-]\d+(?:\.\d+)?)")  # centred-1, centred+0.5: more or fewer items above one half


def is_shifted(mapping: str) -> bool:
    """Whether the mapping is `centred` shifted by a number."""
    return _SHIFTED.fullmatch(mapping) is not None


def formula(mapping: str) -> str:
    """The formula of attraction from Bayesian averages `r`; the name itself if the mapping does not use ratings."""
    shift = _SHIFTED.fullmatch(mapping)
    if shift:
        return f"sigmoid((r - mean) / sd {shift[1][0]} {shift[1][1:]})"
    return MAPPINGS.get(mapping, mapping)


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


def bayesian_averages(ratings: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Each item's mean rating, shrunk to the mean of all with the weight of the median number of ratings.

    (w m + n r) / (w + n) with m the mean of `ratings` and w the median of `counts`: the form of the IMDb's weighted
    rating, which the paper cites.
    """
    prior = math.fsum(ratings) / len(ratings)
    weight = statistics.median(counts)
    return [(weight * prior + n * r) / (weight + n) for r, n in zip(ratings, counts, strict=True)]


def attractions(averages: Sequence[float], mapping: str) -> list[float]:
    """Click probabilities of Bayesian averages `r` by the `formula` of the mapping.

    `mapping`: one of `MAPPINGS`, or `centred` shifted by a number, as in `centred-1`. mean and sd are those of r, sd
    being that of the population; if all r are equal, `centred` gives 1/2 to each.
    """
    shift = _SHIFTED.fullmatch(mapping)
    if shift is None:
        choice("mapping", mapping, MAPPINGS)
    if mapping == "moderate":
        return [sigmoid(r - 5.0) for r in averages]
    if mapping == "saturated":
        return [sigmoid(r - 3.0) for r in averages]
    mean = math.fsum(averages) / len(averages)
    if mapping == "sparse":
        return [sigmoid(3.0 * (r - mean) - 3.0) for r in averages]
    sd = math.sqrt(math.fsum((r - mean) ** 2 for r in averages) / len(averages))
    by = float(shift[1]) if shift else 0.0
    return [sigmoid((r - mean) / sd + by if sd > 0.0 else by) for r in averages]
