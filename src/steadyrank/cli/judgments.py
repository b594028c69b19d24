"""`steadyrank judgments`: what clicks say of documents, for tools that measure search."""

import argparse
import pathlib
import sys
from typing import Any

from ..core.settings import whole


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "judgments",
        help="what clicks say of documents, as CSV or TREC qrels",
        description="Print every document that was looked at, by query, with its rate of clicks, a 95 % interval, "
        "and a rating: the highest for the best document of a query, 0 for one that is hardly clicked beside it. "
        "Queries are digests, unless the collection was made with keep_queries=True.",
        epilog="example: steadyrank judgments shop.steadyrank --looks 20",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    sub.add_argument("collection", type=pathlib.Path, help="a file that `Collection.save` wrote")
    sub.add_argument("--format", choices=("csv", "qrels"), default="csv", help="CSV with a header, or TREC qrels")
    sub.add_argument("--highest", type=int, default=3, help="the highest rating")
    sub.add_argument("--looks", type=int, default=1, help="leave out documents that had fewer looks")
    sub.add_argument("--secret-file", type=pathlib.Path, help="holds the secret, if the collection was given one")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..live import Collection
    from ..live.collection.judgments import rated, write

    highest, fewest = whole("--highest", options.highest, 1, 100), whole("--looks", options.looks, 0)
    secret = None if options.secret_file is None else options.secret_file.read_bytes()
    collection = Collection.load(options.collection, secret=secret)
    write(sys.stdout, rated(collection.judgments(), highest, fewest), options.format)
