"""Alarms for people: surges (`surges`) that come soon after one another form one alarm."""

from typing import NamedTuple

from .collection_state import CollectionState
from .surges import MOST


class Surge(NamedTuple):
    """An item of a query with a sudden rise of clicks: `clicks` in its latest `looks`."""

    id: str  # id of the query
    query: str | None  # its text, if queries are kept
    item: str
    noticed: int  # round of the answer that revealed it
    before: float  # estimated attraction until then
    looks: float
    clicks: float


class Alarm(NamedTuple):
    """Surges soon after one another, in one query or in many. Rounds are those of the visits that revealed them."""

    number: int  # from 1
    first: int  # round
    latest: int
    surges: tuple[Surge, ...]  # those remembered, oldest first

    @property
    def queries(self) -> list[str]:
        """The ids of its queries, in the order in which they were noticed."""
        return list(dict.fromkeys(surge.id for surge in self.surges))


def alarms_of(state: CollectionState, most: int = MOST) -> list[Alarm]:
    """The alarms of the latest `most` surges, oldest first."""
    remembered, alarms = state.learner.surges, dict[int, list[Surge]]()
    rows = remembered.rows()
    for row in rows[max(rows.size - most, 0) :].tolist():
        query, item, noticed, number = remembered.what[row].tolist()
        looks, clicks, mean = remembered.counts[row].tolist()
        text, name = state.query_texts.text(query), state.name_of(item)
        one = Surge(f"{query:014x}", text, name, noticed, mean, looks, clicks)
        alarms.setdefault(number, []).append(one)
    made = []
    for number, surges in alarms.items():
        rounds = [surge.noticed for surge in surges]
        made.append(Alarm(number, min(rounds), max(rounds), tuple(surges)))
    return made
