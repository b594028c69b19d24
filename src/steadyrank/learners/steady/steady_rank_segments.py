"""SteadyRankSegments: a SteadyRank a segment of the visits, each of which borrows from the others."""

from collections.abc import Sequence
from typing import NamedTuple

from ...core.contract import ANSWER, KIND, Problem
from ...core.segments import MOST_SEGMENTS, SEGMENT, row, segment_at, segment_told, stacked
from ...core.settings import whole
from ...core.views import View
from ..shared.thompson import check_bar
from .explain import view_of_all
from .segment_pooling import DUE, GROWN, ROUNDS, Pool, call_in, pay_out, share
from .steady_rank import Looks, SteadyRank


class SteadyRankSegments(NamedTuple):
    """Lists for each segment of the visits, by a SteadyRank of its own (ours: docs/context.md).

    A visit's first feature is its segment's number, 1 to `segments`; all others belong to a segment of their own. A
    segment is lent looks at items by the others, at most `lent` an item, and the fewer the less they agree with what
    it saw itself. Regimes are each segment's own: an attack in one opens none in another. `lent` 0: segments know
    nothing of one another. The other settings are SteadyRank's, and without segments so is all else.
    """

    each: SteadyRank  # arrays have a row a segment
    pool: Pool
    lent: int

    live = True
    VERSION = 1

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        segments: int = 0,
        lent: int = 200,
        insurance: float = 0.3,
        caution: float = 0.5,
        window: int = 50,
        looks: Looks = "learn",
        attention: Sequence[float] | str | None = None,
    ) -> "SteadyRankSegments":
        n = 1 + whole("segments", segments, 0, MOST_SEGMENTS)
        lent = whole("lent", lent, 0, 10_000)
        one = SteadyRank.create(
            problem, insurance=insurance, caution=caution, window=window, looks=looks, attention=attention
        )
        return cls(stacked(one, n), Pool.create(n, problem.n_items, one.window), lent if n > 1 else 0)

    def rank(self, visit, allowed, ranking, note, rng):
        s = segment_at(visit.features, 0, self.pool.number.size)
        one = row(self.each, s)
        one.rank(visit, allowed, ranking, note, rng)
        note[SEGMENT] = s

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # says nothing
        pool, s = self.pool, segment_told(visit, note, self.pool.number.size)
        one = row(self.each, s)
        ends = note[KIND] == ANSWER and one.regimes.span_rounds[0] + 1 >= one.window
        r = call_in(one.regimes, pool, s) if ends else -1
        if r >= 0:
            one.regimes.apart_rounds[r] += 1  # so that the prior of tests is fitted to answers alone
        one.update(visit, ranking, note, clicks, examined)
        if r >= 0:
            one.regimes.apart_rounds[r] -= 1
            pay_out(one.regimes, one.posteriors, pool, s)
            check_bar(one.posteriors, one.length)
        pool.tally[ROUNDS] += 1
        if self.lent > 0 and pool.tally[ROUNDS] >= pool.tally[DUE]:
            pool.tally[DUE] += max(one.window, pool.tally[DUE] // GROWN)
            share(self.each, pool, self.lent, one.length)

    def forget(self, visit, ranking, note, clicks, examined):
        one = row(self.each, segment_told(visit, note, self.pool.number.size))
        one.forget(visit, ranking, note, clicks, examined)

    def view(self) -> View:
        """Of all segments together, with a view of each, the segment of visits without one first: copies."""
        n = self.pool.number.size
        return view_of_all([row(self.each, s).view() for s in range(n)], self.pool.looks, self.pool.number)
