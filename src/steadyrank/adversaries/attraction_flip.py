"""An adversary who inverts what attracts the user, before the user looks."""

from typing import Any, NamedTuple

import numpy as np

from ..contract import Bools, Ints, Problem
from ..kernels import cascade_stop
from ..schedules import Schedule, active_rounds


class AttractionFlip(NamedTuple):
    """Inverts the attraction of every listed item, then lets a cascade user scan.

    The other reading of "invert all observed rewards" (paper, section 5): the feedback keeps the shape of a
    cascade, and where attractions are small about one observation a round is corrupted, the first.
    """

    active: Bools  # [horizon + 1]
    left: Ints  # [1] units of budget left

    @classmethod
    def create(
        cls, problem: Problem, users: Any, budget: int, *, schedule: Schedule = "front", n_bursts: int = 5
    ) -> "AttractionFlip":
        active = active_rounds(schedule, problem.horizon, budget, problem.seed, n_bursts=n_bursts)
        return cls(active, np.array([budget], np.int64))

    def corrupt(self, t, ranking, clicks, examined, rng):
        if self.left[0] == 0 or not self.active[t]:
            return 0.0, examined
        for p in range(ranking.size):
            clicks[p] = not clicks[p]
        self.left[0] -= 1
        return 1.0, cascade_stop(clicks, ranking.size)
