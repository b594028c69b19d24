"""State of an attacker on optimistic learners: honest statistics, and the clicks hidden of each item.

Jun, Li, Ma, Zhu 2018 (attack on UCB), rounded to bits as Zuo et al. 2023 do: a click is hidden whenever the
item's mean is not yet below the target's.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Ints
from ..core.compiling.jit import kernel
from ..core.kernels import count_bits


class Poison(NamedTuple):
    """Honest counts of each item, and the clicks hidden so far."""

    target: Bools  # [K] items to be made attractive
    looks: Ints  # [K] observations before the attack
    clicks: Ints  # [K] clicks before the attack
    hidden: Ints  # [K] clicks hidden
    margin: float  # Delta_0
    delta: float

    @classmethod
    def create(cls, target: Bools, margin: float, delta: float) -> "Poison":
        """Nothing seen, nothing hidden."""
        zeros = np.zeros(target.size, np.int64)
        return cls(target, zeros, zeros.copy(), zeros.copy(), float(margin), float(delta))


@kernel
def floor_of_targets(book):
    """The lowest (m_q - 2 beta(n_q) - Delta_0)_+ of the targets; beta(n) = sqrt(log(pi^2 K n^2 / (3 delta)) / 2n)."""
    lowest = np.inf
    for q in range(book.target.size):
        if book.target[q]:
            n = book.looks[q]
            bound = 0.0
            if n > 0:
                width = math.sqrt(math.log(math.pi**2 * book.target.size * n * n / (3.0 * book.delta)) / (2.0 * n))
                bound = max(book.clicks[q] / n - 2.0 * width - book.margin, 0.0)
            lowest = min(lowest, bound)
    return lowest


@kernel
def watch(book, ranking, clicks, examined):
    """Count the honest visit."""
    count_bits(book.looks, book.clicks, ranking, clicks, examined)


@kernel
def hides(book, k):
    """Decide whether to hide a click on item k, and count it if so.

    Hides a click on a non-target while its mean, after the clicks hidden so far, is above the targets' floor: alpha >
    0 in Jun et al.
    """
    if book.target[k]:
        return False
    if book.clicks[k] - book.hidden[k] - book.looks[k] * floor_of_targets(book) <= 0.0:
        return False
    book.hidden[k] += 1
    return True
