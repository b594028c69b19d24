"""An attack that grows too slowly for any of its rounds to look like a change."""

from typing import Any, Self

from ..core.contract import Problem
from .budget import Budget
from .other_taste import OtherTaste
from .schedules import Schedule, rising_rounds
from .tastes import Taste, visitors_of


class SlowRamp(OtherTaste):
    """Visitors of another taste whose share rises linearly over the horizon, from 0 to twice the budget's share.

    With a budget of 15 % of the rounds, 30 % of the last visits are false. Settings: `taste`, as for OtherTaste.
    Made for these studies, from no paper.
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
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> Self:
        if schedule != "front":
            raise ValueError(f"schedule of SlowRamp must be 'front', it rises from the first round, not {schedule!r}")
        active = rising_rounds(problem.horizon, budget, problem.seed)
        return cls(Budget.of_rounds(problem, budget, active, bots), visitors_of(taste, problem, users))
