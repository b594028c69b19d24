"""Shared arithmetic: ranking by an index, counting bits, confidence indices, KL bounds, cascades."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from .arrays import Floats, Ints
from .compiling.jit import kernel, no_refcount
from .settings import choice

__all__ = [
    "KL_CLOCK",
    "LOG_CLOCK",
    "IndexTable",
    "Ties",
    "any_click",
    "arrange",
    "cascade_like",
    "cascade_stop",
    "cascade_value",
    "count_bits",
    "counted",
    "deal",
    "deal_ties",
    "kl_lower",
    "kl_upper",
    "largest",
    "mean_index",
    "place_index",
    "psi",
    "rank_by_index",
    "tie_noise_of",
    "top",
    "top_allowed",
    "uncount_bits",
    "value_of",
]

Ties: TypeAlias = Literal["random", "number"]
LOG_CLOCK, KL_CLOCK = range(2)  # sqrt(log t) and log t; 0 and KL-UCB's log t + 3 log log t


def tie_noise_of(ties: Ties) -> float:
    """The factor of the uniforms that order equal indices: 1, or 0, which leaves them in item order."""
    return 1.0 - choice("ties", ties, get_args(Ties))


@no_refcount
def largest(index, ranking):
    """Write the items of the largest entries of `index` into `ranking`, best first, equal ones in item order.

    Returns how many entries not written equal the last one written. O(K + d^2) when `index` is in random order.
    """
    d = ranking.size
    filled = 0
    left_out = 0
    last = -np.inf
    for k in range(index.size):
        v = index[k]
        if filled == d:
            if v < last:
                continue
            if v == last:
                left_out += 1
                continue
            p = d - 1
        else:
            p = filled
            filled += 1
        while p > 0 and index[ranking[p - 1]] < v:
            ranking[p] = ranking[p - 1]
            p -= 1
        ranking[p] = k
        if filled == d:
            now = index[ranking[d - 1]]
            # an entry pushed out of the list still ties if its neighbour of equal value is now last
            left_out = left_out + 1 if now == last else 0
            last = now
    return left_out


@no_refcount
def deal(tied, size, ranking, start, stop, uniforms):
    """Fill places start to stop from the first `size` tied items, by steps of a Fisher-Yates shuffle."""
    for i in range(stop - start):
        j = i + int(uniforms[start + i] * (size - i))
        ranking[start + i] = tied[j]
        tied[j] = tied[i]


@no_refcount
def deal_ties(values, n, ranking, left_out, uniforms, spare):
    """Fill the places of tied values as in `arrange`; `spare` has room for the tied items and one more."""
    d, start = ranking.size, 0
    last = values[ranking[d - 1]]
    while start < d:
        value = values[ranking[start]]
        stop = start + 1
        while stop < d and values[ranking[stop]] == value:
            stop += 1
        tied = stop - start
        if value == last and left_out > 0:
            tied = 0
            for i in range(n):
                spare[tied] = i
                tied += values[i] == value
        else:
            for i in range(tied):
                spare[i] = ranking[start + i]
        if tied > 1:
            deal(spare, tied, ranking, start, stop, uniforms)
        start = stop


@kernel
def arrange(index, ranking, uniforms):
    """Write the items of the largest entries of `index` into `ranking`, best first, ties broken by `uniforms`.

    Place p is filled from the items that tie for it, gathered in item order, by one step of a Fisher-Yates
    shuffle with `uniforms[p]`.
    """
    left_out = largest(index, ranking)
    deal_ties(index, index.size, ranking, left_out, uniforms, np.empty(ranking.size + left_out + 1, np.int64))


@kernel
def top(index, ranking, rng):
    """`arrange` with exactly `ranking.size` uniforms from `rng`; -inf marks an item that may not be shown."""
    uniforms = np.empty(ranking.size)
    for p in range(ranking.size):
        uniforms[p] = rng.random()
    arrange(index, ranking, uniforms)


@kernel
def top_allowed(index, allowed, ranking, rng):
    """`top` among the allowed items; does not change `index`."""
    masked = np.empty(index.size)
    for k in range(index.size):
        masked[k] = index[k] if allowed[k] else -np.inf
    top(masked, ranking, rng)


class IndexTable(NamedTuple):
    """The parts of the items' indices: `min(level + root s + linear l, cap)`, s and l of the round."""

    looks: Ints  # [K]
    level: Floats  # [K]
    root: Floats  # [K]
    linear: Floats  # [K]
    cap: float  # infinity: no cap
    clock: int  # definition of s and l: LOG_CLOCK or KL_CLOCK
    tie_noise: float  # order of equal indices: 1 random, 0 by item number (`tie_noise_of`)


@no_refcount
def value_of(table, k, s, lt):
    """Item k's index, s = sqrt(lt).

    The time part of UCB1 and UCB-V separates this way, so `root` and `linear` change only with an item's own
    feedback. Rounding is monotone: with root and linear at least 0, a larger lt never gives a smaller value.
    """
    return min(table.level[k] + table.root[k] * s + table.linear[k] * lt, table.cap)


@kernel
def place_index(table, lt, least, allowed, ranking, uniforms):
    """Rank by `value_of`; items seen fewer than `least` times go first. O(K)."""
    s = math.sqrt(lt)
    index = np.empty(table.looks.size)
    for k in range(index.size):
        v = value_of(table, k, s, lt)
        v = np.inf if table.looks[k] < least else v
        index[k] = v if allowed[k] else -np.inf
    arrange(index, ranking, uniforms)


@kernel
def rank_by_index(table, t, least, allowed, ranking, rng):
    """`place_index` at round t with `ranking.size` uniforms from `rng`; the clock is log(max(t, 2))."""
    uniforms = np.empty(ranking.size)
    for p in range(ranking.size):
        uniforms[p] = rng.random() * table.tie_noise
    place_index(table, math.log(max(t, 2)), least, allowed, ranking, uniforms)


@no_refcount
def mean_index(level, root, linear, k, mean, n, a, b):
    """Set item k's index to `mean + a sqrt(v log t / n) + b log t / n`, v = mean (1 - mean) (UCB-V)."""
    level[k] = mean
    root[k] = a * math.sqrt(mean * (1.0 - mean) / n)
    linear[k] = b / n


@no_refcount
def count_bits(looks, clicks, ranking, bits, examined):
    """Add the bits of the examined places to the items' counts."""
    for p in range(examined):
        k = ranking[p]
        looks[k] += 1
        if bits[p]:
            clicks[k] += 1


@no_refcount
def counted(looks, clicks, ranking, bits, examined):
    """Whether the items' counts contain these bits: for each a look, with or without a click."""
    for p in range(examined):
        k = ranking[p]
        if looks[k] < 1 or (clicks[k] < 1 if bits[p] else clicks[k] >= looks[k]):
            return False
    return True


@no_refcount
def uncount_bits(looks, clicks, ranking, bits, examined):
    """Subtract the bits of the examined places from the items' counts; does nothing if these do not contain them."""
    if counted(looks, clicks, ranking, bits, examined):
        for p in range(examined):
            k = ranking[p]
            looks[k] -= 1
            if bits[p]:
                clicks[k] -= 1


@no_refcount
def any_click(clicks, examined):
    """Whether any examined place was clicked."""
    return cascade_stop(clicks, examined) < examined or clicks[examined - 1]


@no_refcount
def kl_upper(mean, n, level):
    """The largest q in [mean, 1] with `n kl(mean, q) <= level`, kl between Bernoulli distributions.

    Newton from the right, where kl(mean, .) is convex and increasing, so the steps never overshoot. It starts from
    the lower of two bounds: Pinsker's, kl(p, q) >= 2 (q - p)^2, and kl(p, q) >= (q - p)^2 / (2 q (1 - p)), from
    kl's derivative (x - p) / (x (1 - x)) and x (1 - x) <= q (1 - p) on [p, q].
    """
    p = min(max(mean, 1e-12), 1.0 - 1e-12)
    e = level / n
    h = e * (1.0 - p)
    q = min(p + math.sqrt(0.5 * e), p + h + math.sqrt(h * (h + 2.0 * p)), 1.0 - 1e-12)
    for _ in range(50):
        excess = p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) - e
        if excess <= 0.0:
            break
        step = excess / ((1.0 - p) / (1.0 - q) - p / q)
        q -= step
        if step < 1e-6 * (1.0 - q):  # relative: near q = 1 even the first steps are tiny
            break
    return max(q, p)


@no_refcount
def kl_lower(mean, n, level):
    """The smallest q in [0, mean] with `n kl(mean, q) <= level`."""
    return 1.0 - kl_upper(1.0 - mean, n, level)


@no_refcount
def psi(s):
    """Value of what can still be learnt about a mean, in its standard deviations.

    Gittins's index in the closed form of Brezzi and Lai 2002, its constants from memory; s: observations still
    to come, relative to those so far.
    """
    if s <= 0.2:
        return math.sqrt(s / 2.0)
    if s <= 1.0:
        return 0.49 - 0.11 / math.sqrt(s)
    if s <= 5.0:
        return 0.63 - 0.26 / math.sqrt(s)
    if s <= 15.0:
        return 0.77 - 0.58 / math.sqrt(s)
    return math.sqrt(2.0 * math.log(s) - math.log(math.log(s)) - math.log(16.0 * math.pi))


@no_refcount
def cascade_stop(clicks, size):
    """Number of leading places that a cascade user looks at: up to the first set bit, else all `size`."""
    for p in range(size):
        if clicks[p]:
            return p + 1
    return size


@no_refcount
def cascade_like(clicks, size, examined):
    """Whether a cascade user can give this feedback: one click where it ends, or none and the whole list."""
    for p in range(examined - 1):
        if clicks[p]:
            return False
    return examined == size or (examined > 0 and clicks[examined - 1])


@no_refcount
def cascade_value(attraction, ranking):
    """The chance that a cascade user clicks: 1 - prod(1 - attraction) (Kveton et al. 2015, eq. 1)."""
    miss = 1.0
    for p in range(ranking.size):
        miss *= 1.0 - attraction[ranking[p]]
    return 1.0 - miss
