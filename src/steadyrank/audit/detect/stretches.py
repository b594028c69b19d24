"""A stretch of a log: what is usual in it, where it changes at any scale, and how it divides in two."""

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
from .scales import Rest, Tally, Units, at_scales, count, count_where, evidence
from .two_regimes import CLEAR, WAVE, gains, rates_of, suddenness, two_states

SHORTEST = 32  # impressions of a stretch that is looked for, in a log of less than 1.6 million
FEW = 8  # impressions that say nothing
FINEST = 25_000  # stretches of a long log: shorter ones are not looked for
ENOUGH = 20  # looks at an item, on average, in what a stretch is compared with, however short that is
RARE = 2_000  # looks at an item, on average: with more, stretches beside one say enough of items
BAR = 8.0  # nats of evidence, beyond what the number of stretches looked at explains
WIDTHS = (1.0, 0.5, 0.25, WAVE)  # of slower changes
SLACK = 1.0  # nats at the edges of a stretch, at most, that do not say where they lie
TOLL = 0.01  # nats an impression outside of the trusted regime: where nothing is seen, nothing is suspect
MOST_TRIED = 200  # candidates for one change
ROUNDS = 4  # of fitting a stretch
BLOCKS = 64  # of a log, each with one vote on each item
Tell: TypeAlias = Callable[[str, int, int], None]  # a step, how much of it is done, of how much: 0 if unknown
Recall: TypeAlias = Callable[[str, Callable[[], Any]], Any]  # a step by its name: its result, computed unless known
BANDS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)  # quantiles of usual attraction between groups of items


def silent(step: str, done: int, of: int) -> None:
    """A `Tell` that tells nobody."""


def anew(step: str, compute: Callable[[], Any]) -> Any:
    """A `Recall` that knows nothing."""
    return compute()


def prior_of(looks: Ints, clicks: Ints) -> Floats:
    """The prior that items have in common: pseudo-counts of clicks, and of looks."""
    prior = np.ones(2)
    fit_prior(looks, clicks, prior)
    return np.array([prior[0], prior.sum()])


def rates_by_item(looks: Ints, clicks: Ints) -> Floats:
    """Each item's click rate, float64[K]: posterior means under the prior that the items have in common."""
    prior = prior_of(looks, clicks)
    rates: Floats = (prior[0] + clicks) / (prior[1] + looks)
    return rates


def parts(impressions: int, units: Units) -> int:
    """How many parts hold so many impressions; one at least."""
    return max(impressions // units.span, 1)


class Elsewhere(NamedTuple):
    """What is known of items apart from a stretch and its neighbourhood."""

    counts: Ints  # [2, K] looks and clicks
    votes: Floats  # [2, K] the same as if each of BLOCKS blocks of the log had one look at most
    within: bool  # whether stretches are part of it

    def far(self, *counts: Ints | Floats) -> Floats:
        """Without some counts, float64[2, K]."""
        rest = self.counts.astype(np.float64)
        for one in counts if self.within else ():
            rest -= one
        return rest

    @classmethod
    def of(cls, n: int, between: Callable[[int, int], Tally], within: bool = True) -> "Elsewhere":
        """Of n parts of a log; `between`: counts of those from one to before another."""
        total = np.stack(between(0, 0))
        votes: Floats = np.zeros(total.shape)
        for start, end in itertools.pairwise((np.arange(BLOCKS + 1) * n // BLOCKS).tolist()):
            looks, clicks = counts = between(start, end)
            total += np.stack(counts)
            votes += np.stack([looks > 0, clicks / np.maximum(looks, 1)])
        return cls(total, votes, within)


class UsualRates:
    """What is usual for each item, from counts, and which items are of a kind."""

    def __init__(self, looks: Ints, clicks: Ints, elsewhere: Elsewhere) -> None:
        self.prior = prior_of(looks, clicks)
        self.usual: Floats = (self.prior[0] + clicks) / (self.prior[1] + looks)
        edges = np.quantile(self.usual[looks > 0], BANDS) if looks.any() else np.zeros(len(BANDS))
        self.bands: Ints = np.searchsorted(edges, self.usual).astype(np.int64)
        self.elsewhere = elsewhere

    def weigh(self, one: Tally, two: Tally) -> tuple[float, float]:
        """Nats of evidence that two behaviours differ, either weighed against the other, and the share of items."""
        here, there = np.stack(one), np.stack(two)
        far = self.elsewhere.far(here, there)
        evidence: tuple[float, float] = max(self._against(here, there, far), self._against(there, here, far))
        return evidence

    def _against(self, here: Ints, reference: Ints, far: Floats) -> tuple[float, float]:
        """Nats that a stretch does not behave as its reference, and the share of items.

        What a short reference lacks the rest of the log does not say: that is like the stretch.
        """
        speaks = bool(2 * reference[0].sum() >= here[0].sum())
        rest = self.elsewhere.votes, self.prior, self.bands, self.usual
        evidence: tuple[float, float] = weigh_counts(here, reference, far, speaks, *rest)
        return evidence

    def rates(self, one: Tally, two: Tally, share: float | None = None) -> tuple[Floats, Floats]:
        """Each item's rate in two regimes; the share of items that differ is what `weigh` says by default."""
        share = self.weigh(one, two)[1] if share is None else share
        rates = np.empty(self.usual.size), np.empty(self.usual.size)
        here, there = (np.stack(counts).astype(np.float64) for counts in (one, two))
        for counts, other in ((here, there), (there, here)):
            self._fill(counts, other)
        rates_of(here[0], here[1], there[0], there[1], self.bands, self.usual, share, *rates)
        return rates

    def _fill(self, counts: Floats, other: Floats) -> None:
        """Put what the rest of the log says of items into counts that hardly have them, if the other ones differ.

        Where these do not differ from that, nothing is known of the items here: they change as their group does.
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
    """Some parts of a log in order, such as impressions, and what is usual in them.

    `where`: their places in the log. `usual`: counts that say what is usual, those of all of them by default.
    `elsewhere`: what is known apart from a stretch of them, that of all of them by default. `threads`: how many
    scales are looked at at once; the findings do not depend on it. `tell` is called before each longer step and may
    raise; `recall` is asked for its result.
    """

    def __init__(
        self,
        units: Units,
        where: Ints,
        usual: Tally | None = None,
        threads: int = 1,
        tell: Tell = silent,
        elsewhere: Elsewhere | None = None,
        recall: Recall = anew,
    ) -> None:
        self.units, self.where, self.n = units, where, units.n
        self.threads, self.tell, self.recall = threads, tell, recall
        self._better: dict[tuple[int, int, bool], tuple[int, int]] = {}  # of `_fitted`
        self.few, self.shortest = parts(FEW, units), max(parts(SHORTEST, units), 2)
        self.toll = TOLL * units.span
        self.whole = self.between(0, self.n)
        looks, clicks = usual or self.whole
        super().__init__(looks, clicks, elsewhere or Elsewhere.of(self.n, self.between))
        seen = int(np.count_nonzero(looks))
        self.spread = math.ceil(ENOUGH * seen * self.n / max(int(looks.sum()), 1))
        self.enough = min(self.spread, self.n // 4)
        self.rare = int(looks.sum()) < RARE * seen

    def knowing(self, elsewhere: Elsewhere) -> "Stretch":
        """The same with something else known apart from stretches of it."""
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
        """How much better rates `two` explain each part, in nats."""
        out = np.empty(end - start)
        gains(*self.units[:4], start, one, two, out)
        return out

    def fitted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Stretches near parts `start` to before `end` that behave otherwise, against those beside or far from them.

        Each is the one that rates learnt from it explain best beyond those of the others, learnt again and again.
        What is beside parts in the middle of a long one is part of it, and what is far from it may have drifted.
        """
        return [self._fitted(start, end, far) for far in (False, True)]

    def _fitted(self, start: int, end: int, far: bool) -> tuple[int, int]:
        for _ in range(ROUNDS):
            if (start, end, far) not in self._better:
                refitted = functools.partial(self._refitted, start, end, far)
                self._better[start, end, far] = self.recall(f"fit-{start}-{end}-{far}", refitted)
            better = self._better[start, end, far]
            if better == (start, end):
                break
            start, end = better
        return start, end

    def _refitted(self, start: int, end: int, far: bool) -> tuple[int, int]:
        """The stretch that rates learnt from parts `start` to before `end` explain best; these if it is too short."""
        size = end - start
        low, high = max(0, start - REFERENCE * size), min(self.n, end + REFERENCE * size)
        inside, window = np.stack(self.between(start, end)), np.stack(self.between(low, high))
        looks, clicks = self.elsewhere.counts - window if far else window - inside
        gain = self.gains(low, high, *self.rates((looks, clicks), (inside[0], inside[1]))) - self.toll
        first, last = _richest(np.concatenate([[0.0], np.cumsum(gain)]))
        return (start, end) if last - first < self.few else (low + first, low + last)

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
        """Stretches that seem to behave otherwise, from a part to before another, the clearest first.

        Stretches of 32, 64, 128, ... impressions are weighed against those before and those after them.
        """
        shortest = max(self.shortest, 1 << max(self.n // FINEST, 1).bit_length() - 1)
        changes: list[tuple[float, int, int]] = []
        passes = 2 * max((self.n // shortest).bit_length() - 1, 0)
        begun: collections.deque[Future[list[tuple[float, int, int]]]] = collections.deque()
        done = itertools.count()

        def finish(left: int) -> None:
            while len(begun) > left:
                self.tell("searching", next(done), passes)
                changes.extend(begun.popleft().result())

        with ThreadPoolExecutor(self.threads) as pool:
            for size, units in at_scales(self.units, shortest):
                for backward in (False, True):
                    one = functools.partial(self._at_scale, (size, units, backward))
                    begun.append(pool.submit(self.recall, f"pass-{size}-{backward}", one))
                finish(self.threads)  # what a scale is counted by is let go with it
            finish(0)
        tried: set[tuple[int, int]] = set()
        for _, start, end in sorted(changes, reverse=True):
            near = (start // max((end - start) // 2, 1), end - start)
            if near not in tried and len(tried) < MOST_TRIED:
                tried.add(near)
                yield start, end

    def _at_scale(self, scale: tuple[int, Units, bool]) -> list[tuple[float, int, int]]:
        """Evidence beyond the bar, start and end of the stretch, at one scale in one direction."""
        size, units, backward = scale
        sparse = self.rare and REFERENCE * size < self.spread
        rest = Rest(self.bands, self.usual, sparse, self.elsewhere.counts, self.elsewhere.votes, self.prior)
        nats, at = evidence(units, size, backward, rest)
        excess = nats - math.log(2 * nats.size) - BAR
        clear = np.flatnonzero(excess > 0.0).tolist()
        edges = [
            (max(int(at[i]) - size, 0), int(at[i])) if backward else (int(at[i]), int(at[i]) + size) for i in clear
        ]
        return [(float(excess[i]), start, min(end, self.n)) for i, (start, end) in zip(clear, edges, strict=True)]

    def alone(self, start: int, end: int, cost: float) -> float:
        """Evidence for a division of all parts into those of one stretch and the others, as `split` has it."""
        inside = self.between(start, end)
        rest: Tally = (self.whole[0] - inside[0], self.whole[1] - inside[1])
        return self.weigh(inside, rest)[0] - cost * ((start > 0) + (end < self.n))

    def tolled(self, score: float, apart: int) -> float:
        """The score of a division less the toll of the parts outside of the regime that has most; `apart`: of one."""
        return score - self.toll * min(apart, self.n - apart)

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
                self.tell("dividing", 0, 0)
                toll = 0.0 if turn == 0 else self.toll if path.mean() < 0.5 else -self.toll
                two_states(self.gains(0, self.n, *self.rates(one, two)), cost, toll, path)
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


def _richest(so_far: Floats) -> tuple[int, int]:
    """Where the stretch begins and ends that adds most, by what all places up to each add."""
    last = int(np.argmax(so_far - np.minimum.accumulate(so_far)))
    first = int(np.argmin(so_far[: last + 1]))
    return tightened(so_far, first, last)


def tightened(so_far: Floats, first: int, last: int) -> tuple[int, int]:
    """A stretch without parts at its edges that add less than half of what a single part does, SLACK at most.

    Where nothing is seen, parts belong to neither side.
    """
    inner = so_far[first : last + 1]
    slack = min(SLACK, 0.5 * float(np.max(np.diff(inner), initial=0.0)))
    if inner[-1] - inner[0] <= 2.0 * slack:
        return first, last
    low = int(np.flatnonzero(inner <= inner[0] + slack)[-1])
    return first + low, first + low + int(np.flatnonzero(inner[low:] >= inner[-1] - slack)[0])
