"""A ring buffer of the most recent visits, so that they can be judged again and retracted."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Counts, Floats, Ints, Small
from ...core.compiling.jit import no_refcount
from ...core.segments import MOST_SEGMENTS, REST, SEGMENT
from .client_table import NOBODY

NEXT, HELD, SINCE, CURSOR, OUTCOMES = range(5)  # places of RecentVisits.tally
DONE = -1  # cursor: nothing to look for


class RecentVisits(NamedTuple):
    """The N most recent visits: what was shown, what was clicked, by whom, and whether the learner has learnt it."""

    bits: Counts  # [N, length] 2 item, plus 1 if it was clicked
    size: Small  # [N] list length
    examined: Small  # [N]
    outcomes: Small  # [N] clicks that led to an outcome
    note: Floats  # [N, places of a note]
    learnt: Bools  # [N]
    place: Counts  # [N] the client's index in its table
    round: Ints  # [N]
    tally: Ints  # [5] index of the next one, how many are held, how many since the last fit, cursor, outcomes

    @classmethod
    def create(cls, n: int, length: int, note: int) -> "RecentVisits":
        """Empty, with room for n visits, lists of at most `length` items and notes of `note` numbers."""
        return cls(
            np.zeros((n, length), np.int32),
            np.zeros(n, np.int16),
            np.zeros(n, np.int16),
            np.zeros(n, np.int16),
            np.zeros((n, note)),
            np.zeros(n, np.bool_),
            np.zeros(n, np.int32),
            np.zeros(n, np.int64),
            np.array([0, 0, 0, DONE, 0], np.int64),
        )

    def enlarged(self, n: int) -> "RecentVisits":
        """A copy with room for n visits, not fewer than now; only before any visit was overwritten. O(n)."""
        held, (_, length), note = int(self.tally[HELD]), self.bits.shape, self.note.shape[1]
        more = RecentVisits.create(n, length, note)
        arrays: list[tuple[Any, Any]] = list(zip(self[:-1], more[:-1], strict=True))
        for old, new in arrays:
            new[:held] = old[:held]
        more.tally[:] = self.tally
        more.tally[NEXT] = held % n
        return more

    def disown(self, t: int, ranking: Ints, clicks: Bools) -> None:
        """Mark the newest visit of round t with this list and these clicks as unknown to the learner.

        O(1) for the latest visit, O(remembered) for others.
        """
        n, latest = int(self.tally[HELD]), int(self.tally[NEXT]) - 1
        if n and self.round[latest] == t and self.learnt[latest] and self._is(latest, ranking, clicks):
            self.learnt[latest] = False
            return
        for at in np.flatnonzero((self.round[:n] == t) & self.learnt[:n])[::-1]:
            if self._is(at, ranking, clicks):
                self.learnt[at] = False
                return

    def _is(self, at: int, ranking: Ints, clicks: Bools) -> bool:
        """Whether a remembered visit has this list and these clicks."""
        return np.array_equal(self.bits[at, : self.size[at]], 2 * ranking + clicks)

    def by_client(self, chosen: Bools) -> tuple[Counts, Ints, Ints, Ints]:
        """For each client of the chosen visits: table index, first round not learnt from (0: none), clicks, segments.

        The last is a row of visit counts per client, by the segment that notes name, 0 for none.
        """
        at, never = np.flatnonzero(chosen), np.iinfo(np.int64).max
        places, whose = np.unique(self.place[at], return_inverse=True)
        looked_at = np.arange(self.bits.shape[1]) < self.examined[at, None]
        clicks = np.bincount(whose, (self.bits[at] & looked_at).sum(axis=1), places.size).astype(np.int64)
        since: Ints = np.full(places.size, never)
        np.minimum.at(since, whose, np.where(self.learnt[at], never, self.round[at]))
        noted = self.note[at, SEGMENT]
        segment = np.where((noted >= REST) & (noted <= MOST_SEGMENTS), noted, REST).astype(np.int64)
        segments: Ints = np.zeros((places.size, segment.max(initial=REST) + 1), np.int64)
        np.add.at(segments, (whose, segment), 1)
        return places, np.where(since == never, 0, since), clicks, segments


@no_refcount
def nth_oldest(visits, i):
    """Index of the visit that came i visits after the oldest one."""
    n = visits.round.size
    at = visits.tally[NEXT] + i if visits.tally[HELD] == n else i
    return at - n if at >= n else at


@no_refcount
def read_visit(visits, at, ranking, note, clicks):
    """Write a remembered visit into the arrays that it was once reported in."""
    for p in range(visits.size[at]):
        ranking[p] = visits.bits[at, p] >> 1
        clicks[p] = visits.bits[at, p] & 1 == 1
    for i in range(note.size):
        note[i] = visits.note[at, i]


@no_refcount
def write_visit(visits, place, t, ranking, note, clicks, examined):
    """Overwrite the oldest visit with this one, not learnt yet; returns its index."""
    at = visits.tally[NEXT]
    for p in range(ranking.size):
        visits.bits[at, p] = 2 * ranking[p] + clicks[p]
    visits.size[at] = ranking.size
    visits.examined[at] = examined
    visits.tally[OUTCOMES] -= visits.outcomes[at]
    visits.outcomes[at] = 0
    for i in range(note.size):
        visits.note[at, i] = note[i]
    visits.learnt[at] = False
    visits.place[at] = place
    visits.round[at] = t
    visits.tally[NEXT] = at + 1 if at + 1 < visits.round.size else 0
    visits.tally[HELD] = min(visits.tally[HELD] + 1, visits.round.size)
    visits.tally[SINCE] += 1
    return at


@no_refcount
def count_outcome(visits, at, sign):
    """Count an outcome of a click of this visit (sign 1), or take one back (-1)."""
    visits.outcomes[at] += sign
    visits.tally[OUTCOMES] += sign


@no_refcount
def clicked_in(visits, t, item):
    """Index of the newest visit of round t with a click on this item; NOBODY if none is remembered.

    O(1) for the latest, O(how many came since) for others.
    """
    for i in range(visits.tally[HELD] - 1, -1, -1):
        at = nth_oldest(visits, i)
        if visits.round[at] == t:
            for p in range(visits.examined[at]):
                if visits.bits[at, p] == 2 * item + 1:
                    return at
    return NOBODY
