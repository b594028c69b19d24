"""Uniformly random lists: the baseline that every learner must beat."""

from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed


class Random(NamedTuple):
    """Shows a uniformly random list each round and learns nothing; no attack can harm it."""

    n_items: int

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "Random":
        return cls(int(problem.n_items))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        pass
