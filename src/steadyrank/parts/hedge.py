"""A list for two views of the items at once."""

import numpy as np

from .._jit import uncounted


@uncounted
def hedged_list(mine, other, weight, ranking, rng):
    """Fill `ranking` so that a cascade user is likely to click, whichever of two views of the items is true.

    `mine` and `other`: attraction of each item in either view, `mine` -inf where an item may not be shown; it is
    overwritten. The chance of a click, 1 - prod(1 - attraction), is averaged over the views, the other one with
    `weight`, and items are added one by one, each the one that adds most: at least 1 - 1/e of the best possible
    (Nemhauser, Wolsey, Fisher 1978: the average is monotone and submodular). Once a view is likely to be served,
    the places left go to the other. One uniform a place decides among equals. O(K d).
    """
    miss_mine = 1.0 - weight
    miss_other = weight
    items = mine.size
    for p in range(ranking.size):
        pick = -1
        most = -1.0
        tied = 0
        for k in range(items):
            gain = miss_mine * mine[k] + miss_other * other[k]
            if gain >= most:  # rarely: one branch that is easy to foresee
                tied = tied + 1 if gain == most else 1
                pick = pick if gain == most else k
                most = gain
        skip = int(rng.random() * tied)
        while skip > 0:
            pick += 1
            if miss_mine * mine[pick] + miss_other * other[pick] == most:
                skip -= 1
        ranking[p] = pick
        miss_mine *= 1.0 - mine[pick]
        miss_other *= 1.0 - other[pick]
        mine[pick] = -np.inf
