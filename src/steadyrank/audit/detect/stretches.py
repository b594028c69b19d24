"""A stretch of a log: what is usual in it, where it changes at any scale, and how it divides in two."""

import collections
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.beta_prior import fit_prior
from .bayes_factors import weigh_counts
from .scales import Tally, Units, at_scales, count, count_where, evidence
from .two_regimes import WAVE, gains, rates_of, suddenness, two_states

SHORTEST = 32  # impressions of a stretch that is looked for, in a log of less than 1.6 million
FEW = 8  # impressions that say nothing
FINEST = 25_000  # stretches of a long log: shorter ones are not looked for
ENOUGH = 20  # looks at an item, on average, in what a stretch is compared with, however short that is
BAR = 8.0  # nats of evidence, beyond what the number of stretches looked at explains
WIDTHS = (1.0, 0.5, 0.25, WAVE)  # of slower changes
TOLL = 0.01  # nats an impression outside of the trusted regime: where nothing is seen, nothing is suspect
MOST_TRIED = 200  # candidates for one change
BANDS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)  # quantiles of usual attraction between groups of items


def rates_by_item(looks: Ints, clicks: Ints) -> Floats:
    """Each item's click rate, float64[K]: posterior means under the prior that the items have in common."""
    prior = np.ones(2)
    fit_prior(looks, clicks, prior)
    rates: Floats = (prior[0] + clicks) / (prior.sum() + looks)
    return rates


def parts(impressions: int, units: Units) -> int:
    """How many parts hold so many impressions; one at least."""
    return max(impressions // units.span, 1)


class UsualRates:
    """What is usual for each item, from counts, and which items are of a kind."""

    def __init__(self, looks: Ints, clicks: Ints) -> None:
        self.usual = rates_by_item(looks, clicks)
        edges = np.quantile(self.usual[looks > 0], BANDS) if looks.any() else np.zeros(len(BANDS))
        self.bands: Ints = np.searchsorted(edges, self.usual).astype(np.int64)

    def weigh(self, one: Tally, two: Tally) -> tuple[float, float]:
        """Nats of evidence that two behaviours differ, either weighed against the other, and the share of items."""
        rest = self.bands, self.usual
        evidence: tuple[float, float] = max(weigh_counts(*one, *two, *rest), weigh_counts(*two, *one, *rest))
        return evidence

    def rates(self, one: Tally, two: Tally, share: float | None = None) -> tuple[Floats, Floats]:
        """Each item's rate in two regimes; the share of items that differ is what `weigh` says by default."""
        share = self.weigh(one, two)[1] if share is None else share
        rates = np.empty(self.usual.size), np.empty(self.usual.size)
        rates_of(*one, *two, self.bands, self.usual, share, *rates)
        return rates


class Stretch(UsualRates):
    """Some parts of a log in order, such as impressions, and what is usual in them.

    `where`: their places in the log. `usual`: counts that say what is usual, those of all of them by default.
    `threads`: how many scales are looked at at once; the findings do not depend on it. `pulse` is called before each
    longer step and may raise.
    """

    def __init__(
        self,
        units: Units,
        where: Ints,
        usual: Tally | None = None,
        threads: int = 1,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self.units, self.where, self.n = units, where, units.n
        self.threads, self.pulse = threads, pulse
        self.few, self.shortest = parts(FEW, units), max(parts(SHORTEST, units), 2)
        self.toll = TOLL * units.span
        looks, clicks = usual or self.between(0, self.n)
        super().__init__(looks, clicks)
        seen = int(np.count_nonzero(looks))
        self.enough = min(math.ceil(ENOUGH * seen * self.n / max(int(looks.sum()), 1)), self.n // 4)

    def _counts(self, run: Callable[..., None], *which: Any) -> Tally:
        counts = np.zeros(self.units.n_items, np.int64), np.zeros(self.units.n_items, np.int64)
        run(*self.units[:4], *which, *counts)
        return counts

    def between(self, start: int, end: int) -> Tally:
        """Tally of parts `start` to before `end`."""
        return self._counts(count, start, end)

    def chosen(self, which: Bools) -> Tally:
        """Tally of the chosen parts."""
        return self._counts(count_where, which)

    def gains(self, start: int, end: int, one: Floats, two: Floats) -> Floats:
        """How much better rates `two` explain each part, in nats."""
        out = np.empty(end - start)
        gains(*self.units[:4], start, one, two, out)
        return out

    def sharpen(self, at: int, size: int) -> int:
        """The part at which a change near `at` most likely happened."""
        for _ in range(3):
            low, high = max(0, at - size), min(self.n, at + size)
            gain = self.gains(low, high, *self.rates(self.between(low, at), self.between(at, high)))
            so_far = np.concatenate([[0.0], np.cumsum(gain)])
            margin = max(self.few, (high - low) // 16)
            if so_far.size <= 2 * margin + 1:
                return at
            best = low + margin + int(np.argmin(so_far[margin:-margin]))
            if best == at:
                return at
            at = best
        return at

    def change(self, at: int, size: int, sides: tuple[int, int] = (0, 0)) -> tuple[float, float]:
        """Evidence of a change at a part, and by how much a sudden one explains it better than a slow one.

        `sides`: parts before and after that are counted, `size` at least: items seen rarely need more.
        """
        size = min(size, at, self.n - at)
        if size < self.few:
            return 0.0, 0.0
        low, high = max(at - max(size, sides[0]), 0), min(at + max(size, sides[1]), self.n)
        before, after = self.between(low, at), self.between(at, high)
        rates = self.rates(before, after)
        step = min(suddenness(*self.units[:4], self.where, at, size, *rates, width) for width in WIDTHS)
        return self.weigh(before, after)[0], step

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Parts at which a change seems to be, and the scale at which it shows, the clearest first.

        Stretches of 32, 64, 128, ... impressions are weighed against those before and those after them.
        """
        shortest = max(self.shortest, 1 << max(self.n // FINEST, 1).bit_length() - 1)
        changes: list[tuple[float, int, int]] = []
        with ThreadPoolExecutor(self.threads) as pool:
            begun: collections.deque[Future[list[tuple[float, int, int]]]] = collections.deque()
            for size, units in at_scales(self.units, shortest):
                begun += [pool.submit(self._at_scale, (size, units, backward)) for backward in (False, True)]
                while len(begun) > self.threads:  # what a scale is counted by is let go with it
                    changes += begun.popleft().result()
            for one in begun:
                changes += one.result()
        tried: set[tuple[int, int]] = set()
        for _, at, size in sorted(changes, reverse=True):
            near = (at // (size // 2), size)
            if near not in tried and len(tried) < MOST_TRIED:
                tried.add(near)
                yield at, size

    def _at_scale(self, scale: tuple[int, Units, bool]) -> list[tuple[float, int, int]]:
        """Evidence beyond the bar, place and size, at one scale in one direction."""
        self.pulse()
        size, units, backward = scale
        nats, at = evidence(units, size, backward, self.bands, self.usual)
        excess = nats - math.log(2 * nats.size) - BAR
        return [(float(excess[i]), min(int(at[i]), self.n), size) for i in np.flatnonzero(excess > 0.0).tolist()]

    def split(self, at: int, size: int, cost: float) -> tuple[float, Bools]:
        """The best division of all parts into two regimes, which differ as those around a change do.

        Its evidence less the cost of changes, and which parts belong to the second regime. Rates are learnt
        from ever shorter stretches around the change, since long ones may reach beyond another change.
        """
        best, second = -math.inf, np.zeros(self.n, np.bool_)
        near = min(size, at, self.n - at)
        while near >= min(self.shortest, size, at, self.n - at):
            one, two = self.between(at - near, at), self.between(at, at + near)
            path, before = np.zeros(self.n, np.int8), np.zeros(self.n, np.int8)
            for turn in range(6):
                self.pulse()
                toll = 0.0 if turn == 0 else self.toll if path.mean() < 0.5 else -self.toll
                two_states(self.gains(0, self.n, *self.rates(one, two)), cost, toll, path)
                if path.all() or not path.any() or (turn and np.array_equal(path, before)):
                    break
                before = path.copy()
                one, two = self.chosen(path == 0), self.chosen(path == 1)
            if path.any() and not path.all():
                score = self.weigh(one, two)[0] - cost * np.count_nonzero(np.diff(path))
                if score > best:
                    best, second = score, path == 1
            near //= 4
            if near < self.few:
                break
        return best, second
