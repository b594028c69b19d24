"""Rows of events as other systems write them: fields under several names, and what the names of events mean.

Rows of User Behavior Insights 1.x, of OpenSearch and Elasticsearch: queries with their hits, and events.
"""

import datetime
import json
import math
from typing import Any, NamedTuple, TypeAlias

CLICKED = {"click", "clicked", "select", "selected", "tap", "open", "click_through", "clickthrough", "select_item"}
CLICKED |= {"product_click", "item_click", "result_click", "search_result_click", "itemclick"}
SEEN = {
    "impression",
    "impressions",
    "view",
    "viewed",
    "show",
    "shown",
    "display",
    "displayed",
    "exposure",
    "rendered",
}
SEEN |= {"view_item_list", "item_impression", "product_impression", "serve", "served", "impression_view"}


def is_click(word: Any) -> bool:
    """Whether an event's name says that something was clicked."""
    return str(word).strip().lower().replace("-", "_").replace(" ", "_") in CLICKED


def is_shown(word: Any) -> bool:
    """Whether an event's name says that something was shown."""
    return str(word).strip().lower().replace("-", "_").replace(" ", "_") in SEEN


def first_of(row: dict[str, Any], *names: str) -> Any:
    """The first of some fields that is there, whatever the case of its name; names with dots reach into objects."""
    return first_in(lowered(row), *names)


def lowered(row: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value, with their names in small letters."""
    return {str(name).lower(): value for name, value in row.items() if value is not None}


def first_in(row: dict[str, Any], *names: str) -> Any:
    """The first of some fields that is there, as `first_of`, of a row that was lowered before."""
    for name in names:
        value: Any = row.get(name.lower())
        if value is None and "." in name:
            value = row
            for part in name.split("."):
                value = opened(value)
                value = {str(k).lower(): v for k, v in value.items()}.get(part) if isinstance(value, dict) else None
        if value is not None and value != "":
            return value
    return None


def opened(value: Any) -> Any:
    """A value that is JSON in text as what it says."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def seconds(time: Any) -> float:
    """A time as a number to compare by; NaN where there is none."""
    try:
        return float(time)
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        moment = datetime.datetime.fromisoformat(str(time))
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


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
FIELDS = {"query_id", "action_name", "timestamp", "client_id", "session_id", "user_id", "application", *HITS}
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
        return Query(key, items, time, client, board, segment, features)
    item, place = first_in(row, *OBJECT, "object_id"), first_in(row, *PLACE)
    if is_click(action) and key is not None and item is not None:
        return Click(key, item, client, board)
    if is_shown(action) and key is not None and item is not None:
        return Seen(key, item, place, time, client, board)
    return Other(action or "rows without action")
