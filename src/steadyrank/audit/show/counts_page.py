"""An audit of events without lists as one self-contained HTML page: the verdict first, then the evidence."""

from html import escape
from typing import Any

from ..counts import LIMITS, CountsAudit, CountsInterval
from ..sentences import certainty_text, percent, time_range
from .drawing import Html, WrittenNumber, axes, line, round_up, shares_figure, shell, table, visitors_figure

SHOWN = 20  # rows of a table
DRAWN = 5  # items whose shares are drawn
WHY = {
    "people": "regular senders show it, too: a release, a campaign, a front page",
    "fades": "it faded, as news and releases do",
    "client": "one sender alone made it",
    "chance": "no more than elsewhere in this log",
}


def why_not(part: CountsInterval) -> str:
    """Why a change is not suspect."""
    return f"{WHY[part.kind]}: {part.busiest}" if part.kind == "client" else WHY[part.kind]


def page(audit: CountsAudit) -> str:
    """The page as text."""
    suspect = audit.intervals or audit.n_clients
    head, mark, rest = audit.summary.partition(":")
    kind = "verdict found" if suspect else "verdict"
    verdict = f'<p class="{kind}"><strong>{escape(head)}</strong>{mark}{escape(rest)}</p>'
    parts = (_intervals, _senders, _counts, _trending, _changes, _reading)
    body = (
        f"{_figure(audit)}{_shares(audit)}{visitors_figure(audit.visitors)}{''.join(part(audit) for part in parts)}"
    )
    return shell("Audit of counts", verdict, Html(body))


def _figure(audit: CountsAudit) -> str:
    top = round_up(max(count for _, count, _ in audit.points))
    seen = [(x, count) for x, count, _ in audit.points]
    clean = [(x, count - false) for x, count, false in audit.points]
    words = f"Events over time, {audit.events:,} in all, and those that are not suspect"
    lines = line(seen, top, "var(--band)") + line(clean, top, "var(--mark)")
    return (
        f"<h2>When</h2><figure>{axes(top, audit.ticks, words)}{lines}</svg><figcaption>Events over time (orange) and "
        "those that are not suspect (blue), which lie on each other where nothing is.</figcaption></figure>"
    )


def _shares(audit: CountsAudit) -> str:
    """Shares over time of the most frequent items; the shares of all items add up to 1."""
    words = "Shares of events over time, of the items with most events"
    first = audit.shares["columns"][:-1][:DRAWN]
    return f"<h2>Shares</h2>{shares_figure(first, audit.shares['points'], words, f'{words}.')}"


def _intervals(audit: CountsAudit) -> str:
    parts = []
    for number, part in enumerate(audit.intervals, 1):
        who = ""
        if part.regular is not None:
            who = f" Regular senders show {percent(part.regular)} of what they would of a common rise."
        parts.append(
            f"<h3>{number}. {escape(time_range(part.start_time, part.end_time))}</h3>"
            f"<p>{part.events:,} events; {certainty_text(part.certainty)} sure that shares moved.{escape(who)}</p>"
            f"{_items(part)}"
        )
    return f"<h2>Suspect intervals</h2>{''.join(parts)}" if parts else ""


def _items(part: CountsInterval) -> str:
    rows = [
        (
            str(item["item"]),
            item["events"],
            WrittenNumber(f"{item['expected']:,.1f}"),
            certainty_text(item["certainty"]),
        )
        for item in part.items[:SHOWN]
    ]
    return table(["item", "events", "expected", "certainty"], rows)


def _senders(audit: CountsAudit) -> str:
    if not audit.n_clients:
        return ""
    why = {"alike": "comes for this item alone, as many others do", "time": "came in a suspect interval alone"}
    rows = [(str(one.client), one.events, str(one.item), why[one.why]) for one in audit.clients[:SHOWN]]
    return f"<h2>Senders who stand out: {audit.n_clients:,}</h2>{table(['sender', 'events', 'item', 'why'], rows)}"


def _counts(audit: CountsAudit) -> str:
    rows = [_count(row) for row in audit.clean_counts.head(SHOWN).iter_rows(named=True)]
    head = ["item", "events", "clean", "95 %", "rank", "clean rank"]
    return f"<h2>Clean counts</h2>{table(head, rows, 'Without what is suspect, the first items.')}"


def _count(row: dict[str, Any]) -> tuple[Any, ...]:
    exact = row["low"] == row["high"]
    wide = "-" if exact else f"{row['low']:,.0f} to {row['high']:,.0f}"
    clean = WrittenNumber(f"{row['clean_count']:,.0f}")
    return str(row["item"]), int(row["count"]), clean, wide, int(row["rank"]), int(row["clean_rank"])


def _trending(audit: CountsAudit) -> str:
    rows = [
        (str(row["item"]), WrittenNumber(f"{row['recent']:,.0f}"), float(row["growth"]), int(row["rank"]))
        for row in audit.trending.head(SHOWN).iter_rows(named=True)
    ]
    words = (
        f"Items by the factor that their share of events grew by at least (95 %) in the last {audit.recent_days:g} "
        "days against the time before, without what is suspect."
    )
    return f"<h2>Clean trending list</h2>{table(['item', 'events', 'growth', 'rank with everything'], rows, words)}"


def _changes(audit: CountsAudit) -> str:
    if not audit.changes:
        return ""
    rows = [
        (
            time_range(part.start_time, part.end_time),
            part.events,
            ", ".join(str(item["item"]) for item in part.items[:3]),
            why_not(part),
        )
        for part in audit.changes
    ]
    return f"<h2>Changes that need no false events</h2>{table(['when', 'events', 'items', 'why not suspect'], rows)}"


def _reading(audit: CountsAudit) -> str:
    read = "".join(f"<li>{escape(what)}: {escape(name)}</li>" for what, name in audit.columns.items())
    notes = "".join(f"<li>{escape(note)}</li>" for note in audit.notes)
    broken = f"<li>{audit.broken:,} of {audit.rows:,} rows could not be used</li>" if audit.broken else ""
    limits = "".join(f"<li>{escape(limit)}</li>" for limit in LIMITS)
    return f"<h2>How it was read</h2><ul>{read}{broken}{notes}</ul><h2>What cannot be told</h2><ul>{limits}</ul>"
