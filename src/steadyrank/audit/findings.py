"""What an audit says of one board: suspect intervals, items that gained or lost, the ranking with and without."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Bools, Floats, Ints
from ..populations import fit_prior
from .clients import Client, stand_out
from .looks import Looks, Slots
from .segments import Segment, edge_range, intervals, with_shape
from .stretches import BAR, SHORTEST, Stretch
from .weighing import EDGE, item_evidence

LISTED = 50  # items of an interval
CHANGED = 0.1  # share of the items that an attack is taken to change, before anything is seen
POINTS = 240  # of the time line
LEAST = 40  # impressions of a point of it, in logs that have several hundred: fewer are noise


class Job(NamedTuple):
    """One board's part of a log."""

    board: int
    looks: Looks
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
class Suspect:
    """An interval in impressions, `start` to before `end`, with the range in which each edge lies at 95 %."""

    start: int
    end: int
    starts: tuple[int, int]
    ends: tuple[int, int]
    certainty: float
    changes: list[ItemChange]


@dataclass(frozen=True)
class Finding:
    """What one board's log shows. Items are numbers here."""

    board: int
    impressions: int
    clicks: int
    unseen: int  # impressions of an inversion of all clicks too short to be noticed
    intervals: list[Suspect]
    looks: Ints  # [K]
    rate: Floats  # [K] with everything
    clean_rate: Floats  # [K] without the suspect intervals
    ranking: Ints  # items looked at, best first
    clean_ranking: Ints
    n_clients: int  # that stand out
    clients: list[Client]
    points: Floats  # [point, 3] impressions, clicks and clicks expected of the usual taste, along the log

    @property
    def suspect(self) -> tuple[int, int]:
        """Impressions that are suspect: at least, and at most."""
        least = sum(max(0, part.ends[0] - part.starts[1]) for part in self.intervals)
        most = sum(part.ends[1] - part.starts[0] for part in self.intervals)
        return least, min(most + self.unseen, self.impressions)


def analyse(job: Job, pulse: Any) -> Finding:
    """Everything about one board; `pulse` is called between steps and may end it by raising."""
    pulse()
    looks = job.looks
    found = intervals(looks, job.threads, pulse)
    pulse()
    suspect: Bools = np.zeros(looks.n, np.bool_)
    for part in found:
        suspect[part.start : part.end] = True
    log = Stretch(looks, np.arange(looks.n))
    seen, wins = log.between(0, looks.n)
    clean_seen, clean_wins = log.chosen(~suspect)
    rate, clean = _rates(seen, wins), _rates(clean_seen, clean_wins)
    known = np.flatnonzero(seen)
    n_clients = 0
    clients: list[Client] = []
    if job.client is not None:
        taste = np.clip(clean, EDGE, 1.0 - EDGE)
        n_clients, clients = stand_out(looks, job.client, job.clients, taste, suspect)
    return Finding(
        job.board,
        looks.n,
        int(looks.click.sum()),
        _unseen(looks, clean),
        [_describe(looks, log, part, suspect, clean, clean_seen) for part in found],
        seen,
        rate,
        clean,
        _order(rate, known),
        _order(clean, known),
        n_clients,
        clients,
        _points(looks, clean),
    )


def _rates(seen: Ints, wins: Ints) -> Floats:
    """Posterior means under the prior that the items have in common."""
    prior = np.ones(2)
    fit_prior(seen, wins, prior)
    rates: Floats = (prior[0] + wins) / (prior.sum() + seen)
    return rates


def _order(rate: Floats, known: Ints) -> Ints:
    return known[np.argsort(-rate[known], kind="stable")]


def _unseen(looks: Looks, rate: Floats) -> int:
    """The longest inversion of all clicks that would not have been noticed, in impressions."""
    if looks.n == 0:
        return 0
    p = np.clip(rate[looks.item], EDGE, 1.0 - EDGE)
    told = float(np.sum((1.0 - 2.0 * p) * np.log((1.0 - p) / p))) / looks.n  # nats an impression
    need = BAR + math.log(max(looks.n, 2))
    return min(looks.n, max(SHORTEST // 2, math.ceil(need / max(told, 1e-6))))


def _describe(looks: Looks, log: Stretch, part: Segment, suspect: Bools, clean: Floats, clean_seen: Ints) -> Suspect:
    seen, wins = log.between(part.start, part.end)
    evidence = np.zeros(seen.size)
    item_evidence(seen, wins, np.clip(clean, EDGE, 1.0 - EDGE), clean_seen, evidence)
    odds = evidence - math.log((1.0 - CHANGED) / CHANGED)
    gained = wins - seen * clean
    order = [k for k in np.argsort(-np.abs(gained), kind="stable").tolist() if odds[k] > 0.0][:LISTED]
    changes = [
        ItemChange(
            k,
            int(seen[k]),
            int(wins[k]),
            round(float(seen[k] * clean[k]), 2),
            float(wins[k] / seen[k]),
            float(clean[k]),
            _certainty(odds[k]),
        )
        for k in order
    ]
    shape = with_shape(looks)
    ranges = [edge_range(shape, part, suspect, at) for at in (part.start, part.end)]
    return Suspect(part.start, part.end, ranges[0], ranges[1], _certainty(part.evidence), changes)


def _certainty(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(float(odds), 700.0)))


def _points(looks: Looks, rate: Floats) -> Floats:
    n = min(POINTS, max(looks.n // LEAST, 10), looks.n)
    points = np.zeros((n, 3))
    if n == 0:
        return points
    edges = looks.n * np.arange(n + 1) // n
    places = looks.first[edges]
    points[:, 0] = np.diff(edges)
    clicks = np.concatenate([[0], np.cumsum(looks.click)])
    expected = np.concatenate([[0.0], np.cumsum(rate[looks.item])])
    points[:, 1], points[:, 2] = np.diff(clicks[places]), np.diff(expected[places])
    return points
