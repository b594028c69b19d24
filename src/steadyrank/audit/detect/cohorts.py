"""Find cohorts, clients with something in common such as a network, who together click unlike all others.

One client with four visits can hardly be tested, but three hundred of them can. So the tests of clients are applied
to cohorts: the impressions and clicks of a cohort are pooled as if they were one client's, and compared with the
overdispersion among the log's cohorts. Clients have about the same weight: only the first ROWS impressions of each
count, and a cohort must also stand out without the client who clicks most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...click_logs import mapped
from ...click_logs.looks import Impressions, ItemNumbers, blocks
from ...core.arrays import Bools, Ints
from .clients import SuspectClient, stand_out

ROWS = 10  # impressions of a client that count for its cohort
CLIENTS = 5  # least clients of a cohort that is judged
COHORTS = 20  # least cohorts to judge: fewer do not show how much honest ones differ
LARGEST_SHARE = 0.2  # of these impressions in a cohort that is judged: a larger one would define what is usual
LEAST_CERTAINTY = 0.99  # least certainty of a cohort that is named, since all its clients are blamed together


@dataclass(frozen=True)
class SuspectCohort:
    """A cohort that stands out. Counts cover the impressions that were judged."""

    value: Any  # as in the log
    clients: int
    impressions: int
    clicks: int
    expected_clicks: float
    certainty: float
    score: float  # as of a `SuspectClient`
    effect: float
    reason: str


def odd_cohorts(
    impressions: Impressions,
    client: ItemNumbers,
    n_clients: int,
    cohort: ItemNumbers,
    values: list[Any],
    items: Sequence[Any],
    apart: Bools,
) -> tuple[int, list[SuspectCohort]]:
    """Return how many cohorts can be judged, and those that stand out, the most certain first; none if too few can.

    `cohort`: number of each impression's cohort, -1 if unknown. `apart`: impressions to leave out because they are
    suspect anyway, in suspect intervals or of clients that stand out by themselves. O(looks log looks).
    """
    pooled = _pooled(client, n_clients, cohort, apart)
    unasked = pooled < 0
    rows = np.bincount(pooled[~unasked], minlength=len(values))
    pairs = np.unique(pooled[~unasked].astype(np.int64) * n_clients + client[~unasked])
    clients: Ints = np.bincount(pairs // n_clients, minlength=len(values))
    judged = (clients >= CLIENTS) & (rows <= LARGEST_SHARE * rows.sum())
    count = int(np.count_nonzero(judged))
    if count < COHORTS:
        return count, []
    pooled[~np.append(judged, False)[pooled]] = -1  # the last is for unknown cohorts, -1

    def named() -> dict[Any, SuspectClient]:
        odd = stand_out(impressions, pooled, values, list(items), unasked)
        return {one.client: one for one in odd.listed if one.certainty >= LEAST_CERTAINTY}

    first = named()
    number = {value: c for c, value in enumerate(values)}
    clicks = impressions.clicks()
    for value in first:
        mine = pooled == number[value]
        busiest = int(np.bincount(client[mine], clicks[mine]).argmax())
        pooled[mine & (client == busiest)] = -1
    again = named() if first else {}
    return count, [_told(one, int(clients[number[value]])) for value, one in first.items() if value in again]


def _pooled(client: ItemNumbers, n_clients: int, cohort: ItemNumbers, apart: Bools) -> ItemNumbers:
    """The cohort of each impression that counts, the first ROWS of each client that are not `apart`; else -1."""
    before: Ints = np.zeros(n_clients, np.int64)
    pooled: ItemNumbers = mapped.empty(client.size, np.int32)
    for some in blocks(client.size):
        who, of = client[some], cohort[some]
        asked = np.flatnonzero((who >= 0) & (of >= 0) & ~apart[some])
        asked = asked[np.argsort(who[asked], kind="stable")]
        ordered = who[asked]
        turn = before[ordered] + np.arange(asked.size) - np.searchsorted(ordered, ordered)
        before += np.bincount(ordered, minlength=n_clients)
        part = np.full(who.size, -1, np.int32)
        counted = asked[turn < ROWS]
        part[counted] = of[counted]
        pooled[some] = part
    return pooled


def _told(one: SuspectClient, clients: int) -> SuspectCohort:
    return SuspectCohort(
        value=one.client,
        clients=clients,
        impressions=one.impressions,
        clicks=one.clicks,
        expected_clicks=one.expected_clicks,
        certainty=one.certainty,
        score=one.score,
        effect=one.effect,
        reason=one.reason,
    )
