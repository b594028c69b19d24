"""No attack."""

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.contract import Problem
from .schedules import Schedule


class Honest(NamedTuple):
    """Changes nothing and spends nothing, whatever its budget."""

    left: Floats

    cascade = True

    @classmethod
    def create(cls, problem: Problem, users: Any, budget: int, *, schedule: Schedule = "front") -> "Honest":
        return cls(np.zeros(1))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return 0.0, examined, visit.client
