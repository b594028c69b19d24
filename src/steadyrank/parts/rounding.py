"""Lists drawn by chances of each item at each place."""

import numpy as np

from .._jit import kernel, uncounted

_EDGE = 1e-9  # chances closer than this to 0 or 1 are taken for it


@kernel
def draw_matching(chances, chosen, rng):
    """Draw an item for each place, each pair with exactly its chance; -1, nobody, with the chance that a place lacks.

    Neighbouring items are taken together as long as they have at most 1 in all: such a group gets at most one place,
    so at most one of its items is shown, which is drawn last. O(d K), and at most 2 d + 2 groups are matched.
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
    x = np.zeros((d, groups + 2))  # the last column is nobody
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


@uncounted
def _one_of(chances, start, end, rng):
    """An item from start to end, with chances in proportion to these."""
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
    """Make chances of pairs 0 or 1, with these as expectations: dependent rounding (Gandhi et al. 2006).

    Rows sum to 1 and stay so; columns that sum to at most 1 do. While pairs are neither sure nor excluded, take a
    path or a cycle of them and move as much as possible from every second one to the others, in one of two
    directions, with odds that leave all expectations as they are. Each move decides a pair.
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
    """Write the items drawn into `ranking`; where nobody was, or one that may not be shown, a random other item."""
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


@uncounted
def _open(x, items, count, p, other):
    """An undecided item of place p that is not `other`; -1 where there is none. Decided ones leave its list."""
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


@uncounted
def _open_place(x, i, other):
    """An undecided place of item i that is not `other`; -1 where there is none."""
    for p in range(x.shape[0]):
        if p != other and _EDGE < x[p, i] < 1.0 - _EDGE:
            return p
    return -1


@uncounted
def _walk(x, items, count, p, places, path):
    """From place p over undecided pairs, written as (places[e], path[e]): to a cycle, else from its end to another.

    Returns which of them are the cycle, or all of a path that cannot go on at either end.
    """
    first, last, ended = _step(x, items, count, p, -1, places, path)
    if ended:
        item = path[last - 1] if last % 2 == 1 else -1  # it ends at an item, or (by rounding) at a place
        first, last, ended = _step(x, items, count, places[last - 1], item, places, path)
    return first, last


@uncounted
def _step(x, items, count, p, item, places, path):
    """The pairs from place p on, or from the item by whose pair with p it starts: first, last, whether it ended."""
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


@uncounted
def _shift(x, places, path, first, last, rng):
    """Move chances along these pairs, up at every second one and down at the others, or the other way."""
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
