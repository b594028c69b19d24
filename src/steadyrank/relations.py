"""Proven relations between items on levels, kept as one bit a level and pair, and rankings that respect them.

`edges[i, j]` has bit l set when level l proved i better than j; a level also holds what slower levels proved.
`above[l, j]` counts the items better than j on level l. Used by FORC.
"""

import numpy as np

from ._jit import kernel


@kernel
def leads_to(edges, level, start, goal):
    """Whether `goal` can be reached from `start` by steps from better to worse items, on this level or slower."""
    k = edges.shape[0]
    reached = np.zeros(k, np.bool_)
    stack = np.empty(k, np.int64)
    stack[0] = start
    size = 1
    while size > 0:
        size -= 1
        i = stack[size]
        for j in range(k):
            if edges[i, j] >> level > 0 and not reached[j]:
                if j == goal:
                    return True
                reached[j] = True
                stack[size] = j
                size += 1
    return False


@kernel
def add_edge(edges, above, level, i, j):
    """Note on `level` that i is better than j. A cycle on a faster level means that one was misled: forget it."""
    was = edges[i, j]
    for faster in range(level, -1, -1):
        if was >> faster == 0 and above[faster, i] > 0 and leads_to(edges, faster, j, i):
            forget(edges, above, faster)
            if faster == level:
                return
    was = edges[i, j]
    edges[i, j] = was | 1 << level
    for faster in range(level + 1):
        above[faster, j] += 1 if was >> faster == 0 else 0


@kernel
def forget(edges, above, level):
    """Remove all that this level has noted."""
    for i in range(edges.shape[0]):
        for j in range(edges.shape[0]):
            was = edges[i, j]
            if was >> level & 1:
                edges[i, j] = was & ~(1 << level)
                for faster in range(level + 1):
                    above[faster, j] -= 1 if edges[i, j] >> faster == 0 else 0


@kernel
def release(edges, pending, level, i):
    """Item i is placed: those below it wait for one less."""
    for j in range(pending.size):
        pending[j] -= 1 if edges[i, j] >> level > 0 else 0


@kernel
def pick(book, level, free, pending, u):
    """The least seen item that waits for none; ties by the means of faster levels, nearest first, then by u."""
    seen = book.seen[level]
    least = 2**62
    for k in range(free.size):
        if free[k] and pending[k] == 0:
            least = min(least, seen[k])
    tied = np.empty(free.size, np.int64)
    n_tied = 0
    for k in range(free.size):
        if free[k] and pending[k] == 0 and seen[k] == least:
            tied[n_tied] = k
            n_tied += 1
    for i in range(level - 1, -1, -1):
        if n_tied == 1:
            break
        best, kept = -1.0, 0
        for n in range(n_tied):
            k = tied[n]
            mean = book.wins[i, k] / book.seen[i, k] if book.seen[i, k] > 0 else -1.0
            if mean > best:
                best, kept = mean, 0
            if mean == best:
                tied[kept] = k
                kept += 1
        n_tied = kept
    return tied[int(u * n_tied)]


@kernel
def add_edges(edges, above, level, low, high, observed):
    """Add the relations that the observed items' intervals prove now."""
    for k in observed:
        for j in range(low.size):
            if low[j] > high[k] and not edges[j, k] >> level & 1:
                add_edge(edges, above, level, j, k)
            elif low[k] > high[j] and not edges[k, j] >> level & 1:
                add_edge(edges, above, level, k, j)
