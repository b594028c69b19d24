"""A list for two views of the items at once."""

from ._jit import lean


@lean
def hedged_list(mine, other, weight, ranking, rng):
    """Fill `ranking` so that a cascade user is likely to click, whichever of two views of the items is true.

    `mine` and `other`: attraction of each item in either view, `mine` negative where an item may not be shown; it is
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
            if mine[k] >= 0.0:
                gain = miss_mine * mine[k] + miss_other * other[k]
                tied = tied + 1 if gain == most else (1 if gain > most else tied)
                if gain > most:
                    most = gain
                    pick = k
        skip = int(rng.random() * tied)
        while skip > 0:
            pick += 1
            if mine[pick] >= 0.0 and miss_mine * mine[pick] + miss_other * other[pick] == most:
                skip -= 1
        ranking[p] = pick
        miss_mine *= 1.0 - mine[pick]
        miss_other *= 1.0 - other[pick]
        mine[pick] = -1.0
