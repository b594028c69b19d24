"""Which of two rankers the visitors of mixed lists prefer: by visitor (a client on one day), and by list."""

from typing import Any, NamedTuple

import numpy as np

from ...comparison.interleaving import NEITHER, OURS, credit
from ...core.arrays import Bools, Ints
from ...core.contract import ANYONE
from ...live.impression_buffer import MOST_KINDS
from . import events

DAY = 86_400.0  # seconds; a client has one credit per day
MOST = 100_000  # rows of client and day kept; with so many the interval is 0.023 credits per visitor wide
SHARE = 0.02  # of all visitors, at most, that one client may make up over several days
_ROUNDED = 1.0  # seconds; an answer derives the time of its list from its expiry, which is rounded


class Tallies(NamedTuple):
    """A row per client and day: round of its first list, numbers of client and cohorts, and its credits.

    `visitor`: whether the row counts as a visitor; its lists count in any case.
    """

    round: Ints  # [n]
    senders: Ints  # [n, kinds + 1], -1 where there are fewer
    visitor: Bools  # [n]
    credit: Ints  # [n] OURS, THEIRS or NEITHER: the credit of the visitor
    lists: Ints  # [n, 3] mixed lists, and the credits they gave to ours and to theirs


class Interleaving:
    """Who saw mixed lists, and whose items were clicked more: one row per client and day.

    Every list counts, however often its client comes: bots can have any number of lists under any number of names, so
    a limit on lists would only reduce the weight of honest people. A client counts as one visitor per day, but on few
    days if it would make up a large part of all visitors; its first list of the day with more clicks on one team's
    items gives the visitor's credit to that team. What counts is decided when a list is shown, before its clicks are
    known.
    """

    def __init__(self) -> None:
        self.client: list[int] = []
        self.cohorts: list[list[int]] = []
        self.time: list[float] = []  # of the day's first list
        self.round: list[int] = []
        self.visitor: list[bool] = []
        self.credit: list[int] = []
        self.lists: list[list[int]] = []
        self.unnamed = 0  # mixed lists shown to unknown clients, which give no credit
        self._latest: dict[int, int] = {}  # by client: its row of the latest day
        self._days: dict[int, int] = {}  # by client: the number of days on which it counted as a visitor
        self._visitors = 0

    def shown(self, event: events.OfVisitor) -> None:
        """Record that a list was shown; lists that are not mixed are ignored."""
        if not _mixed(event):
            return
        full, row = len(self.client) >= MOST, self._latest.get(event.client)
        if event.client == ANYONE:
            self.unnamed += not full
        elif row is not None and event.time < self.time[row] + DAY:
            self.lists[row][0] += 1
        elif not full:
            cohorts = sorted(event.cohorts.values())[:MOST_KINDS]
            days = self._days.get(event.client, 0)
            visitor = row is None or days < SHARE * self._visitors
            self._add(event.client, cohorts, event.time, event.round, visitor, NEITHER, [1, 0, 0])

    def answered(self, event: events.Answered | events.Observed) -> None:
        """Record the answer to a mixed list: the credit of the list, and of its visitor if it has given none yet."""
        row = self._latest.get(event.client)
        if isinstance(event, events.Observed) or not event.teams or row is None:
            return
        given = credit(event.teams, event.clicks)
        if given == NEITHER or not -_ROUNDED < event.time - self.time[row] < DAY:
            return
        if self.credit[row] == NEITHER:
            self.credit[row] = given
        lists = self.lists[row]
        if lists[1] + lists[2] < lists[0]:
            lists[1 if given == OURS else 2] += 1

    def _add(
        self, client: int, cohorts: list[int], time: float, round_: int, visitor: bool, given: int, lists: list[int]
    ) -> None:
        self._latest[client] = len(self.client)
        self._days[client] = self._days.get(client, 0) + visitor
        self._visitors += visitor
        self.client.append(client)
        self.cohorts.append(cohorts)
        self.time.append(time)
        self.round.append(round_)
        self.visitor.append(visitor)
        self.credit.append(given)
        self.lists.append(lists)

    def tallies(self) -> Tallies:
        """The rows as arrays."""
        senders: Ints = np.full((len(self.client), MOST_KINDS + 1), ANYONE, np.int64)
        senders[:, 0] = self.client
        for row, cohorts in enumerate(self.cohorts):
            if cohorts:
                senders[row, 1 : 1 + len(cohorts)] = cohorts
        return Tallies(
            np.array(self.round, np.int64),
            senders,
            np.array(self.visitor, np.bool_),
            np.array(self.credit, np.int64),
            np.array(self.lists, np.int64).reshape(-1, 3),
        )

    def arrays(self) -> dict[str, Any]:
        """Everything, as arrays by name; empty if no list was ever mixed."""
        if not self.client and not self.unnamed:
            return {}
        parts = self.tallies()._asdict() | {"time": np.array(self.time), "unnamed": np.array(self.unnamed)}
        return {f"interleaving.{name}": array for name, array in parts.items()}

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> "Interleaving":
        """Restore the state from `arrays`."""
        restored = cls()
        if "interleaving.senders" not in arrays:
            return restored
        restored.unnamed = int(arrays["interleaving.unnamed"])
        columns = ("senders", "time", "round", "visitor", "credit", "lists")
        rows = zip(*(arrays[f"interleaving.{column}"].tolist() for column in columns), strict=True)
        for (client, *others), time, round_, visitor, given, lists in rows:
            cohorts = [number for number in others if number != ANYONE]
            restored._add(client, cohorts, time, round_, visitor, given, lists)
        return restored


def _mixed(event: events.OfVisitor) -> bool:
    match event:
        case events.ListShown():
            return event.mixed is not None
        case events.Answered():
            return bool(event.teams)
    return False
