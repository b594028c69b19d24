"""The paper's adversary: every bit that the user's visit shows is inverted."""

from typing import Any, NamedTuple

import numpy as np

from ..contract import Bools, Ints, Problem
from ..schedules import Schedule, active_rounds


class PrefixFlip(NamedTuple):
    """Inverts all observed bits of a round, positions 1 to the click (paper, section 5, "Corruption model").

    The literal reading: the user scans truthfully and the record of the visit is inverted. 0,0,1 becomes 1,1,0:
    no cascade user can produce that. Up to `length` corrupted observations for one unit of budget.
    """

    active: Bools  # [horizon + 1]
    left: Ints  # [1] units of budget left

    @classmethod
    def create(
        cls, problem: Problem, users: Any, budget: int, *, schedule: Schedule = "front", n_bursts: int = 5
    ) -> "PrefixFlip":
        active = active_rounds(schedule, problem.horizon, budget, problem.seed, n_bursts=n_bursts)
        return cls(active, np.array([budget], np.int64))

    def corrupt(self, t, ranking, clicks, examined, rng):
        if self.left[0] == 0 or not self.active[t]:
            return 0.0, examined
        for p in range(examined):
            clicks[p] = not clicks[p]
        self.left[0] -= 1
        return 1.0, examined
