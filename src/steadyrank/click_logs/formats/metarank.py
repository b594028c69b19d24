"""Events of Metarank: `ranking` is a list shown, `interaction` of type click a click in one."""

from typing import Any

from .fields import first_of, is_click, opened
from .joiner import EventJoiner

NAME = "metarank"
WORDS = "Metarank events: ranking and interaction, joined on the ranking's id"


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is one of Metarank's four kinds of events."""
    return row.get("event") in ("ranking", "interaction", "item", "user") and "timestamp" in row


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Add an event; those that describe items and users are only counted."""
    kind = row.get("event")
    if kind == "ranking":
        items = [first_of(one, "id") if isinstance(one, dict) else one for one in opened(row.get("items")) or []]
        client = first_of(row, "user", "session")
        joiner.add_list(number, first_of(row, "id"), items, first_of(row, "timestamp"), client, None)
    elif kind == "interaction" and is_click(row.get("type")):
        joiner.add_click(number, first_of(row, "ranking"), first_of(row, "item"))
    else:
        joiner.add_other(row.get("type") if kind == "interaction" else f"{kind} events")
