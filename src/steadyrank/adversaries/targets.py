"""The items that an adversary promotes or demotes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import Bools, Floats
from ..core.settings import real, whole


def choose_targets(targets: str | Sequence[int], share: float, attraction: Floats, length: int) -> Bools:
    """The chosen items, bool[K]: the least attractive `share` (`bottom`), the `best` list, the `worst`, or numbers.

    Numbers are a sequence, or text such as `3+17+204`. At least one item is chosen.
    """
    k = attraction.size
    chosen = np.zeros(k, np.bool_)
    order = np.argsort(-attraction, kind="stable")
    share = real("share", share, 0.0, 1.0)
    word = targets if isinstance(targets, str) else ""
    if word == "bottom":
        chosen[order[k - max(1, round(share * k)) :]] = True
    elif word == "best":
        chosen[order[:length]] = True
    elif word == "worst":
        chosen[order[-1]] = True
    else:
        for item in _numbers(targets):
            chosen[whole("targets", item, 0, k - 1)] = True
    return chosen


def _numbers(targets: Any) -> Sequence[Any]:
    if isinstance(targets, int):
        return [targets]
    if isinstance(targets, str):
        parts = targets.split("+")
        if all(part.strip().isdigit() for part in parts):
            return [int(part) for part in parts]
    elif isinstance(targets, (list, tuple, range, np.ndarray)) and len(targets) > 0:
        return list(targets)
    raise ValueError(f"targets must be 'bottom', 'best', 'worst' or item numbers such as [3, 17], not {targets!r}")
