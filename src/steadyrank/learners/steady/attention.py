"""How far down a list people look, learnt from their clicks. Ours, no paper's.

An item at place p is clicked with chance attention[p] times its attraction (Richardson et al. 2007). Items shown
at several places separate the two: the attention is fitted to their clicks by place, that of the first
place being 1. A place without a click may not have been looked at: it counts as looked
at with the chance that it was, given that it was not clicked.

For the fit, clicks of item i at place p are taken to be Poisson with mean
looks[i, p] * attention[p] * attraction[i], and attractions of the n items to be Gamma with a known shape. The
attractions are integrated out, which leaves

    sum_p clicks[p] log attention[p] + n shape log B
    - sum_i (shape + clicks[i]) log(B + sum_p looks[i, p] attention[p])

with B the shape over the mean attraction. It is concave in the logarithms of B and of the attention, so that
Newton's method reaches its maximum. With a separately fitted attraction for each item, an item dropped
for lack of clicks would fit perfectly and tell nothing about its place, while items kept on top by luck would
do worse there than before: lower places would seem to be looked at far more than they are.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats
from ...core.compiling.intrinsics import stack_ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.philox import philox
from ..shared.thompson import miss_of

STEPS = 12  # most Newton steps; five are usual
CLOSE = 1e-6  # convergence, in nats
ADDED = 0.1  # pseudo-count of clicks and expected clicks at each place but the first: keeps estimates finite
PLACES = 40  # places with an attention of their own; further ones have that of the last of these


@kernel
def likelihood(looks, clicks, shape, logs):
    """The log likelihood above, with the ADDED counts; `logs`: of B, then of the attention of places 2, 3, ..."""
    total = 0.0
    for p in range(1, logs.size):
        total += ADDED * (logs[p] - math.exp(logs[p]))
    for i in range(looks.shape[0]):
        expected, won = math.exp(logs[0]) + looks[i, 0], clicks[i, 0]
        for p in range(1, logs.size):
            expected += looks[i, p] * math.exp(logs[p])
            won += clicks[i, p]
            total += clicks[i, p] * logs[p]
        total += shape * logs[0] - (shape + won) * math.log(expected)
    return total


@kernel
def slope(looks, clicks, shape, logs, free):
    """First derivatives of the log likelihood by the first `free` logs, and the negated second ones."""
    first, second, weight = np.zeros(free), np.zeros((free, free)), np.empty(free)
    for p in range(1, free):
        first[p] = ADDED * (1.0 - math.exp(logs[p]))
        second[p, p] = ADDED * math.exp(logs[p])
    for i in range(looks.shape[0]):
        expected, won = math.exp(logs[0]) + looks[i, 0], clicks[i, 0]
        weight[0] = math.exp(logs[0])
        first[0] += shape
        for p in range(1, logs.size):
            mine = looks[i, p] * math.exp(logs[p])
            expected += mine
            won += clicks[i, p]
            if p < free:
                weight[p] = mine
                first[p] += clicks[i, p]
        rate = (shape + won) / expected
        for p in range(free):
            first[p] -= rate * weight[p]
            second[p, p] += rate * weight[p]
            for q in range(p + 1):
                second[p, q] -= rate * weight[p] * weight[q] / expected
    return first, second


@kernel
def solve(matrix, vector):
    """Solve matrix x = vector in place by Cholesky; `matrix` positive definite, given by its lower triangle."""
    for p in range(vector.size):
        for q in range(p + 1):
            rest = matrix[p, q]
            for r in range(q):
                rest -= matrix[p, r] * matrix[q, r]
            matrix[p, q] = math.sqrt(max(rest, 1e-12)) if p == q else rest / matrix[q, q]
    for p in range(vector.size):
        for q in range(p):
            vector[p] -= matrix[p, q] * vector[q]
        vector[p] /= matrix[p, p]
    for p in range(vector.size - 1, -1, -1):
        for q in range(p + 1, vector.size):
            vector[p] -= matrix[q, p] * vector[q]
        vector[p] /= matrix[p, p]


@kernel
def climb(looks, clicks, shape, logs, free):
    """Maximise the log likelihood over the first `free` logs; returns it. O(items free^2) a step."""
    best = likelihood(looks, clicks, shape, logs)
    for _ in range(STEPS):
        first, second = slope(looks, clicks, shape, logs, free)
        solve(second, first)
        trial, size, reached = logs.copy(), 1.0, best
        while size > 1e-3:
            for p in range(free):
                trial[p] = logs[p] + size * first[p]
            reached = likelihood(looks, clicks, shape, trial)
            if reached >= best:
                break
            size /= 2.0
        gained = reached - best
        if gained > 0.0:
            for p in range(free):
                logs[p] = trial[p]
            best = reached
        if gained < CLOSE:
            break
    return best


@kernel
def of_shown(table, looks, places):
    """The rows of a table [item, place] whose items were shown, as floats, with at most `places` columns."""
    n = 0
    rows = np.zeros((looks.shape[0], places))
    for i in range(looks.shape[0]):
        some = False
        for p in range(looks.shape[1]):
            rows[n, min(p, places - 1)] += table[i, p]
            some = some or looks[i, p] > 0
        n += 1 if some else 0
    return rows[:n]


@kernel
def fit_attention(looks, clicks, shape, chance):
    """Fit the attention of each place, and write it into `chance`, [place].

    `looks` and `clicks`: integers, [item, place]; only items with looks count. Returns two kinds of evidence
    against full attention, in nats: that of the fit, and that of the attention in `chance` before.
    """
    places = min(chance.size, PLACES)
    seen, won = of_shown(looks, looks, places), of_shown(clicks, looks, places)
    if won.sum() == 0.0 or places < 2:
        chance.fill(1.0)
        return 0.0, 0.0
    logs, before = np.zeros(places), np.log(chance[:places])
    logs[0] = before[0] = math.log(shape * seen.sum() / won.sum())
    full = climb(seen, won, shape, logs, 1)
    kept = climb(seen, won, shape, before, 1)
    gain = climb(seen, won, shape, logs, places)
    for p in range(1, chance.size):
        chance[p] = min(math.exp(logs[min(p, places - 1)]), 1.0)
    return gain - full, kept - full


SLOTS = 512  # most items whose clicks are kept by place: the first ones shown
NOBODY = -1
LEAST_SHAPE = 0.05  # least shape of the attractions' Gamma: below, a handful of items would have all the clicks
BAR = 20.0  # nats of evidence needed against full attention: a list of ten has nine places to fit
FIRST, FIRST_OF_CASCADE = 200.0, 500.0  # rounds before the first fit, if feedback continues after clicks and if not
DEALT = 2000.0  # rounds in which lists may be shuffled
GROWN = 1.125  # the next fit is due at so many times the rounds of the last one
FITS = 6  # fits whose evidence is kept: rounds double in so many fits
SUDDEN = 3.0  # limit of the ratio of evidence to that FITS fits ago, expected to be 2
FALLEN = 0.98  # limit of the ratio of evidence to its recent maximum
CLICKED, WHOLE, ROUNDS, FITTED = range(4)  # indices in Attention.tally
LEAST = 1e-9  # least chance in a note: 0 means unknown
_KEY = 0x10CA7ED  # key of the draws that decide what was looked at


class Attention(NamedTuple):
    """Looks and clicks by item and place, and their fit; N is SLOTS or the number of items, if that is less."""

    item: Counts  # [N]
    looks: Counts  # [N, length]
    clicks: Counts  # [N, length]
    chance: Floats  # [length] estimated chance that a place is looked at
    order: Counts  # [length] places, most looked at first
    evidence: Floats  # [FITS] of the latest fits, oldest first, in nats
    tally: Floats  # [4] lists with a click before their end; of these, reported in full; rounds; rounds at last fit

    @classmethod
    def create(cls, n_items: int, length: int, given: Floats | None = None) -> "Attention":
        """Every place is looked at, and a click ends the visit, until clicks show otherwise; or as `given`."""
        n = min(n_items, SLOTS)
        counts = np.zeros((n, length), np.int32), np.zeros((n, length), np.int32)
        chance, tally = np.ones(length), np.zeros(4)
        if given is not None:
            chance[:], tally[WHOLE], tally[ROUNDS] = given, 1.0, DEALT
        order = np.argsort(-chance, kind="stable").astype(np.int32)
        return cls(np.full(n, NOBODY, np.int32), *counts, chance, order, np.zeros(FITS), tally)


@no_refcount
def deal_places(attention, ranking, rng):
    """Shuffle a list while attention is unknown; returns whether it was shuffled. O(length).

    If people continue after clicks, and all places seem alike, order has no value: it is random in the first DEALT
    rounds. Items that never move tell nothing about places, and low ones would seem bad.
    """
    size, chance = ranking.size, attention.chance
    if attention.tally[ROUNDS] < DEALT and goes_on(attention) and chance[attention.order[chance.size - 1]] == 1.0:
        for p in range(size - 1, 0, -1):
            q = int(rng.random() * (p + 1))
            ranking[p], ranking[q] = ranking[q], ranking[p]
        return True
    return False


@no_refcount
def place_by_attention(attention, ranking, rng):
    """Rearrange a list that is ranked best first: the better an item, the more its place is looked at. O(length)."""
    if deal_places(attention, ranking, rng):
        return
    size = ranking.size
    best_first = stack_ints(size)
    for p in range(size):
        best_first[p] = ranking[p]
    n = 0
    for p in attention.order:
        if p < size:
            ranking[p] = best_first[n]
            n += 1


@no_refcount
def sort_places(order, chance):
    """Sort places by attention, equal ones from the top. O(length^2)."""
    for place in range(order.size):
        p = place
        while p > 0 and chance[order[p - 1]] < chance[place]:
            order[p] = order[p - 1]
            p -= 1
        order[p] = place


@no_refcount
def note_looks(attention, posteriors, ranking, note):
    """Write into the note the chance that each place of a list was looked at, if it is not clicked: Bayes' rule.

    Nothing for a place that is always looked at, because notes are stored with lists.
    """
    for p in range(ranking.size):
        chance = attention.chance[p]
        if chance < 1.0:
            miss = miss_of(posteriors, ranking[p])
            note[p] = max(chance * miss / (1.0 - chance * (1.0 - miss)), LEAST)


@no_refcount
def was_looked_at(note, clicks, t, p):
    """Whether place p of round t counts as looked at: drawn from round and place, so that replays agree.

    Lists without such a note were looked at in full.
    """
    if clicks[p] or not 0.0 < note[p] < 1.0:
        return True
    low, _ = philox(t & 0xFFFFFFFF, p, _KEY)
    return low < note[p] * 4294967296.0


@no_refcount
def looked_at(ranking, note, clicks, examined, t, items, bits):
    """Write the items of the places of round t that count as looked at, and their bits; returns their number."""
    n = 0
    for p in range(examined):
        if was_looked_at(note, clicks, t, p):
            items[n] = ranking[p]
            bits[n] = clicks[p]
            n += 1
    return n


@no_refcount
def goes_on(attention):
    """Whether feedback continues after clicks: most lists with a click are reported to the end.

    A cascade ends with the click, so a place behind a click can be spared. Here none can.
    """
    return attention.tally[WHOLE] > attention.tally[CLICKED] / 2.0


@no_refcount
def scans_all(attention):
    """Whether people look at every place up to their click, so that the order of items does not matter to them."""
    return not goes_on(attention) and attention.chance[attention.order[attention.order.size - 1]] == 1.0


@no_refcount
def watch(attention, ranking, clicks, examined):
    """Count the clicks of one list."""
    clicked = False
    for p in range(examined):
        k = ranking[p]
        clicked = clicked or (clicks[p] and p + 1 < ranking.size)
        n = attention.item.size
        slot = k if k < n else (k * 0x9E3779B1 >> 8) % n
        if attention.item[slot] == NOBODY:
            attention.item[slot] = k
        if attention.item[slot] == k:
            attention.looks[slot, p] += 1
            attention.clicks[slot, p] += 1 if clicks[p] else 0
    attention.tally[ROUNDS] += 1.0
    if clicked:
        attention.tally[CLICKED] += 1.0
        if examined == ranking.size and not clicks[examined - 1]:
            attention.tally[WHOLE] += 1.0


@no_refcount
def rewatch(attention):
    """Reset the counts by place after a change of taste, because they no longer compare. O(N length)."""
    attention.tally[ROUNDS] = 0.0
    attention.tally[FITTED] = 0.0
    attention.evidence.fill(0.0)
    for slot in range(attention.item.size):
        attention.item[slot] = NOBODY
        for p in range(attention.chance.size):
            attention.looks[slot, p] = 0
            attention.clicks[slot, p] = 0


@no_refcount
def grows_steadily(evidence, latest):
    """Whether evidence grew with the rounds, neither suddenly nor with a recent fall; appends the latest.

    The attention of places shows from the first rounds on. A temporary change of taste that makes items fall to lower
    places later looks similar, but only for a while.
    """
    steady = latest <= SUDDEN * evidence[0]
    for i in range(FITS):
        steady = steady and latest >= FALLEN * evidence[i]
        evidence[i] = latest if i == FITS - 1 else evidence[i + 1]
    return steady


@kernel
def learn_attention(attention, shape, bar):
    """Fit the attention of each place; it stays 1 until the evidence against that is above `bar`. O(N length^2).

    If feedback ends with a click, a cascade is the default, and evidence has to grow steadily, unless `bar` is 0.
    What was learnt stays until there is as much evidence for something else. `shape`: of the attractions'
    distribution, that of the prior. Returns the share of the looks so far that were real looks, if all were counted
    until now; else 1.
    """
    length, further = attention.chance.size, goes_on(attention)
    first = FIRST if further else FIRST_OF_CASCADE
    if attention.tally[ROUNDS] < max(GROWN * attention.tally[FITTED], first) or length < 2:
        return 1.0
    attention.tally[FITTED] = attention.tally[ROUNDS]
    before = attention.chance.copy()
    fitted, kept = fit_attention(attention.looks, attention.clicks, max(shape, LEAST_SHAPE), attention.chance)
    steady = grows_steadily(attention.evidence, fitted)
    if fitted <= bar or not (steady or further or bar == 0.0):
        for p in range(length):
            attention.chance[p] = before[p] if kept >= -bar else 1.0
    in_full = True
    for p in range(length):
        in_full = in_full and before[p] == 1.0
    sort_places(attention.order, attention.chance)
    shown = looks = 0.0
    for slot in range(attention.item.size):
        for p in range(length):
            shown += attention.looks[slot, p]
            looks += attention.looks[slot, p] * attention.chance[p]
    return looks / shown if in_full and shown > 0.0 else 1.0
