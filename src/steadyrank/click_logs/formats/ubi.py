"""User Behavior Insights 1.x of OpenSearch and Elasticsearch: queries with their hits, and events, by `query_id`.

The service accepts these rows, too.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from .fields import WrongRow, first_in, is_click, is_shown, lowered, number, opened, plain_word, seconds
from .joiner import EventJoiner

NAME = "ubi"
WORDS = "User Behavior Insights 1.x: queries and events, joined on query_id"
TEXT = "user_query"
BOARDS = TEXT, "application"  # columns that may name the board of a list: its query, or where it was shown
HITS = ("query_response_hit_ids", "query_response_hits_ids")
SEGMENT, FEATURES = ("query_attributes.segment",), ("query_attributes.features",)
OBJECT = ("event_attributes.object.object_id", "event_attributes.object.internal_id")
RETURNS = {"return", "returned", "refund", "refunded"}  # actions whose value is subtracted
# the field of `event_attributes` with the value of each action; None: `value`, or 1 without that field
Values: TypeAlias = Mapping[str, str | None]
PURCHASES: Values = dict.fromkeys(["purchase", "purchased", "buy", "bought", "order", "ordered", *sorted(RETURNS)])
NO_VALUES: Values = {}
PLACE = ("event_attributes.position.ordinal", "event_attributes.position.index", "event_attributes.position")


class Query(NamedTuple):
    """A list that was shown, from the top; `segment` and `features` of the visit are not validated."""

    id: Any
    items: list[Any]
    time: Any
    client: Any
    board: Any
    segment: Any = None
    features: Any = None
    text: Any = None  # text of the query


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


class Worth(NamedTuple):
    """An outcome of a click on an item of a query's list."""

    query: Any
    item: Any
    action: str
    field: str  # that holds its value
    value: Any  # not validated
    time: Any
    client: Any
    board: Any

    @property
    def id(self) -> str:
        """Identifies the outcome among those of the click, so that a repeated event counts once."""
        return f"{self.action} {'' if self.time is None else seconds(self.time)}"


class Other(NamedTuple):
    """A row of another kind; `what`: its name."""

    what: Any


Row: TypeAlias = Query | Click | Seen | Worth | Other
# every field that `read` looks at, in lower case; for nested fields, the outermost name
FIELDS = {"query_id", "action_name", "timestamp", "client_id", "session_id", "user_id", "application", TEXT, *HITS}
FIELDS |= {"query_attributes", "event_attributes", "object_id"}
FIELDS |= {*SEGMENT, *FEATURES, *OBJECT, *PLACE}  # also as flat names with dots


def parse_values(text: str) -> Values:
    """Parse actions that are outcomes, with the fields of their values, from `purchase:price,watch:seconds`."""
    told: dict[str, str | None] = {}
    for part in text.split(","):
        action, colon, field = part.strip().partition(":")
        if not action or (colon and not field) or is_click(action) or is_shown(action):
            words = "actions that come after a click, each with the field of event_attributes that has its value"
            raise ValueError(f"outcomes of ubi are {words}, such as purchase:price,watch:seconds, not {text!r:.80}")
        told[plain_word(action)] = field.lower() or None
    return told


def read(row: dict[str, Any], values: Values = PURCHASES) -> Row:
    """Interpret a row. `position.ordinal` counts from the top, and so does `position.index` if used instead.

    `values`: actions that are outcomes. `query_attributes` may hold anything; the plugin of OpenSearch only accepts
    text there, so `features` may be JSON text.
    """
    row = lowered(row)  # only once: it may have any number of other fields
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
    if action is not None and (word := plain_word(action)) in values and key is not None and item is not None:
        field = f"event_attributes.{values[word] or 'value'}"
        value = first_in(row, field)
        if value is None and values[word] is None:
            value = 1.0
        return Worth(key, item, word, field, _as_number(value), time, client, board)
    return Other(action or "rows without action")


def _as_number(value: Any) -> Any:
    """Convert text to a number if possible; other values are returned as they are."""
    return value if not isinstance(value, str) or math.isnan(number(value)) else number(value)


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a query with its hits, or an event of one."""
    return "query_id" in row and ("action_name" in row or any(name in row for name in HITS))


def take(row: dict[str, Any], number: int, joiner: EventJoiner, values: Values = NO_VALUES) -> None:
    """Add a query or an event; `values`: actions that are outcomes."""
    match read(row, values):
        case Query(id_, items, time, client, board, segment, features, text):
            joiner.add_list(number, id_, items, time, client, board, segment, features, text)
        case Click(query, item):
            joiner.add_click(number, query, item)
        case Seen(query, item, place, time, client, board):
            joiner.add_shown_item(number, query, item, place, time, client, board)
        case Worth() as worth:
            joiner.add_outcome(worth.query, worth.item, worth.id, _amount(worth))
        case other:
            joiner.add_other(other.what)


def _amount(worth: Worth) -> float:
    """The amount that an outcome adds to the value of the click; raises WrongRow for an invalid value."""
    value = worth.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise WrongRow(f"{worth.field} of {worth.action} is a number of at least 0, not {value!r:.80}")
    return -float(value) if worth.action in RETURNS else float(value)
