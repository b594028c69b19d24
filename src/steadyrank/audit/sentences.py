"""Findings of an audit in sentences: what was observed and when, without accusing anyone."""

import datetime
from typing import Any

from .results import Attack, Audit, BoardAudit, Change, CleanLog, Interval

NAMED = 3  # items in a sentence
RANKED = 10  # items of a ranking


def percent(share: float) -> str:
    """A share in percent, rounded for display."""
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0.0 else f"{100 * share:.3f} %"


def certainty_text(chance: float) -> str:
    """A certainty in percent, never rounded to 100."""
    return "over 99.9 %" if chance > 0.999 else percent(chance)


def moment(time: Any) -> str:
    """A time for display; numbers that look like seconds, ms or µs since 1970 get their date."""
    if isinstance(time, str):
        return f"{time[:19].replace('T', ' ')} UTC"
    for unit in (1.0, 1e3, 1e6):
        if isinstance(time, (int, float)) and 1e9 * unit <= time < 4e9 * unit:
            date = datetime.datetime.fromtimestamp(time / unit, datetime.UTC)
            return f"{time} ({date:%Y-%m-%d %H:%M:%S} UTC)"
    return str(time)


def time_range(start: Any, end: Any) -> str:
    """A range of times for display."""
    return f"{moment(start)} to {moment(end)}"


def place(part: Interval | Change | Attack, ordered: bool = True) -> str:
    """The location of an interval: its rows if they are contiguous, and its times if there are any."""
    together = part.ordered if isinstance(part, Interval) else ordered
    rows = f"rows {part.start_row:,} to {part.end_row - 1:,}" if together else ""
    times = "" if part.start_time is None else time_range(part.start_time, part.end_time)
    return ", ".join(filter(None, (rows, times)))


def when(part: Interval | Attack) -> str:
    """The time of an interval in short form, else its rows."""
    if part.start_time is None:
        return f"rows {part.start_row:,} to {part.end_row - 1:,}"
    one, two = moment(part.start_time).removesuffix(" UTC"), moment(part.end_time).removesuffix(" UTC")
    if one[:10] == two[:10] and len(one) == len(two) == 19:
        return f"on {one[:10]} from {one[11:16]} to {two[11:16]} UTC"
    return f"from {one} to {two}"


def describe_items(items: list[dict[str, Any]]) -> str:
    """Which items gained and which lost, the largest change first, and how far their ranks moved."""
    words = []
    for verb, sign in (("more", 1), ("fewer", -1)):
        some = [item for item in items if sign * (item["clicks"] - item["expected_clicks"]) > 0]
        if some:
            named = ", ".join(_item(item) for item in some[:NAMED])
            rest = f" and {len(some) - NAMED:,} others" if len(some) > NAMED else ""
            words.append(f"{verb} clicks than usual on {named}{rest}")
    return "; ".join(words)


def _item(item: dict[str, Any]) -> str:
    counts = f"{item['clicks']:,} where {item['expected_clicks']:,.1f} were expected"
    moved = ""
    if "rank" in item and item["rank"] != item["clean_rank"]:
        moved = f", which moved it from rank {item['clean_rank']:,} to {item['rank']:,}"
    return f"{item['item']} ({counts}{moved})"


def describe_clicks(part: Interval) -> str:
    """The number of clicks in an interval, and the number expected."""
    due = f"where {part.expected_clicks:,.0f} were expected"
    return f"{part.clicks:,} clicks in {part.impressions:,} impressions, {due}"


def describe_interval(part: Interval) -> str:
    """The finding in an interval: clicks, and items that gained or lost."""
    return f"{describe_clicks(part)}; {describe_items(part.items)}" if part.items else describe_clicks(part)


def describe_change(change: Change) -> str:
    """The explanation of a harmless change."""
    if change.kind == "level":
        way = "fell" if change.level < 1.0 else "rose"
        return f"clicks on all items {way} alike, their odds to {percent(change.level)} of usual"
    if change.kind == "places":
        if abs(change.length - change.usual_length) > 0.2 * change.usual_length:
            return f"lists changed: {change.length:.1f} places on average, where {change.usual_length:.1f} are usual"
        return "lists changed: clicks moved between places, or items to other places"
    if change.kind == "items":
        words = describe_items(change.items)
        return f"some items changed as a promotion or its end does it: {words}".removesuffix(": ")
    if change.kind == "client":
        return "the clicks of one client alone make the difference; if it is odd, it is named among clients"
    return "clicks changed no more than they do elsewhere in this log"


def nothing_found(audit: Audit) -> tuple[str, str]:
    """For a log without suspect intervals: the verdict, and what an audit of it could have detected."""
    if all(board.unseen >= board.impressions for board in audit.boards):
        return "Too few clicks to tell", f": {audit.impressions:,} impressions, {describe_power(audit)}"
    return "Nothing suspect found", f" in {audit.impressions:,} impressions; {describe_power(audit)}"


def describe_power(audit: Audit) -> str:
    """Which attacks the audit could have detected, on the board with most impressions."""
    if not audit.boards:
        return "no attack could have been seen."
    board = max(audit.boards, key=lambda one: one.impressions)
    smallest = board.could_have_shown
    sizes = {
        "promotes three items": smallest.promote,
        "never clicks the three best": smallest.demote,
        "never clicks": smallest.silent,
    }
    seen = [f"one that {what} from {size:,} impressions on" for what, size in sizes.items() if size is not None]
    unseen = [f"one that {what}" for what, size in sizes.items() if size is None]
    where = f" on board {board.board}" if len(audit.boards) > 1 else ""
    words = (
        [f"of attacks in one go, it would have shown{where} (with a chance of 80 %) {', '.join(seen)}"]
        if seen
        else []
    )
    words += [f"it would not have shown {', '.join(unseen)}, whatever its size"] if unseen else []
    words += [f"a client from {smallest.client:,} impressions without a click on"] if smallest.client else []
    return "; ".join(words) + "."


def describe_outcomes(outcomes: dict[str, Any]) -> list[str]:
    """Suspicious outcomes of clicks, one line each."""
    lines = [
        f"{one['item']}: {one['clicks']:,} clicks where {one['expected_clicks']:,.1f} were expected, and "
        f"{one['bought']:,} of them bought where others buy {one['expected_bought']:,.1f}"
        for one in outcomes["few_outcomes"]
    ]
    lines += [
        f"client {one['client']}: clicks in {one['clicked']:,} lists and never buys, where others buy in "
        f"{one['expected_bought']:,.1f}"
        for one in outcomes["never_buy"]
    ]
    return lines


def describe_clean_log(clean: CleanLog, audit: Audit) -> str:
    """How much of the log is in the clean file."""
    less = clean.impressions - clean.weight
    words = f"; by their weights, {less:,.1f} of these may be false" if less >= 0.05 else ""
    return f"{clean.path}: {clean.impressions:,} of {audit.impressions:,} impressions are not suspect{words}"


def rankings(board: BoardAudit) -> list[str]:
    """The first items of the ranking with and without the suspect part, on one line if both are the same."""
    orders = {"with everything": board.ranking, "without what is suspect": board.clean_ranking}
    if board.ranking == board.clean_ranking:
        orders = {"with and without what is suspect": board.ranking}
    lines = []
    for words, order in orders.items():
        more = f" and {len(order) - RANKED:,} more" if len(order) > RANKED else ""
        lines.append(f"ranking {words}: {', '.join(map(str, order[:RANKED]))}{more}")
    return lines


def summary(audit: Audit) -> str:
    """The verdict in a sentence, with dates and items."""
    low, high = audit.suspect_share
    if not audit.intervals and not audit.n_clients:
        return "".join(nothing_found(audit))
    share = f"{percent(low)} to {percent(high)} of {audit.impressions:,} impressions are suspect"
    parts = []
    if audit.attacks:
        first = max(audit.attacks, key=lambda attack: attack.impressions)
        part = max((audit.intervals[i] for i in first.intervals), key=lambda one: one.impressions)
        many = f"{len(audit.attacks):,} times, the longest " if len(audit.attacks) > 1 else ""
        boards = f" on {len(first.boards):,} boards" if len(first.boards) > 1 else ""
        what = describe_items(part.items) or f"{part.clicks:,} clicks where {part.expected_clicks:,.0f} were expected"
        parts.append(f"click behaviour suddenly changed {many}{when(first)}{boards}: {what}")
    if audit.n_clients:
        parts.append("1 client stands out" if audit.n_clients == 1 else f"{audit.n_clients:,} clients stand out")
    return f"{share}: {'; '.join(parts)}."
