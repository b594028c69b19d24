"""The paper's adversary: inverts every bit that the user's visit shows."""

from typing import Any, NamedTuple

from ..core.contract import Problem
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule


class PrefixFlip(NamedTuple):
    """Inverts all observed bits of a round, places 1 to the click (paper, section 5, "Corruption model").

    The literal reading: the user scans truthfully, and the record of the visit is inverted. 0,0,1 becomes 1,1,0,
    which no cascade user can produce. One unit of budget corrupts up to `length` observations.
    """

    budget: Budget

    cascade = False

    @classmethod
    def create(
        cls,
        problem: Problem,
        users: Any,
        budget: int,
        *,
        schedule: Schedule = "front",
        n_bursts: int = 5,
        bots: int | None = None,
    ) -> "PrefixFlip":
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        for p in range(examined):
            clicks[p] = not clicks[p]
        return spend(self.budget), examined, sender(self.budget, visit.t, visit.client)
