"""Compare learners by paired differences over seeds, with intervals, and decide tests by them.

Two learners with the same seed meet the same users, so their difference varies less than either. A comparison may
be evaluated twice, after the first seeds and after all of them; each interval has a level of 97.5 %, so that the
probability of an error in either is at most 5 % (Bonferroni). There is no correction for the number of comparisons.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...comparison.intervals import half_width
from ..lab.cells import HORIZON, LENGTH

LOOKS = 2  # evaluations of a comparison: after the first seeds, and after all

Runs = Mapping[int, float]  # a value for each seed


@dataclass(frozen=True)
class CellKey:
    """The identity of a cell in a study, without seeds."""

    who: str
    profile: str
    mapping: str
    rate: float
    adversary: str = "PrefixFlip"
    users: str = "Cascade"
    n_items: int = 0
    length: int = LENGTH
    horizon: int = HORIZON


@dataclass(frozen=True)
class Difference:
    """A mean difference over seeds, and the half width of its 97.5 % interval (infinite for one seed)."""

    what: str
    mean: float
    half: float
    seeds: int

    @property
    def below(self) -> bool | None:
        """Whether it is below 0; None if the interval contains 0, unless all differences are exactly 0."""
        if self.mean + self.half < 0.0:
            return True
        return False if self.mean - self.half > 0.0 or self.mean == self.half == 0.0 else None

    def __str__(self) -> str:
        digits = 0 if abs(self.mean) >= 100 else 1 if abs(self.mean) >= 10 else 2 if abs(self.mean) >= 0.1 else 4
        if math.isinf(self.half):
            return f"{self.what}: {self.mean:+,.{digits}f}, one seed"
        return f"{self.what}: {self.mean:+,.{digits}f} ± {self.half:,.{digits}f}, {self.seeds} seeds"


def mean_of(what: str, values: Sequence[float]) -> Difference:
    """The mean of values over seeds, with the half width of its interval."""
    n, mean = len(values), math.fsum(values) / len(values)
    return Difference(what, mean, float(half_width(np.array(values), LOOKS)) if n > 1 else math.inf, n)


def difference(what: str, first: Runs, second: Runs, factor: float = 1.0) -> Difference:
    """`factor` times the first minus the second, over common seeds."""
    return mean_of(what, [factor * first[seed] - second[seed] for seed in first if seed in second])


@dataclass(frozen=True)
class Finding:
    """The result of a test in one setting: its truth, the decisive comparison, and the undecided learners."""

    truth: bool | None
    weakest: Difference | None = None
    unsure: frozenset[str] = frozenset()


Test = Callable[[Mapping[str, Runs]], Finding]


def ahead(who: str, other: str, factor: float = 1.0) -> Test:
    """A test of whether `who` has less than 1 / factor times the regret of the other."""

    def test(runs: Mapping[str, Runs]) -> Finding:
        shown = f"{who} - {other}" if factor == 1.0 else f"{factor:g} {who} - {other}"
        margin = difference(shown, runs[who], runs[other], factor)
        return Finding(margin.below, margin, frozenset((who, other)) if margin.below is None else frozenset())

    return test


def place_of(who: str, place: int) -> Test:
    """A test of whether fewer than `place` others have as little regret (negative: as much); ties count against."""
    sign, allowed = (1.0, place - 1) if place > 0 else (-1.0, -place - 1)

    def test(runs: Mapping[str, Runs]) -> Finding:
        margins = {}
        for other in runs:
            if other != who:
                d = difference(f"{who} - {other}", runs[who], runs[other])
                margins[other] = (Difference(d.what, sign * d.mean, d.half, d.seeds).below, d)
        lost = sum(below is False for below, _ in margins.values())
        unsure = frozenset(other for other, (below, _) in margins.items() if below is None)
        by_margin = sorted((d for _, d in margins.values()), key=lambda d: sign * d.mean)
        weakest = by_margin[-1 - allowed]
        if lost > allowed:
            return Finding(False, weakest)
        if lost + len(unsure) <= allowed:
            return Finding(True, weakest)
        return Finding(None, weakest, unsure | {who})

    return test


def every(*tests: Test) -> Test:
    """A test of whether all of the tests pass."""

    def test(runs: Mapping[str, Runs]) -> Finding:
        findings = [one(runs) for one in tests]
        truth = all_of(finding.truth for finding in findings)
        return Finding(truth, weakest(findings), frozenset().union(*(f.unsure for f in findings)))

    return test


def all_of(truths: Iterable[bool | None]) -> bool | None:
    """Whether all are true: False if any is False, else None if any is None."""
    all_truths = list(truths)
    return False if False in all_truths else None if None in all_truths else True


def at_least(need: int, truths: Iterable[bool | None]) -> bool | None:
    """Whether at least `need` of them are true; None if that depends on unknown ones."""
    all_truths = list(truths)
    sure, unknown = all_truths.count(True), all_truths.count(None)
    return True if sure >= need else None if sure + unknown >= need else False


def weakest(findings: Sequence[Finding]) -> Difference | None:
    """The decisive comparison: one that refutes, else an undecided one, else the one closest to its limit."""
    against = [f.weakest for f in findings if f.truth is False and f.weakest is not None]
    unsure = [f.weakest for f in findings if f.truth is None and f.weakest is not None]
    passed = [f.weakest for f in findings if f.truth and f.weakest is not None]
    chosen = against or unsure or passed
    return min(chosen, key=lambda d: abs(d.mean) / max(d.half, 1e-12)) if chosen else None


def seeds_in_words(counts: set[int]) -> str:
    """The number of seeds, or the range of the numbers."""
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(min(counts, default=0))
