"""What people see of a collection: its busiest queries, their gain over the engine, and the items of one query."""

import re
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from ...core.arrays import Floats, Ints
from ...core.refusals import Refused
from ...live.collection.alarms import Alarm, alarms_of
from ...live.collection.collection_state import NO_PAIR_OUTCOMES, CollectionState
from ...live.collection.engine_prior import means_of
from ...live.collection.engine_scores import NO_SCORE
from ...live.collection.id_table import NOT_THERE, find_row
from ...live.collection.re_ranker import indices_of
from .board import Board
from .schema import IntervalOut, Schema

_DRAWS = 400  # draws of attractions from the posterior
_SURE = (2.5, 97.5)  # percentiles
MOST_ITEMS = 1_000  # of a query on its page


class QueryOut(Schema):
    """A query: its id, its text where texts are stored, its number of visits, and of visits with a click.

    `gain`: how many more clicks per visit our present list brings than the engine's first places, by the posterior of
    the looked-at items, with its 95 % interval.
    """

    id: str
    query: str | None
    visits: float
    clicked: float
    gain: IntervalOut


class QueryItem(Schema):
    """An item of a query: its places in the engine's order when first looked at, and in ours (from 1).

    `ours` is null below the end of our list. `estimate`: the attraction, with its interval. `outcomes`: how many of
    its clicks had an outcome, and `value`: the total value of these, in collections that take outcomes.
    """

    item: str
    engine: int
    ours: int | None
    looks: float
    clicks: float
    estimate: float
    low: float
    high: float
    outcomes: int | UnsetType = UNSET
    value: float | UnsetType = UNSET


class QueryPage(QueryOut):
    """A query with its looked-at items in our order, 1,000 at most."""

    items: list[QueryItem]


class SurgeOut(Schema):
    """An item of a query that suddenly got far more clicks: `clicks` in its latest `looks`, up to round `noticed`.

    `before`: its attraction until then. `id`, `query`: as of a query.
    """

    id: str
    query: str | None
    item: str
    noticed: int
    before: float
    looks: float
    clicks: float


class AlarmOut(Schema):
    """Surges close to one another, from round `first` to round `latest`, in so many `queries`, oldest first."""

    number: int
    first: int
    latest: int
    queries: int
    surges: list[SurgeOut]


class _Items(NamedTuple):
    """The looked-at items of a query, and placeholders (item -1) for other items in the engine's first places."""

    item: Ints
    place: Ints  # in the engine's order, from 0
    looks: Floats
    clicks: Floats
    hits: Floats  # of the posterior, the prior's pseudo-clicks included
    total: Floats  # of the posterior, the prior's pseudo-looks included
    order: Ints  # our ranking, as rows of this table


def state_of(board: Board) -> CollectionState:
    """The learner state of a collection. Raises Refused for other boards."""
    state = board.learner_state
    if not isinstance(state, CollectionState):
        raise Refused(404, "a board with items of its own has no queries")
    return state


def query_id(shown: str) -> int:
    """Parse the id of a query. Raises Refused if it is malformed."""
    if not re.fullmatch("[0-9a-f]{14}", shown):
        raise Refused(422, f"a query's id has 14 hexadecimal digits, not {shown!r:.80}")
    return int(shown, 16)


def copy_busiest(board: Board, limit: int) -> CollectionState:
    """Copy the state of the `limit` queries with the most visits, the busiest first. Scans all pairs."""
    state = state_of(board)
    visits = state.learner.queries.visits[: state.n_queries]
    rows = np.arange(visits.size)
    if limit < visits.size:
        least = -np.partition(-visits, limit - 1)[limit - 1]
        more = np.flatnonzero(visits > least)
        rows = np.sort(np.concatenate([more, np.flatnonzero(visits == least)[: limit - more.size]]))
    return state.copied_of(rows[np.argsort(-visits[rows], kind="stable")])


def copy_query(board: Board, query: int) -> CollectionState:
    """Copy the state of one query. Scans all pairs."""
    state = state_of(board)
    row = int(find_row(state.learner.queries.ids, query))
    if row == NOT_THERE:
        raise Refused(404, "the query is not remembered")
    return state.copied_of(np.array([row]), named=True)


def list_queries(state: CollectionState) -> list[QueryOut]:
    """Summarize all queries of a copy."""
    return [QueryOut(**_head(state, row, items)) for row, items in enumerate(_items_of(state))]


def list_alarms(board: Board, most: int) -> list[AlarmOut]:
    """The alarms that the latest `most` surges belong to, oldest first."""
    return [alarm_out(alarm) for alarm in alarms_of(state_of(board), most)]


def alarm_out(alarm: Alarm) -> AlarmOut:
    """Convert an alarm for output."""
    surges = [SurgeOut(**surge._asdict()) for surge in alarm.surges]
    return AlarmOut(alarm.number, alarm.first, alarm.latest, len(alarm.queries), surges)


def query_page(state: CollectionState) -> QueryPage:
    """The page of the only query of a copy."""
    (items,) = _items_of(state)
    length, shown, query = state.length, [], int(state.learner.queries.ids.id[0])
    mean = items.hits / items.total
    wide = 1.96 * np.sqrt(mean * (1.0 - mean) / (items.total + 1.0))
    for place, k in enumerate(items.order.tolist()):
        if items.item[k] >= 0:
            one = QueryItem(
                item=state.name_of(int(items.item[k])),
                engine=int(items.place[k]) + 1,
                ours=place + 1 if place < length else None,
                looks=float(items.looks[k]),
                clicks=float(items.clicks[k]),
                estimate=float(mean[k]),
                low=max(float(mean[k] - wide[k]), 0.0),
                high=min(float(mean[k] + wide[k]), 1.0),
                **outcomes_of(state, query, int(items.item[k])),
            )
            shown.append(one)
    return QueryPage(**_head(state, 0, items), items=shown[:MOST_ITEMS])


def outcomes_of(state: CollectionState, query: int, item: int) -> dict[str, Any]:
    """The outcomes of clicks on an item of a query; empty where outcomes are not reported."""
    came = state.brought.get((query, item), NO_PAIR_OUTCOMES)
    return {} if state.outcomes is None else {"outcomes": came.clicks, "value": came.value}


def _head(state: CollectionState, row: int, items: _Items) -> dict[str, Any]:
    queries = state.learner.queries
    query = int(queries.ids.id[row])
    return {
        "id": f"{query:014x}",
        "query": state.query_texts.text(query),
        "visits": float(queries.visits[row]),
        "clicked": float(queries.clicked[row]),
        "gain": _gain(state, items),
    }


def _items_of(state: CollectionState) -> list[_Items]:
    """The items of every query, by row."""
    pairs = state.learner.pairs
    slots = pairs.taken()
    slots = slots[np.argsort(pairs.query[slots], kind="stable")]
    ends = np.cumsum(np.bincount(pairs.query[slots], minlength=state.n_queries))
    return [_of_slots(state, row, some) for row, some in enumerate(np.split(slots, ends[:-1]))]


def _of_slots(state: CollectionState, row: int, slots: Ints) -> _Items:
    ranker, length = state.learner, state.length
    pairs, prior = ranker.pairs, ranker.prior
    place = pairs.place[slots].astype(np.int64)
    place = np.where(place >= 0, place, -1 - place)
    missing = np.setdiff1d(np.arange(length), place)  # places never looked at
    item = np.concatenate([pairs.item[slots], np.full(missing.size, -1)])
    place = np.concatenate([place, missing])
    looks = np.concatenate([pairs.looks[slots].astype(np.float64), np.zeros(missing.size)])
    clicks = np.concatenate([pairs.clicks[slots].astype(np.float64), np.zeros(missing.size)])
    strength = float(prior.strength[0])
    step = np.concatenate([pairs.step[slots], np.full(missing.size, NO_SCORE, np.uint8)])
    hits, total = strength * means_of(prior, place, step) + clicks, strength + looks
    index = indices_of(ranker, row, hits / total, total)
    return _Items(item, place, looks, clicks, hits, total, np.lexsort((place, -index)))


def _gain(state: CollectionState, items: _Items) -> IntervalOut:
    """What our present list is worth beyond the engine's first places, each with the latest known item there."""
    length, rng = state.length, np.random.default_rng(0)
    # of several items that stood at a place, the one with the most looks
    by_looks = np.lexsort((items.looks, items.place))
    last = np.append(items.place[by_looks][1:] != items.place[by_looks][:-1], True)
    engine = by_looks[last][:length]
    ours = items.order[:length]
    either, at = np.unique(np.concatenate([ours, engine]), return_inverse=True)
    drawn = rng.beta(items.hits[either], (items.total - items.hits)[either], (_DRAWS, either.size))
    gain = _worth(state, drawn[:, at[: ours.size]]) - _worth(state, drawn[:, at[ours.size :]])
    value, low, high = (round(float(x), 9) + 0.0 for x in (gain.mean(), *np.percentile(gain, _SURE)))
    return IntervalOut(value=value, low=low, high=high)


def _worth(state: CollectionState, attraction: Floats) -> Floats:
    """[n] the worth of lists, [n, places]: the chance of a click; with attention, the expected clicks."""
    attention = state.learner.attention[: attraction.shape[1]]
    if (state.learner.attention >= 1.0).all():
        worth: Floats = 1.0 - np.prod(1.0 - attraction, axis=1)
    else:
        worth = attraction @ attention
    return worth
