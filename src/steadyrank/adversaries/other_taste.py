"""Visitors who look and click as users do, but like other items."""

from typing import Any, NamedTuple

from ..contract import Floats, Problem
from .budget import Budget
from .schedules import Schedule
from .tastes import Taste, attractions_of, visit_by_taste


class OtherTaste(NamedTuple):
    """A visitor with another taste in place of the real one: nothing in a single visit gives it away.

    Settings: `taste`: `reversed` (who likes what users like least) or `permuted` (who likes other items, drawn from
    the seed). Made for these studies, from no paper.
    """

    budget: Budget
    users: Any
    attraction: Floats  # [K]

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
    ) -> "OtherTaste":
        liked = attractions_of(taste, problem)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, liked)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return visit_by_taste(self.budget, self.users, visit, self.attraction, ranking, clicks, examined, rng)
