"""Visitors who look and click as users do, but like other items."""

from typing import Any, NamedTuple, Self

from ..core.contract import Problem
from .budget import Budget
from .schedules import Schedule
from .tastes import Taste, visit_by_taste, visitors_of


class OtherTaste(NamedTuple):
    """A visitor with another taste in place of the real one: no single visit gives it away.

    Settings: `taste`: `reversed` (likes most what users like least) or `permuted` (likes other items, drawn from
    the seed). Made for these studies, from no paper.
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
        n_bursts: int = 5,
        taste: Taste = "reversed",
        bots: int | None = None,
    ) -> Self:
        visitors = visitors_of(taste, problem, users)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), visitors)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return visit_by_taste(self.budget, self.visitors, visit, ranking, clicks, examined, rng)
