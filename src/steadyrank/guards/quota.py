"""A limit on the visits of one client in a period."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.contract import KIND, SILENCE, Problem
from ..core.settings import whole
from ..core.views import GuardView, SpentAllowance
from .client_trust.client_table import spread

MOST_PLACES = 1 << 22
WAYS = 4  # places that a client may stand in


class Quota(NamedTuple):
    """Admits at most `visits` visits of a client in each period of `period` rounds (a plain rate limit, no paper's).

    The first period is rounds 1 to `period`. Anonymous visits cannot be counted by client and are all admitted.
    Unanswered lists are not counted, and are refused once the client's allowance is spent.
    `remembered`: clients counted at a time, 24 bytes each; if more come in a period, the least recently seen are
    forgotten and start again. O(1).
    """

    client: Ints  # [places] client counted here; -1: free
    seen: Ints  # [places] round of the latest visit
    visited: Ints  # [places] visits in the period of that round
    refused: Ints  # [1] visits
    visits: int
    period: int

    @classmethod
    def create(cls, problem: Problem, *, visits: int = 30, period: int = 10_000, remembered: int = 65_536) -> "Quota":
        places = whole("remembered", remembered, WAYS, MOST_PLACES) // WAYS * WAYS
        most = whole("visits", visits, 1), whole("period", period, 1)
        counts = np.zeros(places, np.int64), np.zeros(places, np.int64)
        return cls(np.full(places, -1, np.int64), *counts, np.zeros(1, np.int64), *most)

    def admit(self, visit, ranking, note, clicks, examined):
        if visit.client < 0:
            return True
        first = spread(visit.client) % (self.client.size // WAYS) * WAYS
        place = first
        for i in range(first, first + WAYS):
            if self.client[i] == visit.client:
                place = i
                break
            if self.seen[i] < self.seen[place]:
                place = i
        same_client = self.client[place] == visit.client
        fresh = not same_client or (visit.t - 1) // self.period > (self.seen[place] - 1) // self.period
        if note[KIND] == SILENCE:
            return fresh or self.visited[place] < self.visits
        if fresh:
            self.visited[place] = 0
        self.client[place] = visit.client
        self.seen[place] = max(visit.t, self.seen[place]) if same_client else visit.t
        if self.visited[place] >= self.visits:
            self.refused[0] += 1
            return False
        self.visited[place] += 1
        return True

    def view(self) -> GuardView:
        """How many visits were refused, and the clients whose allowance for the current period is spent."""
        period = (self.seen - 1) // self.period
        spent = np.flatnonzero((self.client >= 0) & (self.visited >= self.visits) & (period == period.max()))
        until = (int(period.max()) + 1) * self.period
        allowances = (SpentAllowance(client, self.visits, until) for client in self.client[spent].tolist())
        return GuardView(int(self.refused[0]), 0, tuple(allowances))
