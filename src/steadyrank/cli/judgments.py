"""`steadyrank judgments`: what clicks say of documents, for tools that measure search."""

import argparse
import csv
import pathlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..core.settings import whole

if TYPE_CHECKING:
    from ..live import Judgment

_COLUMNS = ("query", "docid", "rating", "rate", "low", "high", "looks", "clicks")


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
    from ..live.collection.judgments import rated

    highest, fewest = whole("--highest", options.highest, 1, 100), whole("--looks", options.looks, 0)
    secret = None if options.secret_file is None else options.secret_file.read_bytes()
    collection = Collection.load(options.collection, secret=secret)
    write = _write_csv if options.format == "csv" else _write_qrels
    write(rated(collection.judgments(), highest, fewest))


def _write_csv(rated: Iterable[tuple["Judgment", int]]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(_COLUMNS)
    for one, rating in rated:
        shares = (f"{share:.4f}" for share in (one.rate, one.low, one.high))
        out.writerow([one.query, one.item, rating, *shares, f"{one.looks:.0f}", f"{one.clicks:.0f}"])


def _write_qrels(rated: Iterable[tuple["Judgment", int]]) -> None:
    """Four columns with a blank between them: topic, iteration, document, rating; blanks in names become `_`."""
    for one, rating in rated:
        query, item = ("_".join(name.split()) for name in (one.query, one.item))
        print(f"{query} 0 {item} {rating}")
