"""An attack that comes and goes faster than a change is noticed."""

from typing import Any, NamedTuple

from ..core.contract import Problem
from .budget import Budget
from .schedules import Schedule, flickering_rounds
from .tastes import Taste, visit_by_taste, visitors_of


class Flicker(NamedTuple):
    """Visitors of another taste for `turn` rounds, users for as many, in turn, until the budget is spent.

    From round 1 (`front`) or from the middle of the horizon on (`late`); units for which there is no room lapse.
    Settings: `turn`, in rounds; `taste`, as for OtherTaste. Made for these studies, from no paper.
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
        turn: int = 30,
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> "Flicker":
        if schedule not in ("front", "late"):
            raise ValueError(f"schedule of Flicker must be 'front' or 'late', not {schedule!r}")
        active = flickering_rounds(problem.horizon, budget, turn, late=schedule == "late")
        return cls(Budget.of_rounds(problem, budget, active, bots), visitors_of(taste, problem, users))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return visit_by_taste(self.budget, self.visitors, visit, ranking, clicks, examined, rng)
