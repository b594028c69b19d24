"""Audit one board: suspect intervals and clients, other changes, and the ranking with and without the suspect part.

The certainty of an interval is calibrated on the log itself. Nominally, s nats of a Bayes factor arise by chance once
in e^s times. That may not hold if there are many items with few looks each, or if taste drifts all the time. So the
evidence of a stretch is divided by a scale: the mean evidence, at least the nominal 1, of impressions drawn at random
from the usual ones (as in a permutation of the log), and of usual stretches of the same length.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...core.arrays import Bools, Floats, Ints
from ...core.item_evidence import INVERTED, KNOWN, SHARE_CHANGED, inversion
from .attention import PlaceCells, counts_of, looks_of, place_cells
from .bayes_factors import EDGE, evidence_by_item
from .changed_stretches import ChangedStretch, UsualImpressions, edge_range, intervals, mask_of, with_margins
from .clients import NO_ODD_CLIENTS, OddClients, SuspectClient, impressions_of, stand_out
from .detectable import Detectable, detectable
from .explanations import Explanation, Usual, by_pairs, explain, gathered, usual_of
from .outcomes import Outcomes, RaisedItem, outcomes_of
from .place_rates import PlaceRates, place_rates
from .scales import Tally, Units, prepare_units, tally
from .stretches import BAR, OnProgress, StepCache, always_compute, ignore_progress, rates_by_item

DRAWS = 24  # random draws, and at most as many usual stretches, that calibrate evidence
LONGEST_DRAW = 2_000  # most impressions in a draw: enough to calibrate
LISTED = 50  # items of an interval
POINTS = 240  # of the time line
LEAST = 40  # least impressions per point of it, in logs with several hundred: fewer are noise
IMPRESSIONS, CLICKS, EXPECTED = range(3)  # columns of points; expected clicks are those of the usual taste
POINT_COLUMNS = 3
LEAST_CERTAINTY = 0.99  # least certainty of an interval that is called suspect
SEED = 27  # of the draws behind certainty and power: the same log gets the same result


class BoardTask(NamedTuple):
    """One board's part of a log, and options of its audit."""

    board: int
    impressions: Impressions
    client: ItemNumbers | None
    clients: list[Any]
    threads: int = 1
    items: list[Any] | None = None  # their names, for sentences
    boards: int = 1  # number of boards in the log
    named_everywhere: Ints | None = None  # numbers of clients that stand out over all boards together
    propensities: Floats | None = None  # attention of places, if given
    bought: Bools | None = None  # [n] whether each list has an outcome, if known
    reloaded: Bools | None = None  # [n] `reloads`, if clients and times are known
    on_progress: OnProgress = ignore_progress  # progress callback
    cached: StepCache = always_compute  # cache of longer steps


@dataclass(frozen=True)
class ItemChange:
    """An item with unusual clicks in an interval."""

    item: int
    looks: int
    clicks: int
    expected_clicks: float
    rate: float
    usual_rate: float
    certainty: float


@dataclass(frozen=True)
class SuspectInterval:
    """A suspect interval, impressions `start` to before `end`, with 95 % intervals of its edges."""

    start: int
    end: int
    starts: tuple[int, int]
    ends: tuple[int, int]
    certainty: float
    inverted: bool  # whether the inverted usual taste predicts its clicks better than the usual taste
    clicks: int
    expected_clicks: float
    changes: list[ItemChange]


@dataclass(frozen=True)
class OtherChange:
    """Impressions `start` to before `end`, whose clicks changed in a harmless way."""

    start: int
    end: int
    # level: all items alike; places: places or lengths of lists; items: as in a promotion; client: one alone made it;
    # chance: no larger than elsewhere in the log
    kind: str
    level: float  # factor on the odds of all items together
    length: float  # mean length of the lists
    usual_length: float
    changes: list[ItemChange]


@dataclass(frozen=True)
class Finding:
    """The audit of one board; items and clients are numbers."""

    board: int
    impressions: int
    clicks: int
    detectable: Detectable
    intervals: list[SuspectInterval]
    others: list[OtherChange]
    looks: Ints  # [K]
    rate: Floats  # [K] click rate from the whole log
    clean_rate: Floats  # [K] without suspect intervals and clients
    ranking: Ints  # items looked at, best first
    clean_ranking: Ints
    named: Ints  # numbers of the clients that stand out
    clients: list[SuspectClient]
    client_items: list[ItemChange]  # items that those clients click more or less than others
    odd: Ints  # numbers of their impressions
    honest: Floats  # [client] share of honest clients among those at least as odd; empty if clients are unknown
    points: Floats  # [point, POINT_COLUMNS] along the log
    by_place: PlaceRates  # without suspect intervals and clients
    outcomes: Outcomes | None  # of clicks, if known
    sure: int = field(default=0)  # impressions inside the inner 95 % bounds of intervals, or of those clients
    possible: int = field(default=0)  # the same with the outer bounds

    @property
    def n_clients(self) -> int:
        """The number of clients that stand out."""
        return int(self.named.size)

    @property
    def unseen(self) -> int:
        """Impressions of the largest attack, among the kinds of `detectable`, that could go undetected."""
        return self.detectable.hidden(self.impressions)

    @property
    def suspect(self) -> tuple[int, int]:
        """The number of suspect impressions: at least, and at most."""
        return self.sure, min(self.possible + self.unseen, self.impressions)


class Judged(NamedTuple):
    """An interval in which clicks changed, with its explanation."""

    part: ChangedStretch
    kind: str  # "clicks" if it is suspect; else as in `OtherChange`
    sure: float
    level: float


class BoardInspection:
    """Searches and judges the intervals of one board."""

    def __init__(self, task: BoardTask) -> None:
        self.task, self.impressions = task, task.impressions
        self.cells: PlaceCells = place_cells(task.impressions)
        self.units: Units = prepare_units(task.impressions)
        self.rng = np.random.default_rng(SEED)

    def explained(self, usual: Usual, part: ChangedStretch, without: int = -1) -> Explanation:
        """Explain the change of clicks in an interval; `without`: a client whose impressions are left out."""
        some = slice(part.start, part.end)
        chosen = np.ones(part.end - part.start, np.bool_)
        if without >= 0 and self.task.client is not None:
            chosen = self.task.client[some] != without
        return explain(usual, by_pairs(counts_of(self.impressions.part(some), self.cells, chosen)))

    def busiest(self, part: ChangedStretch) -> int:
        """The client with most clicks in an interval, -1 if clients are unknown."""
        if self.task.client is None:
            return -1
        client = self.task.client[part.start : part.end]
        clicks = self.impressions.part(slice(part.start, part.end)).clicks()
        identified = client >= 0
        return int(np.bincount(client[identified], clicks[identified]).argmax()) if identified.any() else -1

    def counts(self, chosen: Bools) -> Ints:
        """Looks and clicks of the chosen impressions, bool[n], by item and cell."""
        return counts_of(self.impressions, self.cells, chosen)

    def judged_apart(self, part: ChangedStretch, apart: list[ChangedStretch], counts: Ints) -> Judged:
        """Judge an interval against impressions outside of it and of `apart`; `counts`: outside the latter."""
        n = self.impressions.n
        suspect = with_margins(mask_of(n, [one[:2] for one in apart]))
        itself = with_margins(mask_of(n, [part[:2]])) & ~suspect
        calm = ~suspect & ~itself
        if not calm.any():
            return self.judged(part, self.counts(~calm), ~calm)
        return self.judged(part, counts - self.counts(itself), calm)

    def judged(self, part: ChangedStretch, counts: Ints, calm: Bools) -> Judged:
        """Judge an interval against the `calm` impressions, bool[n], whose counts are `counts`."""
        usual = usual_of(counts)
        explanation = self.explained(usual, part)
        kind, sure = explanation.kind(BAR), 0.0
        if kind == "clicks" and self.explained(usual, part, self.busiest(part)).left < BAR:
            kind = "client"
        if kind == "clicks":
            size = part.end - part.start
            scale = scale_of_chance(self.impressions, self.cells, counts, UsualImpressions(calm), size, self.rng)
            sure = min(
                certainty(explanation.after_places, scale, 2.0 * self.impressions.n / size),
                sure_of(part.evidence),
            )
            kind = kind if sure >= LEAST_CERTAINTY else "chance"
        return Judged(part, kind, sure, explanation.level)

    def judged_intervals(self, on_progress: OnProgress) -> tuple[list[Judged], Usual, UsualImpressions]:
        """Return the intervals in which clicks changed, each judged; usual behaviour; and the usual impressions.

        Intervals that turn out harmless count as usual when the others are judged again.
        """
        n = self.impressions.n
        threads, cached = self.task.threads, self.task.cached
        by_parts = cached("changes", lambda: intervals(self.units, threads, on_progress, cached))
        changed: list[ChangedStretch] = [part.in_impressions(self.units, n) for part in by_parts]
        everything = self.counts(np.ones(n, np.bool_))
        judged: list[Judged] = []
        for _ in range(2):
            on_progress("judging what changed", 0, 0)
            apart = [part for i, part in enumerate(changed) if not judged or judged[i].kind == "clicks"]
            if judged and len(apart) == len(changed):
                break
            counts = everything - self.counts(with_margins(mask_of(n, [part[:2] for part in apart])))
            judged = [self.judged_apart(part, apart, counts) for part in changed]
        calm = ~mask_of(n, [part[:2] for part in changed])
        calm = calm if calm.any() else ~calm
        return judged, usual_of(self.counts(calm)), UsualImpressions(calm)

    def edges(self, part: ChangedStretch, suspect: list[ChangedStretch]) -> tuple[tuple[int, int], tuple[int, int]]:
        """The 95 % intervals of the start and the end of an interval, in impressions."""
        n, span = self.impressions.n, self.units.span

        def coarse(one: ChangedStretch) -> ChangedStretch:
            return ChangedStretch(one.start // span, -(-one.end // span), one.evidence)

        flags = mask_of(self.units.n, [coarse(one)[:2] for one in suspect])
        inside = coarse(part)
        ranges = (edge_range(self.units, inside, flags, at) for at in inside[:2])
        starts, ends = ((low * span, min(high * span, n)) for low, high in ranges)
        return starts, ends


def scale_of_chance(
    impressions: Impressions,
    cells: PlaceCells,
    counts: Ints,
    free: UsualImpressions,
    size: int,
    rng: np.random.Generator,
) -> float:
    """The scale, at least 1, by which nats of evidence must be divided.

    `free`: the usual impressions, in order; `counts`: of these. Usual behaviour is learnt without the impressions
    drawn, since it overfits if most items have few looks. O(DRAWS LONGEST_DRAW) looks.
    """
    size = min(size, LONGEST_DRAW, free.size // 4)
    if size < 8:
        return 1.0
    starts = np.linspace(0, free.size - size, min(DRAWS, free.size // (2 * size))).astype(np.int64)
    stretches = [free.at(np.arange(start, start + size)) for start in starts.tolist()]
    drawn = np.concatenate(stretches)
    taken = impressions.only(drawn)
    usual = usual_of(counts - counts_of(taken, cells, np.ones(taken.n, np.bool_)))

    def nats(chosen: Ints) -> float:
        return max(
            explain(usual, gathered(*looks_of(impressions, cells, np.sort(chosen)), cells.n)).after_places, 0.0
        )

    shuffled = [nats(rng.choice(drawn, size, replace=False)) for _ in range(DRAWS)]
    along = sorted(map(nats, stretches))
    kept = along[: max(1, 9 * len(along) // 10)]  # some may be attacks that were not found
    return max(1.0, float(np.mean(shuffled)), float(np.mean(kept)))


def certainty(nats: float, scale: float, stretches: float) -> float:
    """1 minus a bound on the probability that any of this many stretches has as much evidence by chance."""
    return 1.0 - min(1.0, max(stretches, 1.0) * math.exp(-max(nats, 0.0) / scale))


def analyse(task: BoardTask, pulse: Any) -> Finding:
    """Audit one board; `pulse` is called between steps and may cancel by raising an exception."""

    def on_progress(step: str, done: int, of: int) -> None:
        pulse()
        task.on_progress(step, done, of)

    on_progress("searching", 0, 0)
    board, impressions = BoardInspection(task), task.impressions
    judged, usual, free = board.judged_intervals(on_progress)
    on_progress("judging clients", 0, 0)
    blamed = [(one.part, one.sure) for one in judged if one.kind == "clicks"]
    suspect = mask_of(impressions.n, [(part.start, part.end) for part, _ in blamed])
    people, odd = _people(task, suspect, [(part.start, part.end) for part, _ in blamed])
    on_progress("describing", 0, 0)
    clean = tally(impressions, ~suspect & ~odd)
    looks, clicks = tally(impressions)
    rate, clean_rate = rates_by_item(looks, clicks), rates_by_item(*clean)
    looked_at = np.flatnonzero(looks)
    all_blamed = [part for part, _ in blamed]
    others = [_other(board, one, clean_rate, clean[0]) for one in judged if one.kind != "clicks"]
    parts = [_describe(board, part, sure, all_blamed, clean_rate, clean[0]) for part, sure in blamed]
    return Finding(
        board=task.board,
        impressions=impressions.n,
        clicks=int(clicks.sum()),
        detectable=detectable(impressions, board.cells, usual, free, people.least, board.rng),
        intervals=parts,
        others=others,
        looks=looks,
        rate=rate,
        clean_rate=clean_rate,
        ranking=_order(rate, looked_at),
        clean_ranking=_order(clean_rate, looked_at),
        named=people.named,
        clients=people.listed,
        client_items=changes_of(tally(impressions, odd), clean_rate, clean[0]) if odd.any() else [],
        odd=np.flatnonzero(odd),
        honest=people.honest,
        points=_points(impressions, clean_rate),
        by_place=place_rates(impressions, ~suspect & ~odd, task.propensities),
        outcomes=_outcomes(task, ~suspect & ~odd, [*parts, *others]),
        sure=int((mask_of(impressions.n, [(p.starts[1], p.ends[0]) for p in parts]) | odd).sum()),
        possible=int((mask_of(impressions.n, [(p.starts[0], p.ends[1]) for p in parts]) | odd).sum()),
    )


def _people(task: BoardTask, suspect: Bools, parts: list[tuple[int, int]]) -> tuple[OddClients, Bools]:
    """Return the clients that stand out here, and which impressions are of these or of those named everywhere."""
    if task.client is None:
        return NO_ODD_CLIENTS, np.zeros(task.impressions.n, np.bool_)
    log = task.impressions, task.client, task.clients, task.items
    people: OddClients = task.cached("clients", lambda: stand_out(*log, suspect, parts, task.boards, task.reloaded))
    named = people.named if task.named_everywhere is None else np.append(people.named, task.named_everywhere)
    return people, impressions_of(named, task.client, len(task.clients))


def _outcomes(task: BoardTask, clean: Bools, stretches: Sequence[SuspectInterval | OtherChange]) -> Outcomes | None:
    """Audit the outcomes of clicks, for items that rose in particular; None if outcomes are unknown."""
    if task.bought is None:
        return None
    raised = [
        RaisedItem(change.item, part.start, part.end, change.clicks, change.expected_clicks)
        for part in stretches
        for change in part.changes
        if change.clicks > change.expected_clicks
    ]
    return outcomes_of(task.impressions, task.bought, clean, raised, task.client, len(task.clients))


def _order(rate: Floats, items: Ints) -> Ints:
    return items[np.argsort(-rate[items], kind="stable")]


def _describe(
    board: BoardInspection,
    part: ChangedStretch,
    sure: float,
    suspect: list[ChangedStretch],
    clean: Floats,
    clean_looks: Ints,
) -> SuspectInterval:
    looks, clicks = counts = tally(board.impressions.part(slice(part.start, part.end)))
    starts, ends = board.edges(part, suspect)
    known = clean_looks >= KNOWN
    inverted = inversion(looks[known], clicks[known], np.clip(clean[known], EDGE, 1.0 - EDGE))
    return SuspectInterval(
        start=part.start,
        end=part.end,
        starts=starts,
        ends=ends,
        certainty=sure,
        inverted=inverted > INVERTED,
        clicks=int(clicks.sum()),
        expected_clicks=round(float(looks @ clean), 2),
        changes=changes_of(counts, clean, clean_looks),
    )


def _other(board: BoardInspection, one: Judged, clean: Floats, clean_looks: Ints) -> OtherChange:
    part, kind, _, level = one
    stretch, n = board.impressions.part(slice(part.start, part.end)), board.impressions.n
    inside = float(stretch.lengths().mean())
    total = float(sum(int(some.lengths().sum()) for _, some in board.impressions.parts()))
    outside = (total - inside * stretch.n) / max(n - stretch.n, 1)
    changes = changes_of(tally(stretch), clean, clean_looks) if kind == "items" else []
    return OtherChange(part.start, part.end, kind, round(level, 3), round(inside, 2), round(outside, 2), changes)


def changes_of(counts: Tally, clean: Floats, clean_looks: Ints) -> list[ItemChange]:
    """Items whose clicks differ from the clean rates, the largest change first."""
    looks, clicks = counts
    evidence = np.zeros(looks.size)
    evidence_by_item(looks, clicks, np.clip(clean, EDGE, 1.0 - EDGE), clean_looks, evidence)
    odds = evidence - math.log((1.0 - SHARE_CHANGED) / SHARE_CHANGED)
    gained = clicks - looks * clean
    order = [k for k in np.argsort(-np.abs(gained), kind="stable").tolist() if odds[k] > 0.0][:LISTED]
    return [
        ItemChange(
            item=k,
            looks=int(looks[k]),
            clicks=int(clicks[k]),
            expected_clicks=round(float(looks[k] * clean[k]), 2),
            rate=float(clicks[k] / looks[k]),
            usual_rate=float(clean[k]),
            certainty=sure_of(odds[k]),
        )
        for k in order
    ]


def sure_of(odds: float) -> float:
    """The probability for log-odds."""
    return 1.0 / (1.0 + math.exp(-min(float(odds), 700.0)))


def _points(impressions: Impressions, rate: Floats) -> Floats:
    total = impressions.n
    n = min(POINTS, max(total // LEAST, 10), total)
    points = np.zeros((n, POINT_COLUMNS))
    if n == 0:
        return points
    edges = total * np.arange(n + 1) // n
    points[:, IMPRESSIONS] = np.diff(edges)
    for point, (low, high) in zip(points, itertools.pairwise(impressions.first[edges].tolist()), strict=True):
        point[CLICKS] = np.count_nonzero(impressions.bits[low:high])
        point[EXPECTED] = rate[impressions.item[low:high]].sum()
        impressions.release()
    return points
