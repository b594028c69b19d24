"""dsjson, the log of Vowpal Wabbit's decision service: actions with probabilities, and the cost of the chosen one."""

from typing import Any

from .fields import first_of
from .joiner import EventJoiner

NAME = "dsjson"
WORDS = "Vowpal Wabbit dsjson: the action taken, or those of all slots, with their costs; a cost below 0 is a click"


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a decision."""
    return ("_label_cost" in row and "a" in row) or "_outcomes" in row


def take(row: dict[str, Any], number: int, joiner: EventJoiner) -> None:
    """Add a decision. Only the first action was shown; with slots, the first of each slot."""
    actions = (row.get("c") or {}).get("_multi") or []
    time, key = first_of(row, "Timestamp", "timestamp"), first_of(row, "EventId", "eventId") or number

    def name(action: int) -> str:
        about = actions[action - 1] if 0 < action <= len(actions) and isinstance(actions[action - 1], dict) else {}
        id_ = first_of(about, "_tag", "id", "Id", "item_id", "action_id", "actionId")
        return str(action if id_ is None else id_)

    outcomes = row.get("_outcomes")
    if outcomes:
        slots = [slot for slot in outcomes if slot and slot.get("_a")]
        names = [name(int(slot["_a"][0]) + 1) for slot in slots]
        costs = [float(slot.get("_label_cost") or 0.0) for slot in slots]
    elif row.get("a"):
        names, costs = [name(int(row["a"][0]))], [float(row.get("_label_cost") or 0.0)]
    else:
        joiner.add_other("decisions without actions")
        return
    joiner.add_list(number, key, names, time, None, None)
    for item, cost in zip(names, costs, strict=True):
        if cost < 0.0:
            joiner.add_click(number, key, item)
