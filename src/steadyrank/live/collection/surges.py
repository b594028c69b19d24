"""Items of queries that are suddenly clicked far more: an attack on a query, or news. Told, not acted on. Ours.

Of each pair that was looked at often, the looks and clicks of its latest stretch are counted apart. A CUSUM (Page
1954, "Continuous inspection schemes") weighs them: by how many nats odds of a click RATIO times as high predict the
stretch better than the estimate from all that came before does, taken SURE standard deviations higher. The stretch
begins anew, with a click, whenever that estimate predicts it as well; above NATS there is a surge, and what it rests
on counts with the rest again.

Surges within APART rounds of one another are one alarm, in however many queries they are. An item that was seldom
looked at gives none: there a few clicks say little, and lists hardly move by them.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import no_refcount
from .id_table import NOT_THERE, IdTable

RATIO = 4.0  # of odds
SURE = 3.0  # standard deviations: of many pairs, some were clicked too seldom by chance when they were new
NATS = 12.0
BEFORE = 30.0  # looks before the stretch
APART = 20_000  # rounds: of queries under one attack, those with fewer visits show it later
MOST = 512  # surges remembered, the latest
MOST_CHANCE = 0.99  # of a click, as estimated
QUERY, ITEM, NOTICED, ALARM = range(4)  # columns of Surges.what
LOOKS, CLICKS, MEAN = range(3)  # columns of Surges.counts
SURGES, ALARMS, LATEST = range(3)  # of Surges.total


class Surges(NamedTuple):
    """The latest surges, a ring; a row of zeros is of a query that is not remembered."""

    what: Ints  # [MOST, 4] ids of query and item, the round whose answer gave it away, the number of the alarm from 1
    counts: Floats  # [MOST, 3] looks and clicks of the stretch; what the item attracted before, as estimated
    total: Ints  # [3] surges and alarms that there ever were; the round of the latest surge

    @classmethod
    def create(cls) -> "Surges":
        """None."""
        return cls(np.zeros((MOST, 4), np.int64), np.zeros((MOST, 3)), np.zeros(3, np.int64))

    def rows(self) -> Ints:
        """The rows of surges whose query is remembered, the oldest first."""
        total = int(self.total[SURGES])
        rows: Ints = np.arange(max(total - MOST, 0), total) % MOST
        of_queries: Ints = rows[self.what[rows, QUERY] != 0]
        return of_queries

    def leave_out(self, queries: IdTable) -> None:
        """Remember the surges of these queries alone."""
        gone = queries.rows(self.what[:, QUERY]) == NOT_THERE
        self.what[gone], self.counts[gone] = 0, 0.0

    def rename(self, query: int, now: int) -> None:
        """Know a query by another id."""
        self.what[self.what[:, QUERY] == query, QUERY] = now


@no_refcount
def odds_times(chance, ratio):
    """The chance with odds so many times as high."""
    return ratio * chance / (1.0 + (ratio - 1.0) * chance)


@no_refcount
def gain(chance, other, looks, clicks):
    """By how many nats another chance predicts looks and clicks better."""
    return clicks * math.log(other / chance) + (looks - clicks) * math.log((1.0 - other) / (1.0 - chance))


@no_refcount
def watch_look(pairs, surges, slot, query, prior, strength, t, clicked, kept):
    """A look at a pair, which is counted in it by now: its stretch goes on, begins anew, or is a surge.

    `kept`: the share of what was counted before the look that is remembered.
    """
    since, hits = pairs.since[slot] * kept + 1.0, pairs.hits[slot] * kept + (1.0 if clicked else 0.0)
    before = pairs.looks[slot] - since
    if (pairs.since[slot] == 0.0 and not clicked) or before < BEFORE:
        pairs.since[slot] = pairs.hits[slot] = 0.0
        return
    total = strength + before
    mean = (strength * prior + max(pairs.clicks[slot] - hits, 0.0)) / total
    higher = min(mean + SURE * math.sqrt(mean * (1.0 - mean) / (total + 1.0)), MOST_CHANCE)
    size = gain(higher, odds_times(higher, RATIO), since, hits)
    if size > NATS:
        note_surge(surges, query, pairs.item[slot], t, since, hits, mean)
    goes_on = 0.0 < size <= NATS
    pairs.since[slot] = since if goes_on else 0.0
    pairs.hits[slot] = hits if goes_on else 0.0


@no_refcount
def note_surge(surges, query, item, t, looks, clicks, mean):
    """Remember a surge, as part of the alarm of late or of a new one."""
    total = surges.total
    if total[ALARMS] == 0 or t - total[LATEST] > APART:
        total[ALARMS] += 1
    row = total[SURGES] % MOST
    surges.what[row, QUERY], surges.what[row, ITEM] = int(query), item
    surges.what[row, NOTICED], surges.what[row, ALARM] = t, total[ALARMS]
    surges.counts[row, LOOKS], surges.counts[row, CLICKS], surges.counts[row, MEAN] = looks, clicks, mean
    total[SURGES] += 1
    total[LATEST] = max(total[LATEST], t)


@no_refcount
def take_from_stretch(pairs, slot, clicked):
    """A look is taken back: if there is a stretch, it is taken for one of it, since what is taken back is of late."""
    since = max(pairs.since[slot] - 1.0, 0.0)
    pairs.since[slot] = since
    pairs.hits[slot] = min(max(pairs.hits[slot] - (1.0 if clicked else 0.0), 0.0), since)
