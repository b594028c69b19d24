"""User Behavior Insights 1.x of OpenSearch and Elasticsearch: queries with their hits, and events, by `query_id`."""

from typing import Any

from .pile import Pile, first_of, is_click, is_shown, opened

NAME = "ubi"
WORDS = "User Behavior Insights 1.x: queries and events, joined on query_id"
_HITS = ("query_response_hit_ids", "query_response_hits_ids")


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a query with its hits, or an event of one."""
    return "query_id" in row and ("action_name" in row or any(name in row for name in _HITS))


def take(row: dict[str, Any], number: int, pile: Pile) -> None:
    """Take a query or an event; `position.ordinal` counts from the top, `position.index` does where that is used."""
    key = first_of(row, "query_id")
    time, client = first_of(row, "timestamp"), first_of(row, "client_id", "session_id", "user_id")
    board = first_of(row, "application")
    hits = opened(first_of(row, *_HITS))
    if hits is not None and first_of(row, "action_name") is None:
        pile.shown(number, key, hits if isinstance(hits, list) else str(hits).split(","), time, client, board)
        return
    action = first_of(row, "action_name")
    item = first_of(row, "event_attributes.object.object_id", "event_attributes.object.internal_id", "object_id")
    place = first_of(
        row, "event_attributes.position.ordinal", "event_attributes.position.index", "event_attributes.position"
    )
    if is_click(action) and key is not None and item is not None:
        pile.click(number, key, item)
    elif is_shown(action) and key is not None and item is not None:
        pile.piece(number, key, item, place, time, client, board)
    else:
        pile.other(action or "rows without action")
