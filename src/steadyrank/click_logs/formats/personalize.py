"""Interactions of Amazon Personalize: rows of a data set with `IMPRESSION`, or requests with `eventList`."""

from typing import Any

from .fields import first_of, is_click, opened
from .joiner import EventJoiner

NAME = "personalize"
WORDS = "Amazon Personalize interactions with impressions (a|b|c) and recommendationId"
_SEEN = ("impression", "impressions")


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is an interaction with an impression that is a list, or a PutEvents request."""
    lower = {name.lower(): value for name, value in row.items()}
    if "eventlist" in lower:
        return True
    named = {"user_id", "item_id", "timestamp"} <= set(lower) or {"userid", "itemid"} <= set(lower)
    seen = next((lower[name] for name in _SEEN if name in lower), None)
    listed = isinstance(seen, list) or (isinstance(seen, str) and "|" in seen)
    return named and (listed or "recommendation_id" in lower or "recommendationid" in lower)


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Add an interaction, or all of a request. One that is not a click adds its list without a click."""
    events = opened(first_of(row, "eventList"))
    if isinstance(events, list):
        outer = {name: value for name, value in row.items() if name.lower() != "eventlist"}
        for event in events:
            take({**outer, **event}, number, joiner)
        return
    item, client = first_of(row, "item_id", "itemId"), first_of(row, "user_id", "userId", "sessionId", "session_id")
    time = first_of(row, "timestamp", "sentAt")
    seen = opened(first_of(row, *_SEEN))
    items = seen if isinstance(seen, list) else str(seen).split("|") if seen else []
    if not items:
        joiner.add_other("interactions without an impression")
        return
    id_ = first_of(row, "recommendation_id", "recommendationId")
    key = (client, id_ if id_ is not None else time, tuple(map(str, items)))
    joiner.add_list(number, key, items, time, client, first_of(row, "campaign", "recommender"))
    kind = first_of(row, "event_type", "eventType")
    if item is not None and (kind is None or is_click(kind)):
        joiner.add_click(number, key, item)
