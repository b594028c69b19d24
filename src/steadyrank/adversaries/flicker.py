"""An attack that comes and goes faster than a learner notices a change."""

from typing import Any, Self

from ..core.contract import Problem
from .budget import Budget
from .other_taste import OtherTaste
from .schedules import Schedule, flickering_rounds
from .tastes import Taste, visitors_of


class Flicker(OtherTaste):
    """Visitors of another taste for `turn` rounds, users for the next `turn`, and so on until the budget is spent.

    From round 1 (`front`) or from the middle of the horizon (`late`); units that do not fit lapse.
    Settings: `turn`, in rounds; `taste`, as for OtherTaste. Made for these studies, from no paper.
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
        turn: int = 30,
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> Self:
        if schedule not in ("front", "late"):
            raise ValueError(f"schedule of Flicker must be 'front' or 'late', not {schedule!r}")
        active = flickering_rounds(problem.horizon, budget, turn, late=schedule == "late")
        return cls(Budget.of_rounds(problem, budget, active, bots), visitors_of(taste, problem, users))
