"""FTRL for position-based users: follow the regularised leader over the chances of items at places.

Lists are drawn so that each item has its chance at each place."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.settings import real

_STEPS = 60
_CLOSE = 1e-4  # tolerance of the sums of chances by place and by item
_RIDGE = 1e-12  # added to the equations, which are singular if every item is sure to be shown


@kernel
def match(losses, scale, price, fee, chances):
    """Minimise <losses, x> - 2 scale sum sqrt(x), the 1/2-Tsallis entropy, over chances x of items at places.

    Each place has one item, each item at most one place. x = (scale / (losses + price of the place + fee of the
    item))^2, where prices and fees minimise sum of scale^2 / (losses + price + fee) + sum of prices + sum of fees,
    fees at least 0 and positive only for items that are sure to be shown. First prices, then fees, each alone, then
    Newton's method on both together, starting from their last values. `chances`, [d, K], receives x, scaled so that
    no place and no item has more than 1. Returns the largest deviation of a sum from 1: at most 1e-4, or what 60
    steps leave. O(d K) a step.
    """
    d, k = losses.shape
    rows, columns = np.empty(d), np.empty(k)
    settle_apart(losses, scale, price, fee)
    goal, off = measure(losses, scale, price, fee, chances, rows, columns)
    for _ in range(_STEPS):
        if off < _CLOSE:
            break
        goal, off = improve(losses, scale, price, fee, chances, rows, columns, goal)
    for i in range(k):
        for p in range(d):
            chances[p, i] /= max(columns[i], 1.0)
    for p in range(d):
        total = chances[p].sum()
        for i in range(k):
            chances[p, i] /= max(total, 1.0)
    return off


@no_refcount
def measure(losses, scale, price, fee, chances, rows, columns):
    """Compute chances at these prices and fees and their sums; returns objective (infinite outside) and error."""
    goal, off = 0.0, 0.0
    columns[:] = 0.0
    for p in range(rows.size):
        total = 0.0
        for i in range(columns.size):
            gap = losses[p, i] + price[p] + fee[i]
            if gap <= 0.0:
                return math.inf, math.inf
            x = scale / gap
            goal += scale * x
            x *= x
            chances[p, i] = x
            total += x
            columns[i] += x
        rows[p] = total
        goal += price[p]
        off = max(off, abs(1.0 - total))
    for i in range(columns.size):
        goal += fee[i]
        off = max(off, columns[i] - 1.0 if fee[i] == 0.0 else abs(1.0 - columns[i]))
    return goal, off


@kernel
def improve(losses, scale, price, fee, chances, rows, columns, goal):
    """One step of Newton's method on the prices and the active fees, shortened until it improves the objective."""
    d = rows.size
    crowded = np.flatnonzero((fee > 0.0) | (columns > 1.0))
    n = d + crowded.size
    table, move = np.zeros((n, n)), np.empty(n)
    for p in range(d):
        move[p] = rows[p] - 1.0
        for i in range(columns.size):
            table[p, p] += chances[p, i] ** 1.5
        for c in range(crowded.size):
            weight = chances[p, crowded[c]] ** 1.5
            table[p, d + c] = table[d + c, p] = weight
            table[d + c, d + c] += weight
    for c in range(crowded.size):
        move[d + c] = columns[crowded[c]] - 1.0
    solve_in_place(table, move)
    old_price, old_fee, length = price.copy(), fee.copy(), 0.5 * scale
    for _ in range(30):
        for p in range(d):
            price[p] = old_price[p] + length * move[p]
        for c in range(crowded.size):
            i = crowded[c]
            fee[i] = max(old_fee[i] + length * move[d + c], 0.0)
        reached, off = measure(losses, scale, price, fee, chances, rows, columns)
        if reached <= goal:
            return reached, off
        length *= 0.5
    price[:] = old_price
    fee[:] = old_fee
    settle_apart(losses, scale, price, fee)
    return measure(losses, scale, price, fee, chances, rows, columns)


@no_refcount
def solve_in_place(table, right):
    """Write the solution of table x = right into `right`, by elimination without pivots, for symmetric tables."""
    n = right.size
    for i in range(n):
        table[i, i] *= 1.0 + _RIDGE
        pivot = max(table[i, i], 1e-300)
        for j in range(i + 1, n):
            factor = table[j, i] / pivot
            if factor != 0.0:
                for q in range(i, n):
                    table[j, q] -= factor * table[i, q]
                right[j] -= factor * right[i]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            right[i] -= table[i, j] * right[j]
        right[i] /= max(table[i, i], 1e-300)


@no_refcount
def settle_apart(losses, scale, price, fee):
    """Solve for the price of each place given the fees, then for the fee of each item given the prices."""
    for p in range(price.size):
        price[p] = root(losses[p], fee, scale, price[p])
    for i in range(fee.size):
        total = 0.0
        for p in range(price.size):
            gap = losses[p, i] + price[p]
            total += (scale / gap) ** 2 if gap > scale else 1.0
        fee[i] = root(losses[:, i], price, scale, fee[i]) if total > 1.0 else 0.0


@no_refcount
def root(losses, fee, scale, start):
    """The price at which sum (scale / (losses + fee + price))^2 is 1, by Newton's method, from below after a step."""
    least = math.inf
    for i in range(losses.size):
        least = min(least, losses[i] + fee[i])
    low = scale - least  # the largest term is 1 there: the sum is 1 or more
    price = max(start, low)
    for _ in range(100):
        total = slope = 0.0
        for i in range(losses.size):
            x = scale / (losses[i] + fee[i] + price)
            total += x * x
            slope += x * x * x
        new = max(price + (total - 1.0) * scale / (2.0 * slope), low)
        if abs(new - price) <= 1e-7 * scale:
            return new
        price = new
    return price


_EDGE = 1e-9  # chances closer than this to 0 or 1 count as 0 or 1


@kernel
def draw_matching(chances, chosen, rng):
    """Draw an item for each place, each pair with exactly its chance; -1, nobody, with the chance that a place lacks.

    Neighbouring items are grouped while their chances sum to at most 1: such a group gets at most one place, so at
    most one of its items is shown, which is drawn last. O(d K), with at most 2 d + 2 groups to match.
    """
    d, k = chances.shape
    ends = np.empty(2 * d + 3, np.int64)
    groups, total = 0, 0.0
    for i in range(k):
        more = 0.0
        for p in range(d):
            more += chances[p, i]
        if total + more > 1.0 + _EDGE and i > 0:
            ends[groups] = i
            groups += 1
            total = 0.0
        total += more
    ends[groups] = k
    x = np.zeros((d, groups + 2))  # the last column stands for nobody
    for p in range(d):
        start, lack = 0, 1.0
        for g in range(groups + 1):
            for i in range(start, ends[g]):
                x[p, g] += chances[p, i]
            lack -= x[p, g]
            start = ends[g]
        x[p, groups + 1] = max(lack, 0.0)
    round_pairs(x, rng)
    for p in range(d):
        chosen[p] = -1
        for g in range(groups + 1):
            if x[p, g] > 0.5:
                chosen[p] = _one_of(chances[p], ends[g - 1] if g > 0 else 0, ends[g], rng)


@no_refcount
def _one_of(chances, start, end, rng):
    """Draw an item from start to end, with chances proportional to these."""
    total = 0.0
    for i in range(start, end):
        total += chances[i]
    goal = rng.random() * total
    for i in range(start, end - 1):
        goal -= chances[i]
        if goal < 0.0:
            return i
    return end - 1


@kernel
def round_pairs(x, rng):
    """Round chances of pairs to 0 or 1, with these as expectations: dependent rounding (Gandhi et al. 2006).

    Rows sum to 1, columns to at most 1, before and after. While undecided pairs are left, take a
    path or a cycle of them and move as much as possible from every second one to the others, in one of two
    directions, with odds that preserve all expectations. Each move decides a pair.
    """
    d, k = x.shape
    items, count = np.empty((d, k), np.int64), np.zeros(d, np.int64)
    for p in range(d):
        for i in range(k):
            if _EDGE < x[p, i] < 1.0 - _EDGE:
                items[p, count[p]] = i
                count[p] += 1
            else:
                x[p, i] = 0.0 if x[p, i] < 0.5 else 1.0
    places, path = np.empty(4 * d + 4, np.int64), np.empty(4 * d + 4, np.int64)
    for p in range(d):
        while _open(x, items, count, p, -1) >= 0:
            first, last = _walk(x, items, count, p, places, path)
            _shift(x, places, path, first, last, rng)


@kernel
def stand_in(chosen, allowed, ranking, rng):
    """Write the items drawn into `ranking`; a random other item replaces nobody and items that may not be shown."""
    free = allowed.copy()
    for p in range(ranking.size):
        k = chosen[p]
        ranking[p] = k if k >= 0 and free[k] else -1
        if ranking[p] >= 0:
            free[k] = False
    for p in range(ranking.size):
        if ranking[p] < 0:
            others = np.flatnonzero(free)
            ranking[p] = others[int(rng.random() * others.size)]
            free[ranking[p]] = False


@no_refcount
def _open(x, items, count, p, other):
    """An undecided item of place p that is not `other`; -1 if there is none. Removes decided ones from its list."""
    at = count[p] - 1
    while at >= 0:
        i = items[p, at]
        if x[p, i] <= _EDGE or x[p, i] >= 1.0 - _EDGE:
            count[p] -= 1
            items[p, at] = items[p, count[p]]
        elif i != other:
            return i
        at -= 1
    return -1


@no_refcount
def _open_place(x, i, other):
    """An undecided place of item i that is not `other`; -1 if there is none."""
    for p in range(x.shape[0]):
        if p != other and _EDGE < x[p, i] < 1.0 - _EDGE:
            return p
    return -1


@no_refcount
def _walk(x, items, count, p, places, path):
    """Walk over undecided pairs from place p, written as (places[e], path[e]): to a cycle, or between two dead ends.

    Returns the range of pairs that forms the cycle or the path.
    """
    first, last, ended = _step(x, items, count, p, -1, places, path)
    if ended:
        item = path[last - 1] if last % 2 == 1 else -1  # it ended at an item, or (by rounding) at a place
        first, last, ended = _step(x, items, count, places[last - 1], item, places, path)
    return first, last


@no_refcount
def _step(x, items, count, p, item, places, path):
    """Follow pairs from place p, or from the item of its first pair; returns first, last, whether it ended."""
    n = 0
    if item >= 0:
        places[0], path[0] = p, item
        n = 1
    while True:
        item = _open(x, items, count, p, item)
        if item < 0:
            return 0, n, True
        places[n], path[n] = p, item
        n += 1
        for e in range(n - 2, -1, -1):
            if path[e] == item:
                return e, n, False
        p = _open_place(x, item, p)
        if p < 0:
            return 0, n, True
        places[n], path[n] = p, item
        n += 1
        for e in range(n - 2, -1, -1):
            if places[e] == p:
                return e, n, False


@no_refcount
def _shift(x, places, path, first, last, rng):
    """Move chances along these pairs, up at every second one and down at the others, or the reverse."""
    up = down = 1.0
    for e in range(first, last):
        value = x[places[e], path[e]]
        rises = (e - first) % 2 == 0
        up = min(up, 1.0 - value if rises else value)
        down = min(down, value if rises else 1.0 - value)
    move = up if rng.random() * (up + down) < down else -down
    for e in range(first, last):
        value = x[places[e], path[e]] + (move if (e - first) % 2 == 0 else -move)
        x[places[e], path[e]] = 0.0 if value <= _EDGE else 1.0 if value >= 1.0 - _EDGE else value


_LEAST = 1e-6  # weights beyond 1e6 would decide the run by one observation (ours)


class PBMFTRL(NamedTuple):
    """Lists drawn by chances of each item at each place, which follow importance-weighted losses 1 - click.

    A reconstruction of Chen, Zhao, Li 2022 (FTRL-PBM) from its abstract, since its text was not available: follow the
    regularised leader with Tsallis entropy, for position-based users; regret log T for stochastic clicks and d sqrt(K
    T) for any, which is the bound for d K pairs of item and place of which d are seen in a round. From that: chances
    x of pairs, one item a place and at most one place an item, x the minimiser of <estimated losses, x> - 2 sqrt(t) /
    rate sum sqrt(x), the constants of Tsallis-INF (Zimmert, Seldin 2021); lists with exactly these chances by
    dependent rounding. Attention is unknown: as in GRAB, each pair is learnt alone.

    Settings: `rate`, 1: a higher one follows the losses faster.
    """

    losses: Floats  # [length, K] estimated cumulative loss of each pair
    chances: Floats  # [length, K] of the next list
    price: Floats  # [length] of each place
    fee: Floats  # [K] of each item
    clock: Ints  # [1] rounds learnt from
    rate: float

    live = False

    @classmethod
    def create(cls, problem: Problem, *, rate: float = 1.0) -> "PBMFTRL":
        k, d = problem.n_items, problem.length
        arrays = np.zeros((d, k)), np.full((d, k), 1.0 / k), np.full(d, math.sqrt(k)), np.zeros(k)
        return cls(*arrays, np.zeros(1, np.int64), real("rate", rate, 1e-3, 1e3))

    def rank(self, visit, allowed, ranking, note, rng):
        chosen = np.empty(self.price.size, np.int64)
        draw_matching(self.chances, chosen, rng)
        stand_in(chosen, allowed, ranking, rng)
        for p in range(ranking.size):
            note[p] = self.chances[p, ranking[p]]

    def update(self, visit, ranking, note, clicks, examined):
        for p in range(examined):
            if not clicks[p]:
                self.losses[p, ranking[p]] += 1.0 / max(note[p], _LEAST)
        self.clock[0] += 1
        match(self.losses, math.sqrt(self.clock[0] + 1.0) / self.rate, self.price, self.fee, self.chances)
