"""Whose visits fit together and against all others: they are refused and taken back."""

from typing import NamedTuple

import numpy as np

from ..contract import LATE, Ints, Problem
from ..parts.clients import Clients, welcome
from ..parts.odd_taste import BAR, NEVER, UNIT, OddTaste, bounded, count_visit, fit, testimony
from ..parts.recent_visits import CURSOR, DONE, HELD, NEXT, SINCE, RecentVisits, nth_oldest, write_visit
from ..settings import real, whole
from ..views import GuardView

REFUSED, RETRACTED = range(2)  # places of ClientTrust.tally
FIRST_FIT = 200  # visits
FITS = 8  # while the memory turns over once


class ClientTrust(NamedTuple):
    """Refuses clients who share a taste that few others have, and takes their remembered visits back.

    (ours: docs/guards.md.)
    """

    clients: Clients
    visits: RecentVisits
    taste: OddTaste
    tally: Ints  # [2]
    most: float
    certainty: int
    doubt: int

    VERSION = 1

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        most: float = 0.2,
        certainty: float = 4.0,
        doubt: float = 0.5,
        remembered: int = 16_384,
        known: int = 65_536,
    ) -> "ClientTrust":
        most = real("most", most, 0.0, 0.5)
        bar, tax = (int(round(x * UNIT)) for x in (real("certainty", certainty, 0.0, 10.0), real("doubt", doubt, 0.0, 4.0)))
        n = whole("remembered", remembered, 1, 1 << 24)
        size = whole("known", known, n, 1 << 28)
        visits = RecentVisits.create(n, problem.length)
        return cls(Clients.create(size), visits, OddTaste.create(problem.n_items), np.zeros(2, np.int64), most, bar, tax)

    def admit(self, visit, ranking, note, clicks, examined):
        if visit.client < 0 or examined == 0:
            return True
        clients, visits, taste = self.clients, self.visits, self.taste
        if visits.tally[HELD] == visits.round.size:
            at = visits.tally[NEXT]
            gone = visits.place[at]
            if taste.rule[BAR] < NEVER:
                clients.carried[gone] = bounded(clients.carried[gone] + testimony(taste, visits, at) - self.doubt)
            clients.held[gone] -= 1
            count_visit(taste, visits, at, -1)
        place = welcome(clients, visit.client)
        at = write_visit(visits, place, visit.t, note[LATE] > 0.0, ranking, clicks, examined)
        count_visit(taste, visits, at, 1)
        clients.held[place] += 1
        before = clients.score[place]
        clients.score[place] = bounded(before + testimony(taste, visits, at) - self.doubt)
        if visits.tally[SINCE] >= max(FIRST_FIT, visits.tally[HELD] // FITS):
            visits.tally[SINCE] = 0
            fit(taste, visits, clients, self.most, self.certainty, self.doubt)
            visits.tally[CURSOR] = 0
        elif clients.score[place] >= taste.rule[BAR] > before:
            visits.tally[CURSOR] = 0
        visits.learnt[at] = clients.score[place] < taste.rule[BAR]
        if not visits.learnt[at]:
            self.tally[REFUSED] += 1
        return visits.learnt[at]

    def retract(self, ranking, note, clicks):
        visits = self.visits
        if visits.tally[CURSOR] == DONE:
            return 0, -1, 0, 0
        for i in range(visits.tally[CURSOR], visits.tally[HELD]):
            at = nth_oldest(visits, i)
            place = visits.place[at]
            if visits.learnt[at] and self.clients.score[place] >= self.taste.rule[BAR]:
                visits.learnt[at] = False
                for p in range(visits.size[at]):
                    ranking[p] = visits.items[at, p]
                    clicks[p] = visits.clicks[at, p]
                note[:] = 0.0
                note[LATE] = 1.0 if visits.late[at] else 0.0
                visits.tally[CURSOR] = i + 1
                self.tally[RETRACTED] += 1
                return visits.round[at], self.clients.number[place], visits.size[at], visits.examined[at]
        visits.tally[CURSOR] = DONE
        return 0, -1, 0, 0

    def view(self) -> GuardView:
        """How many visits were refused and taken back."""
        return GuardView(int(self.tally[REFUSED]), int(self.tally[RETRACTED]))
