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
from .audit import COLUMNS, share
from .choices import need_report

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
    sub.add_argument("logs", nargs="+", type=pathlib.Path, metavar="LOG", help="Parquet, CSV, TSV or JSON")
    sub.add_argument("--server", default="http://127.0.0.1:8080", metavar="ADDRESS", help="of the server")
    sub.add_argument("--key-file", type=pathlib.Path, default=None, metavar="FILE", help="holds the API key")
    for name, words in COLUMNS.items():
        option = "--board-column" if name == "board" else f"--{name}"
        sub.add_argument(option, metavar="COLUMN", default=None, help=f"column: {words.partition(';')[0]}")
    sub.add_argument("--of", default=None, metavar="NAME", help="of a log with several boards, the one to take")
    sub.add_argument("--first-position", type=int, choices=(0, 1), default=None, help="what the top is called")
    sub.add_argument("--time-format", default=None, metavar="FORMAT", help="how dates are written")
    sub.add_argument("--format", default=None, metavar="NAME", help="as for audit: plain, ubi, ga4, personalize, ...")
    sub.add_argument("--most-broken", default="1%", metavar="SHARE", help="rows that may be unusable")
    sub.add_argument("--dry-run", action="store_true", help="read and check, say what would be sent, and stop")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    broken = share("--most-broken", options.most_broken)
    need_report("polars")
    from ..client import Client

    with contextlib.closing(Client(options.server, _key(options.key_file), timeout=120.0)) as client:
        state = client.state(options.board)
        found = _read(options, broken)
        which = _which(found, options)
        rows = list(_rows(found, int(state["board"]["length"]), which))
        _check(rows, {item["item"] for item in state["items"]})
        items = len({item for row in rows for item in row["items"]})
        clicks = sum(any(row["clicks"]) for row in rows)
        left_out = int((found.board == which).sum()) - len(rows)
        told = f"{len(rows):,} lists of {items:,} items, {clicks:,} with a click, for board {options.board}"
        told += f"; {left_out:,} left out that begin below the first place or show an item twice" if left_out else ""
        print("\n".join([*found.notes, told]))
        if not options.dry_run:
            learnt = _send(client, options.board, rows)
            print(f"{learnt:,} lists learnt from, {len(rows) - learnt:,} known before")
    return 0


def _read(options: argparse.Namespace, broken: float) -> "ClickLog":
    from ..audit.reading.click_logs import read

    return read(
        options.logs,
        {name: options.board_column if name == "board" else getattr(options, name) for name in COLUMNS},
        first_position=options.first_position,
        time_format=options.time_format,
        format=options.format,
        most_broken=broken,
    )


def _key(path: pathlib.Path | None) -> str | None:
    return os.environ.get("STEADYRANK_KEY") if path is None else path.read_text().strip()


def _which(log: "ClickLog", options: argparse.Namespace) -> int:
    """Which board of the log is taken: the one told, or its only one, or the one of the same name."""
    names = [str(name) for name in log.boards]
    wanted = options.board if options.of is None else options.of
    if options.of is None and len(names) == 1:
        return 0
    if wanted not in names:
        some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"the log has no board {wanted!r}; --of NAME says which to take: {some}")
    return names.index(wanted)


def _rows(log: "ClickLog", length: int, board: int) -> Iterator[dict[str, Any]]:
    """Lists in order of time, as far as they were looked at and the board has places, with a bit a place.

    Those that begin below the first place, or show an item twice, are left out.
    """
    shown, items = log.impressions, [str(item) for item in log.items]
    edges, numbers, bits = shown.first.tolist(), shown.item.tolist(), shown.bits.tolist()
    for i in range(shown.n):
        if log.board[i] != board or (shown.top is not None and shown.top[i] != 0):
            continue
        end = min(edges[i + 1], edges[i] + length)
        names = [items[number] for number in numbers[edges[i] : end]]
        if names and len(set(names)) == len(names):
            yield {"items": names, "clicks": [int(bit) for bit in bits[edges[i] : end]], "examined": len(names)}


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
