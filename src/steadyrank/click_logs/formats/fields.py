"""Look up fields of other systems' rows under several names, and classify their words. Needs no polars."""

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
    """Raised for a row that cannot be used, with the reason."""


def plain_word(word: Any) -> str:
    """Normalise the name of an action or event: lower case with underscores."""
    return str(word).strip().lower().replace("-", "_").replace(" ", "_")


def is_click(word: Any) -> bool:
    """Whether the name of an action or event means a click."""
    return plain_word(word) in CLICKED


def is_shown(word: Any) -> bool:
    """Whether the name of an action or event means that something was shown."""
    return plain_word(word) in SEEN


def first_of(row: dict[str, Any], *names: str) -> Any:
    """The first of the fields with a value, ignoring case; names with dots reach into nested objects."""
    return first_in(lowered(row), *names)


def lowered(row: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value, with lower-case names."""
    return {str(name).lower(): value for name, value in row.items() if value is not None}


def first_in(row: dict[str, Any], *names: str) -> Any:
    """The same as `first_of`, for a row that is already `lowered`."""
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
    """Parse a value that is JSON text; others are returned as they are."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def number(value: Any) -> float:
    """Convert to a number; NaN if that fails."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def seconds(time: Any) -> float:
    """A time as a sortable number, seconds since 1970 for ISO 8601 text; NaN if it cannot be parsed."""
    value = number(time)
    if not math.isnan(value):
        return value
    try:
        moment = datetime.datetime.fromisoformat(str(time))
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan
