"""Assemble the findings of all boards into an `Audit`: numbers become the names, rows and times of the log."""

import datetime
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl

from ..click_logs.click_log import BoardLog, ClickLog, in_order
from .detect.clients import OddClients, SuspectClient
from .detect.findings import Finding, ItemChange, OtherChange, SuspectInterval
from .over_time import ticks, time_for_json
from .results import Attack, Audit, BoardAudit, Change, Interval, text_of
from .sentences import summary

MOST_ITEMS = 1_000  # items in JSON: those whose rate differs most
FIRST = 50  # first items of each ranking that are in JSON in any case
MOST_CLIENTS = 1_000
TICKS = 6  # of the time line
SPREAD = 1.96  # standard errors of a place's attention: 95 %
OVERLAP = 0.5  # intervals on different boards are one attack if they share this much of the shorter one


def assembled(
    log: ClickLog, parts: list[BoardLog], findings: list[Finding], everywhere: OddClients, notes: list[str]
) -> Audit:
    """The audit of a log. `everywhere`: clients that stand out over all boards together."""
    boards, flagged = [], []
    for part, finding in zip(parts, findings, strict=True):
        boards.append(_board(log, part, finding))
        flagged += _flags(log, part, finding)
    new = _new(log)
    least, most = (min(sum(finding.suspect[i] for finding in findings), new) for i in (0, 1))
    total = max(new, 1)
    empty = pl.DataFrame(schema={"row": pl.Int64, "board": pl.String, "interval": pl.Int64})
    named = {int(c) for c in everywhere.named} | {
        int(p.clients[c]) for p, f in zip(parts, findings, strict=True) for c in f.named
    }
    audit = Audit(
        files=log.files,
        columns=log.read_as,
        rows=log.rows,
        impressions=new,
        broken=log.broken,
        examples=[(b.row, b.why, b.text) for b in log.examples],
        suspect_share=(least / total, most / total),
        boards=boards,
        flagged=pl.concat(flagged) if flagged else empty,
        clients=_clients([everywhere.listed, *(board.clients for board in boards)], len(boards) > 1),
        n_clients=len(named),
        notes=notes,
    )
    audit = replace(audit, attacks=_attacks(audit.intervals))
    return replace(audit, summary=summary(audit))


def _new(log: ClickLog, part: BoardLog | None = None) -> int:
    """The number of new impressions; those of earlier audits have row numbers below 0."""
    return int(np.count_nonzero((log.row if part is None else part.of(log.row, slice(None))) >= 0))


def _flags(log: ClickLog, part: BoardLog, finding: Finding) -> list[pl.DataFrame]:
    """The rows of suspect impressions; those that are suspect only by their client have no interval (null)."""
    board = pl.lit(text_of(log.boards[part.board]), pl.String).alias("board")
    left = np.ones(finding.impressions, np.bool_)
    tables = []
    for number, suspect in enumerate(finding.intervals, 1):
        left[suspect.start : suspect.end] = False
        rows = pl.DataFrame({"row": part.of(log.row, slice(suspect.start, suspect.end))})
        rows = rows.filter(pl.col("row") >= 0)
        tables.append(rows.with_columns(board, pl.lit(number, pl.Int64).alias("interval")))
    alone = finding.odd[left[finding.odd]]
    if alone.size:
        rows = pl.DataFrame({"row": part.of(log.row, alone)})
        tables.append(rows.with_columns(board, pl.lit(None, pl.Int64).alias("interval")))
    return tables


def _clients(groups: Sequence[list[SuspectClient]], several: bool) -> list[SuspectClient]:
    """Each client once, with its highest score."""
    best: dict[Any, SuspectClient] = {}
    for group in groups:
        for one in group:
            other = best.get(one.client)
            if other is None or one.score > other.score:
                best[one.client] = one
    clients = sorted(best.values(), key=lambda one: -one.score) if several else list(best.values())
    return clients[:MOST_CLIENTS]


def _attacks(intervals: list[Interval]) -> list[Attack]:
    """Group intervals on different boards that overlap in time into attacks."""
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
    total = max(_new(log, part), 1)
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
        suspect_share=(finding.suspect[0] / total, min(finding.suspect[1] / total, 1.0)),
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
        outcomes=_outcomes(log, part, finding, names),
    )


def _outcomes(log: ClickLog, part: BoardLog, finding: Finding, names: list[Any]) -> dict[str, Any] | None:
    """Outcomes of clicks, with names and times."""
    seen = finding.outcomes
    if seen is None:
        return None
    few_outcomes = [
        {
            **asdict(one),
            "item": names[one.item],
            "start_time": _time(log, part, one.start),
            "end_time": _time(log, part, one.end - 1),
        }
        for one in seen.few_outcomes
    ]
    never = [{**asdict(one), "client": log.clients[int(part.clients[one.client])]} for one in seen.never_buy]
    return {"clicked": seen.clicked, "bought": seen.bought, "few_outcomes": few_outcomes, "never_buy": never}


def _interval(log: ClickLog, part: BoardLog, suspect: SuspectInterval, items: list[dict[str, Any]]) -> Interval:
    inside = slice(suspect.start, suspect.end)
    last = part.impressions.n - 1
    starts = sorted(part.of(log.row, np.array([min(i, last) for i in suspect.starts])).tolist())
    stops = sorted((part.of(log.last_row, np.array([max(i, 1) - 1 for i in suspect.ends])) + 1).tolist())
    return Interval(
        board=log.boards[part.board],
        start_row=max(int(part.of(log.row, inside).min()), 0),
        end_row=int(part.of(log.last_row, inside).max()) + 1,
        start_time=_time(log, part, suspect.start),
        end_time=_time(log, part, suspect.end - 1),
        start_rows=(max(starts[0], 0), max(starts[1], 0)),
        end_rows=(max(stops[0], 0), max(stops[1], 0)),
        ordered=in_order(log.row) if part.chosen is None else in_order(log.row[part.chosen]),
        impressions=suspect.end - suspect.start,
        certainty=suspect.certainty,
        inverted=suspect.inverted,
        items=items,
        clicks=suspect.clicks,
        expected_clicks=suspect.expected_clicks,
    )


def _change(log: ClickLog, part: BoardLog, other: OtherChange, items: list[dict[str, Any]]) -> Change:
    inside = slice(other.start, other.end)
    return Change(
        board=log.boards[part.board],
        start_row=max(int(part.of(log.row, inside).min()), 0),
        end_row=int(part.of(log.last_row, inside).max()) + 1,
        start_time=_time(log, part, other.start),
        end_time=_time(log, part, other.end - 1),
        impressions=other.end - other.start,
        kind=other.kind,
        level=other.level,
        length=other.length,
        usual_length=other.usual_length,
        items=items,
    )


def _time(log: ClickLog, part: BoardLog, i: int) -> Any:
    return None if log.time is None else time_for_json(log, float(part.of(log.time, slice(i, i + 1))[0]))


def _ticks(log: ClickLog, part: BoardLog) -> list[tuple[float, str]]:
    """Labels of the time line, evenly spaced by impressions."""
    n = part.impressions.n
    if log.time is None or n < 2:
        return []
    at = np.linspace(0, n - 1, TICKS).astype(np.int64)
    return ticks(log, (at / (n - 1)).tolist(), part.of(log.time, at).tolist())


def _corrected(finding: Finding) -> list[int]:
    """Items by their estimated rate at the first place, best first; those without an estimate are left out."""
    if finding.by_place.source == "none":
        return []
    rate = finding.by_place.rate
    items = np.flatnonzero(np.isfinite(rate))
    order: list[int] = items[np.argsort(-rate[items], kind="stable")].tolist()
    return order


def _attention(finding: Finding) -> list[dict[str, Any]]:
    """The attention of each place that was looked at, from the top, with a 95 % interval."""
    fit = finding.by_place
    places = []
    for p in np.flatnonzero(fit.looks).tolist():
        known = bool(np.isfinite(fit.attention[p])) and fit.source != "none"
        value = float(fit.attention[p]) if known else None
        wide = float(np.exp(SPREAD * fit.error[p])) if known else 1.0
        places.append(
            {
                "place": p + 1,
                "attention": value,
                "low": None if value is None else value / wide,
                "high": None if value is None else value * wide,
                "looks": int(fit.looks[p]),
                "clicks": int(fit.clicks[p]),
            }
        )
    return places


def _items(names: list[Any], ranks: list[dict[int, int]], finding: Finding) -> list[dict[str, Any]]:
    """The MOST_ITEMS items whose rate differs most without the suspect part, and the FIRST items of each ranking."""
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
