"""Relevance judgments from clicks, for each document of each query, for people and for search evaluation tools."""

import csv
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

import numpy as np

from .collection_state import NO_PAIR_OUTCOMES, CollectionState
from .engine_prior import means_of

_SURE = 1.96  # standard deviations on either side of an estimate: 95 %
_AT_ONCE = 10_000  # pairs processed together
FORMATS = ("csv", "qrels")
_COLUMNS = ("query", "docid", "rating", "rate", "low", "high", "looks", "clicks", "outcomes", "value")


class Judgment(NamedTuple):
    """What clicks say about an item for a query."""

    query: str  # its text if queries are kept, else its id
    item: str
    looks: float
    clicks: float
    rate: float  # posterior mean of the attraction
    low: float  # ends of an interval of about 95 %
    high: float
    outcomes: int = 0  # clicks with an outcome
    value: float = 0.0  # total value of these outcomes


def judged(state: CollectionState) -> Iterator[Judgment]:
    """Every pair that was looked at, by query in order of arrival, and by the engine's place.

    Without clicks that a guard refused or retracted; places count as far as they are looked at. `state` must not
    change meanwhile: pass a copy if learning continues. O(pairs log pairs) before the first one.
    """
    ranker = state.learner
    pairs, prior, ids = ranker.pairs, ranker.prior, ranker.queries.ids.ids
    columns = pairs.columns()
    first_place = np.where(columns["place"] >= 0, columns["place"], -1 - columns["place"]).astype(np.int64)
    order = np.lexsort((columns["item"], first_place, columns["query"]))
    strength, row, query = float(prior.strength[0]), -1, ""
    for start in range(0, order.size, _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        looks, clicks = columns["looks"][some].astype(np.float64), columns["clicks"][some].astype(np.float64)
        total = strength + looks
        rate = (strength * means_of(prior, first_place[some], columns["step"][some]) + clicks) / total
        numbers = columns["query"][some], columns["item"][some], looks, clicks, rate, total
        for own, item, n, w, mean, weight in zip(*(array.tolist() for array in numbers), strict=True):
            if own != row:
                row, query = own, state.text_of(int(ids[own]))
            wide = _SURE * math.sqrt(mean * (1.0 - mean) / (weight + 1.0))
            came = state.brought.get((int(ids[own]), item), NO_PAIR_OUTCOMES)
            bounds = max(mean - wide, 0.0), min(mean + wide, 1.0)
            yield Judgment(query, state.name_of(item), n, w, mean, *bounds, *came)


def rated(judgments: Iterable[Judgment], highest: int, fewest: float) -> Iterator[tuple[Judgment, int]]:
    """Judgments with at least `fewest` looks, with a rating each: `highest` for the best document of its query.

    0 is for one that is hardly clicked in comparison.
    """
    some: list[Judgment] = []
    for one in judgments:
        if some and some[0].query != one.query:
            yield from _of_query(some, highest)
            some = []
        if one.looks >= fewest:
            some.append(one)
    yield from _of_query(some, highest)


def _of_query(some: list[Judgment], highest: int) -> Iterator[tuple[Judgment, int]]:
    best = max((one.rate for one in some), default=1.0)
    return ((one, round(highest * one.rate / best)) for one in some)


def write(out: TextIO, judgments: Iterable[tuple[Judgment, int]], form: str) -> None:
    """Write judgments with their ratings in one of the `FORMATS`: CSV with a header, or TREC qrels.

    Qrels have four columns separated by blanks: topic, iteration, document, rating; blanks in names become `_`.
    """
    if form == "qrels":
        for one, rating in judgments:
            query, item = ("_".join(name.split()) for name in (one.query, one.item))
            out.write(f"{query} 0 {item} {rating}\n")
        return
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for one, rating in judgments:
        shares = (f"{share:.4f}" for share in (one.rate, one.low, one.high))
        counts = f"{one.looks:.0f}", f"{one.clicks:.0f}", one.outcomes, f"{one.value:g}"
        rows.writerow([one.query, one.item, rating, *shares, *counts])
