"""An adversary that inverts which items attract the user, before the user looks."""

from typing import Any, NamedTuple

from ..core.contract import Problem
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule


class AttractionFlip(NamedTuple):
    """Inverts whether each listed item attracts the user, then lets the user look.

    The other reading of "invert all observed rewards" (paper, section 5): the feedback remains one that users can
    give. If attractions are small, it corrupts about one observation a round, the first.
    """

    budget: Budget
    users: Any

    cascade = True

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
    ) -> "AttractionFlip":
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        for p in range(ranking.size):
            clicks[p] = not clicks[p]
        return spend(self.budget), self.users.reach(clicks, ranking.size), sender(self.budget, visit.t, visit.client)
