"""Proven relations between items on levels, kept as one bit a level and pair, and rankings that respect them.

`edges[i, j]` has bit l set when level l proved i better than j; a level also holds what slower levels proved.
`above[l, j]` counts the items better than j on level l. Used by FORC.
"""

import numpy as np

from .._jit import kernel


@kernel
def cyclic(edges, above, level):
    """Whether the relation of this level and slower ones has a cycle: taking items with nothing above ends early."""
    k = edges.shape[0]
    pending = above[level].copy()
    stack = np.empty(k, np.int64)
    size = taken = 0
    for i in range(k):
        if pending[i] == 0:
            stack[size] = i
            size += 1
    while size > 0:
        size -= 1
        i = stack[size]
        taken += 1
        for j in range(k):
            if edges[i, j] >> level > 0:
                pending[j] -= 1
                if pending[j] == 0:
                    stack[size] = j
                    size += 1
    return taken < k


@kernel
def add_edge(edges, above, level, i, j):
    """Note on `level` that i is better than j; returns whether a cycle is possible: something is above i."""
    was = edges[i, j]
    edges[i, j] = was | 1 << level
    risky = False
    for faster in range(level + 1):
        if was >> faster == 0:
            above[faster, j] += 1
            risky = risky or above[faster, i] > 0
    return risky


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
    looks = book.looks[level]
    least = 2**62
    for k in range(free.size):
        if free[k] and pending[k] == 0:
            least = min(least, looks[k])
    tied = np.empty(free.size, np.int64)
    n_tied = 0
    for k in range(free.size):
        if free[k] and pending[k] == 0 and looks[k] == least:
            tied[n_tied] = k
            n_tied += 1
    for i in range(level - 1, -1, -1):
        if n_tied == 1:
            break
        best, kept = -1.0, 0
        for n in range(n_tied):
            k = tied[n]
            mean = book.clicks[i, k] / book.looks[i, k] if book.looks[i, k] > 0 else -1.0
            if mean > best:
                best, kept = mean, 0
            if mean == best:
                tied[kept] = k
                kept += 1
        n_tied = kept
    return tied[int(u * n_tied)]


@kernel
def add_edges(edges, above, level, low, high, observed):
    """Add the relations that the observed items' intervals prove now.

    A cycle on this or a faster level means that one was misled: it forgets all it noted. O(K^2) where that must be
    looked into.
    """
    risky = False
    for k in observed:
        for j in range(low.size):
            if low[j] > high[k] and not edges[j, k] >> level & 1:
                risky = add_edge(edges, above, level, j, k) or risky
            elif low[k] > high[j] and not edges[k, j] >> level & 1:
                risky = add_edge(edges, above, level, k, j) or risky
    if risky:
        for faster in range(level, -1, -1):
            if cyclic(edges, above, faster):
                forget(edges, above, faster)
