"""An audit as one self-contained HTML page: the verdict first, then the evidence."""

from html import escape
from typing import Any

from ..cohorts import CohortsAudit
from ..results import LIMITS, Audit, BoardAudit, Interval
from ..sentences import (
    certainty_text,
    describe_change,
    describe_clicks,
    describe_outcomes,
    describe_power,
    percent,
    place,
)
from .drawing import Html, WrittenNumber, shares_figure, shell, table, timeline, visitors_figure

SHOWN_ITEMS = 20
SHOWN_BOARDS = 50


def page(audit: Audit) -> str:
    """The page as text."""
    boards = sorted(audit.boards, key=lambda board: (-board.suspect_share[0], -board.suspect_share[1]))
    named = [board for board in boards if board.intervals or board.clients or board.changes] or boards[:1]
    several = len(boards) > 1
    parts = "".join(_board(board, several) for board in named[:SHOWN_BOARDS])
    overview = _boards(boards) if several else ""
    people = _clients(audit.clients, audit.n_clients, "h2") if several else ""
    picture = "" if several else f"<h2>When</h2>{_figure(boards[0])}" if boards else ""
    left = len(named) - SHOWN_BOARDS
    more = f'<p class="soft">{left} more boards with findings: see the JSON output.</p>' if left > 0 else ""
    shared = "".join(_cohorts(role, one) for role, one in audit.cohorts.items())
    head = f"{picture}{visitors_figure(audit.visitors)}{_next(audit)}{overview}{people}{shared}"
    body = f"{head}{parts}{more}{_reading(audit)}{_limits(audit)}"
    return shell("Audit of clicks", _verdict(audit), Html(body))


def _verdict(audit: Audit) -> str:
    suspect = audit.intervals or audit.n_clients or any(one.named for one in audit.cohorts.values())
    head, mark, rest = audit.summary.partition(":" if suspect else ";")
    kind = "verdict found" if suspect else "verdict"
    return f'<p class="{kind}"><strong>{escape(head)}</strong>{mark}{escape(rest)}</p>'


def _next(audit: Audit) -> str:
    """Recommended next steps, and notes."""
    steps = []
    if audit.intervals:
        steps.append(
            "Look at the rows of each interval in your own systems: <code>--parquet FOLDER</code> lists them. Was "
            "there a release, a campaign or an outage? <code>--event DATE NAME</code> leaves known days out."
        )
        steps.append(
            "Compare the two rankings below before you learn from this log again; <code>--clean FILE</code> writes "
            "it without what is suspect."
        )
    if audit.n_clients:
        steps.append("Check the clients below by what clicks do not show: addresses, agents, payments.")
    if any(one.named for one in audit.cohorts.values()):
        steps.append("Check the clients of the groups below: what they share, and what clicks do not show.")
    if audit.changes:
        steps.append("Some changes need no false clicks; they are listed with each board and not counted as suspect.")
    if not steps:
        steps.append(f"Nothing, unless an attack smaller than this would matter: {escape(describe_power(audit))}")
    notes = "".join(f"<li>{escape(note)}</li>" for note in audit.notes)
    return f"<h2>What to do next</h2><ul>{''.join(f'<li>{step}</li>' for step in steps)}{notes}</ul>"


def _cohorts(role: str, seen: CohortsAudit) -> str:
    """One kind of cohorts: shares over time, and cohorts that stand out."""
    name = role.replace("_", " ")
    shares = seen.shares
    counts = ", ".join(f"{one}: {n:,}" for one, n in zip(shares["columns"], shares["counts"], strict=True))
    words = f"Shares of impressions by {name} over time"
    figure = shares_figure(shares["columns"], shares["points"], words, f"{words}. {counts}.")
    rows = [
        (str(one.value), one.clients, one.reason, WrittenNumber(f"{one.score:,.1f}"), one.impressions, one.clicks)
        for one in seen.named[:SHOWN_ITEMS]
    ]
    note = (
        f"Of {seen.judged:,} judged, {len(seen.named):,} stand out: their clients, each too rare to be judged alone, "
        "together click unlike all others. The first impressions of each client are counted. Not counted as suspect."
    )
    found = table([name, "clients", "why", "score", "impressions", "clicks"], rows, note) if rows else ""
    return f"<h2>By {escape(name)}</h2>{figure}{found}{f'<p>{escape(seen.note)}</p>' if seen.note else ''}"


def _boards(boards: list[BoardAudit]) -> str:
    rows = [
        (
            str(b.board),
            b.impressions,
            b.clicks,
            len(b.intervals),
            b.n_clients,
            " to ".join(map(percent, b.suspect_share)),
        )
        for b in boards
    ]
    head = ["board", "impressions", "clicks", "intervals", "clients", "suspect"]
    note = f"The {SHOWN_BOARDS} most suspect of {len(boards):,} boards." if len(boards) > SHOWN_BOARDS else ""
    return f"<h2>Boards</h2>{table(head, rows[:SHOWN_BOARDS], note)}"


def _figure(board: BoardAudit) -> str:
    return (
        f"<figure>{timeline(board)}<figcaption>Clicks an impression along the log (line), and what users with the "
        "usual taste would have clicked of the same lists (dotted). Suspect intervals are hatched.</figcaption>"
        "</figure>"
    )


def _board(board: BoardAudit, several: bool) -> str:
    title = f"<h2>Board {escape(str(board.board))}</h2>{_figure(board)}" if several else "<h2>The evidence</h2>"
    parts = "".join(_interval(part, i) for i, part in enumerate(board.intervals, 1))
    people = _clients(board.clients, board.n_clients, "h3")
    if board.client_items:
        people += f"<h3>What those clients click more, or less, than others</h3>{_item_table(board.client_items)}"
    return f"{title}{parts}{people}{_outcomes(board)}{_changes(board)}{_rankings(board)}"


def _outcomes(board: BoardAudit) -> str:
    if board.outcomes is None:
        return ""
    seen = describe_outcomes(board.outcomes)
    words = f"{board.outcomes['bought']:,} of {board.outcomes['clicked']:,} lists with a click were bought."
    lines = "".join(f"<li>{escape(line)}</li>" for line in seen[:SHOWN_ITEMS])
    more = f"<li>and {len(seen) - SHOWN_ITEMS:,} more: see the JSON output</li>" if len(seen) > SHOWN_ITEMS else ""
    rest = f"<ul>{lines}{more}</ul>" if seen else "<p>No item and no client stands out by it.</p>"
    return f"<h3>Outcomes of clicks</h3><p>{words}</p>{rest}"


def _edges(part: Interval) -> str:
    if not part.ordered:
        return "The log is not in order of time, so its rows lie apart: --parquet lists them."
    return (
        f"It begins between rows {part.start_rows[0]:,} and {part.start_rows[1]:,} and ends between rows "
        f"{part.end_rows[0] - 1:,} and {part.end_rows[1] - 1:,} (95 %)."
    )


def _item_table(items: list[dict[str, Any]]) -> str:
    up, down = '<span class="up">gained</span>', '<span class="down">lost</span>'
    rows = [
        (
            str(item["item"]),
            Html(up if item["clicks"] > item["expected_clicks"] else down),
            item["looks"],
            item["clicks"],
            WrittenNumber(f"{item['expected_clicks']:,.1f}"),
            item["rate"],
            item["usual_rate"],
            item["rank"],
            item["clean_rank"],
            certainty_text(item["certainty"]),
        )
        for item in items[:SHOWN_ITEMS]
    ]
    head = ["item", "", "looks", "clicks", "expected", "click rate", "usual rate", "rank", "clean rank", "certainty"]
    left = len(items) - SHOWN_ITEMS
    more = f'<p class="soft">{left} more items: see the JSON output.</p>' if left > 0 else ""
    return table(head, rows) + more


def _interval(part: Interval, number: int) -> str:
    items = _item_table(part.items) if part.items else ""
    many = '<p class="soft">No single item stands out: many changed a little.</p>' if not part.items else ""
    inverted = "<p>Clicks look inverted: on what is rarely clicked, and not on what is.</p>" if part.inverted else ""
    return (
        f"<h3>Interval {number}: {escape(place(part))}</h3>"
        f"<p>{escape(describe_clicks(part))}. Certainty {certainty_text(part.certainty)}. {_edges(part)}</p>"
        f"{inverted}{items}{many}"
    )


def _rankings(board: BoardAudit) -> str:
    """Items by click rate: without the suspect part, with everything, and as estimated at the first place."""
    about = {item["item"]: item for item in board.items}
    place = {item: i for i, item in enumerate(board.ranking, 1)}
    same, corrected = board.ranking == board.clean_ranking, bool(board.corrected_ranking)
    head = ["", "item" if same else "without the suspect part", "click rate"]
    head += ["rate at first place", "rank by it"] if corrected else []
    head += [] if same else ["", "with everything", "click rate"]
    rows = []
    for i, item in enumerate(board.clean_ranking[:SHOWN_ITEMS], 1):
        facts, other = about.get(item, {}), board.ranking[i - 1]
        row = [i, str(item), facts.get("clean_rate")]
        row += [facts.get("corrected_rate"), facts.get("corrected_rank")] if corrected else []
        row += [] if same else [_moved(place[item] - i), str(other), about.get(other, {}).get("rate")]
        rows.append(row)
    title = "The ranking" if same else "The ranking, without and with the suspect part"
    return f"<h3>{title}</h3>{table(head, rows)}{_attention(board)}"


def _moved(by: int) -> Html:
    """By how many ranks an item moves up."""
    words = f"up {by}" if by > 0 else f"down {-by}" if by else ""
    return Html(f'<span class="{"up" if by > 0 else "down"}">{words}</span>')


def _attention(board: BoardAudit) -> str:
    """How far down people look."""
    note = f"<p>{escape(board.attention_note)}</p>" if board.attention_note else ""
    if board.attention_from == "none":
        return f'<h3>How far down people look</h3><p class="soft">{escape(board.attention_note)}</p>'
    rows = []
    for one in board.attention:
        known = one["attention"] is not None
        sure = WrittenNumber(f"{one['low']:.3f} to {one['high']:.3f}" if known else "-")
        rows.append((one["place"], one["attention"], sure, one["looks"], one["clicks"]))
    whence = "as given" if board.attention_from == "given" else "by items that were shown at several places"
    words = f"The chance that a place is looked at, against the first, {whence}; lists down to their first click."
    head = ["place", "attention", "95 %", "looks", "clicks"]
    return f"<h3>How far down people look</h3>{note}{table(head, rows, words)}"


def _clients(clients: list[Any], count: int, level: str) -> str:
    if not clients:
        return ""
    rows = [
        (
            str(c.client),
            c.reason or {"clicks": "clicks unlike others", "time": "clicks as the attack does"}[c.why],
            WrittenNumber(f"{c.score:,.1f}"),
            c.impressions,
            c.suspect_impressions,
            c.clicks,
            WrittenNumber(f"{c.expected_clicks:,.1f}"),
        )
        for c in clients[:SHOWN_ITEMS]
    ]
    head = ["client", "why", "score", "impressions", "suspect", "clicks", "expected"]
    several = (
        f"{count:,} clients stand out; the clearest first. The score is minus the log chance of an honest client."
    )
    note = several if count > 1 else "1 client stands out."
    return f"<{level}>Clients that stand out</{level}>{table(head, rows, note)}"


def _changes(board: BoardAudit) -> str:
    if not board.changes:
        return ""
    rows = [(place(change), change.impressions, describe_change(change)) for change in board.changes]
    return f"<h3>Other changes, not suspect</h3>{table(['where', 'impressions', 'what was seen'], rows)}"


def _reading(audit: Audit) -> str:
    columns = table(["what", "column"], list(audit.columns.items()))
    broken = ""
    if audit.broken:
        rows = [(row, why, text) for row, why, text in audit.examples]
        broken = (
            f"<p>{audit.broken:,} rows could not be used, for instance:</p>{table(['row', 'why', 'begins'], rows)}"
        )
    files = ", ".join(escape(name) for name in audit.files)
    return f"<h2>How the log was read</h2><p>{files}: {audit.rows:,} rows, counted from 0.</p>{columns}{broken}"


def _limits(audit: Audit) -> str:
    rows = []
    for board in audit.boards[:SHOWN_BOARDS]:
        smallest = board.could_have_shown
        sizes = (
            "none" if size is None else f"{size:,}" for size in (smallest.promote, smallest.demote, smallest.silent)
        )
        rows.append((str(board.board or ""), board.impressions, *map(WrittenNumber, sizes), smallest.client or "-"))
    head = [
        "board",
        "impressions",
        "three items promoted",
        "three best demoted",
        "nothing clicked",
        "client silent for",
    ]
    note = "Impressions of the smallest attack of each kind that would have been found with a chance of 80 %."
    lines = "".join(f"<li>{escape(text)}</li>" for text in LIMITS)
    return f"<h2>What this cannot tell</h2>{table(head, rows, note)}<ul>{lines}</ul>"
