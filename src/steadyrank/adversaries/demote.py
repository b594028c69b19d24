"""Click fraud against some items: their clicks are withheld."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..contract import Bools, Problem
from ..kernels import cascade_stop
from ..schedules import Purse, Schedule, can_spend, spend
from ..targets import choose_targets


class Demote(NamedTuple):
    """Withholds clicks on targets; the user looks on and may click a later item. Acts where a target was clicked.

    Settings: `targets`: `best` (the best list), `bottom` (the least attractive `share`), `worst` or item numbers.
    """

    purse: Purse
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
    ) -> "Demote":
        chosen = choose_targets(targets, share, users.attraction, problem.length)
        return cls(Purse.create(problem, budget, schedule, n_bursts), chosen)

    def corrupt(self, t, ranking, clicks, examined, rng):
        if not (can_spend(self.purse, t) and clicks[examined - 1] and self.target[ranking[examined - 1]]):
            return 0.0, examined
        for p in range(ranking.size):
            clicks[p] = clicks[p] and not self.target[ranking[p]]
        return spend(self.purse), cascade_stop(clicks, ranking.size)
