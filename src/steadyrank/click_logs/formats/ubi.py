"""User Behavior Insights 1.x of OpenSearch and Elasticsearch: queries with their hits, and events, by `query_id`.

The service takes these rows, too.
"""

from typing import Any, NamedTuple, TypeAlias

from .fields import first_in, is_click, is_shown, lowered, opened
from .joiner import EventJoiner

NAME = "ubi"
WORDS = "User Behavior Insights 1.x: queries and events, joined on query_id"
TEXT = "user_query"
BOARDS = TEXT, "application"  # columns that may name the board of a list: of its query, of where it was shown
HITS = ("query_response_hit_ids", "query_response_hits_ids")
SEGMENT, FEATURES = ("query_attributes.segment",), ("query_attributes.features",)
OBJECT = ("event_attributes.object.object_id", "event_attributes.object.internal_id")
PLACE = ("event_attributes.position.ordinal", "event_attributes.position.index", "event_attributes.position")


class Query(NamedTuple):
    """A list that was shown, from the top; `segment` and `features` are what is known of the visit, unchecked."""

    id: Any
    items: list[Any]
    time: Any
    client: Any
    board: Any
    segment: Any = None
    features: Any = None
    text: Any = None  # what was asked


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
# every field, in small letters, that `read` looks at; of an object, its outermost name
FIELDS = {"query_id", "action_name", "timestamp", "client_id", "session_id", "user_id", "application", TEXT, *HITS}
FIELDS |= {"query_attributes", "event_attributes", "object_id"}
FIELDS |= {*SEGMENT, *FEATURES, *OBJECT, *PLACE}  # what would be told under the whole name, dots included


def read(row: dict[str, Any]) -> Row:
    """What a row says; `position.ordinal` counts from the top, `position.index` does where that is used.

    `query_attributes` may hold anything; the plugin of OpenSearch takes text alone there, so `features` may be JSON.
    """
    row = lowered(row)  # once: it may have any number of other fields
    key, action = first_in(row, "query_id"), first_in(row, "action_name")
    time, client = first_in(row, "timestamp"), first_in(row, "client_id", "session_id", "user_id")
    board = first_in(row, "application")
    hits = opened(first_in(row, *HITS))
    if hits is not None and action is None:
        segment, features = first_in(row, *SEGMENT), opened(first_in(row, *FEATURES))
        items = hits if isinstance(hits, list) else str(hits).split(",")
        return Query(key, items, time, client, board, segment, features, first_in(row, TEXT))
    item, place = first_in(row, *OBJECT, "object_id"), first_in(row, *PLACE)
    if is_click(action) and key is not None and item is not None:
        return Click(key, item, client, board)
    if is_shown(action) and key is not None and item is not None:
        return Seen(key, item, place, time, client, board)
    return Other(action or "rows without action")


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a query with its hits, or an event of one."""
    return "query_id" in row and ("action_name" in row or any(name in row for name in HITS))


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Take a query or an event."""
    match read(row):
        case Query(id_, items, time, client, board, segment, features, text):
            joiner.add_list(number, id_, items, time, client, board, segment, features, text)
        case Click(query, item):
            joiner.add_click(number, query, item)
        case Seen(query, item, place, time, client, board):
            joiner.add_shown_item(number, query, item, place, time, client, board)
        case other:
            joiner.add_other(other.what)
