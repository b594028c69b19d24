"""Nested JSON of any depth: sessions with lists, lists with items and their clicks."""

from collections.abc import Iterator
from typing import Any

from .fields import first_of, opened
from .joiner import EventJoiner

NAME = "sessions"
WORDS = "nested JSON: sessions with lists, or lists of items with an id and whether each was clicked"
_ITEM = ("item", "item_id", "itemId", "id", "doc_id", "document_id", "product_id", "productId", "sku", "url")
_CLICKED = ("clicked", "click", "is_clicked", "isClicked", "was_clicked")
_LIST = ("items", "ranking", "results", "documents", "docs", "products", "shown", "slate")
_WHAT = ("clicked", "clicks", "clicked_item", "clickedItem", "clicked_items", "clicked_position", "clickedPosition")


def fits(row: dict[str, Any]) -> bool:
    """Whether a row contains a list that was shown, at any depth."""
    return any(isinstance(value, list) and value and isinstance(value[0], dict) for value in row.values()) and any(
        True for _ in _lists(row, {})
    )


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Add all lists of a row."""
    before = len(joiner.lists)
    for items, clicked, context in _lists(row, {}):
        key = (number, len(joiner.lists))
        time = first_of(context, "time", "timestamp", "ts", "datetime", "date", "created_at")
        client = first_of(
            context, "client", "client_id", "user", "user_id", "userId", "visitor_id", "session_id", "ip"
        )
        joiner.add_list(number, key, items, time, client, first_of(context, "board", "page", "surface", "placement"))
        for item in clicked:
            joiner.add_click(number, key, item)
    if len(joiner.lists) == before:
        joiner.add_other("rows without a list")


def _lists(row: dict[str, Any], context: dict[str, Any]) -> Iterator[tuple[list[Any], list[Any], dict[str, Any]]]:
    """Each list from the top, its clicked items, and the scalar fields of all enclosing objects."""
    row = {name: opened(value) for name, value in row.items()}
    context = {**context, **{name: value for name, value in row.items() if not isinstance(value, (list, dict))}}
    shown = first_of(row, *_LIST)
    if isinstance(shown, list) and shown:
        item = shown[0] if isinstance(shown[0], dict) else {}  # no item if it holds a list itself
        if first_of(item, *_ITEM) is not None and not isinstance(first_of(item, *_LIST), list):
            items = [first_of(one, *_ITEM) for one in shown]
            flags = [str(first_of(one, *_CLICKED)).lower() in ("1", "1.0", "true", "yes") for one in shown]
            named = _named(row, items)
            yield items, named or [item for item, flag in zip(items, flags, strict=True) if flag], context
            return
        if not isinstance(shown[0], (dict, list)) and first_of(row, *_WHAT) is not None:
            yield shown, _named(row, shown), context
            return
    for value in row.values():
        inner = value if isinstance(value, list) else [value]
        for one in inner:
            if isinstance(one, dict):
                yield from _lists(one, context)


def _named(row: dict[str, Any], items: list[Any]) -> list[Any]:
    """The clicked items that a field beside the list names, by item or by place from 1."""
    what = first_of(row, *_WHAT)
    clicked = what if isinstance(what, list) else [] if what is None else [what]
    names = set(map(str, items))
    named = [one for one in clicked if str(one) in names]
    if named or not clicked:
        return named
    if all(isinstance(one, (int, float)) and 1 <= one <= len(items) for one in clicked):
        return [items[int(one) - 1] for one in clicked]
    return []
