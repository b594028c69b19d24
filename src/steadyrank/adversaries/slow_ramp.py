"""An attack that grows too slowly for any of its rounds to look like a change."""

from typing import Any, NamedTuple

from ..core.contract import Problem
from .budget import Budget
from .schedules import Schedule, rising_rounds
from .tastes import Taste, visit_by_taste, visitors_of


class SlowRamp(NamedTuple):
    """Visitors of another taste whose share rises evenly over the horizon, from 0 to twice the budget's share.

    With a budget of 15 % of the rounds, 30 % of the last visits are false. Settings: `taste`, as for OtherTaste.
    Made for these studies, from no paper.
    """

    budget: Budget
    visitors: Any  # users of the other taste

    cascade = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        users: Any,
        budget: int,
        *,
        schedule: Schedule = "front",
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> "SlowRamp":
        if schedule != "front":
            raise ValueError(f"schedule of SlowRamp must be 'front', it rises from the first round, not {schedule!r}")
        active = rising_rounds(problem.horizon, budget, problem.seed)
        return cls(Budget.of_rounds(problem, budget, active, bots), visitors_of(taste, problem, users))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return visit_by_taste(self.budget, self.visitors, visit, ranking, clicks, examined, rng)
