"""The attack on UCB learners, for binary feedback: hide clicks until the target looks best."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.contract import Problem
from ..core.settings import real
from .budget import Budget, can_spend, sender, spend
from .poison import Poison, hides, watch
from .schedules import Schedule
from .targets import choose_targets


class JunAttack(NamedTuple):
    """Hides clicks on any non-target whose mean is not yet below the target's (Jun et al. 2018, for bits).

    The hidden click still ends the visit, which no cascade user does without a click. Settings: `targets`, as in
    Promote, here one item by default; `margin`, Delta_0, how far below; `delta`, of its confidence bounds.
    """

    budget: Budget
    book: Poison

    cascade = False

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
    ) -> "JunAttack":
        target = choose_targets(targets, share, problem.attraction, problem.length)
        book = Poison.create(target, real("margin", margin, 0.0), real("delta", delta, 1e-12, 1.0))
        return cls(Budget.create(problem, budget, schedule, n_bursts, bots), book)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        watch(self.book, ranking, clicks, examined)
        hidden = False
        if can_spend(self.budget, visit.t):
            for p in range(examined):
                if clicks[p] and hides(self.book, ranking[p]):
                    clicks[p] = False
                    hidden = True
        if hidden:
            return spend(self.budget), examined, sender(self.budget, visit.t, visit.client)
        return 0.0, examined, visit.client
