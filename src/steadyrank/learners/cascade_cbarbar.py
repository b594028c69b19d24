"""CascadeCBARBAR: epochs of random exploration; each starts from the estimates of the one before alone.

The length of epochs, what is played in them and what is learnt at their end follow appendix C of the paper;
docs/algorithms.md says how its unclear passages are resolved."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..core import philox
from ..core.arrays import Floats, Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import arrange, cascade_value, top_allowed
from ..core.philox import uniform
from ..core.settings import choice, flag, known_horizon, real, refuse_unused

EPOCH, GONE, LASTS = range(3)  # places of `clock`: number of the epoch from 1, rounds so far in it, its length
_FEW = 30.0  # below so many planned draws, divide by the actual number (ours)

# lambda by reading: (K, T, delta). The paper prints 1024 log^2((8 K / delta) log^2 T), almost surely log_2 twice; the
# others are those of public code of its first author, and lambda = 1 for scale.
LAMBDAS: dict[str, Callable[[int, int, float], float]] = {
    "paper": lambda k, t, delta: 1024.0 * math.log(8 * k / delta * math.log(t) ** 2) ** 2,
    "log2": lambda k, t, delta: 1024.0 * math.log2(8 * k / delta * math.log2(t)),
    "code-1024": lambda k, t, delta: 1024.0 * math.log2(8 * k / (delta * math.log2(t) ** 2)) ** 2,
    "code-64": lambda k, t, delta: 64.0 * math.log2(8 * k / delta * math.log2(t)),
    "code-4": lambda k, t, delta: 4.0 * math.log2(8 * k / delta * math.log2(t)),
    "one": lambda k, t, delta: 1.0,
}


@kernel
def begin_epoch(gap, ladder, clock, scale):
    """Plan epoch m: item k is drawn scale / gap_k^2 times, the best list scale K 2^((m - 1) / 2) times."""
    total = 0.0
    for k in range(gap.size):
        total += scale / (gap[k] * gap[k])
        ladder[k] = total
    ladder[gap.size] = total + scale * gap.size * 2.0 ** (0.5 * (clock[EPOCH] - 1))
    clock[GONE] = 0
    # an epoch beyond 2^62 rounds never ends
    clock[LASTS] = math.ceil(min(ladder[gap.size], 4.0e18))


@kernel
def draw_arm(ladder, u):
    """An item, or their number for the best list, with chance proportional to the plan. O(log K)."""
    goal = u * ladder[-1]
    low, high = 0, ladder.size - 1
    while low < high:
        middle = (low + high) // 2
        if ladder[middle] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def end_epoch(gap, hits, draws, favourites, clock, scale, use_all, chance):
    """Estimate each item from this epoch alone, set gaps and the best list, clear the counts, and advance the epoch.

    gap_k = max(2^(-m/4), r_* - r_k, gap_k / 2); r_* is the best list's value by optimistic means, r_k that of the
    best list with k by pessimistic ones. O(K).
    """
    n_items, d = gap.size, favourites.size
    optimistic, pessimistic = np.empty(n_items), np.empty(n_items)
    for k in range(n_items):
        planned = scale / (gap[k] * gap[k])
        actual = use_all == 1 or planned < _FEW  # observations beyond the plan are not what the plan counts
        mean = hits[k] / (max(draws[k], 1) if actual else planned)
        width = gap[k] / (16.0 * d)
        optimistic[k] = min(max(mean + width, 0.0), 1.0)
        pessimistic[k] = min(max(mean - width, 0.0), 1.0)
        hits[k] = draws[k] = 0
    uniforms = np.empty(d)
    for p in range(d):
        uniforms[p] = uniform(chance)
    arrange(optimistic, favourites, uniforms)
    most = cascade_value(optimistic, favourites)
    arrange(pessimistic, favourites, uniforms)
    value = cascade_value(pessimistic, favourites)
    others = cascade_value(pessimistic, favourites[: d - 1])
    floor = 2.0 ** (-0.25 * clock[EPOCH])
    own = 1.0 - (1.0 - others) * (1.0 - pessimistic)
    for k in favourites:
        own[k] = value
    for k in range(n_items):
        gap[k] = max(floor, most - own[k], 0.5 * gap[k])
    clock[EPOCH] += 1


Lambda: TypeAlias = Literal["paper", "log2", "code-1024", "code-64", "code-4", "one"]

ARM = 0  # index in the note: the item drawn, or K for the best list


class CascadeCBARBAR(NamedTuple):
    """In each epoch plays the best list, or item k on top of it, each with a planned frequency (paper, Appendix C).

    The paper's extension of CBARBAR (Xu, Li 2021) to cascades; claimed bound d C + d^2 K log^2 T / gap. Its
    constants make the first epoch last 2 lambda K d^2 rounds, beyond any horizon, so `practical` replaces
    lambda d^2 by `n0`, the draws of an item in the first epoch: epochs end at 4000, 9657, 17657 and 28971 for
    n0 = 4, 500 items. Where the paper is unclear (docs/algorithms.md): maxima are over estimated lists, item k
    stands first so that it is always examined, the drawn item is recorded rather than the list compared.

    Settings: `schedule`, `practical` with `n0` (4), or `literal` with `lam`, a reading of the paper's lambda, and
    `delta` (0.1); `use_all`, count every observed item, not only the drawn one, which voids its robustness.
    """

    gap: Floats  # [K] estimated gaps
    ladder: Floats  # [K + 1] cumulative plan of the epoch: item k, then the best list
    hits: Ints  # [K] clicks of this epoch
    draws: Ints  # [K] rounds of this epoch
    favourites: Ints  # [length] the best list by pessimistic estimates
    clock: Ints  # [3] epoch (from 1), rounds so far in it, its length
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
        memory = philox.start(problem.seed)
        favourites = np.argsort([philox.uniform(memory) for _ in range(k)])[:d].astype(np.int64)
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
