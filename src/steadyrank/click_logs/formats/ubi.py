"""User Behavior Insights 1.x of OpenSearch and Elasticsearch: queries with their hits, and events, by `query_id`."""

from typing import Any

from ..event_rows import HITS, Click, Query, Seen, read
from .joiner import Pile

NAME = "ubi"
WORDS = "User Behavior Insights 1.x: queries and events, joined on query_id"


def fits(row: dict[str, Any]) -> bool:
    """Whether a row is a query with its hits, or an event of one."""
    return "query_id" in row and ("action_name" in row or any(name in row for name in HITS))


def take(row: dict[str, Any], number: int, pile: Pile) -> None:
    """Take a query or an event."""
    match read(row):
        case Query(id_, items, time, client, board, segment, features):
            pile.shown(number, id_, items, time, client, board, segment, features)
        case Click(query, item):
            pile.click(number, query, item)
        case Seen(query, item, place, time, client, board):
            pile.piece(number, query, item, place, time, client, board)
        case other:
            pile.other(other.what)
