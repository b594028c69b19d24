"""Trying again what was dropped: what an attack has hidden comes back once it is over. Ours.

Dropped items are on trial in turn. Each is tried once, and as long as its clicks speak for it; who hides the clicks
of good items until they are dropped has to go on hiding them. What trials may cost is a share of the visits,
`revisit`.

Who scans a list from the top clicks with chance 1 - prod(1 - attraction), in whatever order it is. So a trial costs
what the item attracts that leaves the list for it, among those whom nothing else attracts: the same at every place.
In the first place everybody looks at it. Where places are looked at by chance it stands in the last one. Where nearly
every list is clicked a trial costs next to nothing; but nobody wants all lists to begin with a bad item, so it is
charged `LEAST` clicks.

Items that are retired, or slots that are not in use, cannot be tried, and a list looks through no more than `STEPS`.
Where nobody was found for so long that `OWED` clicks are not spent, lists note how far they looked, and the next ones
look further once one is answered. What is owed is not saved up, but for `KEPT` clicks.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import no_refcount
from ..shared.thompson import miss_of
from .regimes import CURRENT, LEARNT, SPANS

# places of a note after those of the list: the item on trial + 1, what is worth a place, what a look costs
TRIED, WORTH, COST = range(3)
FROM = WORTH  # if nobody was found, at TRIED -(the last item looked at + 1), and here the item on trial before
ITEM, LOOKS, CLICKS = range(3)  # places of Trial.of
EVIDENCE, SPENT = range(2)  # places of Trial.sums
NATS = 7.0  # of evidence against an item's past: by Ville's inequality chance gives them to 1 item in 1,096
STEPS = 64  # items looked through for one that may be tried
LEAST = 0.02  # clicks that a trial is charged at least: so no more than 50 `revisit` of the lists have one
OWED = 2.0  # clicks not yet spent from which on every list has a trial
KEPT = 4.0  # clicks not yet spent, at most: so no more than 200 lists in a row have a trial that costs LEAST


class Trial(NamedTuple):
    """The item on trial, and what its looks and clicks say."""

    of: Ints  # [3] the item; its looks and clicks since the evidence was last 0
    sums: Floats  # [2] evidence in nats, never below 0; clicks spent on all trials
    since: Ints  # [K] the first round of which anything counts of an item; empty if nothing is ever tried

    @classmethod
    def create(cls, n_items: int) -> "Trial":
        """Of the first item."""
        return cls(np.zeros(3, np.int64), np.zeros(2), np.zeros(n_items, np.int64))


@no_refcount
def may_be_tried(posteriors, worth, allowed, ranking, k):
    """Whether item k is believed to be worth less than a place, may be shown and is not in the list."""
    free = allowed[k] and 1.0 - miss_of(posteriors, k) < worth
    for p in range(ranking.size if free else 0):
        free = free and ranking[p] != k
    return free


@no_refcount
def try_dropped(trial, regimes, posteriors, share, first, allowed, ranking, note, rng):
    """Let a dropped item take the place of the last one of a list, as often as `share` of the visits pays for it.

    It comes `first`, or else last. A place is worth what the better item of the last two is believed to attract: one
    of them may itself be tried for its draw. The item on trial stays while there is evidence for it; else the next in
    item order is tried. A list that must have a trial and finds nobody says so in its note. O(STEPS length).
    """
    owed = share * regimes.tally[LEARNT] - trial.sums[SPENT]
    last = ranking.size - 1
    if last < 1 or rng.random() * OWED >= owed:
        return
    worth = 1.0 - min(miss_of(posteriors, ranking[last - 1]), miss_of(posteriors, ranking[last]))
    steps = min(STEPS, allowed.size)
    for step in range(0 if trial.sums[EVIDENCE] > 0.0 else 1, steps):
        k = (trial.of[ITEM] + step) % allowed.size
        if may_be_tried(posteriors, worth, allowed, ranking, k):
            cost = max(miss_of(posteriors, k) - miss_of(posteriors, ranking[last]), 0.0)
            for p in range(last if first else 0, 0, -1):
                ranking[p] = ranking[p - 1]
                cost *= miss_of(posteriors, ranking[p])
            ranking[0 if first else last] = k
            note[ranking.size + TRIED] = k + 1
            note[ranking.size + WORTH] = worth
            note[ranking.size + COST] = max(cost, LEAST)
            return
    if owed >= OWED:
        note[ranking.size + TRIED] = -((trial.of[ITEM] + steps - 1) % allowed.size + 1)
        note[ranking.size + FROM] = trial.of[ITEM]


@no_refcount
def spend(trial, regimes, share, cost):
    """Clicks were spent on a trial, or none because nobody was found; no more than `KEPT` stay owed."""
    trial.sums[SPENT] = max(trial.sums[SPENT] + cost, share * regimes.tally[LEARNT] - KEPT)


@no_refcount
def begin_trial(trial, k):
    """Item k is on trial from now on."""
    trial.of[ITEM] = k
    trial.of[LOOKS] = 0
    trial.of[CLICKS] = 0
    trial.sums[EVIDENCE] = 0.0


@no_refcount
def pass_over(trial, note, size):
    """Go on behind the items that a list of this size has looked through in vain, unless others have since."""
    if trial.of[ITEM] == int(note[size + FROM]):
        begin_trial(trial, int(-note[size + TRIED]) - 1)


@no_refcount
def learn_trial(trial, regimes, posteriors, share, ranking, note, clicks, examined, t):
    """Take what the list of round t says of the item on trial, before it is learnt from.

    The evidence is that of a sequential test (Page 1954): for an item that is worth a place, against what is believed
    of it, never below 0. At 0 the trial ends; above `NATS` nothing counts of the item but its trial.
    """
    k = int(note[ranking.size + TRIED]) - 1
    if k < -1:
        pass_over(trial, note, ranking.size)
        spend(trial, regimes, share, 0.0)
    place = -1
    for p in range(examined if k >= 0 else 0):
        place = p if ranking[p] == k else place
    if place < 0:
        return
    worth, mean = note[ranking.size + WORTH], 1.0 - miss_of(posteriors, k)
    spend(trial, regimes, share, note[ranking.size + COST])
    if k != trial.of[ITEM]:
        begin_trial(trial, k)
    trial.of[LOOKS] += 1
    trial.of[CLICKS] += clicks[place]
    trial.sums[EVIDENCE] += math.log(worth / mean) if clicks[place] else math.log((1.0 - worth) / (1.0 - mean))
    refuted = trial.sums[EVIDENCE] > NATS
    if refuted:
        forget_past(trial, regimes, k, trial.of[LOOKS] - 1, trial.of[CLICKS] - 1, t)
    if refuted or trial.sums[EVIDENCE] <= 0.0:
        begin_trial(trial, k)


@no_refcount
def forget_past(trial, regimes, k, looks, clicks, t):
    """Leave of item k, in the current regime, no more than so many looks and clicks, and those of spans."""
    r = regimes.tally[CURRENT]
    apart = clicked_apart = 0
    trial.since[k] = t
    for j in range(SPANS):
        if regimes.span_rounds[j] > 0:
            trial.since[k] = min(trial.since[k], regimes.span_start[j])
        looks = max(looks, regimes.span_looks[j, k])
        clicks = max(clicks, regimes.span_clicks[j, k])
        apart = max(apart, regimes.span_untested_looks[j, k])
        clicked_apart = max(clicked_apart, regimes.span_untested_clicks[j, k])
    regimes.looks[r, k] = min(looks, regimes.looks[r, k])
    regimes.clicks[r, k] = min(clicks, regimes.clicks[r, k])
    regimes.untested_looks[r, k] = min(apart, regimes.untested_looks[r, k])
    regimes.untested_clicks[r, k] = min(clicked_apart, regimes.untested_clicks[r, k])


@no_refcount
def still_count(trial, items, bits, size, t):
    """Keep those of the first `size` items, and their bits, whose past was not forgotten since round t; how many."""
    n = 0
    for i in range(size):
        if trial.since.size == 0 or trial.since[items[i]] <= t:
            items[n] = items[i]
            bits[n] = bits[i]
            n += 1
    return n
