"""Refuse and retract visits of clients who share a rare taste."""

from itertools import starmap
from typing import NamedTuple

import numpy as np

from ...core.arrays import Bools, Ints
from ...core.contract import KIND, NOTE_EXTRA, SILENCE, Problem
from ...core.settings import real, whole
from ...core.views import GuardView, Suspect, TrustView
from .client_mixture import (
    BAR,
    CAME,
    DOUBT,
    EXPECTED,
    NEVER,
    RECENT,
    SPARED,
    UNIT,
    VISITS,
    ClientMixture,
    bounded,
    count_visit,
    evidence_of_visit,
    fit,
    odd_ones,
    refused_lately,
)
from .client_table import NOBODY, USED, Clients, place_of_client, welcome
from .recent_visits import (
    CURSOR,
    DONE,
    HELD,
    NEXT,
    SINCE,
    RecentVisits,
    clicked_in,
    count_outcome,
    nth_oldest,
    read_visit,
    write_visit,
)

# places of ClientTrust.tally; FOUND: consecutive fits with a finding; below 0: without one
REFUSED, RETRACTED, LATELY, DOWN, STOOD_DOWN, FOUND = range(6)
ALL_REFUSED = RECENT << 20  # LATELY if every visit was refused
FIRST_FIT = 200  # visits: a few of each of several clients
FITS = 8  # in the time in which all remembered visits are replaced: a fit costs as much as that share of it
STARTS = 4  # fits that try each start once: if none has a finding, there is nothing to find


class ClientTrust(NamedTuple):
    """Refuses clients who share a taste that few others have, and retracts their visits (ours: docs/guards.md).

    Two tastes are fitted to the remembered visits, each client having one of them. The taste with fewer visits is
    fraud if it is rare and several clients surely have it. Anonymous visits are admitted. Unanswered lists show
    nothing of a taste: they are not remembered, and admitted unless their client is refused. A guard that refuses
    many of the recent visits is more likely wrong than right: it stands down until that is over.

    `most`: a taste with at least this share of the visits is honest. `certainty`: log
    odds, in nats, at which a client is refused. `doubt`: nats subtracted from the evidence of each visit, as a margin
    for honest clients with tastes of their own. `stand_down`: the share of the RECENT latest visits above which the
    guard refuses nobody. `remembered`: visits kept, each 51 bytes plus 12 per place of the list.
    `known`: clients kept, 32 bytes each, evicted by least recent use; at least as many as visits are remembered.
    A visit costs O(examined), plus its part of the fit: O(remembered) each time an eighth of the visits is new.
    """

    clients: Clients
    visits: RecentVisits
    taste: ClientMixture
    tally: Ints  # [6] visits refused, retracted, refused lately; when and how often it stood down; FOUND
    most: float
    certainty: int  # units
    doubt: int  # units
    stand_down: float
    remembered: int
    known: int

    VERSION = 4

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        most: float = 0.2,
        certainty: float = 4.0,
        doubt: float = 0.5,
        stand_down: float = 0.3,
        remembered: int = 16_384,
        known: int = 65_536,
    ) -> "ClientTrust":
        most = real("most", most, 0.0, 0.5)
        bar, tax = real("certainty", certainty, 0.0, 10.0), real("doubt", doubt, 0.0, 4.0)
        limit = real("stand_down", stand_down, 0.0, 1.0)
        n = whole("remembered", remembered, 1, 1 << 24)
        most_known = whole("known", known, n, 1 << 28)
        room = problem.horizon or most_known  # each round brings one visit of one client
        clients = Clients.create(min(most_known, room))
        visits = RecentVisits.create(min(n, room), problem.length, problem.length + NOTE_EXTRA)
        taste, tally = ClientMixture.create(problem.n_items), np.zeros(6, np.int64)
        return cls(clients, visits, taste, tally, most, round(bar * UNIT), round(tax * UNIT), limit, n, most_known)

    def admit(self, visit, ranking, note, clicks, examined):
        if visit.client < 0 or examined == 0:
            return True
        clients, visits, taste = self.clients, self.visits, self.taste
        if note[KIND] == SILENCE:
            place = place_of_client(clients, visit.client)
            return place == NOBODY or clients.score[place] < taste.rule[BAR]
        if visits.tally[HELD] == visits.round.size:  # the oldest visit leaves
            at = visits.tally[NEXT]
            sender = visits.place[at]
            if taste.rule[BAR] < NEVER:
                against = evidence_of_visit(taste, visits, at) - taste.rule[DOUBT] - SPARED * visits.outcomes[at]
                clients.carried[sender] = bounded(clients.carried[sender] + against)
            clients.held[sender] -= 1
            count_visit(taste, visits, at, -1)
        place = welcome(clients, visit.client)
        at = write_visit(visits, place, visit.t, ranking, note, clicks, examined)
        count_visit(taste, visits, at, 1)
        clients.held[place] += 1
        against = evidence_of_visit(taste, visits, at) - taste.rule[DOUBT]
        clients.score[place] = bounded(clients.score[place] + against)
        pause = FIRST_FIT if self.tally[FOUND] == 1 else max(FIRST_FIT, visits.tally[HELD] // FITS)
        if visits.tally[SINCE] >= pause:
            visits.tally[SINCE] = 0
            fit(taste, visits, clients, self.most, self.certainty, self.doubt)
            lately = refused_lately(taste, visits, clients)
            self.tally[LATELY] = round(lately * ALL_REFUSED)
            refuses = taste.rule[BAR] < NEVER
            self.tally[FOUND] = max(self.tally[FOUND], 0) + 1 if refuses else min(self.tally[FOUND], 0) - 1
            if (refuses and lately <= self.stand_down) or self.tally[FOUND] <= -STARTS:
                self.tally[DOWN] = 0
            if self.tally[FOUND] > 1:  # one fit is enough to refuse; retracting cannot be undone, so it takes two
                visits.tally[CURSOR] = 0
        admitted = clients.score[place] < taste.rule[BAR]
        self.tally[LATELY] += (0 if admitted else ALL_REFUSED // RECENT) - self.tally[LATELY] // RECENT
        if self.tally[LATELY] > self.stand_down * ALL_REFUSED:
            if self.tally[DOWN] == 0:
                self.tally[DOWN] = visit.t
                self.tally[STOOD_DOWN] += 1
            taste.rule[BAR] = NEVER
            self.tally[LATELY] = self.tally[FOUND] = 0
            admitted = True
        visits.learnt[at] = admitted
        if not admitted:
            self.tally[REFUSED] += 1
        return admitted

    def retract(self, ranking, note, clicks):
        visits = self.visits
        if visits.tally[CURSOR] == DONE:
            return 0, -1, 0, 0
        for i in range(visits.tally[CURSOR], visits.tally[HELD]):
            at = nth_oldest(visits, i)
            place = visits.place[at]
            if visits.learnt[at] and self.clients.score[place] >= self.taste.rule[BAR]:
                visits.learnt[at] = False
                read_visit(visits, at, ranking, note, clicks)
                visits.tally[CURSOR] = i + 1
                self.tally[RETRACTED] += 1
                return visits.round[at], self.clients.number[place], visits.size[at], visits.examined[at]
        visits.tally[CURSOR] = DONE
        return 0, -1, 0, 0

    def outcome(self, item, shown, t, before, after):
        if (before > 0.0) == (after > 0.0):
            return
        at = clicked_in(self.visits, shown, item)
        if at == NOBODY:
            return
        sign = 1 if after > 0.0 else -1
        count_outcome(self.visits, at, sign)
        place = self.visits.place[at]
        self.clients.score[place] = bounded(self.clients.score[place] - sign * SPARED)

    def grown(self) -> "ClientTrust":
        """This guard with room for at least one more visit, up to its settings: itself, or a copy twice as large."""
        clients, visits = self.clients, self.visits
        if visits.tally[HELD] == visits.round.size < self.remembered:
            visits = visits.enlarged(min(2 * visits.round.size, self.remembered))
        if clients.ends[USED] == clients.number.size < self.known:
            clients = clients.enlarged(min(2 * clients.number.size, self.known))
        same = visits is self.visits and clients is self.clients
        return self if same else self._replace(visits=visits, clients=clients)

    def disown(self, t: int, ranking: Ints, clicks: Bools) -> None:
        """Mark this visit as unknown to the learner, so that it is never retracted."""
        self.visits.disown(t, ranking, clicks)

    def view(self) -> GuardView:
        """A copy of what was refused and retracted, and of the clients who are refused now, with their evidence."""
        suspects = tuple(starmap(Suspect, odd_ones(self.taste, self.visits, self.clients)))
        share = float(self.taste.share[VISITS]) if self.taste.rule[BAR] < NEVER else 0.0
        refused, retracted, _, since, times, _ = self.tally.tolist()
        outcomes = (float(self.taste.outcomes[EXPECTED]), float(self.taste.outcomes[CAME])) if share else (0.0, 0.0)
        return TrustView(refused, retracted, suspects, since, times, share, *outcomes)

    def visits_of(self, client: int) -> int:
        """How many visits of a client are remembered. O(1)."""
        return self.clients.visits_of(client)
