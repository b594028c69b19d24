"""An adversary who inverts what attracts the user, before the user looks."""

from typing import Any, NamedTuple

from ..contract import Problem
from ..kernels import cascade_stop
from ..schedules import Purse, Schedule, can_spend, spend


class AttractionFlip(NamedTuple):
    """Inverts the attraction of every listed item, then lets a cascade user scan.

    The other reading of "invert all observed rewards" (paper, section 5): the feedback keeps the shape of a
    cascade, and where attractions are small about one observation a round is corrupted, the first.
    """

    purse: Purse

    cascade = True

    @classmethod
    def create(
        cls, problem: Problem, users: Any, budget: int, *, schedule: Schedule = "front", n_bursts: int = 5
    ) -> "AttractionFlip":
        return cls(Purse.create(problem, budget, schedule, n_bursts))

    def corrupt(self, t, ranking, clicks, examined, rng):
        if not can_spend(self.purse, t):
            return 0.0, examined
        for p in range(ranking.size):
            clicks[p] = not clicks[p]
        return spend(self.purse), cascade_stop(clicks, ranking.size)
