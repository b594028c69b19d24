"""Find stretches of events without lists in which shares of items moved, and judge whether people or bots moved them.

A log is cut into parts of equally many events, which removes its rhythm of busy days and quiet nights and leaves the
share of each item. These shares are searched by the code for click rates: an item's events are its clicks, and all
events of a part the looks at it. Shares also move honestly. A release or news raises an item as suddenly as an attack
does, but it fades, and regular senders take part in it. So a stretch is suspect if it does not fade, and regular
senders, those with events on other items outside of it, do not show it; if senders are unknown, it is suspect if it
begins and ends suddenly. Our own method; docs/audit-counts.md says what it cannot distinguish.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...click_logs.looks import ItemNumbers
from ...core.arrays import Bools, Counts, Floats, Ints
from .attention import Appeal
from .bayes_factors import EDGE
from .changed_stretches import SUDDEN, ChangedStretch, intervals, mask_of
from .explanations import StretchCounts, Usual, explain
from .findings import LEAST_CERTAINTY, certainty, changes_of
from .scales import Tally, Units
from .stretches import BANDS, BAR, OnProgress, ignore_progress

JUDGED = 500  # most frequent items that are judged individually; the others are combined
PARTS = 2_048  # most parts of a log
LEAST = 8  # least events of a part
DRAWS = 24  # usual stretches that calibrate evidence
REGULAR = 2  # least events, outside of a stretch and on items that it does not raise, of a regular sender
SHOWN = 1.0 / 3.0  # least part of a rise common to all that regular senders must show for the rise to be theirs
LISTED = 50  # items of a stretch
UP = 3  # items that rose most, by which a stretch is judged
FADED = 0.5  # a rise fades if less than this share of it in the first third of a stretch is left in the last


@dataclass(frozen=True)
class RaisedItem:
    """An item with an unusual share of events in a stretch."""

    item: int
    events: int
    expected: float
    certainty: float


@dataclass(frozen=True)
class MovedStretch:
    """A stretch in which shares moved, `start` to before `end`. kind: suspect, people, fades, client or chance."""

    start: int
    end: int
    kind: str
    certainty: float
    items: list[RaisedItem]  # the largest change first
    regular: float | None  # the rise among regular senders, 1 for as much as in a rise common to all
    busiest: int = -1  # the sender with most events on items that rose, -1 if senders are unknown


def parts_of(item: ItemNumbers, n_items: int) -> tuple[Units, Ints]:
    """Split a log into parts of equally many events; returns them and each item's number: rare ones share one."""
    counts = np.bincount(item, minlength=n_items)
    often = np.argsort(-counts, kind="stable")[:JUDGED]
    number: Ints = np.full(n_items, often.size, np.int64)
    number[often] = np.arange(often.size)
    n = item.size
    span = max(LEAST, -(-n // PARTS))
    parts, judged = -(-n // span), often.size + (1 if n_items > often.size else 0)
    clicks = np.zeros((parts, judged), np.int32)
    np.add.at(clicks, (np.arange(n) // span, number[item]), 1)
    looks = np.repeat(clicks.sum(axis=1, dtype=np.int32), judged)
    first: Ints = np.arange(parts + 1, dtype=np.int64) * judged
    names = np.tile(np.arange(judged, dtype=np.int32), parts)
    return Units(names, looks, clicks.ravel(), first, judged, span, n // span), number


class SharesOverTime:
    """Searches a log of events for stretches in which shares moved. `client`: sender of each event, -1 if unknown."""

    def __init__(self, item: ItemNumbers, n_items: int, client: ItemNumbers | None, time: Floats) -> None:
        self.units, number = parts_of(item, n_items)
        self.often = np.flatnonzero(number < JUDGED)[np.argsort(number[number < JUDGED], kind="stable")]
        self.item, self.client, self.time, self.n = number[item], client, time, item.size
        self.table = self.units.clicks.reshape(self.units.n, -1)  # [part, item]

    def moved(self, threads: int = 1, on_progress: OnProgress = ignore_progress) -> list[MovedStretch]:
        """Find and judge all stretches in which shares moved, in order."""
        # bots that run around the clock have a larger share at night than by day: adjacent regimes are one stretch;
        # no learner reacts with other lists: shares next to a stretch differ because items come and go
        changed = intervals(self.units, threads, on_progress, apart=False, widen=False)
        calm = ~mask_of(self.units.n, [(part.start, part.end) for part in changed])
        calm = calm if calm.any() else ~calm
        usual = _usual(self.table[calm].sum(axis=0))
        return [self._judged(part, usual, calm) for part in changed]

    def _judged(self, part: ChangedStretch, usual: Usual, calm: Bools) -> MovedStretch:
        counts = self.table[part.start : part.end].sum(axis=0)
        size = part.end - part.start
        nats = _nats(usual, counts)
        scale = _scale(usual, self.table[calm], size)
        sure = certainty(nats, scale, 2.0 * self.units.n / size)
        whole = part.in_impressions(self.units, self.n)
        items = self._items(counts, usual)
        up = [one.item for one in items if one.events > one.expected][:UP]
        regular = self._regular(whole, up, usual) if self.client is not None and up else None
        busiest = -1 if regular is None else self._busiest(whole, up)
        kind = self._kind(part, sure, regular, up, usual, whole, busiest)
        named = [
            RaisedItem(int(self.often[one.item]), one.events, one.expected, one.certainty)
            for one in items
            if one.item < self.often.size
        ]
        return MovedStretch(whole.start, whole.end, kind, sure, named, regular, busiest)

    def _kind(
        self,
        part: ChangedStretch,
        sure: float,
        regular: float | None,
        up: list[int],
        usual: Usual,
        whole: ChangedStretch,
        busiest: int,
    ) -> str:
        if sure < LEAST_CERTAINTY or not up:
            return "chance"
        if regular is None:
            sudden = all(step >= SUDDEN and math.isfinite(step) for step in part.steps)
            return "suspect" if sudden and not self._fades(whole, up, usual) else "fades"
        if regular >= SHOWN:
            return "people"
        if min(part.steps) < SUDDEN and self._fades(whole, up, usual):
            return "fades"
        return "suspect" if _nats(usual, self._without(whole, busiest)) >= BAR else "client"

    def _fades(self, part: ChangedStretch, up: list[int], usual: Usual) -> bool:
        """Whether the rise has mostly gone in the last third of a stretch, both in shares and in events per hour.

        Shares alone fall each morning, when more people come, and events per hour fall each night.
        """
        rate = float((1.0 / (1.0 + np.exp(-usual.appeal.item[up]))).sum())
        raised = np.isin(self.item[part.start : part.end], up)
        time = self.time[part.start : part.end]
        thirds = np.searchsorted(time, time[0] + (time[-1] - time[0]) * np.array([1, 2]) / 3.0)
        first, _, last = np.split(raised, thirds)
        rises = [float(some.sum()) - rate * some.size for some in (first, last)]
        by_share = [rise / max(some.size, 1) for rise, some in zip(rises, (first, last), strict=True)]
        return rises[1] < FADED * rises[0] and by_share[1] < FADED * by_share[0]

    def _items(self, counts: Ints, usual: Usual) -> list[RaisedItem]:
        total = int(counts.sum())
        rate = 1.0 / (1.0 + np.exp(-usual.appeal.item))
        tally: Tally = (np.full(counts.size, total, np.int64), counts.astype(np.int64))
        return [
            RaisedItem(one.item, one.clicks, one.expected_clicks, one.certainty)
            for one in changes_of(tally, rate, usual.looks)
        ][:LISTED]

    def _regular(self, part: ChangedStretch, up: list[int], usual: Usual) -> float:
        """The rise of items `up` among regular senders, as a share of that expected if it were common to all."""
        assert self.client is not None
        inside = np.zeros(self.n, np.bool_)
        inside[part.start : part.end] = True
        raised = np.isin(self.item, up)
        identified = self.client >= 0
        elsewhere = np.bincount(self.client[identified & ~inside & ~raised], minlength=int(self.client.max()) + 2)
        regular = (elsewhere >= REGULAR)[self.client] & identified
        rate = float((1.0 / (1.0 + np.exp(-usual.appeal.item[up]))).sum())
        theirs_usual = float((raised & regular & ~inside).sum()) / max(float((regular & ~inside).sum()), 1.0)
        rise = float((raised & inside).sum()) - rate * float((inside & ~raised).sum()) / max(1.0 - rate, EDGE)
        there = float((inside & regular & ~raised).sum())
        theirs = float((raised & inside & regular).sum()) - theirs_usual * there / max(1.0 - theirs_usual, EDGE)
        common = float((regular & ~inside).sum()) / max(float((~inside).sum()), 1.0)
        return max(theirs, 0.0) / max(common * rise, EDGE)

    def _busiest(self, part: ChangedStretch, up: list[int]) -> int:
        """The sender of most events on items `up` in a stretch, -1 if no sender of any is known."""
        assert self.client is not None
        item, client = self.item[part.start : part.end], self.client[part.start : part.end]
        on = client[np.isin(item, up) & (client >= 0)]
        return int(np.bincount(on).argmax()) if on.size else -1

    def _without(self, part: ChangedStretch, sender: int) -> Ints:
        """Counts of a stretch without a sender; all events for -1."""
        assert self.client is not None
        item, client = self.item[part.start : part.end], self.client[part.start : part.end]
        others = client != sender if sender >= 0 else np.ones(client.size, np.bool_)
        return np.bincount(item[others], minlength=self.table.shape[1])


def _usual(counts: Ints) -> Usual:
    """Learn what is usual from counts: shares as log-odds, in a single cell."""
    total = int(counts.sum())
    share = np.clip((counts + 0.5) / (total + 1.0), 1e-9, 1.0 - EDGE)
    odds = np.log(share / (1.0 - share))
    bands = np.searchsorted(np.quantile(odds, BANDS), odds).astype(np.int64)
    looks = np.full(counts.size, total, np.int64)
    return Usual(Appeal(odds, np.zeros(1)), looks, looks, np.array([total]), bands)


def _nats(usual: Usual, counts: Ints | Counts) -> float:
    """Evidence of unusual shares in a stretch, beyond a loss of all items alike to the ones that gained."""
    everything = np.arange(counts.size)
    looks = np.full(counts.size, float(counts.sum()))
    stretch = StretchCounts(everything, np.zeros(counts.size, np.int64), looks, counts.astype(np.float64))
    return explain(usual, stretch).after_places


def _scale(usual: Usual, calm: Counts, size: int) -> float:
    """The scale, at least 1, by which to divide nats, from usual stretches of this size; `calm`: [part, item]."""
    size = min(size, calm.shape[0] // 2)
    if size < 1:
        return 1.0
    starts = np.linspace(0, calm.shape[0] - size, min(DRAWS, calm.shape[0] // size)).astype(np.int64)
    along: Floats = np.sort([max(_nats(usual, calm[at : at + size].sum(axis=0)), 0.0) for at in starts.tolist()])
    return max(1.0, float(np.mean(along[: max(1, 9 * along.size // 10)])))
