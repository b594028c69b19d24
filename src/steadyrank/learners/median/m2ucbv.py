"""M2UCB-V: the paper's learner for an unknown amount of corruption."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core import philox
from ...core.arrays import Bools, Floats, Ints
from ...core.contract import Problem
from ...core.kernels import Ties, tie_noise_of
from ...core.settings import choice, real, refuse_unused, whole
from ..shared.ucb.bounds import Bounds
from . import gcobe
from .means import Calibration, Edge, Medians, Preset, Radius, Refresh, Width
from .partitions import Partition, Reading
from .selection import UNKNOWN_HORIZON, learn_from, rank_by_base

Selection: TypeAlias = Literal["practical", "gcobe"]
Data: TypeAlias = Literal["shared", "private"]


class M2UCBV(NamedTuple):
    """Model selection over MUCB-V bases that assume corruption 0, 1, 2, 4, ... (paper, section 3).

    `practical` selection is our reconstruction of the paper's prose with constants that can act within 40,000
    rounds: each round draws a base i with chance proportional to 2^-i; every 100 rounds a base whose reward is
    surely below another's is suspended until the epoch ends; epochs last 1000, 2000, 4000, ... rounds. `gcobe` is
    what the paper's theorem needs (Wei, Dann, Zimmert 2022); with 500 items and 40,000 rounds it is inert.

    Settings: `data`, whether bases learn from all rounds (the paper's words, default) or their own (`gcobe` always);
    `delta`, gcobe's chance of failure; `warmup`, with each base's C, `literal` meaning 10 C observations.
    """

    book: Medians  # [rows, K]: one row shared by all bases, or one a base
    root: Floats  # [rows, K]
    linear: Floats  # [rows, K]
    bounds: Bounds  # [rows, ...]
    clock: Ints  # [rows] rounds learnt from
    active: Bools  # [bases]
    gains: Ints  # [bases] rounds of this epoch with a click
    plays: Ints  # [bases] all rounds of this epoch
    epoch: Ints  # [2] its length and its rounds so far
    chance: Ints  # [2]
    plan: gcobe.GCOBE
    guesses: Floats  # [bases] corruption that a base assumes (practical)
    share: float  # observations below which an item goes first: min(ceil(10 C share), cap)
    cap: float
    exact: int
    width: Width
    tie_noise: float  # random part that breaks ties

    live = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        selection: Selection = "practical",
        data: Data | None = None,
        delta: float | None = None,
        preset: Preset = "paper-exp",
        warmup: Literal["capped", "literal"] = "capped",
        warmup_cap: int = 40,
        reading: Reading | None = None,
        partition: Partition = "random",
        block: int | None = None,
        alpha: float | None = None,
        least_blocks: int | None = None,
        calibration: Calibration = "exact",
        eta: float | None = None,
        edge: Edge = "literal",
        refresh: Refresh = "always",
        radius: Radius = "variance",
        a: float = 2.0,
        b: float = 6.0,
        ties: Ties = "random",
    ) -> "M2UCBV":
        k, d, horizon = problem.n_items, problem.length, problem.horizon
        exact = choice("selection", selection, get_args(Selection))
        private = choice("data", ("shared", "private")[exact] if data is None else data, get_args(Data))
        if not exact:
            refuse_unused({"delta": delta}, f"selection={selection!r}")
        elif not private:
            raise ValueError("data='shared' is not for selection='gcobe': its instances learn from their own rounds")
        horizon = (
            gcobe.checked_horizon("M2UCBV with selection='gcobe'", horizon) if exact else horizon or UNKNOWN_HORIZON
        )
        bases = gcobe.slowest(horizon) + 1 if exact else math.ceil(math.log2(max(horizon, 2))) + 2
        capped, shape = choice("warmup", warmup, ("capped", "literal")) == 0, (bases if private else 1, k)
        book = Medians.create(
            shape,
            problem.horizon,
            preset=preset,
            reading=reading,
            partition=partition,
            block=block,
            alpha=alpha,
            least_blocks=least_blocks,
            calibration=calibration,
            eta=eta,
            edge=edge,
            refresh=refresh,
        )
        betas = k * math.log(max(horizon, 2)), float(k), float(k)  # the paper's beta1, beta2; beta3 ours
        plan = gcobe.GCOBE.create(
            horizon if exact else 0, d, betas, real("delta", 0.1 if delta is None else delta, 1e-12, 1.0)
        )
        return cls(
            book,
            np.zeros(shape),
            np.zeros(shape),
            Bounds.create(k, shape[0]),
            np.zeros(shape[0], np.int64),
            np.ones(bases, np.bool_),
            np.zeros(bases, np.int64),
            np.zeros(bases, np.int64),
            np.array([1000, 0], np.int64),
            philox.start(problem.seed),
            plan,
            np.array([0.0] + [2.0**i for i in range(bases - 1)]),
            d / k if capped else 1.0,
            float(whole("warmup_cap", warmup_cap)) if capped else 2.0**62,
            exact,
            Width.create(a, b, radius),
            tie_noise_of(ties),
        )

    def rank(self, visit, allowed, ranking, note, rng):
        rank_by_base(self, visit.t, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        learn_from(self, visit.t, ranking, note, clicks, examined)
