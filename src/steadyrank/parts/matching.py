"""Chances of items at places: follow the regularised leader over them."""

import math

import numpy as np

from .._jit import kernel, uncounted

_STEPS = 60
_CLOSE = 1e-4  # what places and items have in all may be this far from 1
_RIDGE = 1e-12  # of the equations, which are singular where every item is sure to be shown


@kernel
def match(losses, scale, price, fee, chances):
    """The minimiser of <losses, x> - 2 scale sum sqrt(x), the 1/2-Tsallis entropy, over chances x of items at places.

    Each place has one item, each item at most one place. x = (scale / (losses + price of the place + fee of the
    item))^2, where prices and fees minimise sum of scale^2 / (losses + price + fee) + sum of prices + sum of fees,
    fees at least 0 and more only for items that are sure to be shown. Prices, then fees, each alone, then Newton's
    method on both at once; they start where they ended last time. `chances`, [d, K], receives x, made so that no
    place and no item has more than 1. Returns how far from 1 one was at most: 1e-4, or what 60 steps leave. O(d K) a
    step.
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


@uncounted
def measure(losses, scale, price, fee, chances, rows, columns):
    """Chances at these prices and fees and their sums; returns what is minimised, infinite outside, and the error."""
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
    """One step of Newton's method on the prices and on the fees that matter, shortened until it helps."""
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
        found, off = measure(losses, scale, price, fee, chances, rows, columns)
        if found <= goal:
            return found, off
        length *= 0.5
    price[:] = old_price
    fee[:] = old_fee
    settle_apart(losses, scale, price, fee)
    return measure(losses, scale, price, fee, chances, rows, columns)


@uncounted
def solve_in_place(table, right):
    """Write the solution of table x = right into `right`, by elimination; for symmetric tables without pivots."""
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


@uncounted
def settle_apart(losses, scale, price, fee):
    """The price of each place with these fees, then the fee of each item with these prices."""
    for p in range(price.size):
        price[p] = root(losses[p], fee, scale, price[p])
    for i in range(fee.size):
        total = 0.0
        for p in range(price.size):
            gap = losses[p, i] + price[p]
            total += (scale / gap) ** 2 if gap > scale else 1.0
        fee[i] = root(losses[:, i], price, scale, fee[i]) if total > 1.0 else 0.0


@uncounted
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
