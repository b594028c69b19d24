"""Sudden rises of clicks on items of queries: an attack on a query, or news. Reported, not acted on. Ours.

For each pair that was looked at often, the looks and clicks of its latest stretch are counted separately. A CUSUM
(Page 1954, "Continuous inspection schemes") tests them: the nats by which click odds RATIO times as high predict the
stretch better than the estimate from everything before, plus SURE standard deviations. The stretch
restarts, with a click, whenever that estimate predicts it as well; above NATS there is a surge, and its looks
are merged with the rest again.

Surges within APART rounds of one another are one alarm, in however many queries they are. Items with few
looks raise none: there a few clicks mean little, and lists hardly move by them.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import no_refcount
from .id_table import NOT_THERE, IdTable

RATIO = 4.0  # of odds
SURE = 3.0  # standard deviations: of many pairs, some had too few clicks by chance when they were new
NATS = 12.0
BEFORE = 30.0  # least looks before the stretch
APART = 20_000  # rounds: of queries under one attack, those with fewer visits show it later
MOST = 512  # surges remembered, the latest
MOST_CHANCE = 0.99  # largest estimated chance of a click
QUERY, ITEM, NOTICED, ALARM = range(4)  # columns of Surges.what
LOOKS, CLICKS, MEAN = range(3)  # columns of Surges.counts
SURGES, ALARMS, LATEST = range(3)  # indices in Surges.total


class Surges(NamedTuple):
    """The latest surges, a ring buffer; a row of zeros belongs to a removed query."""

    what: Ints  # [MOST, 4] ids of query and item, round of the answer that revealed it, number of the alarm from 1
    counts: Floats  # [MOST, 3] looks and clicks of the stretch; estimated attraction before
    total: Ints  # [3] all surges and alarms so far; round of the latest surge

    @classmethod
    def create(cls) -> "Surges":
        """Empty."""
        return cls(np.zeros((MOST, 4), np.int64), np.zeros((MOST, 3)), np.zeros(3, np.int64))

    def rows(self) -> Ints:
        """The rows of surges whose query is remembered, oldest first."""
        total = int(self.total[SURGES])
        rows: Ints = np.arange(max(total - MOST, 0), total) % MOST
        of_queries: Ints = rows[self.what[rows, QUERY] != 0]
        return of_queries

    def leave_out(self, queries: IdTable) -> None:
        """Keep only the surges of these queries."""
        gone = queries.rows(self.what[:, QUERY]) == NOT_THERE
        self.what[gone], self.counts[gone] = 0, 0.0

    def rename(self, query: int, now: int) -> None:
        """Give a query another id."""
        self.what[self.what[:, QUERY] == query, QUERY] = now


@no_refcount
def odds_times(chance, ratio):
    """The chance whose odds are `ratio` times as high."""
    return ratio * chance / (1.0 + (ratio - 1.0) * chance)


@no_refcount
def gain(chance, other, looks, clicks):
    """Nats by which another chance predicts looks and clicks better."""
    return clicks * math.log(other / chance) + (looks - clicks) * math.log((1.0 - other) / (1.0 - chance))


@no_refcount
def watch_look(pairs, surges, slot, query, prior, strength, t, clicked, kept):
    """Update a pair's stretch after a look was counted: continue it, restart it, or report a surge.

    `kept`: the share of earlier counts that remained after the look.
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
    """Record a surge, as part of the latest alarm or of a new one."""
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
    """Remove a retracted look from the stretch, if there is one, because retracted looks are recent."""
    since = max(pairs.since[slot] - 1.0, 0.0)
    pairs.since[slot] = since
    pairs.hits[slot] = min(max(pairs.hits[slot] - (1.0 if clicked else 0.0), 0.0), since)
