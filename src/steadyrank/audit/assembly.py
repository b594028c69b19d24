"""From what was found on each board, in numbers, to what is told of a log: in its own names, rows and times.

A whole audit: a log is read, each of its boards searched, and what was found told in names, rows and times.
"""

import contextlib
import datetime
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl

from ..click_logs.click_log import BoardLog, ClickLog, by_board, read
from ..click_logs.files import sources_of
from ..click_logs.holidays import event, without_events
from ..core import workers
from ..core.arrays import Floats
from ..core.settings import real
from .clean import check_clean, weights, write_clean
from .detect.clients import NOBODY, OddClients, SuspectClient, stand_out
from .detect.findings import BoardTask, Finding, OtherChange, SuspectInterval, analyse
from .detect.item_changes import ItemChange
from .results import Attack, Audit, BoardAudit, Change, Interval, text_of
from .sentences import summary

FEWEST_CLICKS = 30  # clicks in a log of which anything can be said
MOST_ITEMS = 1_000  # in JSON, those whose rate differs most
FIRST = 50  # of each ranking, in JSON whatever their rate does
MOST_CLIENTS = 1_000
TICKS = 6  # of the time line
SPREAD = 1.96  # standard errors of a place's attention: 95 %
OVERLAP = 0.5  # of the shorter of two intervals on different boards that are one attack


def assembled(
    log: ClickLog, parts: list[BoardLog], findings: list[Finding], everywhere: OddClients, notes: list[str]
) -> Audit:
    """All that is told of a log. `everywhere`: clients that stand out on all boards together."""
    boards, flagged = [], []
    for part, finding in zip(parts, findings, strict=True):
        boards.append(_board(log, part, finding))
        flagged += _flags(log, part, finding)
    least, most = (sum(finding.suspect[i] for finding in findings) for i in (0, 1))
    total = max(log.impressions.n, 1)
    empty = pl.DataFrame(schema={"row": pl.Int64, "board": pl.String, "interval": pl.Int64})
    named = {int(c) for c in everywhere.named} | {
        int(p.clients[c]) for p, f in zip(parts, findings, strict=True) for c in f.named
    }
    told = Audit(
        files=log.files,
        columns=log.columns.told(),
        rows=log.rows,
        impressions=log.impressions.n,
        broken=log.broken,
        examples=[(b.row, b.why, b.text) for b in log.examples],
        suspect_share=(least / total, most / total),
        boards=boards,
        flagged=pl.concat(flagged) if flagged else empty,
        clients=_clients([everywhere.listed, *(board.clients for board in boards)], len(boards) > 1),
        n_clients=len(named),
        notes=notes,
    )
    told = replace(told, attacks=_attacks(told.intervals))
    return replace(told, summary=summary(told))


def _flags(log: ClickLog, part: BoardLog, finding: Finding) -> list[pl.DataFrame]:
    """The rows of suspect impressions; those that only their client makes suspect belong to no interval."""
    board = pl.lit(text_of(log.boards[part.board]), pl.String).alias("board")
    left = np.ones(finding.impressions, np.bool_)
    tables = []
    for number, suspect in enumerate(finding.intervals, 1):
        left[suspect.start : suspect.end] = False
        rows = pl.DataFrame({"row": log.row[part.chosen[suspect.start : suspect.end]]})
        tables.append(rows.with_columns(board, pl.lit(number, pl.Int64).alias("interval")))
    alone = finding.odd[left[finding.odd]]
    if alone.size:
        rows = pl.DataFrame({"row": log.row[part.chosen[alone]]})
        tables.append(rows.with_columns(board, pl.lit(None, pl.Int64).alias("interval")))
    return tables


def _clients(groups: Sequence[list[SuspectClient]], several: bool) -> list[SuspectClient]:
    """Each client once, by what is clearest of it."""
    best: dict[Any, SuspectClient] = {}
    for group in groups:
        for one in group:
            other = best.get(one.client)
            if other is None or one.score > other.score:
                best[one.client] = one
    found = sorted(best.values(), key=lambda one: -one.score) if several else list(best.values())
    return found[:MOST_CLIENTS]


def _attacks(intervals: list[Interval]) -> list[Attack]:
    """Intervals that lie at the same time on different boards are one attack."""
    groups: list[list[int]] = []
    for i, part in enumerate(intervals):
        for group in groups:
            if (
                all(intervals[j].board != part.board for j in group)
                and _overlap(intervals[group[0]], part) >= OVERLAP
            ):
                group.append(i)
                break
        else:
            groups.append([i])
    return [_attack(group, [intervals[i] for i in group]) for group in groups]


def _span(part: Interval) -> tuple[float, float]:
    def number(time: Any) -> float:
        return datetime.datetime.fromisoformat(time).timestamp() if isinstance(time, str) else float(time)

    if part.start_time is None:
        return float(part.start_row), float(part.end_row)
    return number(part.start_time), number(part.end_time)


def _overlap(one: Interval, two: Interval) -> float:
    (a, b), (c, d) = _span(one), _span(two)
    return (min(b, d) - max(a, c)) / max(min(b - a, d - c), 1e-9)


def _attack(group: list[int], parts: list[Interval]) -> Attack:
    first, last = min(parts, key=lambda p: _span(p)[0]), max(parts, key=lambda p: _span(p)[1])
    return Attack(
        boards=[part.board for part in parts],
        start_time=first.start_time,
        end_time=last.end_time,
        start_row=min(part.start_row for part in parts),
        end_row=max(part.end_row for part in parts),
        impressions=sum(part.impressions for part in parts),
        intervals=group,
    )


def _board(log: ClickLog, part: BoardLog, finding: Finding) -> BoardAudit:
    total = max(finding.impressions, 1)
    names = [log.items[k] for k in part.items.tolist()]
    ranks = [{int(k): i + 1 for i, k in enumerate(order)} for order in (finding.ranking, finding.clean_ranking)]

    def changed(changes: list[ItemChange]) -> list[dict[str, Any]]:
        return [
            {**asdict(one), "item": names[one.item], "rank": ranks[0][one.item], "clean_rank": ranks[1][one.item]}
            for one in changes
        ]

    return BoardAudit(
        board=log.boards[part.board],
        impressions=finding.impressions,
        clicks=finding.clicks,
        suspect_share=(finding.suspect[0] / total, finding.suspect[1] / total),
        unseen=finding.unseen,
        could_have_shown=finding.detectable,
        intervals=[_interval(log, part, suspect, changed(suspect.changes)) for suspect in finding.intervals],
        changes=[_change(log, part, other, changed(other.changes)) for other in finding.others],
        items=_items(names, ranks, finding),
        ranking=[names[k] for k in finding.ranking.tolist()],
        clean_ranking=[names[k] for k in finding.clean_ranking.tolist()],
        n_clients=finding.n_clients,
        clients=finding.clients,
        client_items=changed(finding.client_items),
        points=np.round(finding.points, 3).tolist(),
        places=[(suspect.start, suspect.end) for suspect in finding.intervals],
        ticks=_ticks(log, part),
        attention=_attention(finding),
        attention_from=finding.by_place.source,
        attention_note=finding.by_place.note,
        corrected_ranking=[names[k] for k in _corrected(finding)],
    )


def _interval(log: ClickLog, part: BoardLog, suspect: SuspectInterval, items: list[dict[str, Any]]) -> Interval:
    rows, ends = log.row[part.chosen], log.last_row[part.chosen] + 1
    inside = slice(suspect.start, suspect.end)
    last = rows.size - 1
    starts = sorted(int(rows[min(i, last)]) for i in suspect.starts)
    stops = sorted(int(ends[max(i, 1) - 1]) for i in suspect.ends)
    return Interval(
        board=log.boards[part.board],
        start_row=int(rows[inside].min()),
        end_row=int(ends[inside].max()),
        start_time=_time(log, part.chosen, suspect.start),
        end_time=_time(log, part.chosen, suspect.end - 1),
        start_rows=(starts[0], starts[1]),
        end_rows=(stops[0], stops[1]),
        ordered=bool((np.diff(rows) >= 0).all()),
        impressions=suspect.end - suspect.start,
        certainty=suspect.certainty,
        inverted=suspect.inverted,
        items=items,
        clicks=suspect.clicks,
        expected_clicks=suspect.expected_clicks,
    )


def _change(log: ClickLog, part: BoardLog, other: OtherChange, items: list[dict[str, Any]]) -> Change:
    inside = part.chosen[other.start : other.end]
    return Change(
        board=log.boards[part.board],
        start_row=int(log.row[inside].min()),
        end_row=int(log.last_row[inside].max()) + 1,
        start_time=_time(log, part.chosen, other.start),
        end_time=_time(log, part.chosen, other.end - 1),
        impressions=other.end - other.start,
        kind=other.kind,
        level=other.level,
        length=other.length,
        usual_length=other.usual_length,
        items=items,
    )


def _time(log: ClickLog, chosen: Any, i: int) -> Any:
    if log.time is None:
        return None
    value = float(log.time[chosen[i]])
    if log.dated:
        return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat()
    return int(value) if value.is_integer() else value


def _ticks(log: ClickLog, part: BoardLog) -> list[tuple[float, str]]:
    """Dates along the time line, at places that lie evenly among impressions."""
    n = part.chosen.size
    if log.time is None or n < 2:
        return []
    at = np.linspace(0, n - 1, TICKS).astype(np.int64)
    times = log.time[part.chosen[at]]
    unit = 1.0 if log.dated else next((u for u in (1.0, 1e3, 1e6) if 1e9 * u <= times[0] < 4e9 * u), 0.0)
    if unit == 0.0:
        return [(float(i / (n - 1)), f"{time:,.6g}") for i, time in zip(at, times, strict=True)]
    short = times[-1] - times[0] < 3 * 86_400 * unit
    dates = [datetime.datetime.fromtimestamp(time / unit, datetime.UTC) for time in times]
    form = "%m-%d %H:%M" if short else "%Y-%m-%d"
    return [(float(i / (n - 1)), date.strftime(form)) for i, date in zip(at, dates, strict=True)]


def _corrected(finding: Finding) -> list[int]:
    """Items by the rate that they would have at the first place, best first, as far as it is known."""
    if finding.by_place.source == "none":
        return []
    rate = finding.by_place.rate
    known = np.flatnonzero(np.isfinite(rate))
    order: list[int] = known[np.argsort(-rate[known], kind="stable")].tolist()
    return order


def _attention(finding: Finding) -> list[dict[str, Any]]:
    """Each place that was looked at, from the top."""
    told = finding.by_place
    places = []
    for p in np.flatnonzero(told.looks).tolist():
        known = bool(np.isfinite(told.attention[p])) and told.source != "none"
        value = float(told.attention[p]) if known else None
        wide = float(np.exp(SPREAD * told.error[p])) if known else 1.0
        places.append(
            {
                "place": p + 1,
                "attention": value,
                "low": None if value is None else value / wide,
                "high": None if value is None else value * wide,
                "looks": int(told.looks[p]),
                "clicks": int(told.clicks[p]),
            }
        )
    return places


def _items(names: list[Any], ranks: list[dict[int, int]], finding: Finding) -> list[dict[str, Any]]:
    """Items whose rate differs most without the suspect part, all of them if they are few; and first ones."""
    gap = np.abs(finding.rate - finding.clean_rate)[finding.ranking]
    most = finding.ranking[np.argsort(-gap, kind="stable")][:MOST_ITEMS].tolist()
    heads = (finding.ranking[:FIRST].tolist(), finding.clean_ranking[:FIRST].tolist(), _corrected(finding)[:FIRST])
    most = list(dict.fromkeys([*most, *(k for head in heads for k in head)]))
    corrected = {k: i for i, k in enumerate(_corrected(finding), 1)}
    return [
        {
            "item": names[k],
            "looks": int(finding.looks[k]),
            "rate": float(finding.rate[k]),
            "clean_rate": float(finding.clean_rate[k]),
            "rank": ranks[0][k],
            "clean_rank": ranks[1][k],
            "corrected_rate": float(finding.by_place.rate[k]) if k in corrected else None,
            "corrected_rank": corrected.get(k),
        }
        for k in most
    ]


def run(
    log: Any,
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    most_broken: float = 0.01,
    events: Sequence[tuple[str, str]] = (),
    propensities: Sequence[float] | None = None,
    clean: str | pathlib.Path | None = None,
    on: str = "local",
    progress: Callable[[str, int, int], None] | None = None,
    **columns: str | None,
) -> Audit:
    """Audit logs: Parquet, CSV or JSON, or frames of polars or pandas, oldest rows first unless there are times.

    `columns`: `items`, `item`, `clicked`, `impression`, `position`, `time`, `client`, `board`, as far as they are not
    to be guessed. `first_position`: what the top position is called, 0 or 1. `time_format`: how dates are written, as
    `strptime` has it, where that is not plain. `format`: the schema of another system, one of `reading.formats`, or
    "plain", as far as it is not to be guessed. `most_broken`: share of rows that may be unusable. `events`: days
    known to differ and what they are, such as ("2026-11-27", "sale"): what was shown then is left out.
    `propensities`: the chance that each place is looked at, from the top, the last for all below; it is estimated
    from the log otherwise. `clean`: a Parquet file to write, the log without what is suspect. `on`: where boards are
    audited, "local" or "ray". `progress(step, done, of)` is called now and then; `of` is 0 while unknown.
    """
    logs = sources_of(log)
    real("most_broken", most_broken, 0.0, 1.0)
    workers.check_place(on)
    if first_position not in (None, 0, 1):
        raise ValueError(f"first_position must be 0 or 1, not {first_position!r}")
    if clean is not None:
        check_clean(pathlib.Path(clean), logs)
    looks = None if propensities is None else _chances(propensities)
    known = [event(*one) for one in events]
    say = progress or (lambda step, done, of: None)
    told = read(
        logs,
        columns,
        first_position=first_position,
        time_format=time_format,
        format=format,
        most_broken=most_broken,
        progress=lambda rows: say("reading", rows, 0),
    )
    told, gone = without_events(told, known)
    boards = by_board(told)
    everywhere = _on_all_boards(told, boards)
    tasks = _tasks(told, boards, everywhere, looks)
    found: dict[int, Finding] = {}
    say("auditing", 0, len(tasks))
    with contextlib.closing(workers.run(analyse, tasks, on=on)) as ended:
        for task, finding in ended:
            found[task.board] = finding
            say("auditing", len(found), len(tasks))
    findings = [found[task.board] for task in tasks]
    whole = assembled(told, boards, findings, everywhere, [*_notes(told), *gone])
    if clean is None:
        return whole
    say("writing", 0, 0)
    return replace(whole, clean=write_clean(pathlib.Path(clean), told, weights(boards, findings, told)))


def _on_all_boards(log: ClickLog, boards: list[BoardLog]) -> OddClients:
    """Clients that stand out on several boards together: an item of each board is an item of its own."""
    if len(boards) < 2 or log.client is None:
        return NOBODY
    board = np.repeat(log.board.astype(np.int64), np.diff(log.impressions.first))
    pair = board * log.impressions.n_items + log.impressions.item
    numbers, item = np.unique(pair, return_inverse=True)
    shown = log.impressions._replace(item=item.astype(np.int32), n_items=numbers.size)
    names = [log.items[k] for k in (numbers % max(log.impressions.n_items, 1)).tolist()]
    return stand_out(shown, log.client, log.clients, names)


def _chances(given: Sequence[float]) -> Floats:
    """Propensities as an array."""
    if not len(given):
        raise ValueError("propensities must be chances from the first place on, such as 1,0.6,0.4: there are none")
    return np.array([real("propensities", value, 1e-6, 1.0) for value in given])


def _tasks(
    log: ClickLog, boards: list[BoardLog], everywhere: OddClients, looks: Floats | None = None
) -> list[BoardTask]:
    threads = max(1, (os.cpu_count() or 1) // len(boards))
    tasks = []
    for part in boards:
        clients = [log.clients[c] for c in part.clients.tolist()]
        items = [log.items[k] for k in part.items.tolist()]
        known = np.flatnonzero(np.isin(part.clients, everywhere.named))
        tasks.append(
            BoardTask(part.board, part.impressions, part.client, clients, threads, items, len(boards), known, looks)
        )
    return tasks


def _notes(log: ClickLog) -> list[str]:
    """What a reader should know of how a log was read, and what it cannot say because of what it holds."""
    notes = list(log.notes)
    shown = log.impressions
    clicks = int(shown.bits.sum())
    if shown.n and shown.item.size == clicks and shown.item.size == shown.n and _alone(log):
        notes.append(
            "Every row is a click, and nothing says what else was shown: how often items were seen and not clicked "
            "cannot be known, so neither can click rates, clients who never click, or a ranking by rate."
        )
    elif clicks == shown.n and shown.n and not _unclicked(log):
        notes.append(
            "Every list has a click: lists without one seem to be missing. Rates are higher than they were, and who "
            "never clicks cannot be seen."
        )
    elif clicks < FEWEST_CLICKS:
        notes.append(f"The log has {clicks:,} clicks: too few for anything but a crude attack to show.")
    if log.repeats:
        notes.append(f"{log.repeats:,} impressions show an item twice: each place of it is a look of its own.")
    if log.columns.items is None and log.columns.impression is None:
        notes.append(
            "No column says which rows were shown together, so each is an impression of its own; name it with "
            "--impression if there is one."
        )
    if len(log.boards) > 1:
        sizes = np.bincount(log.board, minlength=len(log.boards))
        if np.median(sizes) < FEWEST_CLICKS:
            notes.append(
                f"Half of the {len(log.boards):,} boards have fewer than {int(np.median(sizes)) + 1:,} impressions: "
                "nothing can be found on those alone. --board '' audits all of them as one."
            )
    return notes


def _alone(log: ClickLog) -> bool:
    """Whether all lists have one place."""
    return bool((log.impressions.lengths() == 1).all())


def _unclicked(log: ClickLog) -> bool:
    """Whether there is a list without a click."""
    return bool((log.impressions.clicks() == 0).any())
