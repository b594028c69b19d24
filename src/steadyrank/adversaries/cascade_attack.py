"""The attack on cascade learners: hide a click and invent the rest of the visit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.contract import Problem
from ..core.settings import real
from .budget import Budget, can_spend, sender, spend
from .poison import Poison, hides, watch
from .schedules import Schedule
from .targets import choose_targets


class CascadeAttack(NamedTuple):
    """JunAttack that also invents the rest of the visit, as if the user had gone on to a clicked target or the end.

    Zuo et al. 2023, for click feedback; the details follow public code. Settings: `targets`, as in Promote,
    here one item by default; `margin`, Delta_0, how far below it others are pushed; `delta`, of its bounds.
    """

    budget: Budget
    users: Any
    book: Poison

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
        margin: float = 0.1,
        delta: float = 0.05,
        bots: int | None = None,
    ) -> "CascadeAttack":
        target = choose_targets(targets, share, problem.attraction, problem.length)
        book = Poison.create(target, real("margin", margin, 0.0), real("delta", delta, 1e-12, 1.0))
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), users, book)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        watch(self.book, ranking, clicks, examined)
        if can_spend(self.budget, visit.t):
            for p in range(examined):
                if clicks[p] and hides(self.book, ranking[p]):
                    for q in range(p, ranking.size):
                        clicks[q] = self.book.target[ranking[q]]
                    return (
                        spend(self.budget),
                        self.users.reach(clicks, ranking.size),
                        sender(self.budget, visit.t, visit.client),
                    )
        return 0.0, examined, visit.client
