"""Exports of Google Analytics 4: `view_item_list` is a list shown, `select_item` a click in one."""

from typing import Any

from .fields import first_of, number, opened
from .joiner import EventJoiner

NAME = "ga4"
WORDS = "Google Analytics 4 events: view_item_list and select_item"


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is an event with items."""
    return "event_name" in row and "items" in row and ("user_pseudo_id" in row or "event_timestamp" in row)


def take(row: dict[str, Any], row_number: int, joiner: EventJoiner) -> None:
    """Add an event. `items[].index` counts from 0 or 1; a click belongs to the user's last list with that item."""
    kind = first_of(row, "event_name")
    items = opened(row.get("items")) or []
    items = [one for one in items if isinstance(one, dict)]
    if kind not in ("view_item_list", "select_item") or not items:
        joiner.add_other(kind)
        return
    time, client = first_of(row, "event_timestamp"), first_of(row, "user_pseudo_id", "user_id")
    board = first_of(row, "item_list_id", "item_list_name") or first_of(items[0], "item_list_id", "item_list_name")
    if kind == "select_item":
        joiner.add_click(row_number, None, first_of(items[0], "item_id", "item_name"), time, client, board)
        return
    places = [number(first_of(one, "index", "item_list_index")) for one in items]
    if all(place == place for place in places):
        items = [one for _, one in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]
    joiner.add_list(row_number, None, [first_of(one, "item_id", "item_name") for one in items], time, client, board)
