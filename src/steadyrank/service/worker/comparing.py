"""What the log says of another ranker's lists, and of ours in their place."""

from typing import NamedTuple

import numpy as np

from ...arrays import Bools
from ...contract import ANYONE
from ...off_policy import LEAST_CHANCE
from ...ranker_comparison import Comparison, Row, compare, lists_of
from ...refusals import Refused
from ..board import events
from ..board.suspects import Suspects
from ..storage import open_store
from .log_rows import read_event

MOST_EVENTS = 500_000  # of the log, the latest


class Reported(NamedTuple):
    """A list of another ranker as the log has it, and its answer, if it has one."""

    event: events.Observed
    clicks: list[int] | None
    examined: int


class Compared(NamedTuple):
    """A comparison, when the first and the last of its lists were shown, and how many lists are not answered yet."""

    found: Comparison
    since: float
    until: float
    unanswered: int


def read(url: str, number: int) -> list[Reported]:
    """The lists of another ranker that are in the log of a board, of its latest events, in order."""
    found: dict[int, Reported] = {}
    store = open_store(url)
    try:
        with store.reading():
            start = max(store.edge(number, 0.0, MOST_EVENTS), store.shortened(number))
            for entry in store.entries(start, store.head(), number):
                event = read_event(entry)
                if isinstance(event, events.Observed):
                    found.setdefault(event.key, Reported(event, None, 0))
                if isinstance(event, events.Answered | events.Observed) and event.clicks is not None:
                    before = found.get(event.key)
                    if before is not None and before.clicks is None:
                        found[event.key] = before._replace(clicks=event.clicks, examined=event.examined)
    finally:
        store.close()
    return list(found.values())


def compared(reported: list[Reported], names: list[str], suspects: Suspects, over: float | None) -> Compared:
    """Compare the rankers. `over`: lists shown before this time without an answer were looked at and not clicked."""
    rows, odd, chosen = [], [], []
    for one in reported:
        event, examined = one.event, one.examined
        if one.clicks is None:
            if over is None or event.time >= over:
                continue
            examined = len(event.ranking)
        if event.ours and examined:
            sender = event.client if event.client != ANYONE else -1
            chances = _accepted(event.propensities), _accepted(event.marginals)
            rows.append(Row(event.ranking, event.ours, one.clicks or [], examined, *chances, sender))
            odd.append(suspects.among(event.round, (event.client, *event.cohorts.values())))
            chosen.append(event.time)
    if len(rows) < 2:
        raise Refused(409, f"{len(rows)} lists of another ranker are answered and kept in the log: two are needed")
    flags: Bools = np.array(odd, np.bool_)
    unanswered = sum(one.clicks is None for one in reported)
    return Compared(compare(lists_of(rows), flags, names), min(chosen), max(chosen), unanswered)


def _accepted(chances: list[float]) -> list[float]:
    """Chances as they are accepted by now: earlier versions took smaller ones, too."""
    return [max(chance, LEAST_CHANCE) for chance in chances]
