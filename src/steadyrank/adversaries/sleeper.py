"""Identities that earn trust before they abuse it."""

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.contract import ANYONE, Problem, Visit
from ..core.rounds import FIRST_BOT
from ..core.settings import whole
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule
from .tastes import Taste, visitors_of


class Sleeper(NamedTuple):
    """Each identity shows what a user did for its first `honest` visits, and another taste from then on.

    It knows that guards judge visits by their sender, and that a good record takes time to lose. The honest visits
    cost units too, because their senders do not exist. Settings: `bots`, how many identities; `honest`, honest visits
    of each; `taste`, as for OtherTaste. Made for these studies, from no paper.
    """

    budget: Budget
    visitors: Any  # users of the other taste
    made: Ints  # [bots] visits sent
    honest: int

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
        bots: int = 100,
        honest: int = 20,
        taste: Taste = "reversed",
    ) -> "Sleeper":
        made = np.zeros(whole("bots", bots, 1, 10_000_000), np.int64)
        owned = Budget.create(problem, budget, schedule, n_bursts, bots)
        return cls(owned, visitors_of(taste, problem, users), made, whole("honest", honest, 0))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        client = sender(self.budget, visit.t, visit.client)
        self.made[client - FIRST_BOT] += 1
        if self.made[client - FIRST_BOT] > self.honest:
            self.visitors.click(Visit(visit.t, ANYONE, visit.features), ranking, clicks, rng)
        return spend(self.budget), self.visitors.reach(clicks, ranking.size), client
