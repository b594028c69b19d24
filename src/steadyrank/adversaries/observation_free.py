"""A short attack in two phases, fixed in advance, without looking at any feedback."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Bools
from ..core.contract import ANYONE, Problem
from ..core.settings import real
from .budget import Budget, can_spend, remember, settle
from .schedules import Schedule
from .targets import choose_targets


class ObservationFree(NamedTuple):
    """In its first rounds nothing is clicked, in the next ones every target shown; after C rounds nothing happens.

    A reconstruction of Chattopadhyay, Karamchandani, Moharir 2025 (CascadeOFA on CascadeUCB1, PBMOFA on PBM-UCB),
    from the abstract, since their text was not available: a set of targets is promoted into the lists without seeing
    any feedback, with O(log T) manipulations. The two phases, all bits 0 and then 1 for targets alone, are those of
    observation-free attacks on UCB (Xu, Kumar, Abernethy 2021), as in public code. The users' `reach` says how much
    of these bits is reported, so one rule covers both attacks. Front-loaded by definition: the first C rounds,
    changed or not.

    Settings: `quiet` (0.5), the share of its rounds in the first phase; `targets`: `last` (the `length` least
    attractive items), or as in FakeUser: `bottom` with `share`, `worst`, or item numbers.
    """

    budget: Budget
    users: Any
    target: Bools  # [K]
    quiet: int  # rounds of the first phase

    cascade = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        users: Any,
        budget: int,
        *,
        schedule: Schedule = "front",
        quiet: float = 0.5,
        targets: str | Sequence[int] = "last",
        share: float = 0.5,
        bots: int | None = None,
    ) -> "ObservationFree":
        if schedule != "front":
            raise ValueError(f"schedule of ObservationFree must be 'front', by definition, not {schedule!r}")
        first = round(real("quiet", quiet, 0.0, 1.0) * budget)
        active = np.arange(problem.horizon + 1) <= budget
        active[0] = False
        last = np.argsort(-problem.attraction, kind="stable")[-problem.length :].tolist()
        named = last if isinstance(targets, str) and targets == "last" else targets
        chosen = choose_targets(named, share, problem.attraction, problem.length)
        return cls(Budget.of_rounds(problem, budget, active, bots), users, chosen, first)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        remember(self.budget, clicks, ranking.size)
        for p in range(ranking.size):
            clicks[p] = visit.t > self.quiet and self.target[ranking[p]]
        return settle(self.budget, self.users, visit, clicks, ranking.size, examined, ANYONE)
