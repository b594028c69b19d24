"""`steadyrank history`: a board of a running server learns from click logs, read as the audit reads them.

What a log says of its visits, their segment or features by the names that a board declares, goes along.
"""

import argparse
import contextlib
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..click_logs.formats.fields import opened
from ..core.progress import Progress
from ..core.refusals import Refused
from ..core.settings import closest
from .choices import add_server, key_of, require_report_extra
from .logs import LEFT_OUT, add_options, board_of, drawn_by_weight, lists_of, read_log

if TYPE_CHECKING:
    from ..click_logs.click_log import ClickLog
    from ..client import Client
    from ..live.features import FeatureSpace, Kind

SEGMENT, FEATURES = "segment", "features"  # columns; those of UBI are called so, and hold all features together
ROWS, BYTES = 2_000, 400_000  # of a request, about: a server without keys takes no more than 1 MiB
MOST_ITEMS, MOST_NAME = 1_000_000, 500  # of a board, and characters of an item, as the server has it


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "history",
        help="let a board learn from past click logs",
        description="Send the lists of a click log to a board of a running server, oldest first, as past clicks. "
        "Logs are read as by `steadyrank audit`; everything is checked before anything is sent; lists that were sent "
        "before have no effect. A column `weight`, as `audit --clean` writes it, is the probability that a list is "
        "taken. An admin key, if the server has keys, is read from --key-file or STEADYRANK_KEY.",
        epilog="example: steadyrank history front export.jsonl --format ga4",
    )
    sub.add_argument("board", metavar="BOARD", help="the board that learns")
    add_options(sub)
    words = "column: the segment of a visit (default: segment, if it exists)"
    sub.add_argument("--segment", metavar="COLUMN", default=None, help=words)
    words = "column of a feature of visits (default: the one with the feature's name); may be repeated"
    sub.add_argument("--feature", metavar="NAME=COLUMN", action="append", default=[], help=words)
    words = "column: the value of the click, such as the price paid, in logs with one row per list; for UBI, ACTION "
    words += "or ACTION:FIELD of event_attributes, such as purchase:price"
    sub.add_argument("--value", metavar="COLUMN", default=None, help=words)
    add_server(sub)
    words = "create the board if there is none, with the log's items and default settings"
    sub.add_argument("--make", action="store_true", help=words)
    words = "with --make: places of a list of the new board (default: those of the longest list in the log)"
    sub.add_argument("--length", type=int, default=None, metavar="PLACES", help=words)
    sub.add_argument("--seed", type=int, default=0, help="seed of the choice of lists with a weight")
    sub.add_argument("--dry-run", action="store_true", help="read and check, print what would be sent, and stop")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    require_report_extra("polars")
    import numpy as np

    from ..client import Client

    with contextlib.closing(Client(options.server, key_of(options), timeout=120.0)) as client:
        if options.length is not None and not options.make:
            raise ValueError(f"--length {options.length} is for a new board: it needs --make")
        board, present = _present(client, options)
        log = read_log(options, options.value)
        which = board_of(log, options.of, options.board)
        if fresh := board is None:
            longest = int(log.impressions.lengths()[log.board == which].max(initial=1))
            board = {"board": options.board, "length": options.length or longest}
        visits = PastVisits(log, board, options)
        values, clicked = _values(log, options.value), log.impressions.clicks()
        rows: list[dict[str, Any]] = [
            {
                "items": names,
                "clicks": bits,
                "examined": len(names),
                **visits.of(i),
                **_value_of(values, log, i, bits, int(clicked[i])),
            }
            for i, names, bits in lists_of(log, int(board["length"]), which, drawn_by_weight(options, log))
        ]
        _check(rows, present)
        items = len(_items_of(rows))
        clicks = sum(any(row["clicks"]) for row in rows)
        left_out = int((log.board == which).sum()) - len(rows)
        words = f"{len(rows):,} lists, {clicks:,} with a click, of {items:,} items in all, for board {options.board}"
        words += f"; {left_out:,} left out{LEFT_OUT}" if left_out else ""
        if options.value is not None:
            words += f"; {sum('value' in row for row in rows):,} clicks have a value"
            several = sum(bool(values.get(int(log.row[i]), {}).get("value")) for i in np.flatnonzero(clicked > 1))
            words += f"; values of {several:,} lists with several clicks are left out" if log.converted else ""
        print("\n".join([*log.notes, *visits.notes, words]))
        if not options.dry_run:
            if fresh:
                client.put_board(options.board, items=list(_items_of(rows)), length=board["length"])
                print(f"board {options.board} is created, with lists of {board['length']}")
            learnt = _send(client, options.board, rows)
            print(f"{learnt:,} lists learnt from, {len(rows) - learnt:,} known before")
    return 0


def _values(log: "ClickLog", column: str | None) -> dict[int, dict[str, Any]]:
    """The column with values of clicks, by row of the list; empty without one."""
    if column is None:
        return {}
    have = [*log.columns.used(), *log.columns.unused]
    if log.converted:
        return log.cells(["value"])
    if log.columns.item is not None:
        raise ValueError(f"--value {column}: only logs with one row per list have values of clicks")
    if column not in have:
        raise ValueError(closest("column", column, have))
    return log.cells([column])


def _value_of(
    values: dict[int, dict[str, Any]], log: "ClickLog", i: int, bits: list[int], clicks: int
) -> dict[str, float]:
    """The value of the click of impression i, if it has one; none if the click is below the board's places.

    `clicks`: number of clicks in the whole list. If there are several, a value from a log of another system, which is
    that of all of them, is left out, and one from a plain log is an error.
    """
    row = int(log.row[i])
    cell = next(iter(values.get(row, {}).values()), None)
    try:
        value = float(cell or 0.0)
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise ValueError(
            f"row {row} of the log: the value of a click must be a number of at least 0, not {cell!r:.80}"
        )
    if value > 0.0 and clicks > 1 and not log.converted:
        raise ValueError(f"row {row} of the log: the value {value:g} is of one click, and there are {clicks}")
    return {"value": value} if value > 0.0 and clicks == 1 and any(bits) else {}


def _present(client: "Client", options: argparse.Namespace) -> tuple[dict[str, Any] | None, set[str]]:
    """The board on the server and its items; None and no items if it is still to be created."""
    try:
        state = client.state(options.board)
    except Refused as refusal:
        if refusal.code != 404:
            raise
        if not options.make:
            message = f"{options.server} has no board {options.board!r}: --make creates it, with the items of the log"
            raise ValueError(message) from None
        return None, set()
    return state["board"], {item["item"] for item in state["items"]}


def _items_of(rows: list[dict[str, Any]]) -> dict[str, None]:
    """The distinct items of lists, in order."""
    return dict.fromkeys(item for row in rows for item in row["items"])


def _check(rows: list[dict[str, Any]], present: set[str]) -> None:
    """Raise ValueError, before anything is sent, for what the server would refuse; `present`: items of the board."""
    if not rows:
        raise ValueError(
            "no list of the log begins at the first place and has different items: nothing to learn from"
        )
    for number, row in enumerate(rows, 1):
        for item in row["items"]:
            if not 1 <= len(item) <= MOST_NAME or item in (".", ".."):
                rule = f"an item is named by text of 1 to {MOST_NAME} characters, no . or .."
                raise ValueError(f"{rule}, not {item!r:.80} (list {number})")
    items = {item for row in rows for item in row["items"]}
    if len(items | present) > MOST_ITEMS:
        fresh = len(items - present)
        raise ValueError(f"a board has at most {MOST_ITEMS:,} items: it has {len(present):,}, and {fresh:,} are new")


def _parts(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part, size = [], 0
    for row in rows:
        part.append(row)
        size += len(json.dumps(row))
        if len(part) == ROWS or size > BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _send(client: "Client", board: str, rows: list[dict[str, Any]]) -> int:
    """Send lists in parts, with digests as ids, so that repeats have no effect; returns how many lists are new."""
    learnt, progress, digest = 0, Progress(len(rows), "sending", sys.stderr), hashlib.sha256()
    for part in _parts(rows):
        digest.update(json.dumps(part).encode())  # of all parts so far, since a log may hold the same lists twice
        learnt += client.history(board, part, f"history {digest.hexdigest()[:32]}")
        progress.step(len(part))
    progress.close()
    return learnt


class PastVisits:
    """The segment or features of the visits in a log, as the board declares them; `notes`: on the columns used."""

    def __init__(self, log: "ClickLog", board: Mapping[str, Any], options: argparse.Namespace) -> None:
        self._space = _declared(board)
        have = [*log.columns.used(), *log.columns.unused]
        named = _columns_named(board["board"], self._space, options)
        if wrong := next((column for column in named.values() if column not in have), None):
            raise ValueError(closest("column", wrong, have))
        names = [kind.name for kind in self._space.visits]
        self._column = named | {name: name for name in names if name in have and name not in named}
        self._whole = bool(names) and not self._space.segments and log.converted and FEATURES in have
        self.notes = list(self._sentences())
        columns = list(dict.fromkeys([*self._column.values(), *([FEATURES] if self._whole else [])]))
        self._row, self._cells = log.row, log.cells(columns) if columns else {}

    def of(self, i: int) -> dict[str, Any]:
        """Segment or features of the visit of impression i, as the server takes them; ValueError if invalid."""
        row = int(self._row[i])
        cells = self._cells.get(row, {})
        whole = opened(cells.get(FEATURES)) if self._whole else None
        if isinstance(whole, Mapping):  # rows of a file have all names that any of them has
            whole = {name: value for name, value in whole.items() if value is not None}
        try:
            self._space.check_visit(whole)
            values = dict(whole or {})
            for kind in self._space.visits:
                value = _value(kind, cells.get(self._column.get(kind.name, "")))
                values |= {} if value is None else {kind.name: value}
            self._space.check_visit(values)
        except Refused as error:
            raise ValueError(f"row {row} of the log: {error}") from None
        return values if self._space.segments or not values else {"features": values}

    def _sentences(self) -> Iterator[str]:
        sources = [f"{name} from column {column}" for name, column in self._column.items()]
        sources += [f"those in column {FEATURES}"] if self._whole else []
        lacking = [kind.name for kind in self._space.visits if kind.name not in self._column and not self._whole]
        if sources:
            yield f"Known of visits: {', '.join(sources)}."
        if lacking:
            option = "--segment COLUMN" if self._space.segments else "--feature NAME=COLUMN"
            yield f"The log has no column {', '.join(lacking)}, so visits count as without; {option} names one."


def _declared(board: Mapping[str, Any]) -> "FeatureSpace":
    from ..live.features import NO_FEATURES, FeatureSpace, by_segment

    if board.get("segments"):
        return by_segment(board["segments"])
    return FeatureSpace(**board["features"]) if board.get("features") else NO_FEATURES


def _columns_named(board: str, space: "FeatureSpace", options: argparse.Namespace) -> dict[str, str]:
    """The columns given by options, by segment or feature name."""
    if options.segment is not None and not space.segments:
        raise ValueError(f"--segment {options.segment}: board {board} has no segments")
    columns = {} if options.segment is None else {SEGMENT: options.segment}
    declared = [] if space.segments else [kind.name for kind in space.visits]
    for text in options.feature:
        name, equals, column = text.partition("=")
        if not equals:
            raise ValueError(f"--feature {text}: NAME=COLUMN is needed, such as age=visitor_age")
        if not declared:
            raise ValueError(f"--feature {text}: board {board} declares no features of visits")
        if name not in declared:
            raise ValueError(closest("feature of a visit", name, declared))
        columns[name] = column
    return columns


def _value(kind: "Kind", cell: Any) -> Any:
    """Convert a cell to its kind: text files hold numbers as text, other files may hold categories as numbers."""
    if cell is None or cell == "":
        return None
    if kind.categories:
        return str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell
    try:
        return float(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell
