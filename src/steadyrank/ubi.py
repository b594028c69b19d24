"""Rows of User Behavior Insights 1.x, of OpenSearch and Elasticsearch: queries with their hits, and events."""

from typing import Any, NamedTuple, TypeAlias

from .event_rows import first_of, is_click, is_shown, opened

HITS = ("query_response_hit_ids", "query_response_hits_ids")
SEGMENT, FEATURES = ("query_attributes.segment",), ("query_attributes.features",)


class Query(NamedTuple):
    """A list that was shown, from the top; `segment` and `features` are what is known of the visit, unchecked."""

    id: Any
    items: list[Any]
    time: Any
    client: Any
    board: Any
    segment: Any = None
    features: Any = None


class Click(NamedTuple):
    """A click on an item of a query's list."""

    query: Any
    item: Any
    client: Any
    board: Any


class Seen(NamedTuple):
    """An item of a query's list that was shown; `place`: its position."""

    query: Any
    item: Any
    place: Any
    time: Any
    client: Any
    board: Any


class Other(NamedTuple):
    """A row that tells of neither, by what it is."""

    what: Any


Row: TypeAlias = Query | Click | Seen | Other


def read(row: dict[str, Any]) -> Row:
    """What a row says; `position.ordinal` counts from the top, `position.index` does where that is used.

    `query_attributes` may hold anything; the plugin of OpenSearch takes text alone there, so `features` may be JSON.
    """
    key, action = first_of(row, "query_id"), first_of(row, "action_name")
    time, client = first_of(row, "timestamp"), first_of(row, "client_id", "session_id", "user_id")
    board = first_of(row, "application")
    hits = opened(first_of(row, *HITS))
    if hits is not None and action is None:
        segment, features = first_of(row, *SEGMENT), opened(first_of(row, *FEATURES))
        items = hits if isinstance(hits, list) else str(hits).split(",")
        return Query(key, items, time, client, board, segment, features)
    item = first_of(row, "event_attributes.object.object_id", "event_attributes.object.internal_id", "object_id")
    place = first_of(
        row, "event_attributes.position.ordinal", "event_attributes.position.index", "event_attributes.position"
    )
    if is_click(action) and key is not None and item is not None:
        return Click(key, item, client, board)
    if is_shown(action) and key is not None and item is not None:
        return Seen(key, item, place, time, client, board)
    return Other(action or "rows without action")
