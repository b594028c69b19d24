"""The most valuable list, if clicks on items differ in value. Ours, after Kempe and Mahdian 2008.

A user looks at place p with chance c_p if nothing was clicked above it, and clicks an item that attracts with chance
a; the click is worth v. Either the click ends the visit, e = 1, or it does not, e = 0. So the value of a list is

    sum_p c_p a_p v_p prod_{q < p} (1 - e a_q).

**Order.** Of two neighbours at places with chances c and s c, with the same list after them, i first is better
if a_i v_i (1 - s (1 - e a_j)) > a_j v_j (1 - s (1 - e a_i)): items belong in the order of a v / (1 - s (1 - e a)).
If everybody scans the list (s = 1, e = 1) that is v, the value of a click, whatever the attraction; if
clicks do not end the visit it is a v.

**Set.** With the order known, either an item takes a place, followed by the best list of the items after it, or it
is left out: a dynamic programme over items and places. It is exact for s = 1, e = 1, and for e = 0.

**Views.** If it is unclear which of several views of the items is true, the value of a list is averaged over
them. Then, and if chances of places fall unevenly, a local search exchanges items and places.

**Rules.** A list that must keep rules is improved in the same way, by exchanges that keep them.
"""

import numpy as np

from ...core.compiling.jit import kernel, no_refcount
from ..shared.thompson import draw_largest, draw_of, group_of, miss_of, posterior_of
from .click_values import FEW_ALLOWED, NEXT_LIST, SIZE, choose, choose_drawn, drawn_worth, learn_laws, worth_of
from .hedge import add_new, best_of, lowest_means_allowed, mean_of

LEAST = 1e-12  # a smaller improvement of a list's value is rounding error
ROUNDS = 2  # most exchanges, per place
DRAWN = 1  # candidates among the largest draws, per place


@no_refcount
def fall_of(chance):
    """Geometric mean of the ratio of the chances that a place and the one before it are looked at."""
    last = chance.size - 1
    if last < 1 or chance[0] <= 0.0:
        return 1.0
    return min((chance[last] / chance[0]) ** (1.0 / last), 1.0)


@no_refcount
def order_value(attraction, value, fall, ends):
    """The sort key of an item in the order of the module docstring."""
    if not ends:
        return attraction * value
    return attraction * value / max(1.0 - fall * (1.0 - attraction), 1e-12)


@kernel
def best_in_order(attraction, value, chance, ends, ranking):
    """Fill `ranking` with indices into `attraction` and `value` that form the best list. O(n length), and a sort.

    `chance` [length]: c_p. There must be at least as many items as places. Returns the value of the list.
    """
    n, size = attraction.size, ranking.size
    index, fall = np.empty(n), fall_of(chance[:size])
    for i in range(n):
        index[i] = -order_value(attraction[i], value[i], fall, ends)
    order = np.argsort(index)
    best, taken = np.full(size + 1, -np.inf), np.zeros((n, size), np.bool_)
    best[size] = 0.0
    for i in range(n - 1, -1, -1):
        a, v = attraction[order[i]], value[order[i]]
        stay = 1.0 - a if ends else 1.0
        for p in range(size):  # best[p + 1] is still that of the items from i + 1 on
            if best[p + 1] > -np.inf:
                with_it = chance[p] * a * v + stay * best[p + 1]
                if with_it > best[p]:
                    best[p] = with_it
                    taken[i, p] = True
    p = 0
    for i in range(n):
        if p < size and taken[i, p]:
            ranking[p] = order[i]
            p += 1
    return best[0]


@no_refcount
def weigh_places(attraction, value, chance, ends, ranking, reach, rest):
    """For each view, write the chance of no click above each place and the value of the rest of the list given that.

    `reach` is [V, length], `rest` [V, length + 1].
    """
    size = ranking.size
    for v in range(attraction.shape[0]):
        here = 1.0
        for p in range(size):
            reach[v, p] = here
            here *= 1.0 - attraction[v, ranking[p]] if ends else 1.0
        rest[v, size] = 0.0
        for p in range(size - 1, -1, -1):
            a = attraction[v, ranking[p]]
            rest[v, p] = chance[p] * a * value[v, ranking[p]] + (1.0 - a if ends else 1.0) * rest[v, p + 1]


@no_refcount
def gain_of_item(attraction, value, weights, chance, ends, ranking, reach, rest, p, i):
    """Gain of the list's value if item i takes place p."""
    gain, k = 0.0, ranking[p]
    for v in range(weights.size):
        a, other = attraction[v, i], attraction[v, k]
        now = chance[p] * other * value[v, k] + (1.0 - other if ends else 1.0) * rest[v, p + 1]
        then = chance[p] * a * value[v, i] + (1.0 - a if ends else 1.0) * rest[v, p + 1]
        gain += weights[v] * reach[v, p] * (then - now)
    return gain


@no_refcount
def gain_of_swap(attraction, value, weights, chance, ends, ranking, reach, rest, p):
    """Gain of the list's value if places p and p + 1 trade their items."""
    gain, i, j = 0.0, ranking[p], ranking[p + 1]
    for v in range(weights.size):
        a, b = attraction[v, i], attraction[v, j]
        stay, leave = (1.0 - b if ends else 1.0), (1.0 - a if ends else 1.0)
        then = chance[p] * b * value[v, j] + stay * (chance[p + 1] * a * value[v, i] + leave * rest[v, p + 2])
        gain += weights[v] * reach[v, p] * (then - rest[v, p])
    return gain


@kernel
def exchange(attraction, value, weights, chance, ends, ranking):
    """Local search: exchange items of a list for others, and neighbours for one another, until nothing helps.

    `attraction`, `value` [V, n]: of each item in each view; `weights` [V]. Each step is the best possible one.
    O(V n length) a step.
    """
    size, n, views = ranking.size, attraction.shape[1], weights.size
    reach, rest = np.empty((views, size)), np.empty((views, size + 1))
    free = np.ones(n, np.bool_)
    for p in range(size):
        free[ranking[p]] = False
    for _ in range(ROUNDS * size):
        weigh_places(attraction, value, chance, ends, ranking, reach, rest)
        most, place, item = LEAST, -1, -1
        for p in range(size):
            if p + 1 < size:
                gain = gain_of_swap(attraction, value, weights, chance, ends, ranking, reach, rest, p)
                if gain > most:
                    most, place, item = gain, p, -1
            for i in range(n):
                if free[i]:
                    gain = gain_of_item(attraction, value, weights, chance, ends, ranking, reach, rest, p, i)
                    if gain > most:
                        most, place, item = gain, p, i
        if place < 0:
            return
        if item < 0:
            ranking[place], ranking[place + 1] = ranking[place + 1], ranking[place]
        else:
            free[ranking[place]] = True
            free[item] = False
            ranking[place] = item


@kernel
def candidates_for(values, posteriors, allowed, size, t, rng):
    """Candidates for a list, and a draw of the attraction of each.

    The allowed items with the largest draws, and those chosen for their possible worth. If few of the latter are
    allowed, others are chosen for this list alone, O(K).
    """
    items, draws = draw_largest(posteriors, allowed, min(DRAWN * size, allowed.size), rng)
    drawn, n, may = values.drawn, values.tally[SIZE], 0
    for i in range(n):
        may += allowed[drawn[i]]
    if n > 0 and may < FEW_ALLOWED * size:
        drawn = np.empty_like(values.drawn)
        n = choose(values, posteriors, t, allowed, drawn)
    more = items.size
    every, attraction = np.empty(more + n, np.int64), np.empty(more + n)
    for i in range(more):
        every[i] = items[i]
        attraction[i] = draws[i]
    for i in range(n):
        k = drawn[i]
        new = allowed[k]
        for j in range(items.size if new else 0):
            new = new and items[j] != k
        if new:
            every[more] = k
            attraction[more] = draw_of(posteriors, k, items, draws, rng)
            more += 1
    return every[:more], attraction[:more]


@kernel
def places_by_look(chance, order, ends, size):
    """The places of a list in the order in which it is filled, and the chance that each is looked at.

    From the top if a click ends the visit; else most looked at first.
    """
    places, looked_at = np.empty(size, np.int64), np.empty(size)
    n = 0
    for p in range(chance.size):
        place = p if ends else order[p]
        if place < size:
            places[n] = place
            looked_at[n] = chance[place]
            n += 1
    return places, looked_at


@kernel
def views_of_items(values, posteriors, rival, weights, allowed, more, size, t, rng):
    """The candidates for a list of `size` and those in `more`, with attraction and worth of a click, both [V, n].

    `weights`: of the views; the first one is drawn. The second view, if any, is that all attractions learnt are
    inverted, the third is the `rival`; both use the expected worth of clicks. Their candidates are the `size` best
    items of each.
    """
    drawn, draws = candidates_for(values, posteriors, allowed, size, t, rng)
    some, views = drawn.size, weights.size
    n, items = some, np.empty(some + (views - 1) * size + more.size, np.int64)
    for i in range(n):
        items[i] = drawn[i]
    if views > 1:
        best = np.empty(size, np.int64)
        lowest_means_allowed(posteriors, allowed, best, rng)
        n = add_new(items, n, best)
        if views > 2:
            best_of(rival, allowed, best, rng)
            n = add_new(items, n, best)
    n = add_new(items, n, more)
    attraction, worth = np.empty((views, n)), np.empty((views, n))
    for i in range(n):
        k = items[i]
        alpha, beta = posterior_of(posteriors, group_of(posteriors.groups, k))
        attraction[0, i] = draws[i] if i < some else rng.beta(alpha, beta)
        worth[0, i] = drawn_worth(values, k, t, attraction[0, i], rng)
        if views > 1:
            attraction[1, i] = beta / (alpha + beta)
            worth[1, i], _ = worth_of(values, k, t, alpha / (alpha + beta))
        if views > 2:
            attraction[2, i] = mean_of(rival, k)
            worth[2, i] = worth[1, i]
    return items[:n], attraction, worth


@kernel
def most_valued(values, posteriors, attention, ends, rival, weights, allowed, ranking, t, rng):
    """Fill `ranking` with the most valuable list by a draw of attractions and of the worth of clicks.

    `weights` and `rival`: as in `views_of_items`.
    """
    size, none = ranking.size, np.empty(0, np.int64)
    items, attraction, worth = views_of_items(values, posteriors, rival, weights, allowed, none, size, t, rng)
    places, chance = places_by_look(attention.chance, attention.order, ends, size)
    found = np.empty(size, np.int64)
    best_in_order(attraction[0], worth[0], chance, ends, found)
    if weights.size > 1 or (ends and chance[size - 1] < chance[0]):
        exchange(attraction, worth, weights, chance, ends, found)
    for p in range(size):
        ranking[places[p]] = items[found[p]]


@no_refcount
def worth_of_list(attraction, value, weights, chance, ends, ranking):
    """Value of a list as in the module docstring, averaged over the views."""
    total = 0.0
    for v in range(weights.size):
        here = weights[v]
        for p in range(ranking.size):
            a = attraction[v, ranking[p]]
            total += here * chance[p] * a * value[v, ranking[p]]
            here *= 1.0 - a if ends else 1.0
    return total


@no_refcount
def may_replace(sets, counts, least, most, out, new):
    """Whether a list with these counts of each set still keeps all rules if a new item replaces another."""
    for s in range(counts.size):
        count = counts[s] + sets[s, new] - sets[s, out]
        if (count > counts[s] and count > most[s]) or (count < counts[s] and count < least[s]):
            return False
    return True


@no_refcount
def put_in_order(index, fixed, ranking, p, new, other):
    """Fill `other` with the list in which a new item replaces that at place p and is sorted in by `index`.

    It goes before the first item that belongs behind it; fixed places keep their items.
    """
    q, waits = 0, True
    for place in range(ranking.size):
        if fixed[place]:
            other[place] = ranking[place]
            continue
        while q < ranking.size and (fixed[q] or q == p):
            q += 1
        if waits and (q == ranking.size or index[ranking[q]] < index[new]):
            other[place] = new
            waits = False
        else:
            other[place] = ranking[q]
            q += 1


@kernel
def exchange_by_rules(attraction, value, weights, chance, ends, sets, least, most, held, fixed, ranking):
    """Local search within rules: exchange items for others, and places for one another, until nothing helps.

    `sets` [S, n]: 1 for the members of each set; a list has from `least` to `most` [S] of them, as far as it has now.
    `held` [n]: items that must stay; `fixed` [length]: places that keep their items. A new item takes the place of
    the one that leaves, or its place by `order_value`. Each step is the best possible one. O(n length^2) a step, and
    as much for each set.
    """
    size, n = ranking.size, attraction.shape[1]
    index, fall = np.empty(n), fall_of(chance[:size])
    for i in range(n):
        index[i] = order_value(attraction[0, i], value[0, i], fall, ends)
    free, counts = np.ones(n, np.bool_), np.zeros(least.size, np.int64)
    for p in range(size):
        free[ranking[p]] = False
        for s in range(counts.size):
            counts[s] += sets[s, ranking[p]]
    other, best = ranking.copy(), ranking.copy()
    now = worth_of_list(attraction, value, weights, chance, ends, ranking)
    for _ in range(ROUNDS * size):
        more, out, new = now + LEAST * abs(now), -1, -1
        for p in range(size):
            if fixed[p]:
                continue
            k = ranking[p]
            for q in range(p + 1, size):
                if not fixed[q]:
                    other[:] = ranking
                    other[p], other[q] = ranking[q], k
                    found = worth_of_list(attraction, value, weights, chance, ends, other)
                    if found > more:
                        more, out, new = found, k, k
                        best[:] = other
            for i in range(n if not held[k] else 0):
                if free[i] and may_replace(sets, counts, least, most, k, i):
                    for ordered in range(2 if ends else 1):
                        other[:] = ranking
                        other[p] = i
                        if ordered == 1:
                            put_in_order(index, fixed, ranking, p, i, other)
                        found = worth_of_list(attraction, value, weights, chance, ends, other)
                        if found > more:
                            more, out, new = found, k, i
                            best[:] = other
        if out < 0:
            return
        now = more
        ranking[:] = best
        free[out] = True
        free[new] = False
        for s in range(counts.size):
            counts[s] += sets[s, new] - sets[s, out]


@kernel
def learn_values(values, posteriors, chance, ends, t, window):
    """After a window: fit the laws that items share, and choose the items that lists draw from. O(K) if due."""
    learn_laws(values, posteriors, t)
    if t < values.tally[NEXT_LIST]:
        return
    choose_drawn(values, posteriors, t, window)
    n = values.tally[SIZE]
    if n == 0:
        return
    attraction, worth = np.empty(n), np.empty(n)
    for i in range(n):
        k = values.drawn[i]
        attraction[i] = 1.0 - miss_of(posteriors, k)
        worth[i], _ = worth_of(values, k, t, attraction[i])
    best = np.empty(min(chance.size, n), np.int64)
    values.list_worth[0] = best_in_order(attraction, worth, chance, ends, best)
