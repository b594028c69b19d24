"""CascadeCBARBAR: epochs of random exploration whose estimates are thrown away."""

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from .. import chance
from ..contract import Floats, Ints, Problem
from ..kernels import top_allowed
from ..parts.epochs import GONE, LAMBDAS, LASTS, begin_epoch, draw_arm, end_epoch
from ..settings import choice, flag, known_horizon, real, refuse_unused

Lambda: TypeAlias = Literal["paper", "log2", "code-1024", "code-64", "code-4", "one"]

ARM = 0  # place of the note: the item drawn, or the number of items for the best list


class CascadeCBARBAR(NamedTuple):
    """In each epoch plays the best list, or item k on top of it, each with a planned frequency (paper, Appendix C).

    The paper's extension of CBARBAR (Xu, Li 2021) to cascades; claimed bound d C + d^2 K log^2 T / gap. Its
    constants make the first epoch last 2 lambda K d^2 rounds, beyond any horizon, so `practical` replaces
    lambda d^2 by `n0`, the draws of an item in the first epoch: epochs end at 4000, 9657, 17657 and 28971 for
    n0 = 4, 500 items. Where the paper is unclear (docs/algorithms.md): maxima are over estimated lists, item k
    stands first so that it is always examined, the drawn item is recorded rather than the list compared.

    Settings: `schedule`, `practical` with `n0` (4), or `literal` with `lam`, a reading of the paper's lambda, and
    `delta` (0.1); `use_all`, count every observed item, not only the drawn one (which its robustness forbids).
    """

    gap: Floats  # [K] estimated gaps
    ladder: Floats  # [K + 1] cumulative plan of the epoch: item k, then the best list
    hits: Ints  # [K] clicks of this epoch
    draws: Ints  # [K] rounds of this epoch
    favourites: Ints  # [length] the best list by pessimistic estimates
    clock: Ints  # [3] epoch (from 1), rounds gone by in it, its length
    chance: Ints  # [2]
    scale: float  # lambda d^2, or n0
    use_all: int

    live = False

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        schedule: Literal["practical", "literal"] = "practical",
        n0: float | None = None,
        lam: Lambda | None = None,
        delta: float | None = None,
        use_all: bool = False,
    ) -> "CascadeCBARBAR":
        k, d, horizon = problem.n_items, problem.length, known_horizon("CascadeCBARBAR", problem.horizon)
        literal = choice("schedule", schedule, ("practical", "literal")) == 1
        refuse_unused({"n0": n0} if literal else {"lam": lam, "delta": delta}, f"schedule={schedule!r}")
        lam, delta = "paper" if lam is None else lam, real("delta", 0.1 if delta is None else delta, 1e-12, 1.0)
        choice("lam", lam, LAMBDAS)
        scale = (
            LAMBDAS[lam](k, max(horizon, 3), delta) * d * d
            if literal
            else real("n0", 4.0 if n0 is None else n0, 1e-3)
        )
        memory = chance.start(problem.seed)
        favourites = np.argsort([chance.uniform(memory) for _ in range(k)])[:d].astype(np.int64)
        learner = cls(
            np.ones(k),
            np.zeros(k + 1),
            np.zeros(k, np.int64),
            np.zeros(k, np.int64),
            favourites,
            np.array([1, 0, 0], np.int64),
            memory,
            float(scale),
            int(flag("use_all", use_all)),
        )
        begin_epoch(learner.gap, learner.ladder, learner.clock, learner.scale)
        return learner

    def rank(self, visit, allowed, ranking, note, rng):
        arm = draw_arm(self.ladder, rng.random())
        note[ARM] = arm
        index = np.zeros(self.gap.size)
        for p in range(self.favourites.size):
            index[self.favourites[p]] = self.favourites.size - p
        if arm < self.gap.size:
            index[arm] = math.inf
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        arm = int(note[ARM])
        for p in range(examined):
            k = ranking[p]
            if self.use_all == 1 or (p == 0 and k == arm):
                self.draws[k] += 1
                self.hits[k] += 1 if clicks[p] else 0
        self.clock[GONE] += 1
        if self.clock[GONE] >= self.clock[LASTS]:
            end_epoch(
                self.gap, self.hits, self.draws, self.favourites, self.clock, self.scale, self.use_all, self.chance
            )
            begin_epoch(self.gap, self.ladder, self.clock, self.scale)
