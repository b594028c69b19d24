"""The largest of many draws from Beta posteriors without drawing most of them, exact in distribution. Ours.

Items with equal counts have equal posteriors. They are stored together, group by group, so quantities
of all posteriors are computed once per group: a million items have some hundred groups.

A bar is chosen so that some dozens of the draws are expected to reach it. Above the bar, the density of Beta(alpha,
beta) lies below an envelope, a power of 1 - x, of mass u. So a draw above the bar is a proposal from the envelope,
made with chance u and accepted with chance density / envelope; if none is made or accepted, the draw lies below the
bar. To make each proposal with its chance, at a cost only for those made, points fall on a line on which item k has
the length -log(1 - u_k), one point per unit of length on average: with chance u_k at least one hits item k.

Items whose envelope is too loose are always drawn. If fewer draws than wanted reach the bar, all other items
are drawn too, conditioned on lying below it.

Groups are sorted by clicks, then looks. So an item that was looked at moves to the next
group, or opens one there, and an item that was clicked moves past the few groups with as many clicks.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import in_python, kernel, no_refcount


class Groups(NamedTuple):
    """K items in groups; 8 bytes an item, plus the existing groups."""

    order: Counts  # [K] items, group by group
    place: Counts  # [K] position of each item in `order`
    looks: Ints  # [K + 1] looks of each of the first `size[0]` groups
    clicks: Ints  # [K + 1]
    items: Ints  # [K + 1] number of items in the group
    first: Ints  # [K + 1] where the group begins in `order`
    length: Floats  # [K + 1] kept for `Posteriors`
    miss: Floats  # [K + 1]
    size: Ints  # [1]

    @classmethod
    def create(cls, n_items: int) -> "Groups":
        """One group of items without looks. Memory is committed only when written."""
        order, place = np.arange(n_items, dtype=np.int32), np.arange(n_items, dtype=np.int32)
        looks, clicks, items, first = np.zeros((4, n_items + 1), np.int64)
        length, miss = np.zeros((2, n_items + 1))
        groups = cls(order, place, looks, clicks, items, first, length, miss, np.ones(1, np.int64))
        groups.items[0] = n_items
        return groups

    def widened(self, wider: "Groups") -> "Groups":
        """A copy with more items, without looks; written into the memory of `wider`."""
        n, more, size = self.order.size, wider.order.size - self.order.size, int(self.size[0])
        unseen = int(size > 0 and self.looks[0] + self.clicks[0] == 0)  # groups without looks: they join it
        wider.order[:more], wider.order[more:] = np.arange(n, n + more), self.order
        wider.place[wider.order] = np.arange(n + more)
        for name in ("looks", "clicks", "items", "length", "miss"):
            getattr(wider, name)[1 : 1 + size - unseen] = getattr(self, name)[unseen:size]
        wider.first[1 : 1 + size - unseen] = self.first[unseen:size] + more
        wider.items[0] = more + (self.items[0] if unseen else 0)
        wider.size[0] = size - unseen + 1
        return wider


@no_refcount
def group_of(groups, k):
    """The group of item k. O(log G) of G groups."""
    place = groups.place[k]
    low = 0
    high = groups.size[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if groups.first[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@no_refcount
def unseen_items(groups):
    """Number of items without looks: they come first."""
    return groups.items[0] if groups.looks[0] == 0 else 0


@no_refcount
def lies_before(groups, g, looks, clicks):
    """Whether group g comes before a group with these counts."""
    return groups.clicks[g] < clicks or (groups.clicks[g] == clicks and groups.looks[g] < looks)


@no_refcount
def lies_after(groups, g, looks, clicks):
    """Whether group g comes after a group with these counts."""
    return groups.clicks[g] > clicks or (groups.clicks[g] == clicks and groups.looks[g] > looks)


@no_refcount
def swap(groups, i, j):
    """Exchange the items at two positions of the order."""
    if i != j:
        one, other = groups.order[i], groups.order[j]
        groups.order[i] = other
        groups.order[j] = one
        groups.place[other] = i
        groups.place[one] = j


@no_refcount
def open_group(groups, g, looks, clicks, first):
    """Insert a group of one item at position `first` of the order, as group g. O(G)."""
    for h in range(groups.size[0], g, -1):
        groups.looks[h] = groups.looks[h - 1]
        groups.clicks[h] = groups.clicks[h - 1]
        groups.items[h] = groups.items[h - 1]
        groups.first[h] = groups.first[h - 1]
        groups.length[h] = groups.length[h - 1]
        groups.miss[h] = groups.miss[h - 1]
    groups.looks[g] = looks
    groups.clicks[g] = clicks
    groups.items[g] = 1
    groups.first[g] = first
    groups.size[0] += 1


@no_refcount
def close_group(groups, g):
    """Remove an empty group. O(G)."""
    groups.size[0] -= 1
    for h in range(g, groups.size[0]):
        groups.looks[h] = groups.looks[h + 1]
        groups.clicks[h] = groups.clicks[h + 1]
        groups.items[h] = groups.items[h + 1]
        groups.first[h] = groups.first[h + 1]
        groups.length[h] = groups.length[h + 1]
        groups.miss[h] = groups.miss[h + 1]


@no_refcount
def rise(groups, k, g, looks, clicks):
    """Move item k of group g to the end of the last group that does not come after its new counts; which one."""
    while True:
        last = groups.first[g] + groups.items[g] - 1
        swap(groups, groups.place[k], last)
        h = g + 1
        if h == groups.size[0] or lies_after(groups, h, looks, clicks):
            return g
        groups.items[g] -= 1
        groups.first[h] -= 1
        groups.items[h] += 1
        g = h


@no_refcount
def sink(groups, k, g, looks, clicks):
    """Move item k of group g to the start of the first group that does not come before its new counts; which one."""
    while True:
        swap(groups, groups.place[k], groups.first[g])
        if g == 0 or lies_before(groups, g - 1, looks, clicks):
            return g
        groups.items[g] -= 1
        groups.first[g] += 1
        g -= 1
        groups.items[g] += 1


@no_refcount
def move_item(groups, k, looks, clicks):
    """Set the counts of item k. Returns the group opened for it, -1 if it joined an existing one."""
    old = group_of(groups, k)
    if groups.looks[old] == looks and groups.clicks[old] == clicks:
        return -1
    up = lies_before(groups, old, looks, clicks)
    new = rise(groups, k, old, looks, clicks) if up else sink(groups, k, old, looks, clicks)
    opened = groups.looks[new] != looks or groups.clicks[new] != clicks
    if opened and new == old and groups.items[old] == 1:
        groups.looks[old] = looks
        groups.clicks[old] = clicks
        return old
    if opened:
        groups.items[new] -= 1
        if up:
            new += 1
            open_group(groups, new, looks, clicks, groups.place[k])
        else:
            groups.first[new] += 1
            open_group(groups, new, looks, clicks, groups.place[k])
            old += 1
    if groups.items[old] == 0:
        close_group(groups, old)
        if up:
            new -= 1
    return new if opened else -1


SURE = 0.7  # items whose envelope has more mass are always drawn
MEANT, LEAST, MOST = 1.8, 1.2, 3.0  # proposals per place of a list: target, and range in which the bar stays
SPARE = 8.0  # proposals in addition, whatever the length of the list
FEW, MORE = 500, 0.9  # above FEW items there are more, so that drawing all of them gets rarer
PASSES = 40  # most steps in the search for a bar
SIGMAS = 12.0  # standard deviations above the expected number of draws that have room


class Posteriors(NamedTuple):
    """Beta(a + clicks, b + looks - clicks) for each of K items, and the data for draws above the bar."""

    groups: Groups  # with each group's length of an item on the line, -1: always drawn; and 1 - mean
    bar: Floats  # [1]
    prior: Floats  # [2] a and b

    @classmethod
    def create(cls, n_items: int, length: int, a: float, b: float) -> "Posteriors":
        """The prior for all items, and a bar for lists of `length` items."""
        posteriors = cls(Groups.create(n_items), np.zeros(1), np.array([a, b], np.float64))
        in_python(raise_bar)(posteriors, length)  # a single group: done before it would be compiled
        return posteriors

    def widened(self, wider: "Posteriors") -> "Posteriors":
        """A copy with more items, at the prior; written into the memory of `wider`."""
        self.groups.widened(wider.groups)
        wider.bar[:], wider.prior[:] = self.bar, self.prior
        derive_all(wider)
        return wider


@no_refcount
def length_above(alpha, beta, bar):
    """An item's length on the line, -log(1 - u); -1 for one that is always drawn.

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


@no_refcount
def lean(alpha, bar):
    """The power of 1 - x in the envelope that compensates for x^(alpha - 1)."""
    return max(alpha - 1.0, 0.0) * (1.0 - bar) / bar


@no_refcount
def proposal(alpha, beta, bar, rng):
    """A draw from the envelope above the bar if it is accepted, else -1."""
    slope = lean(alpha, bar)
    fall = rng.standard_exponential() / (beta - slope)  # -log((1 - x) / (1 - bar))
    x = 1.0 - (1.0 - bar) * math.exp(-fall)
    kept = (alpha - 1.0) * math.log(x / bar) - slope * fall
    return x if -rng.standard_exponential() <= kept else -1.0


@no_refcount
def posterior_of(posteriors, g):
    """Alpha and beta of the items of group g."""
    groups = posteriors.groups
    return posteriors.prior[0] + groups.clicks[g], posteriors.prior[1] + groups.looks[g] - groups.clicks[g]


@no_refcount
def derive(posteriors, g):
    """Compute the data kept for group g."""
    alpha, beta = posterior_of(posteriors, g)
    posteriors.groups.miss[g] = beta / (alpha + beta)
    posteriors.groups.length[g] = length_above(alpha, beta, posteriors.bar[0])


@no_refcount
def derive_all(posteriors):
    """`derive` every group: the prior or the bar has changed. O(G) of G groups."""
    for g in range(posteriors.groups.size[0]):
        derive(posteriors, g)


@no_refcount
def load(posteriors):
    """Expected number of proposals and draws for one list. O(G)."""
    groups = posteriors.groups
    total = 0.0
    for g in range(groups.size[0]):
        total += abs(groups.length[g]) * groups.items[g]
    return total


@no_refcount
def load_at(posteriors, bar):
    """`load` with the bar at this value. O(G)."""
    total = 0.0
    for g in range(posteriors.groups.size[0]):
        alpha, beta = posterior_of(posteriors, g)
        total += abs(length_above(alpha, beta, bar)) * posteriors.groups.items[g]
    return total


@no_refcount
def load_for(posteriors, length, each):
    """The load intended for a list, at `each` proposals a place.

    The more items, the more it costs to draw all of them, and the rarer the higher load makes that.
    """
    beyond = math.log(max(posteriors.groups.order.size / FEW, 1.0))
    return each * length + SPARE + MORE * math.sqrt(length) * beyond


@no_refcount
def raise_bar(posteriors, length):
    """Put the bar where a list of `length` has the intended load, within a fifth. O(G), some ten passes."""
    wanted = load_for(posteriors, length, MEANT)
    bar = posteriors.bar[0]
    if posteriors.groups.order.size <= wanted:
        bar = 0.0
    else:
        low, high = -36.0, 36.0  # logits of the bar; beyond them the bar would round to 1
        at = math.log(bar / (1.0 - bar)) if bar > 0.0 else 0.0
        step = 0.25
        for _ in range(PASSES):
            bar = 1.0 / (1.0 + math.exp(-at))
            load_here = load_at(posteriors, bar)
            if abs(load_here - wanted) <= 0.2 * wanted:
                break
            if load_here > wanted:
                low = at
                at = min(at + step, 0.5 * (at + high)) if high == 36.0 else 0.5 * (low + high)
            else:
                high = at
                at = max(at - step, 0.5 * (at + low)) if low == -36.0 else 0.5 * (low + high)
            step *= 2.0
    posteriors.bar[0] = bar
    derive_all(posteriors)


@no_refcount
def check_bar(posteriors, length):
    """Move the bar if lists of `length` have much more or less than the intended load. O(G)."""
    now = load(posteriors)
    if now < load_for(posteriors, length, LEAST) or now > load_for(posteriors, length, MOST):
        raise_bar(posteriors, length)


@no_refcount
def set_counts(posteriors, k, looks, clicks):
    """Set the counts of item k; call `check_bar` after the last one."""
    opened = move_item(posteriors.groups, k, looks, clicks)
    if opened >= 0:
        derive(posteriors, opened)


@no_refcount
def miss_of(posteriors, k):
    """1 - mean of item k."""
    return posteriors.groups.miss[group_of(posteriors.groups, k)]


@kernel
def draw_largest(posteriors, allowed, wanted, rng):
    """Allowed items and a draw of each, including the `wanted` largest draws of all.

    Costs a few draws for each one wanted and a comparison per group, and O(K) in the rare case that too few
    reach the bar.
    """
    expected = load(posteriors)
    room = min(allowed.size, int(expected + SIGMAS * math.sqrt(expected)) + 64)
    items, values = np.empty(room, np.int64), np.empty(room)
    n, above = draw_above(posteriors, allowed, rng, items, values)
    if above >= wanted:
        return items[:n], values[:n]
    every, drawn = np.empty(allowed.size, np.int64), np.empty(allowed.size)
    for i in range(n):
        every[i] = items[i]
        drawn[i] = values[i]
    n = draw_rest(posteriors, allowed, rng, every, drawn, n)
    return every[:n], drawn[:n]


@no_refcount
def draw_above(posteriors, allowed, rng, items, values):
    """Write the draws that reach the bar and those always made; returns how many, and how many reach the bar."""
    groups, bar, room = posteriors.groups, posteriors.bar[0], items.size
    n = 0
    above = 0
    at = rng.standard_exponential()  # distance of the next point from the start of the group
    for g in range(groups.size[0]):
        each, first, size = groups.length[g], groups.first[g], groups.items[g]
        if 0.0 <= each * size <= at:
            at -= each * size
            continue
        alpha, beta = posterior_of(posteriors, g)
        for i in range(size if each < 0.0 else 0):
            k = groups.order[first + i]
            if allowed[k] and n < room:
                items[n] = k
                values[n] = rng.beta(alpha, beta)
                above += values[n] >= bar
                n += 1
        last = -1
        while at < each * size and n < room:
            i = min(int(at / each), size - 1)
            k = groups.order[first + i]
            if i != last and allowed[k]:
                items[n] = k
                values[n] = proposal(alpha, beta, bar, rng)
                above += values[n] >= 0.0
                n += values[n] >= 0.0
            last = i
            at += rng.standard_exponential()
        at -= max(each, 0.0) * size
    return n, above


@no_refcount
def draw_rest(posteriors, allowed, rng, items, values, n):
    """Draw the items without a draw above the bar, conditioned on lying below; returns how many there are.

    The first n are written already. O(K).
    """
    groups, drawn = posteriors.groups, n
    for k in range(allowed.size):
        if allowed[k]:
            g = group_of(groups, k)
            new = groups.length[g] >= 0.0
            for i in range(drawn if new else 0):
                new = new and items[i] != k
            if new:
                items[n] = k
                values[n] = draw_below(posteriors, g, rng)
                n += 1
    return n


@no_refcount
def draw_below(posteriors, g, rng):
    """A draw below the bar, for an item with a length: it lies there with a chance of at least 0.3."""
    alpha, beta = posterior_of(posteriors, g)
    x = rng.beta(alpha, beta)
    while x >= posteriors.bar[0]:
        x = rng.beta(alpha, beta)
    return x


@no_refcount
def draw_of(posteriors, k, items, values, rng):
    """Item k's draw: the one written, or a new one, conditioned on lying below the bar."""
    for i in range(items.size):
        if items[i] == k:
            return values[i]
    return draw_below(posteriors, group_of(posteriors.groups, k), rng)
