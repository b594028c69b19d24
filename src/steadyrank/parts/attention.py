"""How far down a list people look, learnt from the clicks themselves. Ours, no paper's.

An item at place p is clicked with chance attention[p] times its attraction (Richardson et al. 2007). Items that stood
at several places tell the two apart: the attention is fitted to their clicks by place (`attention_fit`), the first
place being looked at by everybody. A place where nothing was clicked was perhaps not looked at: it counts as looked
at with the chance that it was, given that it was not clicked.
"""

from typing import NamedTuple

import numpy as np

from .._intrinsics import stack_ints
from .._jit import kernel, uncounted
from ..arrays import Counts, Floats
from ..chance import philox
from ..indices.posteriors import miss_of
from .attention_fit import fit_attention

SLOTS = 512  # items whose clicks are kept by place, at most: the first ones that are shown
NOBODY = -1
LEAST_SHAPE = 0.05  # of the law of attractions: below, a handful of items would have all the clicks
BAR = 20.0  # nats of evidence against lists that are looked at in full: there are nine places to fit in a list of ten
FIRST, FIRST_OF_CASCADE = 200.0, 500.0  # rounds before a fit, where feedback goes on after clicks and where not
DEALT = 2000.0  # rounds in which lists may be dealt
GROWN = 1.125  # a further fit comes when there are this many times the rounds of the last one
FITS = 6  # whose evidence is remembered: in so many fits the rounds double
SUDDEN = 3.0  # times the evidence of FITS fits ago, where twice is to be expected
FALLEN = 0.98  # of the most evidence lately
CLICKED, WHOLE, ROUNDS, FITTED = range(4)  # places of Attention.tally
LEAST = 1e-9  # in a note: 0 says nothing
_KEY = 0x10CA7ED  # of the draws that decide what was looked at


class Attention(NamedTuple):
    """Looks and clicks by item and place, and what they say; N is SLOTS or the number of items, if that is less."""

    item: Counts  # [N]
    looks: Counts  # [N, length]
    clicks: Counts  # [N, length]
    chance: Floats  # [length] that a place is looked at, as believed
    order: Counts  # [length] places, the one that is looked at most first
    evidence: Floats  # [FITS] of the latest fits, the oldest first, in nats
    tally: (
        Floats  # [4] lists with a click before their end, and of these those told of in full; rounds, at the last fit
    )

    @classmethod
    def create(cls, n_items: int, length: int, given: Floats | None = None) -> "Attention":
        """Every place is looked at, and nobody goes on after a click, until clicks say otherwise; or as `given`."""
        n = min(n_items, SLOTS)
        counts = np.zeros((n, length), np.int32), np.zeros((n, length), np.int32)
        chance, tally = np.ones(length), np.zeros(4)
        if given is not None:
            chance[:], tally[WHOLE], tally[ROUNDS] = given, 1.0, DEALT
        order = np.argsort(-chance, kind="stable").astype(np.int32)
        return cls(np.full(n, NOBODY, np.int32), *counts, chance, order, np.zeros(FITS), tally)


@uncounted
def place_by_attention(attention, ranking, rng):
    """Rearrange a list that is ranked best first: the better an item, the more its place is looked at. O(length).

    If people go on after clicks, and all places seem alike to them, then order is worth nothing: for the first DEALT
    rounds it is dealt. Items that stay where they are cannot tell of places, and what stands low seems to be bad.
    """
    size, chance = ranking.size, attention.chance
    if attention.tally[ROUNDS] < DEALT and goes_on(attention) and chance[attention.order[chance.size - 1]] == 1.0:
        for p in range(size - 1, 0, -1):
            q = int(rng.random() * (p + 1))
            ranking[p], ranking[q] = ranking[q], ranking[p]
        return
    best_first = stack_ints(size)
    for p in range(size):
        best_first[p] = ranking[p]
    n = 0
    for p in attention.order:
        if p < size:
            ranking[p] = best_first[n]
            n += 1


@uncounted
def sort_places(order, chance):
    """Order places by how much they are looked at, equal ones from the top. O(length^2)."""
    for place in range(order.size):
        p = place
        while p > 0 and chance[order[p - 1]] < chance[place]:
            order[p] = order[p - 1]
            p -= 1
        order[p] = place


@uncounted
def note_looks(attention, posteriors, ranking, note):
    """Write the chance that each place of a list was looked at, if it is not clicked, into its note: Bayes' rule.

    Nothing of a place that is always looked at: notes are stored with lists.
    """
    for p in range(ranking.size):
        chance = attention.chance[p]
        if chance < 1.0:
            miss = miss_of(posteriors, ranking[p])
            note[p] = max(chance * miss / (1.0 - chance * (1.0 - miss)), LEAST)


@uncounted
def was_looked_at(note, clicks, t, p):
    """Whether place p of round t counts as looked at: drawn from the round and the place, the same when replayed.

    Lists without such a note were looked at in full.
    """
    if clicks[p] or not 0.0 < note[p] < 1.0:
        return True
    low, _ = philox(t & 0xFFFFFFFF, p, _KEY)
    return low < note[p] * 4294967296.0


@kernel
def looked_at(ranking, note, clicks, examined, t):
    """The items of the places of round t that count as looked at, and their bits."""
    items, bits = np.empty(examined, np.int64), np.empty(examined, np.bool_)
    n = 0
    for p in range(examined):
        if was_looked_at(note, clicks, t, p):
            items[n] = ranking[p]
            bits[n] = clicks[p]
            n += 1
    return items[:n], bits[:n]


@uncounted
def goes_on(attention):
    """Whether feedback goes on after clicks: most lists with a click are told of to the end.

    A cascade ends with the click, and every further place of a list is to spare once it is clicked. Here none is.
    """
    return attention.tally[WHOLE] > attention.tally[CLICKED] / 2.0


@uncounted
def watch(attention, ranking, clicks, examined):
    """Take the clicks of one list."""
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


@uncounted
def rewatch(attention):
    """Items are liked otherwise from now on: their clicks at different places no longer compare. O(N length)."""
    attention.tally[ROUNDS] = 0.0
    attention.tally[FITTED] = 0.0
    attention.evidence[:] = 0.0
    for slot in range(attention.item.size):
        attention.item[slot] = NOBODY
        for p in range(attention.chance.size):
            attention.looks[slot, p] = 0
            attention.clicks[slot, p] = 0


@uncounted
def grows_steadily(evidence, latest):
    """Whether evidence came with the rounds, neither of a sudden nor less of it lately; takes the latest.

    The attention of places shows from the first rounds on. Items that are liked otherwise for some time, and then
    fall to lower places, look like it too, but for a while.
    """
    steady = latest <= SUDDEN * evidence[0]
    for i in range(FITS):
        steady = steady and latest >= FALLEN * evidence[i]
        evidence[i] = latest if i == FITS - 1 else evidence[i + 1]
    return steady


@kernel
def learn_attention(attention, shape, bar):
    """Fit the attention of each place; in full, until the evidence against that is above `bar`. O(N length^2).

    Where feedback ends with a click, a cascade is the first thing to believe, and evidence has to grow steadily;
    unless `bar` is 0. What was learnt stays until there is as much evidence for something else. `shape`: of the law
    of attractions, the prior's. Returns the share of the looks so far that were looks, where they were all counted
    as looks until now; else 1.
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
        attention.chance[:] = before if kept >= -bar else np.ones(length)
    sort_places(attention.order, attention.chance)
    shown = looks = 0.0
    for slot in range(attention.item.size):
        for p in range(length):
            shown += attention.looks[slot, p]
            looks += attention.looks[slot, p] * attention.chance[p]
    return looks / shown if before.min() == 1.0 and shown > 0.0 else 1.0
