"""Click fraud against some items: their clicks are withheld."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.contract import Bools, Problem
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule
from .targets import choose_targets


class Demote(NamedTuple):
    """Withholds clicks on targets; the user looks on and may click a later item. Acts where a target was clicked.

    Settings: `targets`: `best` (the best list), `bottom` (the least attractive `share`), `worst` or item numbers.
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
        targets: str | Sequence[int] = "best",
        share: float = 0.5,
        bots: int | None = None,
    ) -> "Demote":
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, chosen)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        hit = False
        for p in range(examined):
            hit = hit or (clicks[p] and self.target[ranking[p]])
        if not (hit and can_spend(self.budget, visit.t)):
            return 0.0, examined, visit.client
        for p in range(ranking.size):
            clicks[p] = clicks[p] and not self.target[ranking[p]]
        return spend(self.budget), self.users.reach(clicks, ranking.size), sender(self.budget, visit.t, visit.client)
