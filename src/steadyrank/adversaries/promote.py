"""Click fraud for some items: false clicks on targets that were looked at."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from ..core.arrays import Bools
from ..core.contract import Problem
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule
from .targets import choose_targets


class Promote(NamedTuple):
    """Clicks the first target that the user looked at without a click; without one it saves its budget.

    Settings: `targets`: `bottom` (the least attractive `share` of the items), `best`, `worst` or item numbers.
    """

    budget: Budget
    users: Any
    target: Bools  # [K]

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
    ) -> Self:
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, chosen)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if can_spend(self.budget, visit.t):
            for p in range(examined):
                if self.target[ranking[p]] and not clicks[p]:
                    clicks[p] = True
                    return (
                        spend(self.budget),
                        self.users.reach(clicks, ranking.size),
                        sender(self.budget, visit.t, visit.client),
                    )
        return 0.0, examined, visit.client
