"""What an audit says of one board: suspect intervals, items that gained or lost, the ranking with and without."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Bools, Floats, Ints
from ...item_evidence import INVERTED, KNOWN, SHARE_CHANGED, inversion
from ..impressions import Impressions, Slots
from .bayes_factors import EDGE, evidence_by_item
from .clients import SuspectClient, stand_out
from .segments import Segment, edge_range, intervals, with_shape
from .stretches import BAR, SHORTEST, Stretch, rates_by_item

LISTED = 50  # items of an interval
POINTS = 240  # of the time line
LEAST = 40  # impressions of a point of it, in logs that have several hundred: fewer are noise
IMPRESSIONS, CLICKS, EXPECTED = range(3)  # columns of points; clicks are expected of the usual taste
POINT_COLUMNS = 3


class BoardTask(NamedTuple):
    """One board's part of a log."""

    board: int
    impressions: Impressions
    client: Slots | None
    clients: list[Any]
    threads: int = 1


@dataclass(frozen=True)
class ItemChange:
    """An item whose clicks in an interval are not the usual ones."""

    item: int
    looks: int
    clicks: int
    expected_clicks: float
    rate: float
    usual_rate: float
    certainty: float


@dataclass(frozen=True)
class SuspectInterval:
    """An interval in impressions, `start` to before `end`, with the range in which each edge lies at 95 %."""

    start: int
    end: int
    starts: tuple[int, int]
    ends: tuple[int, int]
    certainty: float
    inverted: bool  # the usual taste, inverted, predicts its clicks better than the usual taste does
    changes: list[ItemChange]


@dataclass(frozen=True)
class Finding:
    """What one board's log shows. Items are numbers here."""

    board: int
    impressions: int
    clicks: int
    unseen: int  # impressions of an inversion of all clicks too short to be noticed
    intervals: list[SuspectInterval]
    looks: Ints  # [K]
    rate: Floats  # [K] with everything
    clean_rate: Floats  # [K] without the suspect intervals
    ranking: Ints  # items looked at, best first
    clean_ranking: Ints
    n_clients: int  # that stand out
    clients: list[SuspectClient]
    points: Floats  # [point, POINT_COLUMNS] along the log

    @property
    def suspect(self) -> tuple[int, int]:
        """Impressions that are suspect: at least, and at most."""
        least = sum(max(0, part.ends[0] - part.starts[1]) for part in self.intervals)
        most = sum(part.ends[1] - part.starts[0] for part in self.intervals)
        return least, min(most + self.unseen, self.impressions)


def analyse(task: BoardTask, pulse: Any) -> Finding:
    """Everything about one board; `pulse` is called between steps and may end it by raising."""
    pulse()
    impressions = task.impressions
    found = intervals(impressions, task.threads, pulse)
    pulse()
    suspect: Bools = np.zeros(impressions.n, np.bool_)
    for part in found:
        suspect[part.start : part.end] = True
    log = Stretch(impressions, np.arange(impressions.n))
    looks, clicks = log.between(0, impressions.n)
    clean_looks, clean_clicks = log.chosen(~suspect)
    rate, clean = rates_by_item(looks, clicks), rates_by_item(clean_looks, clean_clicks)
    known = np.flatnonzero(looks)
    n_clients = 0
    clients: list[SuspectClient] = []
    if task.client is not None:
        taste = np.clip(clean, EDGE, 1.0 - EDGE)
        n_clients, clients = stand_out(impressions, task.client, task.clients, taste, suspect)
    return Finding(
        board=task.board,
        impressions=impressions.n,
        clicks=int(impressions.bits.sum()),
        unseen=_unseen(impressions, clean),
        intervals=[_describe(impressions, log, part, suspect, clean, clean_looks) for part in found],
        looks=looks,
        rate=rate,
        clean_rate=clean,
        ranking=_order(rate, known),
        clean_ranking=_order(clean, known),
        n_clients=n_clients,
        clients=clients,
        points=_points(impressions, clean),
    )


def _order(rate: Floats, known: Ints) -> Ints:
    return known[np.argsort(-rate[known], kind="stable")]


def _unseen(impressions: Impressions, rate: Floats) -> int:
    """The longest inversion of all clicks that would not have been noticed, in impressions."""
    n = impressions.n
    if n == 0:
        return 0
    p = np.clip(rate[impressions.item], EDGE, 1.0 - EDGE)
    told = float(np.sum((1.0 - 2.0 * p) * np.log((1.0 - p) / p))) / n  # nats an impression
    need = BAR + math.log(max(n, 2))
    return min(n, max(SHORTEST // 2, math.ceil(need / max(told, 1e-6))))


def _describe(
    impressions: Impressions, log: Stretch, part: Segment, suspect: Bools, clean: Floats, clean_looks: Ints
) -> SuspectInterval:
    looks, clicks = log.between(part.start, part.end)
    evidence = np.zeros(looks.size)
    evidence_by_item(looks, clicks, np.clip(clean, EDGE, 1.0 - EDGE), clean_looks, evidence)
    odds = evidence - math.log((1.0 - SHARE_CHANGED) / SHARE_CHANGED)
    gained = clicks - looks * clean
    order = [k for k in np.argsort(-np.abs(gained), kind="stable").tolist() if odds[k] > 0.0][:LISTED]
    changes = [
        ItemChange(
            item=k,
            looks=int(looks[k]),
            clicks=int(clicks[k]),
            expected_clicks=round(float(looks[k] * clean[k]), 2),
            rate=float(clicks[k] / looks[k]),
            usual_rate=float(clean[k]),
            certainty=_certainty(odds[k]),
        )
        for k in order
    ]
    shape = with_shape(impressions)
    starts, ends = (edge_range(shape, part, suspect, at) for at in (part.start, part.end))
    known = clean_looks >= KNOWN
    told = inversion(looks[known], clicks[known], np.clip(clean[known], EDGE, 1.0 - EDGE))
    return SuspectInterval(part.start, part.end, starts, ends, _certainty(part.evidence), told > INVERTED, changes)


def _certainty(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(float(odds), 700.0)))


def _points(impressions: Impressions, rate: Floats) -> Floats:
    total = impressions.n
    n = min(POINTS, max(total // LEAST, 10), total)
    points = np.zeros((n, POINT_COLUMNS))
    if n == 0:
        return points
    edges = total * np.arange(n + 1) // n
    places = impressions.first[edges]
    clicks = np.concatenate([[0], np.cumsum(impressions.bits)])
    expected = np.concatenate([[0.0], np.cumsum(rate[impressions.item])])
    points[:, IMPRESSIONS] = np.diff(edges)
    points[:, CLICKS] = np.diff(clicks[places])
    points[:, EXPECTED] = np.diff(expected[places])
    return points
