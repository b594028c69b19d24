"""Find stretches of a log with unusual click behaviour, distinguish them from drift, and locate their boundaries."""

import functools
import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from ...core.arrays import Bools, Floats, Ints, Small
from .bayes_factors import GROUPED, REFERENCE
from .scales import Tally, Units, count_where
from .stretches import (
    BAR,
    SHORTEST,
    Elsewhere,
    OnProgress,
    StepCache,
    Stretch,
    always_compute,
    ignore_progress,
    parts,
    tightened,
)
from .two_regimes import two_states

SUDDEN = 2.5  # nats by which a step must explain a change better than a gradual one
NEAR = 0.3  # least share of an interval's evidence found next to its edges: drift shows only at a distance
CHANGE = 3.0  # nats, the price of a change of regime, in addition to log n
MARGIN = 16  # margin beside a stretch that may belong to it: this many parts, or 1 / MARGIN of the stretch
MOST_CANDIDATES = 12  # candidates for the clearest change
CANDIDATES_WHERE_KNOWN = 4  # the same with many looks per item: evidence is clear, and each costs a pass
SAME_CHANGE = 2  # a candidate within a fitted stretch of at most this many times its length is the same change
MOST_JOINED = 4  # best candidates whose edges are tried in all combinations
MOST_REGIMES = 6  # of a log; each costs a pass over a part of it
ALTERNATING = 4  # from this many intervals on that cover ALTERNATING_SHARE of it, they are taken for day and night
ALTERNATING_SHARE = 0.4


RegimeStretch: TypeAlias = tuple[int, int, int]  # first part, the part after the last, number of the regime


class ChangedStretch(NamedTuple):
    """A stretch with unusual clicks: parts `start` to before `end` of a log, such as impressions."""

    start: int
    end: int
    evidence: float  # nats, corrected for the number of stretches searched
    steps: tuple[float, float] = (0.0, 0.0)  # nats for a sudden change at each edge; inf at an end of the log

    def in_impressions(self, units: Units, n: int) -> "ChangedStretch":
        """Convert parts to impressions, of which the log has n."""
        return self._replace(start=self.start * units.span, end=min(self.end * units.span, n))


def regimes(
    units: Units, threads: int = 1, on_progress: OnProgress = ignore_progress, cached: StepCache = always_compute
) -> Small:
    """The regime number of each part, int16[n]: 0, 1, ... in the order in which the regimes were separated.

    The log is divided in two at the clearest sudden change, and so are the results. O(looks log n) per division.
    """
    label: Small = np.zeros(units.n, np.int16)
    queue, made = [0], 1
    cost = math.log(max(units.n, 2)) + CHANGE
    whole = Stretch(units, np.arange(units.n), None, threads, on_progress, cached=_within(cached, "1-0"))
    while queue and made < MOST_REGIMES:
        regime = queue.pop(0)
        where = np.flatnonzero(label == regime)
        if where.size < 2 * parts(SHORTEST, units):
            continue
        step = f"{made}-{regime}"
        divide = functools.partial(_divide_regime, whole, where, made, cost, _within(cached, step))
        second = cached(f"division-{step}", divide)
        if second is not None:
            label[where[second]] = made
            queue += [regime, made]
            made += 1
    return label


def _within(cached: StepCache, name: str) -> StepCache:
    """A `StepCache` that prefixes the names of steps."""
    return lambda step, compute: cached(f"{name}-{step}", compute)


def _divide_regime(whole: Stretch, where: Ints, made: int, cost: float, cached: StepCache) -> Bools | None:
    """Divide the parts `where` of one regime, the log having `made` so far: which belong to a new one, or None."""
    if made == 1:
        return _divide_at_clearest_change(whole, cost)
    rest = whole.elsewhere if 2 * where.size > whole.n else None  # most of the log is no attack: use all of it
    some = Stretch(whole.units.only(where), where, None, whole.threads, whole.on_progress, rest, cached)
    return _divide_at_clearest_change(some, cost)


def _divide_at_clearest_change(part: Stretch, cost: float) -> Bools | None:
    """Divide a stretch at its clearest sudden change: bool[n], parts of the second regime; None without a change."""
    fitted: set[tuple[int, int]] = set()
    for start, end in itertools.islice(part.candidates(), MOST_CANDIDATES if part.rare else CANDIDATES_WHERE_KNOWN):
        size = min(SAME_CHANGE * (end - start), part.n)
        if not any(low <= start and end <= high <= low + size for low, high in fitted):  # else it is fitted already
            fitted.update(part.fitted(start, end))
    best = _ranked(part, fitted, cost)[:MOST_JOINED]
    joined = {(start, end) for _, start, _ in best for _, _, end in best if start < end}
    for score, start, end in _ranked(part, fitted | joined, cost):
        divided = _best_division(part, start, end, score, cost)
        if divided is not None:
            return divided
    return None


def _ranked(part: Stretch, stretches: set[tuple[int, int]], cost: float) -> list[tuple[float, int, int]]:
    """Sort stretches by the score of separating them from the rest (`Stretch.division_score`), the best first."""
    scored = [(part.division_score(start, end, cost), start, end) for start, end in stretches]
    return sorted(scored, key=lambda one: (-part.less_outside_price(one[0], one[2] - one[1]), one[1:]))


def _best_division(part: Stretch, start: int, end: int, score: float, cost: float) -> Bools | None:
    """The best division: the stretch against the rest, or by regimes fitted to an edge; None if no edge is sudden."""
    changes = [(at, *part.change(at, end - start)) for at in (start, end)]
    clear = [(at, step) for at, evidence, step in changes if evidence >= BAR]
    divisions: list[tuple[float, Bools]] = []
    for at in (at for at, step in clear if step >= SUDDEN):
        if not any(
            second[at] != second[at - 1] for _, second in divisions
        ):  # else it is an edge of an earlier division
            divisions.append(part.split(at, end - start, cost))
    if clear and sum(step for *_, step in changes) >= SUDDEN:
        divisions.append((score, mask_of(part.n, [(start, end)])))
    divisions = [division for division in divisions if division[0] > 0.0]
    if not divisions:
        return None
    return max(divisions, key=lambda division: part.less_outside_price(division[0], int(division[1].sum())))[1]


def runs(flags: Bools) -> list[tuple[int, int]]:
    """The runs of True: first index, and the one after the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def with_margins(flags: Bools) -> Bools:
    """Extend each run of flags by a margin, within which its true edge may lie."""
    wide = flags.copy()
    for start, end in runs(flags):
        margin = max((end - start) // MARGIN, MARGIN)
        wide[max(start - margin, 0) : end + margin] = True
    return wide


def mask_of(n: int, stretches: Iterable[tuple[int, int]]) -> Bools:
    """bool[n], which impressions lie in any of the stretches, each from its start to before its end."""
    flags: Bools = np.zeros(n, np.bool_)
    for start, end in stretches:
        flags[start:end] = True
    return flags


class UsualImpressions:
    """The impressions outside of some stretches, indexed by their number among these."""

    def __init__(self, calm: Bools) -> None:
        self.starts, ends = np.array(runs(calm), np.int64).reshape(-1, 2).T
        self.so_far: Ints = np.concatenate([[0], np.cumsum(ends - self.starts)])

    @property
    def size(self) -> int:
        """The number of these impressions."""
        return int(self.so_far[-1])

    def at(self, numbers: Ints) -> Ints:
        """Their indices in the log."""
        run = np.searchsorted(self.so_far, numbers, "right") - 1
        places: Ints = self.starts[run] + numbers - self.so_far[run]
        return places


def intervals(
    units: Units,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
    cached: StepCache = always_compute,
    *,
    apart: bool = True,
    widen: bool = True,
) -> list[ChangedStretch]:
    """Find the intervals of a log with click behaviour unlike most of it, in order.

    The longest regime is trusted. If two others touch, each is an interval if `apart`, else both are one. `widen`:
    whether to extend intervals by unusual behaviour next to them, as caused by a learner under attack. An interval
    must have enough evidence, a good part of it next to an edge, and sudden edges: steps must explain both together
    better than gradual changes. `on_progress` reports progress, and `cached` caches longer steps.
    """
    label = _without_short_stretches(regimes(units, threads, on_progress, cached), parts(SHORTEST, units))
    suspect: Bools = label != np.bincount(label).argmax() if label.size else np.zeros(0, np.bool_)
    if not suspect.any():
        return []
    log = learning_without(units, suspect)
    regimes_apart = np.unique(label[suspect]).tolist()
    logs = {regime: log.with_elsewhere(outside_of(units, with_margins(label == regime))) for regime in regimes_apart}
    stretches = _suspect_stretches(label, suspect)
    if not apart:
        logs, stretches = {0: log}, [(start, end, 0) for start, end in runs(suspect)]
    for _ in range(2):
        on_progress("placing edges", 0, 0)
        stretches = _with_placed_edges(logs, stretches, widen)
    if (
        len(runs(suspect)) >= ALTERNATING
        and sum(end - start for start, end, _ in stretches) > ALTERNATING_SHARE * units.n
    ):
        return []  # two behaviours that alternate with similar lengths are day and night
    kept = [found for i in range(len(stretches)) if (found := _confirmed(logs, stretches, i)) is not None]
    return sorted([*kept, *_similar_intervals(log, kept)])


def _confirmed(logs: dict[int, Stretch], stretches: list[RegimeStretch], i: int) -> ChangedStretch | None:
    """Stretch i as an interval, if its evidence and its edges hold up, else None."""
    start, end, regime = stretches[i]
    log, edges = logs[regime], [0, *(at for one in stretches for at in one[:2]), logs[regime].n]
    low, high = _neighbours(edges, stretches, i)
    before, after = min(REFERENCE * (end - start), start - low), min(REFERENCE * (end - start), high - end)
    room = max(REFERENCE * (end - start), log.enough)
    around = _usual_around(log, stretches, start, end, room)
    evidence = log.weigh(log.between(start, end), around)[0] - math.log(log.n / (end - start))
    sides = [(at, reach) for at, reach in ((start, before), (end, after)) if 0 < at < log.n]
    usual = (min(room, start - edges[2 * i]), min(room, edges[2 * i + 3] - end))
    changes = [
        log.change(at, min(end - start, near), (usual[0], 0) if at == start else (0, usual[1])) for at, near in sides
    ]
    near = max((change for change, _ in changes), default=0.0)
    if evidence < BAR or near < NEAR * evidence or sum(step for _, step in changes) < SUDDEN:
        return None
    sudden = dict(zip((at for at, _ in sides), (step for _, step in changes), strict=True))
    return ChangedStretch(start, end, evidence, (sudden.get(start, math.inf), sudden.get(end, math.inf)))


def _suspect_stretches(label: Small, suspect: Bools) -> list[RegimeStretch]:
    """The suspect stretches, split where the regime changes."""
    return [
        (start + a, start + b, int(label[start + a]))
        for start, end in runs(suspect)
        for a, b in itertools.pairwise([0, *(np.flatnonzero(np.diff(label[start:end])) + 1).tolist(), end - start])
    ]


def learning_without(units: Units, suspect: Bools) -> Stretch:
    """The whole log as a `Stretch` that learns what is usual from the parts that are not suspect."""
    elsewhere = outside_of(units, suspect)
    looks, clicks = elsewhere.counts
    return Stretch(units, np.arange(units.n), (looks, clicks), elsewhere=elsewhere)


def outside_of(units: Units, suspect: Bools) -> Elsewhere:
    """Counts of the parts of a log that are not `suspect`, bool[n]."""

    def calm(start: int, end: int) -> Tally:
        counts = np.zeros(units.n_items, np.int64), np.zeros(units.n_items, np.int64)
        count_where(*units.between(start, end)[:4], ~suspect[start:end], *counts)
        return counts

    return Elsewhere.of(units.n, calm, within=False)


def _without_short_stretches(label: Small, shortest: int) -> Small:
    """Merge stretches shorter than `shortest` between two others into the one before."""
    label = label.copy()
    edges = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), label.size]
    for start, end in itertools.pairwise(edges):
        if start > 0 and end - start < shortest and end < label.size:
            label[start:end] = label[start - 1]
    return label


def _neighbours(edges: list[int], stretches: list[RegimeStretch], i: int) -> tuple[int, int]:
    """How far the behaviour before and after interval i extends, usual or another interval's: its outer bounds."""
    start, end, _ = stretches[i]
    low, high = edges[2 * i], edges[2 * i + 3]
    if low == start and i > 0:
        low = stretches[i - 1][0]
    if high == end and i + 1 < len(stretches):
        high = stretches[i + 1][1]
    return low, high


def _usual_around(log: Stretch, stretches: list[RegimeStretch], start: int, end: int, room: int) -> Tally:
    """Counts of usual parts around an interval, `room` on either side."""
    usual = ~mask_of(log.n, [one[:2] for one in stretches])
    so_far = np.concatenate([[0], np.cumsum(usual)])
    low = int(np.searchsorted(so_far, max(so_far[start] - room, 0), "left"))
    high = int(np.searchsorted(so_far, so_far[end] + room, "left"))
    usual[:low] = usual[max(high, end) :] = False
    return log.chosen(usual)


def _similar_intervals(log: Stretch, kept: list[ChangedStretch]) -> list[ChangedStretch]:
    """Find more intervals that behave like those found, though they would not be significant alone.

    With known rates, fewer impressions suffice to recognise an attack. Items not seen in the intervals found are
    assumed to change as their group does.
    """
    if not kept:
        return []
    inside = mask_of(log.n, [(part.start, part.end) for part in kept])
    cost = math.log(log.n) + CHANGE
    gain = log.gains(0, log.n, *log.rates(log.chosen(~inside), log.chosen(inside), GROUPED))
    path = np.zeros(log.n, np.int8)
    two_states(gain, cost, log.outside_price, path)
    more = []
    for start, end in runs(path == 1):
        evidence = float(gain[start:end].sum()) - log.outside_price * (end - start) - 2.0 * cost
        if evidence >= BAR and not inside[start:end].any():
            more.append(ChangedStretch(start, end, evidence))
    return more


def _with_placed_edges(logs: dict[int, Stretch], stretches: list[RegimeStretch], widen: bool) -> list[RegimeStretch]:
    """Move each edge to where it explains most, by rates from parts at a distance; then extend if `widen`."""
    n = next(iter(logs.values())).n
    suspect = mask_of(n, [one[:2] for one in stretches])
    shared = {one[1] for one in stretches} & {one[0] for one in stretches}  # edges between two intervals are kept
    cut: list[RegimeStretch] = []
    for start, end, regime in stretches:
        log = logs[regime]
        edges = [at if at in shared else _placed_edge(log, suspect, start, end, at) for at in (start, end)]
        if edges[1] - edges[0] >= log.few:
            if cut and edges[0] < cut[-1][1]:
                edges[0] = cut[-1][1]
            if edges[1] - edges[0] >= log.few:
                cut.append((edges[0], edges[1], regime))
    if not widen:
        return cut
    now = mask_of(n, [one[:2] for one in cut])
    wide: list[RegimeStretch] = []
    for start, end, regime in cut:
        low, high = _extended(logs[regime], now, start, end)
        wide.append((max(low, wide[-1][1]) if wide else low, high, regime))
    return wide


def _placed_edge(log: Stretch, suspect: Bools, start: int, end: int, at: int) -> int:
    low, so_far = _evidence_around_edge(log, suspect, start, end, at)
    if so_far.size == 0:
        return at
    if at == start:
        best = int(np.argmin(so_far))
        return low + tightened(so_far, best, so_far.size - 1)[0]
    return low + tightened(so_far, 0, int(np.argmax(so_far)))[1]


def _extended(log: Stretch, suspect: Bools, start: int, end: int) -> tuple[int, int]:
    """Extend an interval by unusual behaviour next to it, even if that differs from the rest of the interval.

    A learner under attack soon shows other items: those of the attack's first impressions are not shown later.
    """
    others = np.flatnonzero(suspect)
    low = max([0, *(others[others < start][-1:] + 1).tolist()])
    high = min([log.n, *others[others >= end][:1].tolist()])
    for _ in range(3):
        half = (end - start) // 2
        left, right = max(low, start - half), min(high, end + half)
        outside = ~suspect
        outside[: max(0, start - 8 * half)] = outside[end + 8 * half :] = outside[left:right] = False
        if not outside.any():
            break
        usual = log.chosen(outside)
        before, after = (
            start - _unusual_size(log, usual, left, start, True),
            end + _unusual_size(log, usual, end, right, False),
        )
        if (before, after) == (start, end):
            break
        start, end = before, after
    return start, end


def _unusual_size(log: Stretch, usual: Tally, low: int, high: int, at_end: bool) -> int:
    """The number of parts at the end, or at the start, of a zone that behave unusually."""
    if high - low < log.few:
        return 0
    gain = log.gains(low, high, *log.rates(usual, log.between(low, high))) - log.outside_price
    so_far = np.concatenate([[0.0], np.cumsum(gain)])
    size = high - low - int(np.argmin(so_far)) if at_end else int(np.argmax(so_far))
    if size < 2 * log.few:
        return 0
    start, end = (high - size, high) if at_end else (low, low + size)
    middle = (start + end) // 2  # both halves must show it: a single list may carry much evidence
    halves = log.between(start, middle), log.between(middle, end)
    return size if min(log.weigh(half, usual)[0] for half in halves) >= BAR else 0


def edge_range(units: Units, part: ChangedStretch, suspect: Bools, at: int) -> tuple[int, int]:
    """The 95 % interval of an edge, from the likelihood of a change at each part nearby."""
    log = learning_without(units, suspect)
    low, so_far = _evidence_around_edge(log, suspect, part.start, part.end, at)
    if so_far.size == 0:
        return at, at
    likely = -so_far if at == part.start else so_far
    chance = np.cumsum(np.exp(likely - likely.max()))
    edges = np.searchsorted(chance, np.array([0.025, 0.975]) * chance[-1])
    return min(at, low + int(edges[0])), max(at, low + int(edges[1]))


def _evidence_around_edge(log: Stretch, suspect: Bools, start: int, end: int, at: int) -> tuple[int, Floats]:
    """Return a part near an edge, and the cumulative evidence for the interval from there on; empty if unavailable.

    Rates are learnt from parts at least half an interval away from the edge.
    """
    nothing = np.zeros(0)
    half = (end - start) // 2
    if at in (0, log.n) or half < log.few:
        return at, nothing
    low, high = max(0, at - half), min(log.n, at + half)
    inside = mask_of(log.n, [(start, end)])
    outside = ~suspect
    outside[: max(0, start - 8 * half)] = outside[end + 8 * half :] = False
    inside[low:high] = outside[low:high] = False
    if inside.sum() < half // 2 or outside.sum() < half // 2:
        return at, nothing
    gain = log.gains(low, high, *log.rates(log.chosen(outside), log.chosen(inside))) - log.outside_price
    return low, np.concatenate([[0.0], np.cumsum(gain)])
