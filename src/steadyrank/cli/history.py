"""`steadyrank history`: a board of a running server learns from click logs, read as the audit reads them."""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..progress import Progress
from . import past_visits
from .choices import need_report
from .past_lists import add_options, board_of, lists_of, read_log

if TYPE_CHECKING:
    from ..audit.reading.click_logs import ClickLog
    from ..client import Client

ROWS, BYTES = 2_000, 400_000  # of a request, about: a server without keys takes no more than 1 MiB
MOST_ITEMS, MOST_NAME = 1_000_000, 500  # of a board, and characters of an item, as the server has it


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "history",
        help="a board learns from past click logs",
        description="Send the lists of a click log to a board of a running server, oldest first, as past clicks. "
        "Logs are read as by `steadyrank audit`; everything is checked before anything is sent; what was sent before "
        "has no effect. The key of an admin, if the server has keys, is read from --key-file or STEADYRANK_KEY.",
        epilog="example: steadyrank history front export.jsonl --format ga4",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    sub.add_argument("board", metavar="BOARD", help="the board that learns; it must exist")
    add_options(sub)
    past_visits.add_options(sub)
    sub.add_argument("--server", default="http://127.0.0.1:8080", metavar="ADDRESS", help="of the server")
    sub.add_argument("--key-file", type=pathlib.Path, default=None, metavar="FILE", help="holds the API key")
    sub.add_argument("--dry-run", action="store_true", help="read and check, say what would be sent, and stop")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    need_report("polars")
    from ..client import Client

    with contextlib.closing(Client(options.server, _key(options.key_file), timeout=120.0)) as client:
        state = client.state(options.board)
        found = read_log(options)
        which = board_of(found, options.of, options.board)
        visits = past_visits.PastVisits(found, state["board"], options)
        rows = list(_rows(found, int(state["board"]["length"]), which, visits))
        _check(rows, {item["item"] for item in state["items"]})
        items = len({item for row in rows for item in row["items"]})
        clicks = sum(any(row["clicks"]) for row in rows)
        left_out = int((found.board == which).sum()) - len(rows)
        told = f"{len(rows):,} lists of {items:,} items, {clicks:,} with a click, for board {options.board}"
        told += f"; {left_out:,} left out that begin below the first place or show an item twice" if left_out else ""
        print("\n".join([*found.notes, *visits.notes, told]))
        if not options.dry_run:
            learnt = _send(client, options.board, rows)
            print(f"{learnt:,} lists learnt from, {len(rows) - learnt:,} known before")
    return 0


def _key(path: pathlib.Path | None) -> str | None:
    return os.environ.get("STEADYRANK_KEY") if path is None else path.read_text().strip()


def _rows(log: "ClickLog", length: int, board: int, visits: past_visits.PastVisits) -> Iterator[dict[str, Any]]:
    """Lists as the server takes them, with what is known of their visits."""
    for i, names, bits in lists_of(log, length, board):
        yield {"items": names, "clicks": bits, "examined": len(names), **visits.of(i)}


def _check(rows: list[dict[str, Any]], known: set[str]) -> None:
    """Refuse what the server would refuse, before anything is sent; `known`: the items that the board has."""
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
    if len(items | known) > MOST_ITEMS:
        fresh = len(items - known)
        raise ValueError(f"a board has at most {MOST_ITEMS:,} items: it has {len(known):,}, and {fresh:,} are new")


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
    """Send lists part by part, under names made of what they hold: the same again has no effect. How many are new."""
    learnt, progress, digest = 0, Progress(len(rows), "sending", sys.stderr), hashlib.sha256()
    for part in _parts(rows):
        digest.update(json.dumps(part).encode())  # of all so far: the same lists may come twice in a log
        learnt += client.history(board, part, f"history {digest.hexdigest()[:32]}")
        progress.step(len(part))
    progress.close()
    return learnt
