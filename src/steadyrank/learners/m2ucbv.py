"""M2UCB-V: the paper's learner for an unknown amount of corruption."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from .. import chance
from ..contract import Bools, Floats, Ints, Problem
from ..estimators import Calibration, Edge, Medians, Preset, observe_list, row
from ..kernels import any_click, rank_by_index
from ..partitions import Partition, Reading
from ..selection import draw_base, judge
from ..settings import choice, real, whole

Selection: TypeAlias = Literal["practical"]
Data: TypeAlias = Literal["shared", "private"]
_UNKNOWN_HORIZON = 2**20  # the grid's end where the horizon is unknown


class M2UCBV(NamedTuple):
    """Model selection over MUCB-V bases that guess the corruption 0, 1, 2, 4, ... (paper, section 3).

    `practical` selection is our reconstruction of the paper's prose with constants that can act within 40,000
    rounds: each round draws a base i with chance proportional to 2^-i; every 100 rounds a base whose reward is
    surely below another's is suspended until the epoch ends; epochs last 1000, 2000, 4000, ... rounds. The
    paper's theorem needs G-COBE (Wei, Dann, Zimmert 2022), whose test cannot fire at that size.

    Settings: `data`, whether bases learn from all rounds (the paper's words) or their own; `warmup`, as in
    MUCBV for each base's guess C, `literal` meaning 10 C observations; the rest as in MUCBV.
    """

    book: Medians  # [rows, K]: one row shared by all bases, or one a base
    root: Floats  # [rows, K]
    linear: Floats  # [rows, K]
    clock: Ints  # [rows] rounds learnt from
    least: Ints  # [bases] observations below which an item goes first
    active: Bools  # [bases]
    gains: Ints  # [bases] rounds of this epoch with a click
    plays: Ints  # [bases] rounds of this epoch
    epoch: Ints  # [2] its length and the rounds gone by
    chance: Ints  # [2]
    a: float
    b: float

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *,
        selection: Selection = "practical", data: Data = "shared", preset: Preset = "paper-exp",
        warmup: Literal["capped", "literal"] = "capped", warmup_cap: int = 40,
        reading: Reading | None = None, partition: Partition = "random", block: int | None = None,
        alpha: float | None = None, least_blocks: int | None = None, calibration: Calibration = "exact",
        eta: float = 1e-6, edge: Edge = "literal", a: float = 2.0, b: float = 6.0,
    ) -> "M2UCBV":  # fmt: skip
        choice("selection", selection, get_args(Selection))
        bases = math.ceil(math.log2(max(problem.horizon or _UNKNOWN_HORIZON, 2))) + 2
        guesses = [0] + [2**i for i in range(bases - 1)]
        share = problem.length / problem.n_items if choice("warmup", warmup, ("capped", "literal")) == 0 else 1.0
        cap = whole("warmup_cap", warmup_cap, 0) if warmup == "capped" else 2**62
        rows = bases if choice("data", data, get_args(Data)) else 1
        shape = (rows, problem.n_items)
        book = Medians.create(
            shape, problem.horizon, preset=preset, reading=reading, partition=partition, block=block, alpha=alpha,
            least_blocks=least_blocks, calibration=calibration, eta=eta, edge=edge,
        )  # fmt: skip
        return cls(
            book, np.zeros(shape), np.zeros(shape), np.zeros(rows, np.int64),
            np.array([max(1, min(math.ceil(10 * c * share), cap)) for c in guesses], np.int64),
            np.ones(bases, np.bool_), np.zeros(bases, np.int64), np.zeros(bases, np.int64),
            np.array([1000, 0], np.int64), chance.start(problem.seed), real("a", a, 0.0), real("b", b, 0.0),
        )  # fmt: skip

    def rank(self, t, allowed, ranking, note, rng):
        i = draw_base(self.active, rng.random())
        note[0] = i
        own = self.clock.size > 1
        j = i if own else 0
        rank_by_index(
            self.book.seen[j], self.book.estimate[j], self.root[j], self.linear[j],
            self.clock[j] + 1 if own else t, self.least[i], 1.0, allowed, ranking, rng,
        )  # fmt: skip

    def update(self, t, ranking, note, clicks, examined):
        i = int(note[0])
        j = i if self.clock.size > 1 else 0
        observe_list(
            row(self.book, j), self.root[j], self.linear[j], self.a, self.b, ranking, clicks, examined, self.chance
        )
        self.clock[j] += 1
        judge(self.active, self.gains, self.plays, self.epoch, i, any_click(clicks, examined))
