"""A limit on the clicks of a single visit, learnt from how many clicks visits have."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import KIND, SILENCE, Problem
from ..core.settings import real, whole
from ..core.views import GuardView

ENDS, GOES_ON = range(2)  # places of ClickLimit.single
BEGIN = 20  # prior: one-click visits counted before the first visit; as many others outweigh them


@no_refcount
def usual_limit(counts, single, share):
    """The most clicks that a visit may have: what all visits but `share` stay within, plus one.

    Plus one, because people who click several times differ from one another. It is one click if all visits but
    `share` have at most one and most of their feedback ends with it, as that of people who click once and leave.
    """
    total = BEGIN
    for n in range(counts.size):
        total += counts[n]
    most, within = 1, BEGIN + counts[0] + counts[1]
    while within < (1.0 - share) * total and most < counts.size - 1:
        most += 1
        within += counts[most]
    return most if most == 1 and single[ENDS] >= single[GOES_ON] else most + 1


class ClickLimit(NamedTuple):
    """Refuses visits with more clicks than a limit, whoever sends them (ours: docs/guards.md).

    A forged visit may click everything but the best items; under a limit the same damage takes many visits. `clicks`:
    the limit; 0: learn it from the clicks of earlier visits. `share`: this share of the visits may be forged without
    raising a learnt limit. `remembered`: about how many visits it is learnt from; unanswered lists count as visits
    without a click. Feedback that covers no place is admitted. O(length).
    """

    counts: Ints  # [length + 1] visits by number of clicks
    single: Ints  # [2] visits with one click, not at the last place: feedback ends there, or goes on
    refused: Ints  # [1] visits
    clicks: int
    share: float
    remembered: int

    @classmethod
    def create(
        cls, problem: Problem, *, clicks: int = 0, share: float = 0.2, remembered: int = 2_000
    ) -> "ClickLimit":
        limit, rare = whole("clicks", clicks, 0), real("share", share, 0.0, 0.5)
        n = whole("remembered", remembered, 2 * BEGIN, 1 << 40)
        counts = np.zeros(problem.length + 1, np.int64), np.zeros(2, np.int64)
        return cls(*counts, np.zeros(1, np.int64), limit, rare, n)

    def admit(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return True
        clicked, last = 0, 0
        for p in range(examined):
            if clicks[p]:
                clicked += 1
                last = p + 1
        limit = self.clicks if self.clicks > 0 else usual_limit(self.counts, self.single, self.share)
        self.counts[clicked] += 1
        if clicked == 1 and last < ranking.size:
            self.single[ENDS if last == examined else GOES_ON] += 1
        if self.counts.sum() >= self.remembered:  # old visits fade
            for n in range(self.counts.size):
                self.counts[n] //= 2
            for n in range(self.single.size):
                self.single[n] //= 2
        if note[KIND] == SILENCE or clicked <= limit:
            return True
        self.refused[0] += 1
        return False

    def view(self) -> GuardView:
        """How many visits were refused."""
        return GuardView(int(self.refused[0]))
