"""Audit events without lists (client, item, time): shares of items over time, who moved them, and clean counts."""

import contextlib
import json
import math
import os
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from ..click_logs.agents import Visitors, check_package, without_declared
from ..click_logs.checkpoint import Checkpoint
from ..click_logs.click_log import ClickLog, read
from ..click_logs.files import sources_of
from ..click_logs.holidays import holiday, time_unit, without_holidays
from ..core.arrays import Bools, Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.files import replacing
from ..core.settings import real
from .detect.attention import sums
from .detect.senders import AlikeSenders, alike, visits_of
from .detect.shares import MovedStretch, SharesOverTime
from .detect.stretches import OnProgress, ignore_progress
from .over_time import over_time, ticks, time_for_json
from .sentences import percent, time_range
from .visitors import count_visitors

RECENT = 7.0  # days that the trending list covers
SPREAD = 1.96  # standard errors: 95 %
RISING = 10.0  # least clean recent events of a trending item
FIRST = 1_000  # items in JSON
LISTED = 1_000  # senders in JSON
POINTS = 120  # of the time line
TICKS = 6
SHARED = 10  # items whose shares over time are reported
LIMITS = (
    "Senders who act as others do, each rarely, cannot be distinguished from others.",
    "A rise that the regular senders show is called honest: accounts that were taken over look like their owners.",
    "A rise by people who come for it alone, and that stops at once, looks like an attack; one that an attacker lets "
    "fade slowly looks like news.",
    "The longest behaviour is taken for the true one: what was false all the time is not seen in shares.",
)


@dataclass(frozen=True)
class CountsInterval:
    """A stretch in which shares of items moved: rows `start_row` to before `end_row` if rows are in order of time."""

    start_row: int
    end_row: int
    start_time: Any
    end_time: Any
    events: int
    # suspect; or harmless: people (regular senders show it too), fades (as news does), client (one made it), chance
    kind: str
    certainty: float  # that shares moved, from 0 to 1
    items: list[dict[str, Any]]  # that gained or lost, the largest change first
    regular: float | None  # the rise among regular senders, 1 for as much as in a rise common to all
    busiest: Any = None  # the sender with most events on items that rose, if senders are known


@dataclass(frozen=True)
class SuspectSender:
    """A sender whose events are removed from the clean counts."""

    client: Any
    events: int
    item: Any  # that it came for
    why: str  # alike: one of many with this item only; time: only in a suspect interval, for an item that rose in it
    certainty: float


@dataclass(frozen=True)
class CountsAudit:
    """The audit of a log of events."""

    files: list[str]
    columns: dict[str, str]
    rows: int
    events: int
    broken: int
    examples: list[tuple[int, str, str]]
    suspect_share: tuple[float, float]  # of events: 95 % interval
    intervals: list[CountsInterval]  # suspect ones
    changes: list[CountsInterval]  # those with a harmless explanation
    clients: list[SuspectSender]
    n_clients: int
    clean_counts: pl.DataFrame  # item, count, clean_count, low, high (95 %), rank, clean_rank
    trending: pl.DataFrame  # without suspect events: item, recent, growth (lower 95 % bound), rank among all events
    recent_days: float
    flagged: pl.DataFrame  # rows of suspect events
    points: list[list[float]] = field(default_factory=list)  # over time: position from 0 to 1, events, suspect events
    ticks: list[tuple[float, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summary: str = ""
    visitors: dict[str, Any] | None = None  # by kind, if user agents are known
    shares: dict[str, Any] = field(default_factory=dict)  # events over time, by the most frequent items: `over_time`
    checkpoint: Any = None  # of `keep`; the caller removes it

    def __repr__(self) -> str:
        return f"<CountsAudit of {self.events:,} events: {self.summary[:500]}>"

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary, for JSON."""
        return {
            "summary": self.summary,
            "suspect_share": self.suspect_share,
            "intervals": list(map(asdict, self.intervals)),
            "changes": list(map(asdict, self.changes)),
            "clients": list(map(asdict, self.clients[:LISTED])),
            "n_clients": self.n_clients,
            "clean_counts": self.clean_counts.head(FIRST).to_dicts(),
            "trending": self.trending.head(FIRST).to_dicts(),
            "recent_days": self.recent_days,
            "shares": self.shares,
            "files": self.files,
            "columns": self.columns,
            "rows": self.rows,
            "events": self.events,
            "broken_rows": self.broken,
            "broken_examples": self.examples,
            "notes": self.notes,
            "visitors": self.visitors,
            "cannot_tell": LIMITS,
        }

    def to_json(self) -> str:
        """`as_dict` as JSON text."""
        return json.dumps(self.as_dict(), allow_nan=False, default=str)

    def write_parquet(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write the clean counts and the rows of suspect events as two tables."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "counts.parquet", folder / "events.parquet"]
        for path, frame in zip(paths, (self.clean_counts, self.flagged), strict=True):
            with replacing(path) as file:
                frame.write_parquet(file)
        return paths


@announcing("the audit")
def run(
    log: Any,
    *,
    time_format: str | None = None,
    most_broken: float = 0.01,
    events: Sequence[tuple[str, str]] = (),
    recent: float = RECENT,
    keep: str | pathlib.Path | None = None,
    progress: OnProgress | None = None,
    **columns: str | None,
) -> CountsAudit:
    """Audit events without lists, such as downloads, votes or plays: files or data frames, as `audit` takes them.

    `columns`: `item`, `time` and `client` (if known), unless they are to be guessed, and `user_agent`, by which
    declared crawlers and AI agents are removed first. `recent`: days that the trending list covers. `keep`: as in
    `audit`, for what is read. The other options are those of `audit`. Cost: O(events log events), and a change point
    search over at most 2,048 parts of the log.
    """
    logs = sources_of(log)
    if columns.get("user_agent"):
        check_package()
    real("most_broken", most_broken, 0.0, 1.0)
    real("recent", recent, 0.0, 36_500.0)
    holidays = [holiday(*one) for one in events]
    report_progress = progress or ignore_progress
    read_as = {"columns": columns, "time": time_format, "broken": most_broken, "events": events, "recent": recent}
    checkpoint = None if keep is None else Checkpoint(pathlib.Path(keep), logs, {"counts": True, **read_as})
    with contextlib.closing(checkpoint) if checkpoint is not None else contextlib.nullcontext():
        read_log = read(
            logs,
            columns,
            time_format=time_format,
            most_broken=most_broken,
            events=True,
            checkpoint=checkpoint,
            progress=lambda rows, of: report_progress("reading", rows, of),
        )
        read_log, left_out = without_holidays(read_log, holidays)
        read_log, visitors = without_declared(read_log)
        return replace(_Counts(read_log).result(recent, left_out, visitors, report_progress), checkpoint=checkpoint)


@dataclass(frozen=True)
class _Estimate:
    """The estimated number of genuine events of an item in a suspect interval."""

    item: int
    events: float
    false: float  # estimated false events of the item
    usual: int  # events of the item outside suspect intervals, from which this is estimated
    size: int  # events of all items in the interval


class _Counts:
    """The audit of a log of events, step by step."""

    def __init__(self, log: ClickLog) -> None:
        assert log.time is not None
        self.log, self.time, self.n = log, log.time, log.impressions.n
        self.item, self.client = log.impressions.item, log.client
        self.k = len(log.items)
        self.unit = time_unit(log) or 1.0
        self.shares = SharesOverTime(self.item, self.k, self.client, self.time)
        self.visit: Bools = np.ones(self.n, np.bool_)  # which events begin a visit; all if senders are unknown
        if self.client is not None:
            self.visit = visits_of(self.item, self.client, self.time, self.unit)

    def result(
        self, recent: float, notes: list[str], visitors: Visitors | None, on_progress: OnProgress = ignore_progress
    ) -> CountsAudit:
        moved = self.shares.moved(os.cpu_count() or 1, on_progress)
        on_progress("counting", 0, 0)
        suspect = [one for one in moved if one.kind == "suspect"]
        groups = self._alike()
        senders = self._senders(groups, suspect)
        weight, estimated = self._weights(suspect, senders)
        counts = self._counts(weight, estimated)
        days, trending = self._trending(recent, weight)
        marks = np.linspace(0.0, 1.0, TICKS)
        times = self.time[0] + marks * (self.time[-1] - self.time[0])
        audit = CountsAudit(
            files=self.log.files,
            columns=self.log.read_as,
            rows=self.log.rows,
            events=self.n,
            broken=self.log.broken,
            examples=[(b.row, b.why, b.text) for b in self.log.examples],
            suspect_share=self._suspect_share(weight, estimated),
            intervals=[self._interval(one) for one in suspect],
            changes=[self._interval(one) for one in moved if one.kind != "suspect"],
            clients=senders,
            n_clients=len(senders),
            clean_counts=counts,
            trending=trending,
            recent_days=days,
            flagged=pl.DataFrame({"row": self.log.row[weight < 1.0], "weight": weight[weight < 1.0]}),
            points=self._points(weight),
            ticks=ticks(self.log, marks.tolist(), times.tolist()),
            notes=[*self._notes(), *notes],
            visitors=None if visitors is None else count_visitors(visitors, self.log, weight < 1.0),
            shares=over_time(self.log, self.log.items, self.item, SHARED),
        )
        return CountsAudit(**{**vars(audit), "summary": summary(audit)})

    def _alike(self) -> list[AlikeSenders]:
        if self.client is None:
            return []
        visit = self.visit & (self.client >= 0)
        return alike(self.item[visit], self.client[visit], self.k, len(self.log.clients))

    def _senders(self, groups: list[AlikeSenders], suspect: list[MovedStretch]) -> list[SuspectSender]:
        """Senders who act alike, and those who only came in a suspect interval, repeatedly, for an item that rose."""
        if self.client is None:
            return []
        events = np.bincount(self.client[self.client >= 0], minlength=len(self.log.clients))
        named: dict[int, SuspectSender] = {}
        for group in groups:
            for c in group.senders.tolist():
                name = self.log.clients[c]
                named[c] = SuspectSender(name, int(events[c]), self.log.items[group.item], "alike", group.certainty)
        for one in suspect:
            inside = slice(one.start, one.end)
            client, item, visit = self.client[inside], self.item[inside], self.visit[inside]
            for k in raised(one):
                mine = (item == k) & (client >= 0)
                there = np.bincount(client[mine], minlength=events.size)
                again = np.bincount(client[mine & visit], minlength=events.size) >= 2
                for c in np.flatnonzero(again & (there == events)).tolist():
                    name = self.log.clients[c]
                    named.setdefault(c, SuspectSender(name, int(events[c]), self.log.items[k], "time", one.certainty))
        return sorted(named.values(), key=lambda sender: -sender.events)

    def _weights(self, suspect: list[MovedStretch], senders: list[SuspectSender]) -> tuple[Floats, list[_Estimate]]:
        """Return the probability that each event is genuine, and the estimates behind it.

        It is 0 for events of named senders. In a suspect interval, events of an item that rose are weighted so that
        they add up to the item's usual number relative to the other items.
        """
        weight: Floats = np.ones(self.n)
        if senders and self.client is not None:
            number = {name: c for c, name in enumerate(self.log.clients)}
            out: Bools = np.zeros(len(self.log.clients) + 1, np.bool_)
            out[[number[sender.client] for sender in senders]] = True
            weight[out[self.client]] = 0.0
        calm: Bools = np.ones(self.n, np.bool_)
        for one in suspect:
            calm[one.start : one.end] = False
        usual = np.bincount(self.item[calm & (weight > 0.0)], minlength=self.k)
        estimated = []
        for one in suspect:
            up = np.array(raised(one), np.int64)
            inside = slice(one.start, one.end)
            item, mine = self.item[inside], weight[inside]
            rest = float(mine[~np.isin(item, up)].sum())
            others = float(usual.sum() - usual[up].sum())
            for k in up.tolist():
                due = (usual[k] + 0.5) / max(others, 1.0) * rest
                there = item == k
                mine[there] = min(1.0, due / max(int(there.sum()), 1))
                estimated.append(_Estimate(k, due, int(there.sum()) - due, int(usual[k]), one.end - one.start))
        return weight, estimated

    def _counts(self, weight: Floats, estimated: list[_Estimate]) -> pl.DataFrame:
        count = np.bincount(self.item, minlength=self.k)
        clean = np.bincount(self.item, weight, self.k)
        wide = SPREAD * np.sqrt(self._variances(estimated))
        frame = pl.DataFrame(
            {
                "item": self.log.items,
                "count": count,
                "clean_count": np.round(clean, 1),
                "low": np.round(np.maximum(clean - wide, 0.0), 1),
                "high": np.round(np.minimum(clean + wide, count), 1),
            }
        )
        ranks = (pl.col(name).rank("ordinal", descending=True).alias(to) for name, to in _RANKS.items())
        return frame.with_columns(ranks).sort("clean_rank")

    def _variances(self, estimated: list[_Estimate]) -> Floats:
        """The variance of each item's clean count from estimates in suspect intervals."""
        error = np.zeros(self.k)
        for one in estimated:
            error[one.item] += one.events * self._dispersion(one.size) + one.events**2 / (one.usual + 1.0)
            error[one.item] += (
                2.0 * (one.false * self.shares.units.span / one.size) ** 2 / 12.0
            )  # edges: uniform within a part
        return error

    def _suspect_share(self, weight: Floats, estimated: list[_Estimate]) -> tuple[float, float]:
        """The 95 % interval of the share of false events; errors of the estimates are taken as independent."""
        false, named = float((1.0 - weight).sum()), float(np.count_nonzero(weight == 0.0))
        wide = SPREAD * math.sqrt(float(self._variances(estimated).sum()))
        return max(false - wide, named, 0.0) / self.n, min(false + wide, float(self.n)) / self.n

    def _dispersion(self, size: int) -> float:
        """Overdispersion of item counts in stretches of `size` events, against independent events; at least 1."""
        table = self.shares.table
        parts = max(1, size // self.shares.units.span)
        n = table.shape[0] // parts
        if n < 2:
            return 1.0
        counts = table[: n * parts].reshape(n, parts, -1).sum(axis=1)
        due = counts.sum(axis=1, keepdims=True) * (counts.sum(axis=0) / counts.sum())
        ratio = np.sort(((counts - due) ** 2).sum(axis=0) / np.maximum(due.sum(axis=0), 1e-9))
        return max(1.0, float(ratio[: max(1, 9 * ratio.size // 10)].mean()) * n / (n - 1))

    def _trending(self, recent: float, weight: Floats) -> tuple[float, pl.DataFrame]:
        """Return the number of recent days, and items by the lower 95 % bound of their growth in them."""
        day = 86_400.0 * self.unit
        days = min(recent, float(self.time[-1] - self.time[0]) / day / 2.0)
        late = int(np.searchsorted(self.time, self.time[-1] - days * day))
        spread = self._dispersion(max(self.n - late, 1))

        def growth(of: Floats) -> tuple[Floats, Floats]:
            before, now = (sums(self.item[s], of[s], self.k) for s in (slice(late), slice(late, None)))
            ratio = np.log((now + 0.5) / (now.sum() + 1.0)) - np.log((before + 0.5) / (before.sum() + 1.0))
            error = np.sqrt(spread * (1.0 / (now + 0.5) + 1.0 / (before + 0.5)))
            return now, np.exp(ratio - SPREAD * error)

        now, grown = growth(weight)
        _, plain = growth(np.ones(self.n))
        everything: Ints = np.empty(self.k, np.int64)
        everything[np.argsort(-plain, kind="stable")] = np.arange(1, self.k + 1)
        frame = pl.DataFrame(
            {"item": self.log.items, "recent": np.round(now, 1), "growth": np.round(grown, 3), "rank": everything}
        )
        return round(days, 3), frame.filter(pl.col("recent") >= RISING).sort("growth", descending=True)

    def _interval(self, one: MovedStretch) -> CountsInterval:
        rows = self.log.row[one.start : one.end]
        items = [{**asdict(item), "item": self.log.items[item.item]} for item in one.items]
        start, end = (time_for_json(self.log, float(self.time[at])) for at in (one.start, one.end - 1))
        size = one.end - one.start
        bounds = int(rows.min()), int(rows.max()) + 1
        busiest = None if one.busiest < 0 else self.log.clients[one.busiest]
        return CountsInterval(*bounds, start, end, size, one.kind, one.certainty, items, one.regular, busiest)

    def _points(self, weight: Floats) -> list[list[float]]:
        edges = np.linspace(self.time[0], self.time[-1], POINTS + 1)
        where = np.clip(np.searchsorted(edges, self.time, "right") - 1, 0, POINTS - 1)
        counts, true = np.bincount(where, minlength=POINTS), np.bincount(where, weight, POINTS)
        middle = (np.arange(POINTS) + 0.5) / POINTS
        points: list[list[float]] = np.column_stack([middle, counts, np.round(counts - true, 3)]).tolist()
        return points

    def _notes(self) -> list[str]:
        notes = list(self.log.notes)
        if self.client is None:
            notes.append(
                "No column says who: a rise that begins and ends suddenly is suspect, whoever made it; name a column "
                "with --client if there is one."
            )
        return notes


_RANKS = {"count": "rank", "clean_count": "clean_rank"}


def raised(one: MovedStretch) -> list[int]:
    """The items that rose in a stretch."""
    return [item.item for item in one.items if item.events > item.expected]


def summary(audit: CountsAudit) -> str:
    """The verdict in a sentence."""
    if not audit.intervals and not audit.n_clients:
        return f"Nothing suspect found in {audit.events:,} events."
    parts = []
    if audit.intervals:
        first = max(audit.intervals, key=lambda one: one.events)
        many = f"{len(audit.intervals):,} times, the longest " if len(audit.intervals) > 1 else ""
        up = [item for item in first.items if item["events"] > item["expected"]]
        named = ", ".join(f"{i['item']} ({i['events']:,} where {i['expected']:,.1f} were expected)" for i in up[:3])
        when = time_range(first.start_time, first.end_time)
        parts.append(f"shares suddenly moved {many}{when}: more of {named}")
    if audit.n_clients:
        parts.append("1 sender stands out" if audit.n_clients == 1 else f"{audit.n_clients:,} senders stand out")
    low, high = map(percent, audit.suspect_share)
    share = low if low == high else f"{low} to {high}"
    return f"{share} of {audit.events:,} events are suspect: {'; '.join(parts)}."
