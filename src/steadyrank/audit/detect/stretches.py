"""A stretch of a log: usual rates, candidate changes at all scales, and the best division into two regimes."""

import collections
import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.beta_prior import fit_prior
from ...core.item_evidence import KNOWN
from .bayes_factors import BURSTS, EDGE, REFERENCE, evidence_by_item, weigh_counts
from .scales import ScanContext, Tally, Units, at_scales, count, count_where, evidence
from .two_regimes import CLEAR, WAVE, gains, rates_of, suddenness, two_states

SHORTEST = 32  # impressions of the shortest stretch searched, in a log of less than 1.6 million
LEAST_IMPRESSIONS = 8  # impressions: fewer carry no usable evidence
FINEST = 25_000  # the shortest stretch searched in a long log is at least 1 / FINEST of it
REFERENCE_LOOKS = 20  # least mean looks per item in the reference of a stretch, however short that is
RARE_BELOW = 2_000  # mean looks per item: with more, the neighbourhood of a stretch shows enough of all items
BAR = 8.0  # nats of evidence required, after correction for the number of stretches searched
WIDTHS = (1.0, 0.5, 0.25, WAVE)  # of gradual changes
SLACK = 1.0  # most nats at the edges of a stretch that are ignored when the edges are placed
OUTSIDE_PRICE = 0.01  # nats per impression outside the trusted regime: without evidence nothing is suspect
MOST_TRIED = 200  # candidates for one change
ROUNDS = 4  # iterations of fitting a stretch
BLOCKS = 64  # blocks of a log, each with one vote on each item
OnProgress: TypeAlias = Callable[[str, int, int], None]  # step, amount done, total amount or 0 if unknown
StepCache: TypeAlias = Callable[[str, Callable[[], Any]], Any]  # cache of results: name of a step, how to compute it
BANDS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)  # quantiles of usual attraction that separate groups of items


def ignore_progress(step: str, done: int, of: int) -> None:
    """An `OnProgress` that does nothing."""


def always_compute(step: str, compute: Callable[[], Any]) -> Any:
    """A `StepCache` without a cache: always computes."""
    return compute()


def prior_of(looks: Ints, clicks: Ints) -> Floats:
    """Fit the common prior of all items: pseudo-counts of clicks, and of looks."""
    prior = np.ones(2)
    fit_prior(looks, clicks, prior)
    return np.array([prior[0], prior.sum()])


def rates_by_item(looks: Ints, clicks: Ints) -> Floats:
    """Each item's click rate, float64[K]: posterior means under the common prior."""
    prior = prior_of(looks, clicks)
    rates: Floats = (prior[0] + clicks) / (prior[1] + looks)
    return rates


def parts(impressions: int, units: Units) -> int:
    """The number of parts with this many impressions, at least one."""
    return max(impressions // units.span, 1)


class Elsewhere(NamedTuple):
    """Counts of items in the rest of a log, outside a stretch and its neighbourhood."""

    counts: Ints  # [2, K] looks and clicks
    votes: Floats  # [2, K] the same if each of BLOCKS blocks of the log had at most one look per item
    within: bool  # whether the counts include the stretches

    def far(self, *counts: Ints | Floats) -> Floats:
        """The counts without those of some stretches, float64[2, K]."""
        rest = self.counts.astype(np.float64)
        for one in counts if self.within else ():
            rest -= one
        return rest

    @classmethod
    def of(cls, n: int, between: Callable[[int, int], Tally], within: bool = True) -> "Elsewhere":
        """Count n parts of a log; `between`: gives the counts of parts from one to before another."""
        total = np.stack(between(0, 0))
        votes: Floats = np.zeros(total.shape)
        for start, end in itertools.pairwise((np.arange(BLOCKS + 1) * n // BLOCKS).tolist()):
            looks, clicks = counts = between(start, end)
            total += np.stack(counts)
            votes += np.stack([looks > 0, clicks / np.maximum(looks, 1)])
        return cls(total, votes, within)


class UsualRates:
    """Usual rates and groups of items, learnt from counts."""

    def __init__(self, looks: Ints, clicks: Ints, elsewhere: Elsewhere) -> None:
        self.prior = prior_of(looks, clicks)
        self.usual: Floats = (self.prior[0] + clicks) / (self.prior[1] + looks)
        edges = np.quantile(self.usual[looks > 0], BANDS) if looks.any() else np.zeros(len(BANDS))
        self.bands: Ints = np.searchsorted(edges, self.usual).astype(np.int64)
        self.elsewhere = elsewhere

    def weigh(self, one: Tally, two: Tally) -> tuple[float, float]:
        """Nats of evidence that two tallies differ, the larger of both directions, and the share of items changed."""
        here, there = np.stack(one), np.stack(two)
        far = self.elsewhere.far(here, there)
        evidence: tuple[float, float] = max(self._against(here, there, far), self._against(there, here, far))
        return evidence

    def _against(self, here: Ints, reference: Ints, far: Floats) -> tuple[float, float]:
        """Nats of evidence that a stretch differs from its reference, and the share of items changed.

        The rest of the log does not fill in for a reference much shorter than the stretch, since it may be like it.
        """
        speaks = bool(2 * reference[0].sum() >= here[0].sum())
        rest = self.elsewhere.votes, self.prior, self.bands, self.usual
        evidence: tuple[float, float] = weigh_counts(here, reference, far, speaks, *rest)
        return evidence

    def rates(self, one: Tally, two: Tally, share: float | None = None) -> tuple[Floats, Floats]:
        """Each item's rate in two regimes; `share`: of items that differ, by default that of `weigh`."""
        share = self.weigh(one, two)[1] if share is None else share
        rates = np.empty(self.usual.size), np.empty(self.usual.size)
        here, there = (np.stack(counts).astype(np.float64) for counts in (one, two))
        for counts, other in ((here, there), (there, here)):
            self._fill(counts, other)
        rates_of(here[0], here[1], there[0], there[1], self.bands, self.usual, share, *rates)
        return rates

    def _fill(self, counts: Floats, other: Floats) -> None:
        """Fill in counts of items with few looks from the rest of the log, if `other` differs clearly from that.

        If it does not differ, the items remain unknown here and change as their group does.
        """
        rest = self.elsewhere.far(counts, other)
        bursts = rest[0] > BURSTS * self.elsewhere.votes[0]
        rest[:, bursts] = self.elsewhere.votes[:, bursts]
        asked = np.flatnonzero((counts[0] < KNOWN) & (other[0] >= KNOWN) & (rest[0] >= KNOWN))
        looks, clicks = rest[:, asked]
        rate = np.clip((self.prior[0] + clicks) / (self.prior[1] + looks), EDGE, 1.0 - EDGE)
        nats: Floats = np.zeros(asked.size)
        their_looks, their_clicks = other[:, asked].astype(np.int64)
        evidence_by_item(their_looks, their_clicks, rate, looks.astype(np.int64), nats)
        differ = asked[nats > CLEAR]
        counts[:, differ] = rest[:, differ]


class Stretch(UsualRates):
    """Some parts of a log in order, such as impressions, and their usual rates.

    `where`: their indices in the log. `usual`: counts from which usual rates are learnt, by default of all parts.
    `elsewhere`: counts outside of stretches, by default of all parts. `threads`: how many scales are searched in
    parallel; results do not depend on it. `on_progress` is called before each longer step and may raise; `cached`
    caches its result.
    """

    def __init__(
        self,
        units: Units,
        where: Ints,
        usual: Tally | None = None,
        threads: int = 1,
        on_progress: OnProgress = ignore_progress,
        elsewhere: Elsewhere | None = None,
        cached: StepCache = always_compute,
    ) -> None:
        self.units, self.where, self.n = units, where, units.n
        self.threads, self.on_progress, self.cached = threads, on_progress, cached
        self._better: dict[tuple[int, int, bool], tuple[int, int]] = {}  # cache of `_fitted`
        self.few, self.shortest = parts(LEAST_IMPRESSIONS, units), max(parts(SHORTEST, units), 2)
        self.outside_price = OUTSIDE_PRICE * units.span
        self.whole = self.between(0, self.n)
        looks, clicks = usual or self.whole
        super().__init__(looks, clicks, elsewhere or Elsewhere.of(self.n, self.between))
        seen = int(np.count_nonzero(looks))
        self.spread = math.ceil(REFERENCE_LOOKS * seen * self.n / max(int(looks.sum()), 1))
        self.enough = min(self.spread, self.n // 4)
        self.rare = int(looks.sum()) < RARE_BELOW * seen

    def with_elsewhere(self, elsewhere: Elsewhere) -> "Stretch":
        """A copy with other counts outside of stretches."""
        other = copy.copy(self)
        other.elsewhere = elsewhere
        return other

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
        """Log likelihood ratio of each part, rates `two` against `one`, in nats."""
        out = np.empty(end - start)
        gains(*self.units[:4], start, one, two, out)
        return out

    def fitted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Fit unusual stretches near parts `start` to before `end`: one against its neighbours, one against the rest.

        Each alternates between learning rates from the stretch and moving its edges to where these explain most.
        Both references are needed: neighbours may be part of a longer stretch, and distant parts may have drifted.
        """
        return [self._fitted(start, end, far) for far in (False, True)]

    def _fitted(self, start: int, end: int, far: bool) -> tuple[int, int]:
        for _ in range(ROUNDS):
            if (start, end, far) not in self._better:
                refitted = functools.partial(self._refitted, start, end, far)
                self._better[start, end, far] = self.cached(f"fit-{start}-{end}-{far}", refitted)
            better = self._better[start, end, far]
            if better == (start, end):
                break
            start, end = better
        return start, end

    def _refitted(self, start: int, end: int, far: bool) -> tuple[int, int]:
        """The stretch that rates learnt from parts `start` to before `end` explain best; unchanged if too short."""
        size = end - start
        low, high = max(0, start - REFERENCE * size), min(self.n, end + REFERENCE * size)
        inside, window = np.stack(self.between(start, end)), np.stack(self.between(low, high))
        looks, clicks = self.elsewhere.counts - window if far else window - inside
        gain = self.gains(low, high, *self.rates((looks, clicks), (inside[0], inside[1]))) - self.outside_price
        first, last = _best_run(np.concatenate([[0.0], np.cumsum(gain)]))
        return (start, end) if last - first < self.few else (low + first, low + last)

    def change(self, at: int, size: int, sides: tuple[int, int] = (0, 0)) -> tuple[float, float]:
        """Return evidence of a change at a part, and the nats by which a step explains it better than a gradual one.

        `sides`: parts before and after to count, at least `size`: items with few looks need more.
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
        """Candidates for unusual stretches, each from a part to before another, the most evidence first.

        Stretches of 32, 64, 128, ... impressions are compared with those before and those after them.
        """
        shortest = max(self.shortest, 1 << max(self.n // FINEST, 1).bit_length() - 1)
        changes: list[tuple[float, int, int]] = []
        passes = 2 * max((self.n // shortest).bit_length() - 1, 0)
        begun: collections.deque[Future[list[tuple[float, int, int]]]] = collections.deque()
        done = itertools.count()

        def finish(left: int) -> None:
            while len(begun) > left:
                self.on_progress("searching", next(done), passes)
                changes.extend(begun.popleft().result())

        with ThreadPoolExecutor(self.threads) as pool:
            for size, units in at_scales(self.units, shortest):
                for backward in (False, True):
                    one = functools.partial(self._at_scale, (size, units, backward))
                    begun.append(pool.submit(self.cached, f"pass-{size}-{backward}", one))
                finish(self.threads)  # free the units of finished scales
            finish(0)
        tried: set[tuple[int, int]] = set()
        for _, start, end in sorted(changes, reverse=True):
            near = (start // max((end - start) // 2, 1), end - start)
            if near not in tried and len(tried) < MOST_TRIED:
                tried.add(near)
                yield start, end

    def _at_scale(self, scale: tuple[int, Units, bool]) -> list[tuple[float, int, int]]:
        """Candidates at one scale in one direction: evidence beyond the bar, start and end."""
        size, units, backward = scale
        sparse = self.rare and REFERENCE * size < self.spread
        rest = ScanContext(self.bands, self.usual, sparse, self.elsewhere.counts, self.elsewhere.votes, self.prior)
        nats, at = evidence(units, size, backward, rest)
        excess = nats - math.log(2 * nats.size) - BAR
        clear = np.flatnonzero(excess > 0.0).tolist()
        edges = [
            (max(int(at[i]) - size, 0), int(at[i])) if backward else (int(at[i]), int(at[i]) + size) for i in clear
        ]
        return [(float(excess[i]), start, min(end, self.n)) for i, (start, end) in zip(clear, edges, strict=True)]

    def division_score(self, start: int, end: int, cost: float) -> float:
        """Score of a division of all parts into one stretch and the rest, on the scale of `split`."""
        inside = self.between(start, end)
        rest: Tally = (self.whole[0] - inside[0], self.whole[1] - inside[1])
        return self.weigh(inside, rest)[0] - cost * ((start > 0) + (end < self.n))

    def less_outside_price(self, score: float, apart: int) -> float:
        """The score of a division less OUTSIDE_PRICE for the smaller regime; `apart`: parts in one of the two."""
        return score - self.outside_price * min(apart, self.n - apart)

    def split(self, at: int, size: int, cost: float) -> tuple[float, Bools]:
        """The best division of all parts into two regimes with the rates before and after a change.

        Returns the evidence less the cost of changes, and which parts belong to the second regime. Rates are learnt
        from shorter and shorter stretches around the change, since long ones may extend beyond another change.
        """
        best, second = -math.inf, np.zeros(self.n, np.bool_)
        near = min(size, at, self.n - at)
        while near >= min(self.shortest, size, at, self.n - at):
            one, two = self.between(at - near, at), self.between(at, at + near)
            path, before = np.zeros(self.n, np.int8), np.zeros(self.n, np.int8)
            for turn in range(6):
                self.on_progress("dividing", 0, 0)
                outside_price = 0.0 if turn == 0 else self.outside_price if path.mean() < 0.5 else -self.outside_price
                two_states(self.gains(0, self.n, *self.rates(one, two)), cost, outside_price, path)
                if path.all() or not path.any() or (turn and np.array_equal(path, before)):
                    break
                before = path.copy()
                one, two = self.chosen(path == 0), self.chosen(path == 1)
            if path.any() and not path.all():
                score = self.weigh(one, two)[0] - cost * int(np.count_nonzero(np.diff(path)))
                if score > best:
                    best, second = score, path == 1
            near //= 4
            if near < self.few:
                break
        return best, second


def _best_run(so_far: Floats) -> tuple[int, int]:
    """Start and end of the stretch with the largest sum, from cumulative sums."""
    last = int(np.argmax(so_far - np.minimum.accumulate(so_far)))
    first = int(np.argmin(so_far[: last + 1]))
    return tightened(so_far, first, last)


def tightened(so_far: Floats, first: int, last: int) -> tuple[int, int]:
    """Shrink a stretch by parts at its edges whose sum is small: half of the largest single part, at most SLACK.

    Parts without evidence then belong to neither side.
    """
    inner = so_far[first : last + 1]
    slack = min(SLACK, 0.5 * float(np.max(np.diff(inner), initial=0.0)))
    if inner[-1] - inner[0] <= 2.0 * slack:
        return first, last
    low = int(np.flatnonzero(inner <= inner[0] + slack)[-1])
    return first + low, first + low + int(np.flatnonzero(inner[low:] >= inner[-1] - slack)[0])
