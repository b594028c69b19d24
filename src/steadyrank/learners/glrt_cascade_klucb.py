"""GLRT-CascadeKL-UCB: CascadeKL-UCB with restarts when a test detects a change."""

import math
from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import kl_upper, top_allowed
from .shared.change_test import RESTART, BitHistory, ChangeTest, Threshold, learn_or_restart


class GLRTCascadeKLUCB(NamedTuple):
    """Index max{q : n kl(S/n, q) <= log u + 3 log log u}, u = t - r rounds since the latest restart r.

    GLRT-CascadeKL-UCB (Wang, Zhou, Li, Varshney, Zhao 2021): `GLRTCascadeUCB` with the index of CascadeKL-UCB; see
    there for sources, restarts, random lists and defaults. Stated bound: with G changes, sqrt(G K T log T). No
    defence. Cost: O(K) index equations a round, each solved afresh, and about six splits a bit; 152 bytes an item.

    Settings: `p`, share of random lists, sqrt(K log T / T); `delta`, chance of a false alarm, 1 / T; `threshold` of
    the test, `practical` or `theory`.
    """

    history: BitHistory
    test: ChangeTest

    live = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        p: float | None = None,
        delta: float | None = None,
        threshold: Threshold = "practical",
    ) -> "GLRTCascadeKLUCB":
        test = ChangeTest.create(problem.n_items, problem.horizon, p, delta, threshold)
        return cls(BitHistory.create(problem.n_items), test)

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.zeros(allowed.size)
        if rng.random() >= self.test.p:
            lt = math.log(max(visit.t - self.history.clock[RESTART], 2))
            level = lt + 3.0 * max(math.log(lt), 0.0)
            for k in range(allowed.size):
                n = self.history.looks[k]
                index[k] = kl_upper(self.history.clicks[k] / n, n, level) if n > 0 else np.inf
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_or_restart(self.history, self.test, visit.t, ranking, clicks, examined)
