"""The largest of many draws from Beta posteriors without drawing most of them, exact in law. Ours, no paper's.

A bar is kept that some dozens of the draws are expected to reach. Above the bar, the density of Beta(alpha, beta)
lies below an envelope, a power of 1 - x, of mass u. So a draw above the bar is a proposal from the envelope that is
made with chance u and kept with chance density / envelope; if none is made or kept, the draw lies below the bar. To
make each proposal with its chance, at a cost for those alone that are made, points fall on a line on which item k has
the length -log(1 - u_k), one point a unit of length on average: with chance u_k at least one falls on item k.

Items of which the envelope says little are drawn in any case. When fewer draws than wanted reach the bar, all others
are drawn too, on condition that they lie below it.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import uncounted
from ..arrays import Bools, Floats, Ints

FAN = 16  # lengths that are added up to one
SURE = 0.7  # envelopes of more mass are not worth a proposal
MEANT, LEAST, MOST = 1.8, 1.2, 3.0  # proposals wanted for each place of a list: at first, and before the bar moves
SPARE = 8.0  # as many more, however short the list
PASSES = 40  # in search of a bar, at most


class Posteriors(NamedTuple):
    """Beta(alpha, beta) for each of K items, and what draws above the bar need; 41 bytes an item."""

    alpha: Floats  # [K]
    beta: Floats  # [K]
    miss: Floats  # [K] 1 - mean
    lengths: Floats  # each item's on the line, sums of FAN of them, sums of FAN of these, ...
    starts: Ints  # where in `lengths` each of these levels starts, and where the last one ends
    sure: Ints  # [K] items drawn in any case, in order: the first `size[0]`
    is_sure: Bools  # [K]
    size: Ints  # [1]
    bar: Floats  # [1]
    prior: Floats  # [2] of items that nothing is known of

    @classmethod
    def create(cls, n_items: int, length: int, alpha: float, beta: float) -> "Posteriors":
        """The same posterior for all, and a bar for lists of `length` items."""
        starts, level = [0], n_items
        while True:
            level = -(-level // FAN)
            starts.append(starts[-1] + level * FAN)
            if level == 1:
                break
        found = cls(
            np.full(n_items, float(alpha)),
            np.full(n_items, float(beta)),
            np.full(n_items, beta / (alpha + beta)),
            np.zeros(starts[-1]),
            np.array(starts),
            np.zeros(n_items, np.int64),
            np.zeros(n_items, np.bool_),
            np.zeros(1, np.int64),
            np.zeros(1),
            np.array([alpha, beta], np.float64),
        )
        raise_bar(found, length)
        return found

    def widened(self, wider: "Posteriors") -> "Posteriors":
        """The same for more items, of which nothing is known; in the memory of `wider`."""
        n, (a, b) = self.alpha.size, self.prior
        for name, unknown in (("alpha", a), ("beta", b), ("miss", b / (a + b))):
            getattr(wider, name)[:n] = getattr(self, name)
            getattr(wider, name)[n:] = unknown
        wider.bar[:], wider.prior[:] = self.bar, self.prior
        put_all(wider)
        return wider


@uncounted
def length_above(alpha, beta, bar):
    """An item's length on the line, -log(1 - u); -1 for one that is drawn in any case.

    For x above the bar, x^(alpha - 1) <= bar^(alpha - 1) ((1 - bar) / (1 - x))^lean with lean = 0 for alpha < 1, else
    (alpha - 1) (1 - bar) / bar: equal at the bar, and the right side has the larger logarithmic derivative. Hence
    u = bar^(alpha - 1) (1 - bar)^beta / ((beta - lean) B(alpha, beta)).
    """
    if bar <= 0.0:
        return -1.0
    power = beta - lean(alpha, bar)
    if power <= 0.0:
        return -1.0
    u = (alpha - 1.0) * math.log(bar) + beta * math.log1p(-bar) - math.log(power)
    u += math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    u = math.exp(min(u, 0.0))
    return -1.0 if u > SURE else -math.log1p(-u)


@uncounted
def lean(alpha, bar):
    """How much of the power of 1 - x in the envelope makes up for x^(alpha - 1)."""
    return max(alpha - 1.0, 0.0) * (1.0 - bar) / bar


@uncounted
def proposal(alpha, beta, bar, rng):
    """A draw from the envelope above the bar if it is kept, else -1."""
    slope = lean(alpha, bar)
    fall = rng.standard_exponential() / (beta - slope)  # -log((1 - x) / (1 - bar))
    x = 1.0 - (1.0 - bar) * math.exp(-fall)
    kept = (alpha - 1.0) * math.log(x / bar) - slope * fall
    return x if -rng.standard_exponential() <= kept else -1.0


@uncounted
def put(posteriors, k):
    """Give item k its length on the line, or a place among those that are drawn in any case."""
    length = length_above(posteriors.alpha[k], posteriors.beta[k], posteriors.bar[0])
    posteriors.lengths[k] = max(length, 0.0)
    if (length < 0.0) == posteriors.is_sure[k]:
        return
    posteriors.is_sure[k] = length < 0.0
    n = posteriors.size[0]
    i = 0
    while i < n and posteriors.sure[i] < k:
        i += 1
    if length < 0.0:
        for j in range(n, i, -1):
            posteriors.sure[j] = posteriors.sure[j - 1]
        posteriors.sure[i] = k
        posteriors.size[0] = n + 1
    else:
        for j in range(i + 1, n):
            posteriors.sure[j - 1] = posteriors.sure[j]
        posteriors.size[0] = n - 1


@uncounted
def add_up(posteriors, level, block):
    """The sum of a block of a level, written into the next one."""
    start, end = posteriors.starts[level], posteriors.starts[level + 1]
    total = 0.0
    for i in range(start + block * FAN, start + (block + 1) * FAN):
        total += posteriors.lengths[i]
    posteriors.lengths[end + block] = total


@uncounted
def load(posteriors):
    """How many proposals and draws are expected for one list."""
    total = float(posteriors.size[0])
    for i in range(posteriors.starts[-2], posteriors.starts[-1]):
        total += posteriors.lengths[i]
    return total


@uncounted
def put_all(posteriors):
    """`put` every item. O(K)."""
    n = 0
    for k in range(posteriors.alpha.size):
        length = length_above(posteriors.alpha[k], posteriors.beta[k], posteriors.bar[0])
        posteriors.lengths[k] = max(length, 0.0)
        posteriors.is_sure[k] = length < 0.0
        if length < 0.0:
            posteriors.sure[n] = k
            n += 1
    posteriors.size[0] = n
    for level in range(posteriors.starts.size - 2):
        blocks = (posteriors.starts[level + 1] - posteriors.starts[level]) // FAN
        for block in range(blocks):
            add_up(posteriors, level, block)


@uncounted
def load_at(posteriors, bar):
    """`load` if the bar were there. O(K)."""
    total = 0.0
    for k in range(posteriors.alpha.size):
        length = length_above(posteriors.alpha[k], posteriors.beta[k], bar)
        total += 1.0 if length < 0.0 else length
    return total


@uncounted
def raise_bar(posteriors, length):
    """Put the bar where a list of `length` costs what is meant, within a fifth. O(K), some ten passes."""
    wanted = MEANT * length + SPARE
    bar = posteriors.bar[0]
    if posteriors.alpha.size <= wanted:
        bar = 0.0
    else:
        low, high = -40.0, 40.0  # of log(bar / (1 - bar))
        at = math.log(bar / (1.0 - bar)) if bar > 0.0 else 0.0
        step = 0.25
        for _ in range(PASSES):
            bar = 1.0 / (1.0 + math.exp(-at))
            found = load_at(posteriors, bar)
            if abs(found - wanted) <= 0.2 * wanted:
                break
            if found > wanted:
                low = at
                at = min(at + step, 0.5 * (at + high)) if high == 40.0 else 0.5 * (low + high)
            else:
                high = at
                at = max(at - step, 0.5 * (at + low)) if low == -40.0 else 0.5 * (low + high)
            step *= 2.0
    posteriors.bar[0] = bar
    put_all(posteriors)


@uncounted
def set_posterior(posteriors, k, alpha, beta):
    """Item k has another posterior; its length is that of the old one until `put`."""
    posteriors.alpha[k] = alpha
    posteriors.beta[k] = beta
    posteriors.miss[k] = beta / (alpha + beta)


@uncounted
def settle(posteriors, ranking, examined, length):
    """The posteriors of the examined items were set: their lengths follow, and the bar if need be."""
    for p in range(examined):
        put(posteriors, ranking[p])
    for p in range(examined):
        block = ranking[p]
        for level in range(posteriors.starts.size - 2):
            block //= FAN
            add_up(posteriors, level, block)
    check_bar(posteriors, length)


@uncounted
def check_bar(posteriors, length):
    """Move the bar if lists of `length` cost much more or less than is meant."""
    now = load(posteriors)
    if now < LEAST * length + SPARE or now > MOST * length + SPARE:
        raise_bar(posteriors, length)


@uncounted
def item_at(posteriors, at):
    """The item that lies at this distance from the start of the line."""
    k = 0
    for level in range(posteriors.starts.size - 2, -1, -1):
        start = posteriors.starts[level]
        k *= FAN
        last = k + FAN - 1
        while k < last and at >= posteriors.lengths[start + k]:
            at -= posteriors.lengths[start + k]
            k += 1
    return k


@uncounted
def draw_largest(posteriors, allowed, wanted, rng, items, values):
    """Write draws of allowed items, among them the `wanted` largest; returns how many.

    `items`, int64[K], and `values`, float64[K], have room for all. Costs as much as a few draws for each one wanted,
    and O(K) in the rare case that too few reach the bar.
    """
    bar = posteriors.bar[0]
    n = 0
    above = 0
    for i in range(posteriors.size[0]):
        k = posteriors.sure[i]
        if allowed[k]:
            items[n] = k
            values[n] = rng.beta(posteriors.alpha[k], posteriors.beta[k])
            above += values[n] >= bar
            n += 1
    first = n
    last = -1
    end = load(posteriors) - posteriors.size[0]
    at = rng.standard_exponential()
    while at < end:
        k = item_at(posteriors, at)
        if k != last and k < allowed.size and posteriors.lengths[k] > 0.0 and allowed[k]:
            x = proposal(posteriors.alpha[k], posteriors.beta[k], bar, rng)
            if x >= 0.0:
                items[n] = k
                values[n] = x
                above += 1
                n += 1
        last = k
        at += rng.standard_exponential()
    return n if above >= wanted else draw_rest(posteriors, allowed, rng, items, values, first, n)


@uncounted
def draw_rest(posteriors, allowed, rng, items, values, first, n):
    """Draw the items that no proposal brought above the bar, on condition that they lie below. O(K).

    Of the n items written, those from `first` on are such proposals, in item order.
    """
    bar = posteriors.bar[0]
    proposed = first
    known = n
    for k in range(allowed.size):
        if proposed < known and items[proposed] == k:
            proposed += 1
        elif allowed[k] and not posteriors.is_sure[k]:
            items[n] = k
            values[n] = draw_below(posteriors.alpha[k], posteriors.beta[k], bar, rng)
            n += 1
    return n


@uncounted
def draw_below(alpha, beta, bar, rng):
    """A draw below the bar, of an item that has a length: it lies there with a chance of 0.3 at least."""
    x = rng.beta(alpha, beta)
    while x >= bar:
        x = rng.beta(alpha, beta)
    return x


@uncounted
def draw_of(posteriors, k, items, values, n, rng):
    """Item k's draw: the one that is written, or now, on condition that it lies below the bar."""
    for i in range(n):
        if items[i] == k:
            return values[i]
    return draw_below(posteriors.alpha[k], posteriors.beta[k], posteriors.bar[0], rng)
