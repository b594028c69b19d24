"""The attack on cascade learners: hide a click and make up the rest of the visit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..contract import Problem
from ..poison import Poison, hides
from ..schedules import Purse, Schedule, can_spend, charge
from ..settings import real
from ..targets import choose_targets


class CascadeAttack(NamedTuple):
    """JunAttack that goes on as the user who did not click would: to a target, which it clicks, or to the end.

    Zuo et al. 2023, for click feedback; the mechanics are those of public code. Settings: `targets`, as in Promote,
    here one item by default; `margin`, Delta_0, how far below it others are pushed; `delta`, of its bounds.
    """

    purse: Purse
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
    ) -> "CascadeAttack":
        target = choose_targets(targets, share, users.attraction, problem.length)
        book = Poison.create(target, real("margin", margin, 0.0), real("delta", delta, 1e-12, 1.0))
        return cls(Purse.create(problem, budget, schedule, n_bursts), book)

    def corrupt(self, t, ranking, clicks, examined, rng):
        if not hides(self.book, ranking, clicks, examined, can_spend(self.purse, t)):
            return 0.0, examined
        for p in range(examined - 1, ranking.size):
            clicks[p] = self.book.target[ranking[p]]
        return charge(self.purse, clicks, ranking.size, examined, True)
