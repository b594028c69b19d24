"""A change test on each item's bits, and a common restart: shared by the GLRT learners.

The generalised likelihood ratio of n bits with S ones is the maximum over splits s of s kl(S_s / s, S / n) + (n - s)
kl((S - S_s) / (n - s), S / n), kl between Bernoulli distributions. All splits of all bits would take O(n) a bit and
as much memory. Public code of the test tries every fifth or tenth split every tenth round. Here the splits are the
multiples of the smallest power of two that leaves at most 31 of them, and an item is tested at every fifth of its
bits: at most 31 splits a test, six a bit, and 128 bytes an item. Neighbouring splits are at most n / 16 bits apart.
"""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core.arrays import Counts, Ints
from ...core.compiling.jit import no_refcount
from ...core.settings import choice, real

ROOM = 32  # prefix sums kept of an item's bits, one more than splits
EVERY = 5  # bits of an item between two tests
RESTART, RESTARTS = range(2)  # indices in `clock`
UNKNOWN = 40_000  # horizon assumed by default settings if it is unknown: that of the paper's evaluation

Threshold: TypeAlias = Literal["practical", "theory"]
PRACTICAL, THEORY = range(2)


class BitHistory(NamedTuple):
    """Summary of each item's bits since the latest restart."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    sums: Counts  # [K, ROOM] clicks among an item's first 1, 2, 3, ... times `spacing` bits
    spacing: Ints  # [K]
    clock: Ints  # [2] round of the latest restart, 0 before the first; number of restarts

    @classmethod
    def create(cls, n_items: int) -> "BitHistory":
        """No bits yet."""
        counts = np.zeros(n_items, np.int64), np.zeros(n_items, np.int64)
        return cls(*counts, np.zeros((n_items, ROOM), np.int32), np.ones(n_items, np.int64), np.zeros(2, np.int64))


class ChangeTest(NamedTuple):
    """Settings: how sure the test must be, and how often lists are drawn uniformly so that it sees all items."""

    log_delta: float
    threshold: int  # index in Threshold
    p: float

    @classmethod
    def create(
        cls, n_items: int, horizon: int, p: float | None, delta: float | None, threshold: Threshold
    ) -> "ChangeTest":
        """`p` is sqrt(K log T / T) and `delta` 1 / T, if not given."""
        rounds = horizon or UNKNOWN
        p = min(math.sqrt(n_items * math.log(rounds) / rounds), 1.0) if p is None else real("p", p, 0.0, 1.0)
        delta = 1.0 / rounds if delta is None else real("delta", delta, 1e-300, 1.0)
        return cls(math.log(delta), choice("threshold", threshold, get_args(Threshold)), p)


@no_refcount
def level_of(test, n):
    """The threshold for the ratio of n bits; x = log(3 n sqrt(n) / delta).

    `practical`: x itself, as in public code of the test. `theory`: 2 J(x / 2) + 6 log(1 + log n) (Besson et al.
    2022), with the approximation J(y) = y + 4 log(1 + y + sqrt(2 y)) for y of at least 5 (Kaufmann, Koolen 2021).
    """
    x = math.log(3.0) + 1.5 * math.log(n) - test.log_delta
    if test.threshold == PRACTICAL:
        return x
    y = 0.5 * x
    return 2.0 * (y + 4.0 * math.log(1.0 + y + math.sqrt(2.0 * y))) + 6.0 * math.log(1.0 + math.log(n))


@no_refcount
def likelihood(ones, n):
    """Logarithm of the maximum likelihood of n bits with so many ones."""
    zeros = n - ones
    a = ones * math.log(ones / n) if ones > 0 else 0.0
    return a + (zeros * math.log(zeros / n) if zeros > 0 else 0.0)


@no_refcount
def likelihood_ratio(history, k):
    """The generalised likelihood ratio of item k's bits, over the splits kept."""
    n, ones, spacing = history.looks[k], history.clicks[k], history.spacing[k]
    most, whole = 0.0, likelihood(ones, n)
    for i in range(n // spacing):
        s, before = spacing * (i + 1), history.sums[k, i]
        if s < n:
            most = max(most, likelihood(before, s) + likelihood(ones - before, n - s) - whole)
    return most


@no_refcount
def append_bit(history, k, bit):
    """Append a bit of item k; if there is no room, drop every second split first."""
    history.looks[k] += 1
    history.clicks[k] += 1 if bit else 0
    n, spacing = history.looks[k], history.spacing[k]
    if n % spacing == 0:
        history.sums[k, n // spacing - 1] = history.clicks[k]
        if n == spacing * ROOM:
            for i in range(ROOM // 2):
                history.sums[k, i] = history.sums[k, 2 * i + 1]
            history.spacing[k] = 2 * spacing


@no_refcount
def restart(history, t):
    """Forget all bits, since users have changed by round t."""
    for k in range(history.looks.size):
        history.looks[k] = history.clicks[k] = 0
        history.spacing[k] = 1
    history.clock[RESTART] = t
    history.clock[RESTARTS] += 1


@no_refcount
def learn_or_restart(history, test, t, ranking, clicks, examined):
    """Append the bits of round t, item by item; restart if the test of one detects a change."""
    if t <= history.clock[RESTART]:
        return  # a late answer, to a list from before the restart
    for p in range(examined):
        k = ranking[p]
        append_bit(history, k, clicks[p])
        n = history.looks[k]
        if n % EVERY == 0 and likelihood_ratio(history, k) > level_of(test, n):
            restart(history, t)
            return
