"""dsjson, the log of Vowpal Wabbit's decision service: actions with their chances, and the cost of the one taken."""

from typing import Any

from ..event_rows import first_of
from .joiner import Pile

NAME = "dsjson"
WORDS = "Vowpal Wabbit dsjson: the action taken, or those of all slots, with their costs; a cost below 0 is a click"


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a decision."""
    return ("_label_cost" in row and "a" in row) or "_outcomes" in row


def take(row: dict[str, Any], number: int, pile: Pile) -> None:
    """Take a decision. Of one action only the first was shown; with slots the first of each."""
    actions = (row.get("c") or {}).get("_multi") or []
    time, key = first_of(row, "Timestamp", "timestamp"), first_of(row, "EventId", "eventId") or number

    def name(action: int) -> str:
        found = actions[action - 1] if 0 < action <= len(actions) and isinstance(actions[action - 1], dict) else {}
        told = first_of(found, "_tag", "id", "Id", "item_id", "action_id", "actionId")
        return str(action if told is None else told)

    outcomes = row.get("_outcomes")
    if outcomes:
        slots = [slot for slot in outcomes if slot and slot.get("_a")]
        names = [name(int(slot["_a"][0]) + 1) for slot in slots]
        costs = [float(slot.get("_label_cost") or 0.0) for slot in slots]
    elif row.get("a"):
        names, costs = [name(int(row["a"][0]))], [float(row.get("_label_cost") or 0.0)]
    else:
        pile.other("decisions without actions")
        return
    pile.shown(number, key, names, time, None, None)
    for item, cost in zip(names, costs, strict=True):
        if cost < 0.0:
            pile.click(number, key, item)
