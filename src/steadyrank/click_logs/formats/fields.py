"""Fields of other systems' rows: each under several names, and the words for shown and clicked. Needs no polars."""

import datetime
import json
import math
from typing import Any

CLICKED = {
    *("click", "clicked", "select", "selected", "tap", "open", "click_through", "clickthrough", "select_item"),
    *("product_click", "item_click", "result_click", "search_result_click", "itemclick"),
}
SEEN = {
    *("impression", "impressions", "view", "viewed", "show", "shown", "display", "displayed", "exposure", "rendered"),
    *("view_item_list", "item_impression", "product_impression", "serve", "served", "impression_view"),
}


class WrongRow(ValueError):
    """A row that cannot be used, and why."""


def plain_word(word: Any) -> str:
    """A word for what a row tells of, in small letters."""
    return str(word).strip().lower().replace("-", "_").replace(" ", "_")


def is_click(word: Any) -> bool:
    """Whether the word for what a row tells of says that something was clicked."""
    return plain_word(word) in CLICKED


def is_shown(word: Any) -> bool:
    """Whether the word for what a row tells of says that something was shown."""
    return plain_word(word) in SEEN


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


def number(value: Any) -> float:
    """A number, NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def seconds(time: Any) -> float:
    """A time as a number to compare by; NaN where there is none."""
    value = number(time)
    if not math.isnan(value):
        return value
    try:
        moment = datetime.datetime.fromisoformat(str(time))
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan
