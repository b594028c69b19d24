"""The budget of an adversary, and what a rewritten visit costs."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Ints
from ..core.compiling.jit import kernel
from ..core.contract import ANYONE, Problem
from ..core.philox import philox
from ..core.rounds import FIRST_BOT
from ..core.settings import whole
from .schedules import Schedule, active_rounds

NO_BOTS = -1
_LOW = 0xFFFFFFFF


class Budget(NamedTuple):
    """Units that an adversary may spend, one a round; the rounds in which it may; and the visit being rewritten."""

    active: Bools  # [horizon + 1]
    left: Ints  # [1] units
    truth: Bools  # [length] the bits before the rewrite
    bots: int  # identities owned; 0: a fresh one for each visit, NO_BOTS: none
    key: int  # key of the draws among them

    @classmethod
    def create(
        cls, problem: Problem, units: int, schedule: Schedule, n_bursts: int, bots: int | None = None
    ) -> "Budget":
        """All units unspent, for a schedule of `active_rounds`."""
        active = active_rounds(schedule, problem.horizon, units, problem.seed, n_bursts=n_bursts)
        return cls.of_rounds(problem, units, active, bots)

    @classmethod
    def of_rounds(cls, problem: Problem, units: int, active: Bools, bots: int | None = None) -> "Budget":
        """All units unspent, with these active rounds, bool[horizon + 1]."""
        owned = NO_BOTS if bots is None else whole("bots", bots, 0, 1 << 31)
        key = int(np.random.SeedSequence([problem.seed, 0xB075]).generate_state(1)[0])
        return cls(active, np.array([units], np.int64), np.zeros(problem.length, np.bool_), owned, key)


@kernel
def can_spend(budget, t):
    """Whether a unit may be spent in round t."""
    return budget.left[0] > 0 and budget.active[t]


@kernel
def spend(budget):
    """Spend one unit; returns the amount spent."""
    budget.left[0] -= 1
    return 1.0


@kernel
def sender(budget, t, otherwise):
    """The client that the false visit of round t claims: one drawn from the owned identities, or a fresh one.

    `otherwise` if the adversary owns none.
    """
    if budget.bots < 0:
        return otherwise
    if budget.bots == 0:
        return FIRST_BOT + t
    return FIRST_BOT + philox(t & _LOW, t >> 32, budget.key)[0] % budget.bots


@kernel
def remember(budget, clicks, size):
    """Keep the bits of a visit that is about to be rewritten, for `settle`."""
    for p in range(size):
        budget.truth[p] = clicks[p]


@kernel
def settle(budget, users, visit, clicks, size, examined, client):
    """Cost, reach and client of a rewritten visit; `remember` kept the true one.

    `client` is the sender that it claims, unless the adversary owns identities: then it is one of these. A visit that
    equals the true one, of an adversary without identities, is left alone and costs nothing.
    """
    now = users.reach(clicks, size)
    same = now == examined
    for p in range(min(now, examined)):
        same = same and clicks[p] == budget.truth[p]
    if same and budget.bots < 0:
        return 0.0, examined, visit.client
    return spend(budget), now, sender(budget, visit.t, client)


@kernel
def fake_visit(budget, users, visit, target, ranking, clicks, examined):
    """Replace the visit by an anonymous one that clicks every target and nothing else."""
    if not can_spend(budget, visit.t):
        return 0.0, examined, visit.client
    remember(budget, clicks, ranking.size)
    for p in range(ranking.size):
        clicks[p] = target[ranking[p]]
    return settle(budget, users, visit, clicks, ranking.size, examined, ANYONE)
