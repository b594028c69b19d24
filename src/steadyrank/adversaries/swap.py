"""Click fraud for the worst items and against the best, in the same round."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.arrays import Bools
from ..core.contract import Problem
from .budget import Budget, can_spend, remember, settle
from .schedules import Schedule
from .targets import choose_targets


class Swap(NamedTuple):
    """Withholds clicks on the items of the best list and clicks the first target instead, for one unit.

    Demote and Promote together. Settings: `targets`, to be clicked: `bottom` (the least attractive `share`),
    `worst` or item numbers.
    """

    budget: Budget
    users: Any
    target: Bools  # [K]
    victim: Bools  # [K]

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
        targets: str | Sequence[int] = "bottom",
        share: float = 0.5,
        bots: int | None = None,
    ) -> "Swap":
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        best = choose_targets("best", share, problem.attraction, problem.length) & ~chosen
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, chosen, best)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        remember(self.budget, clicks, ranking.size)
        for p in range(ranking.size):
            clicks[p] = clicks[p] and not self.victim[ranking[p]]
        for p in range(ranking.size):
            if self.target[ranking[p]]:
                clicks[p] = True
                break
        return settle(self.budget, self.users, visit, clicks, ranking.size, examined, visit.client)
