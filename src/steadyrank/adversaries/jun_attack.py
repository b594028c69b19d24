"""The attack on UCB learners, on bits: hide clicks until the target looks best."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..contract import Problem
from ..poison import Poison, hides
from ..schedules import Purse, Schedule, can_spend, spend
from ..settings import real
from ..targets import choose_targets


class JunAttack(NamedTuple):
    """Hides the click of a non-target whose mean is not yet below the target's (Jun et al. 2018, on bits).

    The hidden click ends the visit all the same: no cascade user stops without one. Settings: `targets`, as in
    Promote, here one item by default; `margin`, Delta_0, how far below; `delta`, of its confidence bounds.
    """

    purse: Purse
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
    ) -> "JunAttack":
        target = choose_targets(targets, share, users.attraction, problem.length)
        book = Poison.create(target, real("margin", margin, 0.0), real("delta", delta, 1e-12, 1.0))
        return cls(Purse.create(problem, budget, schedule, n_bursts), book)

    def corrupt(self, t, ranking, clicks, examined, rng):
        if not hides(self.book, ranking, clicks, examined, can_spend(self.purse, t)):
            return 0.0, examined
        clicks[examined - 1] = False
        return spend(self.purse), examined
