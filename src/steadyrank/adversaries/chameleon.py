"""Identities that lie only as much as their own record can hide."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import no_refcount
from ..core.contract import ANYONE, Problem, Visit
from ..core.rounds import FIRST_BOT
from ..core.settings import real, whole
from .budget import Budget, can_spend, sender, spend
from .schedules import Schedule
from .tastes import Taste, attractions_of, visitors_of

_LEAST = 0.01  # bounds chances away from 0 and 1, so that no bit is proof


@no_refcount
def evidence(false, true, ranking, clicks, examined):
    """Log-likelihood ratio, in nats, of the bits of a visit: the false taste against the true one."""
    total = 0.0
    for p in range(examined):
        k = ranking[p]
        a = min(max(true[k], _LEAST), 1.0 - _LEAST)
        b = min(max(false[k], _LEAST), 1.0 - _LEAST)
        total += math.log(b / a) if clicks[p] else math.log((1.0 - b) / (1.0 - a))
    return total


class Chameleon(NamedTuple):
    """Each identity shows another taste only while its record fits that taste no better than the users'.

    For each identity it keeps what a guard that knew both tastes would keep: the sum of its visits' log-likelihood
    ratios. Up to `bar` nats it lies; above, it shows what a user did, which lowers the sum. So about half of its
    visits are false, and no likelihood test tells it from a client of mixed taste. Honest visits cost units too. Like
    guards, it assumes that every reported place was looked at. Settings: `bots`, how many identities; `bar`; `taste`,
    as for OtherTaste. From no paper.
    """

    budget: Budget
    visitors: Any  # users of the other taste
    attraction: Floats  # [K] of the other taste
    true: Floats  # [K]
    record: Floats  # [bots] nats
    bar: float

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
        bar: float = 0.0,
        taste: Taste = "reversed",
    ) -> "Chameleon":
        record = np.zeros(whole("bots", bots, 1, 10_000_000))
        owned = Budget.create(problem, budget, schedule, n_bursts, bots)
        true = np.ascontiguousarray(problem.attraction, np.float64).copy()
        visitors, liked = visitors_of(taste, problem, users), attractions_of(taste, problem)
        return cls(owned, visitors, liked, true, record, real("bar", bar))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        client = sender(self.budget, visit.t, visit.client)
        if self.record[client - FIRST_BOT] <= self.bar:
            self.visitors.click(Visit(visit.t, ANYONE, visit.features), ranking, clicks, rng)
        reach = self.visitors.reach(clicks, ranking.size)
        self.record[client - FIRST_BOT] += evidence(self.attraction, self.true, ranking, clicks, reach)
        return spend(self.budget), reach, client
