"""The best list, known in advance: the upper limit for every learner."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.contract import Problem
from ..core.kernels import top_allowed


class Oracle(NamedTuple):
    """Shows the most attractive items, given before round 1; the only learner that knows attractions.

    If taste drifts, it keeps to the attractions of the start.
    """

    attraction: Floats  # [K]

    live = False

    @classmethod
    def create(cls, problem: Problem) -> "Oracle":
        if problem.attraction.size != problem.n_items:
            raise ValueError(
                f"Oracle needs the attraction of each of the {problem.n_items} items, not {problem.attraction.size}"
            )
        return cls(np.array(problem.attraction, np.float64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(self.attraction, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        pass
