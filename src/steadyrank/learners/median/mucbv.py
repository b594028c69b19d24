"""MUCB-V: the paper's learner for a known amount of corruption."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core import philox
from ...core.arrays import Floats, Ints
from ...core.compiling.jit import kernel
from ...core.contract import Problem
from ...core.kernels import LOG_CLOCK, IndexTable, Ties, tie_noise_of, top_allowed
from ...core.settings import choice, whole
from ..shared.ucb.bounds import GUESSED, Bounds, keep, rank_by_bounds
from .means import Calibration, Edge, Medians, Preset, Radius, Refresh, Width, observe_list
from .partitions import EVERY_ROUND, Partition, Reading

Warmup: TypeAlias = Literal["capped", "literal", "cycled"]
CAPPED, LITERAL, CYCLED = range(3)  # as in Warmup


@kernel
def rank_warmup(kind, t, repeats, allowed, ranking, rng):
    """The list of warm-up round t: one item on top of random ones (literal), or the next d items (cycled)."""
    index = np.zeros(allowed.size)
    if kind == LITERAL:
        index[(t - 1) // repeats] = 1.0
    else:
        d = ranking.size
        for p in range(d):
            index[((t - 1) * d + p) % allowed.size] = d - p
    top_allowed(index, allowed, ranking, rng)


class MUCBV(NamedTuple):
    """CascadeUCB-V on the calibrated mean of medians, for known corruption C (paper, Algorithm 2).

    The claimed bound O(K C + sum log T / gap) is not proved (docs/proofs-of-the-paper.md): on bits and random blocks
    the estimator is a noisy, quantised function of the sample mean: near 1/2 the mean plus noise, far from it a
    vote, 0 or 1 (docs/estimators.md). The default preset has the block size of a paragraph that is commented out in
    the paper's source.

    Settings. `preset` names a reading of the whole estimator, the next ones change parts of it: `reading` of
    the block size, `partition`, `block` (bits, odd; A3), `alpha` (A1, A2, and ceil(alpha log T) of A3 and A4),
    `least_blocks` below which the mean is used, `calibration` exact, by the paper's bisection with tolerance
    `eta`, or none, `edge` treatment of shares 0 and 1. `refresh`: `doubling` changes an item's estimate and
    index only when its observations reach a power of two (ours, to measure what updating in every round gains).
    `corruption`: C, by default the true budget. `warmup`: `capped` first shows items seen fewer than min(ceil(10 C d
    / K), warmup_cap) times; `literal` spends 10 C rounds on each item, 10 K C in all; `cycled` shows each
    item 10 C times in 10 C K / d rounds. `radius` with the variance or `plain`; `a`, `b`: its widths, by default
    CascadeUCB-V's, because the paper gives none. `ties`, broken at random or by item number.
    """

    book: Medians
    root: Floats  # [K]
    linear: Floats  # [K]
    bounds: Bounds
    chance: Ints  # [2] random state of the partition
    least: int  # observations below which an item goes first
    warmup: int
    repeats: int  # 10 C
    warmup_rounds: int
    width: Width
    tie_noise: float  # random part that breaks ties

    live = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        preset: Preset = "paper-exp",
        corruption: int | None = None,
        warmup: Warmup = "capped",
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
    ) -> "MUCBV":
        k, d = problem.n_items, problem.length
        repeats = 10 * whole("corruption", problem.budget if corruption is None else corruption)
        kind = choice("warmup", warmup, get_args(Warmup))
        capped = min(math.ceil(repeats * d / k), whole("warmup_cap", warmup_cap))
        book = Medians.create(
            (k,),
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
        return cls(
            book,
            np.zeros(k),
            np.zeros(k),
            Bounds.create(k),
            philox.start(problem.seed),
            max(1, capped) if kind == CAPPED else 1,
            kind,
            repeats,
            (0, repeats * k, math.ceil(repeats * k / d))[kind],
            Width.create(a, b, radius),
            tie_noise_of(ties),
        )

    def rank(self, visit, allowed, ranking, note, rng):
        if visit.t <= self.warmup_rounds:
            rank_warmup(self.warmup, visit.t, self.repeats, allowed, ranking, rng)
        else:
            table = IndexTable(
                self.book.looks, self.book.estimate, self.root, self.linear, 1.0, LOG_CLOCK, self.tie_noise
            )
            note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, self.least, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        observe_list(self.book, self.root, self.linear, self.width, ranking, clicks, examined, self.chance)
        table = IndexTable(
            self.book.looks, self.book.estimate, self.root, self.linear, 1.0, LOG_CLOCK, self.tie_noise
        )
        if self.book.partition != EVERY_ROUND:  # if all indices change, bounds are never valid
            keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])
