"""Poison the first rounds, then stop without a trace."""

from collections.abc import Sequence
from typing import Any, Self

from ..core.contract import Problem
from .fake_user import FakeUser
from .schedules import Schedule


class AttackThenQuit(FakeUser):
    """In its first C rounds only targets are clicked; afterwards it does nothing (Wang et al. 2023).

    Two-phase click poisoning, against learners that decide once and for all. Front-loaded by definition.
    Settings: `targets`: `worst` (the least attractive item), `bottom` (the least attractive `share`) or item numbers.
    """

    __slots__ = ()

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
    ) -> Self:
        if schedule != "front":
            raise ValueError(f"schedule of AttackThenQuit must be 'front', by definition, not {schedule!r}")
        chosen: dict[str, Any] = {"n_bursts": n_bursts, "targets": targets, "share": share, "bots": bots}
        return super().create(problem, users, budget, schedule=schedule, **chosen)
