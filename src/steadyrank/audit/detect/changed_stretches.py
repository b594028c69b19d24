"""Stretches of a log in which clicks behave otherwise: found at every scale, told from drift, and cut out exactly."""

import functools
import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from ...core.arrays import Bools, Floats, Ints, Small
from .bayes_factors import GROUPED, REFERENCE
from .scales import Tally, Units, count_where
from .stretches import BAR, SHORTEST, Elsewhere, Recall, Stretch, Tell, anew, parts, silent, tightened
from .two_regimes import two_states

SUDDEN = 2.5  # nats by which a step must explain a change better than a slower one does
NEAR = 0.3  # share of an interval's evidence that shows next to one of its edges: that of drift shows far off
CHANGE = 3.0  # nats a change of regime costs, beside log n
MARGIN = 16  # parts beside a stretch, and the share of it, that may belong to it
TRIED = 12  # stretches that may show the clearest change
TRIED_WHERE_KNOWN = 4  # of a log whose items are seen often: what shows is clear, and each costs a pass
SAME = 2  # times as long as a stretch that lies in it, and may be all of the same change: what is fitted already
JOINED = 4  # of those, whose edges are tried with one another
MOST_REGIMES = 6  # of a log; each costs a pass over a part of it
TURNS = 4  # intervals, and the share of the log they hold at least, that are taken for day and night
TURN_SHARE = 0.4


Regimes: TypeAlias = tuple[int, int, int]  # a stretch from a part to before another, and the number of its regime


class ChangedStretch(NamedTuple):
    """Parts `start` to before `end` of a log, such as impressions, whose clicks do not behave as the others'."""

    start: int
    end: int
    evidence: float  # nats, beyond what the number of stretches looked at explains
    steps: tuple[float, float] = (0.0, 0.0)  # nats by which each edge is sudden; inf at an end of the log

    def in_impressions(self, units: Units, n: int) -> "ChangedStretch":
        """The same in impressions, of which the log has n."""
        return self._replace(start=self.start * units.span, end=min(self.end * units.span, n))


def regimes(units: Units, threads: int = 1, tell: Tell = silent, recall: Recall = anew) -> Small:
    """The number of each part's regime, int16[n]: 0, 1, ... in the order in which they were told apart.

    A log is divided in two by the clearest sudden change, and so are its parts. O(looks log n) a division.
    """
    label: Small = np.zeros(units.n, np.int16)
    queue, made = [0], 1
    cost = math.log(max(units.n, 2)) + CHANGE
    whole = Stretch(units, np.arange(units.n), None, threads, tell, recall=_within(recall, "1-0"))
    while queue and made < MOST_REGIMES:
        regime = queue.pop(0)
        where = np.flatnonzero(label == regime)
        if where.size < 2 * parts(SHORTEST, units):
            continue
        step = f"{made}-{regime}"
        divide = functools.partial(_second, whole, where, made, cost, _within(recall, step))
        second = recall(f"division-{step}", divide)
        if second is not None:
            label[where[second]] = made
            queue += [regime, made]
            made += 1
    return label


def _within(recall: Recall, name: str) -> Recall:
    """The same, of steps that are part of one."""
    return lambda step, compute: recall(f"{name}-{step}", compute)


def _second(whole: Stretch, where: Ints, made: int, cost: float, recall: Recall) -> Bools | None:
    """Which of some parts of a log, divided in `made` regimes so far, are one more; None without a sudden change."""
    if made == 1:
        return _clearest(whole, cost)
    rest = whole.elsewhere if 2 * where.size > whole.n else None  # what is no attack speaks of all of the log
    some = Stretch(whole.units.only(where), where, None, whole.threads, whole.tell, rest, recall)
    return _clearest(some, cost)


def _clearest(part: Stretch, cost: float) -> Bools | None:
    """Which parts of a stretch belong to the second of two regimes, by its clearest sudden change; None without."""
    fitted: set[tuple[int, int]] = set()
    for start, end in itertools.islice(part.candidates(), TRIED if part.rare else TRIED_WHERE_KNOWN):
        size = min(SAME * (end - start), part.n)
        if not any(low <= start and end <= high <= low + size for low, high in fitted):  # else it shows already
            fitted.update(part.fitted(start, end))
    best = _ranked(part, fitted, cost)[:JOINED]
    joined = {(start, end) for _, start, _ in best for _, _, end in best if start < end}
    for score, start, end in _ranked(part, fitted | joined, cost):
        divided = _divided(part, start, end, score, cost)
        if divided is not None:
            return divided
    return None


def _ranked(part: Stretch, stretches: set[tuple[int, int]], cost: float) -> list[tuple[float, int, int]]:
    """Stretches with what dividing them from the rest is worth, as `Stretch.alone` has it, the clearest first."""
    alone = [(part.alone(start, end, cost), start, end) for start, end in stretches]
    return sorted(alone, key=lambda one: (-part.tolled(one[0], one[2] - one[1]), one[1:]))


def _divided(part: Stretch, start: int, end: int, score: float, cost: float) -> Bools | None:
    """The better of two divisions: into a stretch and the others, and as parts behave; None if no edge is sudden."""
    changes = [(at, *part.change(at, end - start)) for at in (start, end)]
    clear = [(at, step) for at, evidence, step in changes if evidence >= BAR]
    divisions: list[tuple[float, Bools]] = []
    for at in (at for at, step in clear if step >= SUDDEN):
        if not any(second[at] != second[at - 1] for _, second in divisions):  # an edge of one that was found already
            divisions.append(part.split(at, end - start, cost))
    if clear and sum(step for *_, step in changes) >= SUDDEN:
        divisions.append((score, marked(part.n, [(start, end)])))
    divisions = [division for division in divisions if division[0] > 0.0]
    if not divisions:
        return None
    return max(divisions, key=lambda division: part.tolled(division[0], int(division[1].sum())))[1]


def runs(flags: Bools) -> list[tuple[int, int]]:
    """Where stretches of True begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def widened(flags: Bools) -> Bools:
    """Flags with some of what lies beside each run of them, where an edge may lie."""
    wide = flags.copy()
    for start, end in runs(flags):
        margin = max((end - start) // MARGIN, MARGIN)
        wide[max(start - margin, 0) : end + margin] = True
    return wide


def marked(n: int, stretches: Iterable[tuple[int, int]]) -> Bools:
    """Which of n impressions lie in any of some stretches, each from its start to before its end."""
    flags: Bools = np.zeros(n, np.bool_)
    for start, end in stretches:
        flags[start:end] = True
    return flags


class Calm:
    """Impressions outside of some stretches, each by its number among them."""

    def __init__(self, calm: Bools) -> None:
        self.starts, ends = np.array(runs(calm), np.int64).reshape(-1, 2).T
        self.so_far: Ints = np.concatenate([[0], np.cumsum(ends - self.starts)])

    @property
    def size(self) -> int:
        """How many."""
        return int(self.so_far[-1])

    def at(self, numbers: Ints) -> Ints:
        """Their places in the log."""
        run = np.searchsorted(self.so_far, numbers, "right") - 1
        places: Ints = self.starts[run] + numbers - self.so_far[run]
        return places


def intervals(
    units: Units, threads: int = 1, tell: Tell = silent, recall: Recall = anew, *, apart: bool = True
) -> list[ChangedStretch]:
    """The intervals of a log in which clicks do not behave as in most of it, in order.

    `tell` is called on the way, and `recall` asked for what longer steps gave before.

    The longest regime is trusted. Where two others touch, each is an interval of its own, if they are to be kept
    `apart`; else both are one. An interval stands if its
    evidence does, if much of that shows next to an edge, and if its edges are sudden: steps must explain both
    together better than slower changes do.
    """
    label = _settled(regimes(units, threads, tell, recall), parts(SHORTEST, units))
    suspect: Bools = label != np.bincount(label).argmax() if label.size else np.zeros(0, np.bool_)
    if not suspect.any():
        return []
    log = without(units, suspect)
    regimes_apart = np.unique(label[suspect]).tolist()
    logs = {regime: log.knowing(outside_of(units, widened(label == regime))) for regime in regimes_apart}
    stretches = _suspect_stretches(label, suspect)
    if not apart:
        logs, stretches = {0: log}, [(start, end, 0) for start, end in runs(suspect)]
    for _ in range(2):
        tell("placing edges", 0, 0)
        stretches = _cut(logs, stretches)
    if len(runs(suspect)) >= TURNS and sum(end - start for start, end, _ in stretches) > TURN_SHARE * units.n:
        return []  # two behaviours that take turns at like length are day and night
    kept = [found for i in range(len(stretches)) if (found := _standing(logs, stretches, i)) is not None]
    return sorted([*kept, *_alike(log, kept)])


def _standing(logs: dict[int, Stretch], stretches: list[Regimes], i: int) -> ChangedStretch | None:
    """One of some stretches, if it stands."""
    start, end, regime = stretches[i]
    log, edges = logs[regime], [0, *(at for one in stretches for at in one[:2]), logs[regime].n]
    low, high = _neighbours(edges, stretches, i)
    before, after = min(REFERENCE * (end - start), start - low), min(REFERENCE * (end - start), high - end)
    room = max(REFERENCE * (end - start), log.enough)
    around = _around(log, stretches, start, end, room)
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


def _suspect_stretches(label: Small, suspect: Bools) -> list[Regimes]:
    """Where stretches of one suspect regime each begin and end."""
    return [
        (start + a, start + b, int(label[start + a]))
        for start, end in runs(suspect)
        for a, b in itertools.pairwise([0, *(np.flatnonzero(np.diff(label[start:end])) + 1).tolist(), end - start])
    ]


def without(units: Units, suspect: Bools) -> Stretch:
    """A log of which only what lies outside of suspect parts says what is usual, and what is known of items."""
    elsewhere = outside_of(units, suspect)
    looks, clicks = elsewhere.counts
    return Stretch(units, np.arange(units.n), (looks, clicks), elsewhere=elsewhere)


def outside_of(units: Units, suspect: Bools) -> Elsewhere:
    """What the parts of a log say that are not suspect, bool[n]."""

    def calm(start: int, end: int) -> Tally:
        counts = np.zeros(units.n_items, np.int64), np.zeros(units.n_items, np.int64)
        count_where(*units.between(start, end)[:4], ~suspect[start:end], *counts)
        return counts

    return Elsewhere.of(units.n, calm, within=False)


def _settled(label: Small, shortest: int) -> Small:
    """Labels without stretches too short to say anything between two others: they go with the one before."""
    label = label.copy()
    edges = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), label.size]
    for start, end in itertools.pairwise(edges):
        if start > 0 and end - start < shortest and end < label.size:
            label[start:end] = label[start - 1]
    return label


def _neighbours(edges: list[int], stretches: list[Regimes], i: int) -> tuple[int, int]:
    """How far behaviours reach that begin where an interval ends: usual ones, or another interval's."""
    start, end, _ = stretches[i]
    low, high = edges[2 * i], edges[2 * i + 3]
    if low == start and i > 0:
        low = stretches[i - 1][0]
    if high == end and i + 1 < len(stretches):
        high = stretches[i + 1][1]
    return low, high


def _around(log: Stretch, stretches: list[Regimes], start: int, end: int, room: int) -> Tally:
    """Counts of usual impressions around an interval, `room` on either side."""
    usual = ~marked(log.n, [one[:2] for one in stretches])
    so_far = np.concatenate([[0], np.cumsum(usual)])
    low = int(np.searchsorted(so_far, max(so_far[start] - room, 0), "left"))
    high = int(np.searchsorted(so_far, so_far[end] + room, "left"))
    usual[:low] = usual[max(high, end) :] = False
    return log.chosen(usual)


def _alike(log: Stretch, kept: list[ChangedStretch]) -> list[ChangedStretch]:
    """More intervals that behave as those found do, though they would not stand alone.

    An attack that is known by its rates is told from what is usual by fewer impressions than one that is not. Items
    not seen in it are taken to change as their group does.
    """
    if not kept:
        return []
    inside = marked(log.n, [(part.start, part.end) for part in kept])
    cost = math.log(log.n) + CHANGE
    gain = log.gains(0, log.n, *log.rates(log.chosen(~inside), log.chosen(inside), GROUPED))
    path = np.zeros(log.n, np.int8)
    two_states(gain, cost, log.toll, path)
    more = []
    for start, end in runs(path == 1):
        evidence = float(gain[start:end].sum()) - log.toll * (end - start) - 2.0 * cost
        if evidence >= BAR and not inside[start:end].any():
            more.append(ChangedStretch(start, end, evidence))
    return more


def _cut(logs: dict[int, Stretch], stretches: list[Regimes]) -> list[Regimes]:
    """Intervals with each edge where it explains most, judged by impressions that lie clear of it."""
    n = next(iter(logs.values())).n
    suspect = marked(n, [one[:2] for one in stretches])
    shared = {one[1] for one in stretches} & {one[0] for one in stretches}  # those between two intervals stay
    cut: list[Regimes] = []
    for start, end, regime in stretches:
        log = logs[regime]
        edges = [at if at in shared else _edge(log, suspect, start, end, at) for at in (start, end)]
        if edges[1] - edges[0] >= log.few:
            if cut and edges[0] < cut[-1][1]:
                edges[0] = cut[-1][1]
            if edges[1] - edges[0] >= log.few:
                cut.append((edges[0], edges[1], regime))
    now = marked(n, [one[:2] for one in cut])
    wide: list[Regimes] = []
    for start, end, regime in cut:
        low, high = _widened(logs[regime], now, start, end)
        wide.append((max(low, wide[-1][1]) if wide else low, high, regime))
    return wide


def _edge(log: Stretch, suspect: Bools, start: int, end: int, at: int) -> int:
    low, so_far = _tilt(log, suspect, start, end, at)
    if so_far.size == 0:
        return at
    if at == start:
        best = int(np.argmin(so_far))
        return low + tightened(so_far, best, so_far.size - 1)[0]
    return low + tightened(so_far, 0, int(np.argmax(so_far)))[1]


def _widened(log: Stretch, suspect: Bools, start: int, end: int) -> tuple[int, int]:
    """An interval with what next to it behaves otherwise, too, though not as the rest of it does.

    A learner that follows an attack soon shows other items: those of its first impressions are not seen later in it.
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
        before, after = start - _odd(log, usual, left, start, True), end + _odd(log, usual, end, right, False)
        if (before, after) == (start, end):
            break
        start, end = before, after
    return start, end


def _odd(log: Stretch, usual: Tally, low: int, high: int, at_end: bool) -> int:
    """How many parts at the end, or at the start, of a zone behave otherwise than usual."""
    if high - low < log.few:
        return 0
    gain = log.gains(low, high, *log.rates(usual, log.between(low, high))) - log.toll
    so_far = np.concatenate([[0.0], np.cumsum(gain)])
    size = high - low - int(np.argmin(so_far)) if at_end else int(np.argmax(so_far))
    if size < 2 * log.few:
        return 0
    start, end = (high - size, high) if at_end else (low, low + size)
    middle = (start + end) // 2  # both halves must show it: one list alone may show a lot
    halves = log.between(start, middle), log.between(middle, end)
    return size if min(log.weigh(half, usual)[0] for half in halves) >= BAR else 0


def edge_range(units: Units, part: ChangedStretch, suspect: Bools, at: int) -> tuple[int, int]:
    """Where an edge of an interval lies, with a chance of 95 %: its log likelihood at each part nearby."""
    log = without(units, suspect)
    low, so_far = _tilt(log, suspect, part.start, part.end, at)
    if so_far.size == 0:
        return at, at
    likely = -so_far if at == part.start else so_far
    chance = np.cumsum(np.exp(likely - likely.max()))
    edges = np.searchsorted(chance, np.array([0.025, 0.975]) * chance[-1])
    return min(at, low + int(edges[0])), max(at, low + int(edges[1]))


def _tilt(log: Stretch, suspect: Bools, start: int, end: int, at: int) -> tuple[int, Floats]:
    """A part and how the evidence for the interval adds up from it, around an edge; nothing where none is.

    The rates are those of parts clear of the edge, half an interval away.
    """
    nothing = np.zeros(0)
    half = (end - start) // 2
    if at in (0, log.n) or half < log.few:
        return at, nothing
    low, high = max(0, at - half), min(log.n, at + half)
    inside = marked(log.n, [(start, end)])
    outside = ~suspect
    outside[: max(0, start - 8 * half)] = outside[end + 8 * half :] = False
    inside[low:high] = outside[low:high] = False
    if inside.sum() < half // 2 or outside.sum() < half // 2:
        return at, nothing
    gain = log.gains(low, high, *log.rates(log.chosen(outside), log.chosen(inside))) - log.toll
    return low, np.concatenate([[0.0], np.cumsum(gain)])
