"""`steadyrank judgments`: export relevance judgments derived from clicks, for tools that evaluate search."""

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from ..core.settings import whole
from .choices import require_report_extra
from .logs import lists_of

if TYPE_CHECKING:
    from ..live import Collection

_LONGEST = 100  # most places used of a list in a log
_MOST_PAIRS = 1 << 28  # most pairs of query and item in a log


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "judgments",
        help="export relevance judgments from clicks, as CSV or TREC qrels",
        description="Print every document that was looked at, by query, with its click rate, a 95 % interval, and a "
        "rating: the highest for the best document of a query, 0 for one that is hardly clicked in comparison. "
        "Queries are digests, unless the collection was created with keep_queries=True; those of a log are text.",
        epilog="examples: steadyrank judgments shop.steadyrank --looks 20; "
        "steadyrank judgments clicks.csv --log --query search_term",
    )
    sub.add_argument("collection", type=pathlib.Path, help="a file that `Collection.save` wrote, or a log")
    words = (
        "the file is a click log with a column of queries, read as by `steadyrank audit`; its lists count as those "
    )
    words += "of the engine"
    sub.add_argument("--log", action="store_true", help=words)
    sub.add_argument("--query", metavar="COLUMN", default=None, help="with --log: the column of queries")
    sub.add_argument("--format", choices=("csv", "qrels"), default="csv", help="CSV with a header, or TREC qrels")
    sub.add_argument("--highest", type=int, default=3, help="the highest rating")
    sub.add_argument("--looks", type=int, default=1, help="leave out documents with fewer looks")
    sub.add_argument("--secret-file", type=pathlib.Path, help="file with the secret, if the collection was given one")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..live import Collection
    from ..live.collection.judgments import rated, write
    from ..live.snapshot import UnreadableSnapshot

    highest, fewest = whole("--highest", options.highest, 1, 100), whole("--looks", options.looks, 0)
    if options.query is not None and not options.log:
        raise ValueError(f"--query {options.query} is for a click log: it needs --log")
    if options.log:
        collection = _learnt(options.collection, options.query)
    else:
        secret = None if options.secret_file is None else options.secret_file.read_bytes()
        try:
            collection = Collection.load(options.collection, secret=secret)
        except UnreadableSnapshot as error:
            raise ValueError(f"{error}; a click log needs --log") from None
    write(sys.stdout, rated(collection.judgments(), highest, fewest), options.format)


def _learnt(path: pathlib.Path, query: str | None) -> "Collection":
    """Train a collection on the lists of a log that have a query, in order."""
    require_report_extra("polars")
    from ..click_logs.click_log import read
    from ..click_logs.files import sources_of
    from ..live import Collection

    try:
        log = read(sources_of([path]), {"board": query}, by_query=True)
    except ValueError as error:
        raise ValueError(str(error).replace("--board names", "--query names")) from None
    names = ["" if name is None else str(name) for name in log.boards]
    if not any(names):
        raise ValueError(f"{path} has no column of queries: --query COLUMN names it")
    length = int(log.impressions.lengths().max(initial=1))
    collection = Collection(min(length, _LONGEST), keep_queries=True, most_pairs=_MOST_PAIRS)
    clients = None if log.client is None else log.client.tolist()
    boards, learnt = log.board.tolist(), 0
    for i, items, bits in lists_of(log, _LONGEST, None):
        if names[boards[i]]:
            client = clients[i] if clients is not None and clients[i] >= 0 else None
            collection.observe(names[boards[i]], items, clicks=bits, client=client)
            learnt += 1
    total = f"{learnt:,} lists of {log.impressions.n:,} learnt from"
    others = "; the others begin below the first place, show an item twice, or are of no query"
    print("\n".join([*log.notes, total + others * (learnt < log.impressions.n)]), file=sys.stderr)
    return collection
