"""How sure a change is, by the log itself: what the same numbers say of its impressions drawn at random, and of
others.

A Bayes factor promises that s nats come by chance once in e^s times. Where items are many and each is seen rarely,
or where taste drifts all the time, it may not keep that. So the evidence of a stretch is compared with that of
impressions drawn at random from the usual ones (as a permutation of the log would put them there), and with that of
usual stretches as long as it: their mean excess, at least 1 as promised, is the scale on which nats count.
"""

import math

import numpy as np

from ...arrays import Ints
from ..impressions import Impressions
from .attention import Slots
from .explanations import Usual, explain, gathered, looks_of

PERMUTED_DRAWS = 24  # of impressions at random, and as many stretches where the log has them
LONGEST = 2_000  # impressions of a draw: as many show how evidence behaves


def scale_of_chance(
    impressions: Impressions, slots: Slots, usual: Usual, free: Ints, size: int, rng: np.random.Generator
) -> float:
    """Nats, at least 1, that are worth what one nat promises. `free`: the usual impressions, in order.

    O(PERMUTED_DRAWS LONGEST) looks.
    """
    size = min(size, LONGEST, free.size // 2)
    if size < 8:
        return 1.0

    def nats(chosen: Ints) -> float:
        return max(
            explain(usual, gathered(*looks_of(impressions, slots, np.sort(chosen)), slots.n)).after_places, 0.0
        )

    shuffled = [nats(rng.choice(free, size, replace=False)) for _ in range(PERMUTED_DRAWS)]
    starts = np.linspace(0, free.size - size, min(PERMUTED_DRAWS, free.size // size)).astype(np.int64)
    along = sorted(nats(free[start : start + size]) for start in starts.tolist())
    kept = along[: max(1, 9 * len(along) // 10)]  # one of them may be an attack that was not found
    return max(1.0, float(np.mean(shuffled)), float(np.mean(kept)))


def certainty(nats: float, scale: float, stretches: float) -> float:
    """That evidence is no accident: 1 less the chance of as much in any of so many stretches."""
    return 1.0 - min(1.0, max(stretches, 1.0) * math.exp(-max(nats, 0.0) / scale))
