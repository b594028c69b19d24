"""The paper's adversary: every bit that the user's visit shows is inverted."""

from typing import Any, NamedTuple

from ..contract import Problem
from ..schedules import Purse, Schedule, can_spend, spend


class PrefixFlip(NamedTuple):
    """Inverts all observed bits of a round, positions 1 to the click (paper, section 5, "Corruption model").

    The literal reading: the user scans truthfully and the record of the visit is inverted. 0,0,1 becomes 1,1,0:
    no cascade user can produce that. Up to `length` corrupted observations for one unit of budget.
    """

    purse: Purse

    cascade = False

    @classmethod
    def create(
        cls, problem: Problem, users: Any, budget: int, *, schedule: Schedule = "front", n_bursts: int = 5
    ) -> "PrefixFlip":
        return cls(Purse.create(problem, budget, schedule, n_bursts))

    def corrupt(self, t, ranking, clicks, examined, rng):
        if not can_spend(self.purse, t):
            return 0.0, examined
        for p in range(examined):
            clicks[p] = not clicks[p]
        return spend(self.purse), examined
