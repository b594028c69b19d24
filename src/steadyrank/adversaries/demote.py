"""Click fraud against some items: clicks on them are withheld."""

from collections.abc import Sequence
from typing import Any, Self

from ..core.contract import Problem
from .budget import can_spend, sender, spend
from .promote import Promote
from .schedules import Schedule


class Demote(Promote):
    """Withholds clicks on targets; the user goes on and may click a later item. Acts if a target was clicked.

    Settings: `targets`: `best` (the best list), `bottom` (the least attractive `share`), `worst` or item numbers.
    """

    __slots__ = ()

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
    ) -> Self:
        chosen: dict[str, Any] = {"n_bursts": n_bursts, "targets": targets, "share": share, "bots": bots}
        return super().create(problem, users, budget, schedule=schedule, **chosen)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        hit = False
        for p in range(examined):
            hit = hit or (clicks[p] and self.target[ranking[p]])
        if not (hit and can_spend(self.budget, visit.t)):
            return 0.0, examined, visit.client
        for p in range(ranking.size):
            clicks[p] = clicks[p] and not self.target[ranking[p]]
        return spend(self.budget), self.users.reach(clicks, ranking.size), sender(self.budget, visit.t, visit.client)
