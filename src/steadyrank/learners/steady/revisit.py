"""Trying dropped items again, so that items hidden by an attack come back once it is over. Ours.

Dropped items are tried in turn. Each is tried once, and on as long as its clicks speak for it. An attacker who hides
the clicks of good items until they are dropped has to go on hiding them. Trials may cost a share `revisit` of the
visits.

Users who scan a list from the top click with chance 1 - prod(1 - attraction), in any order. So a trial costs
what the item that leaves the list would have earned from users attracted by nothing else: the same at every place.
In the first place everybody looks at it. If places are looked at by chance, it goes to the last one. If nearly
every list is clicked, a trial costs next to nothing; but lists should not all begin with a bad item, so it is
charged at least `LEAST` clicks.

Retired items and unused slots cannot be tried, and a list searches at most `STEPS` items.
If none is found until `OWED` clicks are unspent, lists note how far they searched, and the next ones
search on from there once one of them is answered. At most `KEPT` unspent clicks are saved.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import no_refcount
from ..shared.thompson import miss_of
from .regimes import CURRENT, LEARNT, SPANS

# indices in a note after those of the list: the item on trial + 1, what a place is worth, what a look costs
TRIED, WORTH, COST = range(3)
FROM = WORTH  # if none was found, TRIED holds -(last item searched + 1), and this the item on trial before
ITEM, LOOKS, CLICKS = range(3)  # indices in Trial.of
EVIDENCE, SPENT = range(2)  # indices in Trial.sums
NATS = 7.0  # evidence needed to discard an item's past: by Ville's inequality, by chance for 1 item in 1,096
STEPS = 64  # most items searched for one that may be tried
LEAST = 0.02  # least charge of a trial, in clicks: so at most 50 `revisit` of the lists have one
OWED = 2.0  # from so many unspent clicks on, every list has a trial
KEPT = 4.0  # most unspent clicks: so at most 200 lists in a row have a trial that costs LEAST


class Trial(NamedTuple):
    """The item on trial, and the evidence of its looks and clicks."""

    of: Ints  # [3] the item; its looks and clicks since the evidence was last 0
    sums: Floats  # [2] evidence in nats, never below 0; clicks spent on all trials
    since: Ints  # [K] the first round of which anything counts of an item; empty if nothing is ever tried

    @classmethod
    def create(cls, n_items: int) -> "Trial":
        """A trial of the first item."""
        return cls(np.zeros(3, np.int64), np.zeros(2), np.zeros(n_items, np.int64))


@no_refcount
def may_be_tried(posteriors, worth, allowed, ranking, k):
    """Whether item k is believed to be worth less than a place, is allowed and is not in the list."""
    free = allowed[k] and 1.0 - miss_of(posteriors, k) < worth
    for p in range(ranking.size if free else 0):
        free = free and ranking[p] != k
    return free


@no_refcount
def try_dropped(trial, regimes, posteriors, share, first, allowed, ranking, note, rng):
    """Put a dropped item in place of the last one of a list, as often as `share` of the visits pays for it.

    It goes to the first place if `first`, else to the last. A place is worth the larger expected attraction of the
    last two: one may itself be explored. The item on trial stays while there is evidence for it; else the next in
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
    """Charge a trial, or 0 because none was found; at most `KEPT` unspent clicks remain."""
    trial.sums[SPENT] = max(trial.sums[SPENT] + cost, share * regimes.tally[LEARNT] - KEPT)


@no_refcount
def begin_trial(trial, k):
    """Put item k on trial."""
    trial.of[ITEM] = k
    trial.of[LOOKS] = 0
    trial.of[CLICKS] = 0
    trial.sums[EVIDENCE] = 0.0


@no_refcount
def pass_over(trial, note, size):
    """Continue behind the items that a list of this size searched in vain, unless other lists have moved on since."""
    if trial.of[ITEM] == int(note[size + FROM]):
        begin_trial(trial, int(-note[size + TRIED]) - 1)


@no_refcount
def learn_trial(trial, regimes, posteriors, share, ranking, note, clicks, examined, t):
    """Learn from the feedback of round t on the item on trial, before the learner does.

    The evidence is that of a sequential test (Page 1954) of an item worth a place against its current estimate,
    never below 0. At 0 the trial ends; above `NATS` only the trial counts of the item.
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
    """Reduce item k's counts in the current regime to these looks and clicks, but not below those of the spans."""
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
