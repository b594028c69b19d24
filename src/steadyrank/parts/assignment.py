"""The list with the largest sum over places of what its items are worth there."""

import numpy as np

from .._jit import kernel


@kernel
def best_assignment(worth, chosen):
    """Write into `chosen`, one number a place, distinct columns of worth[place, item] with the largest sum.

    Shortest augmenting paths (Jonker, Volgenant 1987; Crouse 2016), place by place: O(d^2 K) for d places. Of equal
    sums, one that depends on the order of the columns.
    """
    d, n = worth.shape
    place_price, item_price = np.zeros(d), np.zeros(n)
    holder = np.full(n, -1, np.int64)  # place that holds an item
    came = np.empty(n, np.int64)  # place from which the shortest path enters an item
    cost, done = np.empty(n), np.empty(n, np.bool_)
    chosen[:] = -1
    for start in range(d):
        cost[:] = np.inf
        done[:] = False
        p, reached, end = start, 0.0, -1
        while end < 0:
            least, item = np.inf, -1
            for k in range(n):
                if not done[k]:
                    through = reached - worth[p, k] - place_price[p] - item_price[k]
                    if through < cost[k]:
                        cost[k] = through
                        came[k] = p
                    # of equal costs a free item first: the path ends
                    if cost[k] < least or (cost[k] == least and holder[k] < 0 <= holder[item]):
                        least, item = cost[k], k
            reached = least
            done[item] = True
            if holder[item] < 0:
                end = item
            else:
                p = holder[item]
        place_price[start] += reached
        for k in range(n):
            if done[k] and k != end:
                place_price[holder[k]] += reached - cost[k]
                item_price[k] -= reached - cost[k]
        while True:  # along the path each place takes the item by which it was entered
            p = came[end]
            holder[end] = p
            chosen[p], end = end, chosen[p]
            if p == start:
                break
