"""What an adversary has left to spend, and the price of a visit that it rewrote."""

from typing import NamedTuple

import numpy as np

from .._jit import kernel
from ..arrays import Bools, Ints
from ..contract import ANYONE, Problem
from .schedules import Schedule, active_rounds


class Budget(NamedTuple):
    """Units that an adversary may spend, one a round, the rounds in which it may, and the visit being rewritten."""

    active: Bools  # [horizon + 1]
    left: Ints  # [1] units
    truth: Bools  # [length] the bits before they were rewritten

    @classmethod
    def create(cls, problem: Problem, units: int, schedule: Schedule, n_bursts: int) -> "Budget":
        """All units unspent, for a schedule of `active_rounds`."""
        active = active_rounds(schedule, problem.horizon, units, problem.seed, n_bursts=n_bursts)
        return cls.of_rounds(problem, units, active)

    @classmethod
    def of_rounds(cls, problem: Problem, units: int, active: Bools) -> "Budget":
        """All units unspent, for these rounds; bool[horizon + 1]."""
        return cls(active, np.array([units], np.int64), np.zeros(problem.length, np.bool_))


@kernel
def can_spend(budget, t):
    """Whether a unit may be spent in round t."""
    return budget.left[0] > 0 and budget.active[t]


@kernel
def spend(budget):
    """Take one unit; returns what was spent."""
    budget.left[0] -= 1
    return 1.0


@kernel
def remember(budget, clicks, size):
    """Keep the bits of a visit that is about to be rewritten, for `settle`."""
    for p in range(size):
        budget.truth[p] = clicks[p]


@kernel
def settle(budget, users, visit, clicks, size, examined, client):
    """What a rewritten visit cost, how far it reaches now and whose it is; `remember` kept the true one.

    `client` is whose it pretends to be. If it shows what the true one showed, it is left alone and costs nothing.
    """
    now = users.reach(clicks, size)
    same = now == examined
    for p in range(min(now, examined)):
        same = same and clicks[p] == budget.truth[p]
    if same:
        return 0.0, examined, visit.client
    return spend(budget), now, client


@kernel
def fake_visit(budget, users, visit, target, ranking, clicks, examined):
    """Replace the visit by that of somebody unknown who would click every target and nothing else."""
    if not can_spend(budget, visit.t):
        return 0.0, examined, visit.client
    remember(budget, clicks, ranking.size)
    for p in range(ranking.size):
        clicks[p] = target[ranking[p]]
    return settle(budget, users, visit, clicks, ranking.size, examined, ANYONE)
