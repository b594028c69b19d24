"""GLRT-CascadeUCB: CascadeUCB1 with restarts when a test detects a change."""

import math
from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import real
from .shared.change_test import RESTART, BitHistory, ChangeTest, Threshold, learn_or_restart


class GLRTCascadeUCB(NamedTuple):
    """Index S/n + sqrt(c log(t - r) / n) since the latest restart r, c = 1.5 (Wang, Zhou, Li, Varshney, Zhao 2021).

    GLRT-CascadeUCB: a generalised likelihood ratio tests each item's bits for a change; after one, all items start
    over. In a share p of the rounds the list is drawn uniformly, so that the test sees all items. Written from
    memory: the authors' code of the test for one arm a round (Besson et al. 2022) confirms statistic, threshold,
    thinning and p = sqrt(K log T / T); index, delta = 1 / T and the restart of all items could not be checked. We
    differ: the paper puts each item first in turn, in K rounds of every K / p; here each round draws a list with
    chance p, because no item may come first by its number. Stated bound: with G changes, sqrt(G K T log T). No
    defence: the test cannot tell false clicks from a new taste, and restarts when they begin and when they end.

    At K = 500 and T = 40,000, p is 0.36: more than a third of the lists are random. Cost: O(K) a round and about six
    splits a bit (`shared/change_test.py`); 152 bytes an item. Answers to lists from before a restart are ignored.

    Settings: `c`, width of the interval; `p`, share of random lists; `delta`, chance of a false alarm; `threshold` of
    the test: `practical`, log(3 n sqrt(n) / delta), or `theory`, that of the proofs, more than twice as high. If the
    horizon is unknown, the defaults are those of 40,000 rounds.
    """

    history: BitHistory
    test: ChangeTest
    c: float

    live = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        c: float = 1.5,
        p: float | None = None,
        delta: float | None = None,
        threshold: Threshold = "practical",
    ) -> "GLRTCascadeUCB":
        test = ChangeTest.create(problem.n_items, problem.horizon, p, delta, threshold)
        return cls(BitHistory.create(problem.n_items), test, real("c", c, 0.0))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.zeros(allowed.size)
        if rng.random() >= self.test.p:
            lt = math.log(max(visit.t - self.history.clock[RESTART], 2))
            for k in range(allowed.size):
                n = self.history.looks[k]
                index[k] = self.history.clicks[k] / n + math.sqrt(self.c * lt / n) if n > 0 else np.inf
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_or_restart(self.history, self.test, visit.t, ranking, clicks, examined)
