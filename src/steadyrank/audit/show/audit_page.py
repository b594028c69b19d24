"""An audit as one self-contained HTML page."""

import datetime
from html import escape
from typing import Any

from ..verdicts import LIMITS, Audit, BoardAudit, Interval
from .drawing import timeline
from .html import Html, WrittenNumber, percent, shell, table

SHOWN_ITEMS = 20
SHOWN_BOARDS = 50


def page(audit: Audit) -> str:
    """The page as text."""
    boards = sorted(audit.boards, key=lambda board: -board.suspect_share[1])
    named = [board for board in boards if board.intervals or board.clients] or boards[:1]
    parts = "".join(_board(board, len(boards) > 1) for board in named[:SHOWN_BOARDS])
    overview = _boards(boards) if len(boards) > 1 else ""
    return shell(
        "Audit of clicks", _verdict(audit), Html(f"{overview}{parts}{_more(named)}{_reading(audit)}{_limits(audit)}")
    )


def surety(chance: float) -> str:
    """A certainty in percent, never a round 100."""
    return "over 99.9 %" if chance > 0.999 else percent(chance)


def nothing_found(audit: Audit) -> tuple[str, str]:
    """What is to be said of a log without suspect intervals: the verdict, and what it is worth."""
    unseen = max((board.unseen for board in audit.boards), default=0)
    if all(board.unseen >= board.impressions for board in audit.boards):
        return "Too few impressions to tell", f": in {audit.impressions:,}, no attack would have been noticed."
    rest = (
        f" in {audit.impressions:,} impressions. An inversion of all clicks in fewer than {unseen:,} of them would "
        "not have been noticed."
    )
    return "Nothing suspect found", rest


def _verdict(audit: Audit) -> str:
    low, high = audit.suspect_share
    count = len(audit.intervals)
    if not count:
        verdict, rest = nothing_found(audit)
        return f'<p class="verdict"><strong>{verdict}</strong>{rest}</p>'
    which = "interval" if count == 1 else "intervals"
    return (
        f'<p class="verdict found"><strong>{percent(low)} to {percent(high)} of {audit.impressions:,} impressions '
        f"are suspect</strong>: {count} {which} in which clicks suddenly behave otherwise.</p>"
    )


def _boards(boards: list[BoardAudit]) -> str:
    rows = [
        (str(b.board), b.impressions, b.clicks, len(b.intervals), " to ".join(map(percent, b.suspect_share)))
        for b in boards
    ]
    head = ["board", "impressions", "clicks", "intervals", "suspect"]
    note = f"The {SHOWN_BOARDS} most suspect of {len(boards):,} boards." if len(boards) > SHOWN_BOARDS else ""
    return f"<h2>Boards</h2>{table(head, rows[:SHOWN_BOARDS], note)}"


def _more(boards: list[BoardAudit]) -> str:
    left = len(boards) - SHOWN_BOARDS
    return f'<p class="soft">{left} more boards with findings: see the JSON output.</p>' if left > 0 else ""


def _board(board: BoardAudit, titled: bool) -> str:
    title = f"<h2>Board {escape(str(board.board))}</h2>" if titled else "<h2>When</h2>"
    figure = (
        f"<figure>{timeline(board)}<figcaption>Clicks an impression along the log (line), and what users with the "
        "usual taste would have clicked of the same lists (dotted). Suspect intervals are hatched.</figcaption>"
        "</figure>"
    )
    parts = "".join(_interval(part, i) for i, part in enumerate(board.intervals, 1))
    return f"{title}{figure}{parts}{_rankings(board)}{_clients(board)}"


def moment(time: Any) -> str:
    """A time as people write it; numbers that can only be seconds or milliseconds since 1970 with their date."""
    if isinstance(time, str):
        return f"{time[:19].replace('T', ' ')} UTC"
    for unit in (1.0, 1e3):
        if isinstance(time, (int, float)) and 1e9 * unit <= time < 4e9 * unit:
            date = datetime.datetime.fromtimestamp(time / unit, datetime.UTC)
            return f"{time} ({date:%Y-%m-%d %H:%M:%S} UTC)"
    return str(time)


def place(part: Interval) -> str:
    """Where an interval lies: its rows if they stand together, and its times if there are any."""
    rows = f"rows {part.start_row:,} to {part.end_row - 1:,}" if part.ordered else ""
    times = "" if part.start_time is None else f"{moment(part.start_time)} to {moment(part.end_time)}"
    return ", ".join(filter(None, (rows, times)))


def _edges(part: Interval) -> str:
    if not part.ordered:
        return "The log is not in order of time, so its rows lie apart: --parquet lists them."
    return (
        f"It begins between rows {part.start_rows[0]:,} and {part.start_rows[1]:,} and ends between rows "
        f"{part.end_rows[0] - 1:,} and {part.end_rows[1] - 1:,} (95 %)."
    )


def _interval(part: Interval, number: int) -> str:
    rows = [
        (
            str(item["item"]),
            Html(
                '<span class="up">gained</span>'
                if item["clicks"] > item["expected_clicks"]
                else '<span class="down">lost</span>'
            ),
            item["looks"],
            item["clicks"],
            WrittenNumber(f"{item['expected_clicks']:,.1f}"),
            item["rate"],
            item["usual_rate"],
            surety(item["certainty"]),
        )
        for item in part.items[:SHOWN_ITEMS]
    ]
    head = ["item", "", "looks", "clicks", "expected", "click rate", "usual rate", "certainty"]
    left = len(part.items) - SHOWN_ITEMS
    more = f'<p class="soft">{left} more items: see the JSON output.</p>' if left > 0 else ""
    items = (
        table(head, rows) + more if rows else '<p class="soft">No single item stands out: many changed a little.</p>'
    )
    inverted = "<p>Clicks look inverted: on what is rarely clicked, and not on what is.</p>" if part.inverted else ""
    return (
        f"<h3>Interval {number}: {escape(place(part))}</h3>"
        f"<p>{part.impressions:,} impressions, certainty {surety(part.certainty)}. {_edges(part)}</p>"
        f"{inverted}{items}"
    )


def _rankings(board: BoardAudit) -> str:
    if not board.intervals:
        rows: list[tuple[Any, ...]] = [(i, str(item)) for i, item in enumerate(board.ranking[:SHOWN_ITEMS], 1)]
        return f"<h3>The ranking</h3>{table(['', 'item'], rows)}"
    place = {item: i for i, item in enumerate(board.ranking, 1)}
    rows = []
    for i, item in enumerate(board.clean_ranking[:SHOWN_ITEMS], 1):
        moved = place[item] - i
        words = f"up {moved}" if moved > 0 else f"down {-moved}" if moved else ""
        kind = "up" if moved > 0 else "down"
        rows.append((i, str(item), Html(f'<span class="{kind}">{words}</span>'), str(board.ranking[i - 1])))
    head = ["", "without the suspect part", "", "with everything"]
    return f"<h3>The ranking, without and with the suspect part</h3>{table(head, rows)}"


def _clients(board: BoardAudit) -> str:
    if not board.clients:
        return ""
    why = {"clicks": "clicks unlike others", "time": "comes when clicks are suspect"}
    rows = [
        (
            str(c.client),
            why[c.why],
            c.impressions,
            c.suspect_impressions,
            c.clicks,
            WrittenNumber(f"{c.expected_clicks:,.1f}"),
        )
        for c in board.clients[:SHOWN_ITEMS]
    ]
    head = ["client", "why", "impressions", "suspect", "clicks", "expected"]
    several = f"{board.n_clients:,} clients stand out; the clearest first."
    note = several if board.n_clients > 1 else "1 client stands out."
    return f"<h3>Clients that stand out</h3>{table(head, rows, note)}"


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
    unseen = sorted({board.unseen for board in audit.boards})
    few = " to ".join(f"{n:,}" for n in (unseen if len(unseen) < 2 else [unseen[0], unseen[-1]]))
    which = ", depending on the board," if len(unseen) > 1 else ""
    words = (
        f"An inversion of all clicks in fewer than {few} impressions{which} would not have been noticed; it counts "
        "in the upper end of the suspect share."
    )
    lines = [*LIMITS, *([words] if unseen else [])]
    return f"<h2>What this cannot tell</h2><ul>{''.join(f'<li>{escape(text)}</li>' for text in lines)}</ul>"
