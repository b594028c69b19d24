"""Visitors who are not users: they click what they are paid for and nothing else."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.contract import Bools, Problem
from .budget import Budget, fake_visit
from .schedules import Schedule
from .targets import choose_targets


class FakeUser(NamedTuple):
    """A fake user in place of the real one: clicks the first target shown, otherwise leaves without a click.

    Golrezaei et al. 2021 count such users. Consistent fakes spread over time cannot be told from a change of
    taste. Settings: `targets`: `bottom` (the least attractive `share` of the items), `best`, `worst` or numbers.
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
    ) -> "FakeUser":
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, chosen)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return fake_visit(self.budget, self.users, visit, self.target, ranking, clicks, examined)
