"""Poison the first rounds, then leave no trace."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.contract import Bools, Problem
from .budget import Budget, fake_visit
from .schedules import Schedule
from .targets import choose_targets


class AttackThenQuit(NamedTuple):
    """In its first C rounds only targets are clicked, nothing else; then it does nothing (Wang et al. 2023).

    Click poisoning in two phases, against learners that decide once and for all. Front-loaded by definition.
    Settings: `targets`: `worst` (the least attractive item), `bottom` (the least attractive `share`) or numbers.
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
        targets: str | Sequence[int] = "worst",
        share: float = 0.1,
        bots: int | None = None,
    ) -> "AttackThenQuit":
        if schedule != "front":
            raise ValueError(f"schedule of AttackThenQuit must be 'front', by definition, not {schedule!r}")
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, chosen)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return fake_visit(self.budget, self.users, visit, self.target, ranking, clicks, examined)
