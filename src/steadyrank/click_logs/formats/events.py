"""Rows of events, some for items that were shown, others for clicks."""

from typing import Any

from .fields import first_of, is_click, is_shown
from .joiner import EventJoiner

NAME = "events"
WORDS = "rows of events, impressions and clicks apart, joined on the impression or on client and item"
ROLES = ("impression", "item", "position", "time", "client", "board")  # that options may assign to a column
_KIND = ("event", "event_type", "eventType", "event_name", "action", "action_name", "type", "interaction_type")
_ITEM = ("item", "item_id", "itemId", "doc_id", "document_id", "product_id", "article_id", "news_id", "sku", "asin")
_KEY = ("impression", "impression_id", "impressionId", "request_id", "search_id", "query_id", "list_id", "slate_id")


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is an event with an item whose type says shown or clicked."""
    kind = first_of(row, *_KIND)
    return (is_click(kind) or is_shown(kind)) and first_of(row, *_ITEM) is not None


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Add an event. Without an impression id each shown item is a list of its own."""
    kind, item, key = first_of(row, *_KIND), first_of(row, *_ITEM), first_of(row, *_KEY)
    time = first_of(row, "time", "timestamp", "event_timestamp", "ts", "datetime", "created_at", "event_time", "date")
    client = first_of(
        row, "client", "client_id", "user", "user_id", "customer_id", "user_pseudo_id", "session_id", "ip"
    )
    board = first_of(row, "board", "page", "surface", "placement", "widget")
    if item is None:
        joiner.add_other("events without an item")
    elif is_click(kind):
        joiner.add_click(number, key, item, time, client, board)
    elif is_shown(kind):
        place = first_of(row, "position", "pos", "rank", "slot", "index", "item_list_index")
        joiner.add_shown_item(number, number if key is None else key, item, place, time, client, board)
    else:
        joiner.add_other(kind)
