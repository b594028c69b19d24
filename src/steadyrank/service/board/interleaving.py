"""Which of two rankers the visitors of mixed lists preferred: by visitor, a client on one day, and by list."""

from typing import Any, NamedTuple

import numpy as np

from ...comparison.interleaving import NEITHER, OURS, credit
from ...core.arrays import Bools, Ints
from ...core.contract import ANYONE
from ...live.impression_buffer import MOST_KINDS
from . import events

DAY = 86_400.0  # seconds in which a client has one credit
MOST = 100_000  # clients and days that are kept: by then the interval is 0.023 credits a visitor wide
SHARE = 0.02  # of all visitors, at most, that one client may be on several days
_ROUNDED = 1.0  # seconds: an answer knows when its list was shown from when it expires


class Tallies(NamedTuple):
    """By client and day: the round of the first list, the numbers of client and cohorts, and whom credits went to.

    `visitor`: whether it counts among the visitors; its lists count in any case.
    """

    round: Ints  # [n]
    senders: Ints  # [n, kinds + 1], -1 where there are fewer
    visitor: Bools  # [n]
    credit: Ints  # [n] the visitor's own
    lists: Ints  # [n, 3] mixed lists, and of these the credits that were ours and theirs


class Interleaving:
    """Whom mixed lists were shown to, and whose items were clicked more: of each client a row a day.

    Every list counts, however often its client comes: bots have as many lists as anybody, under as many names as they
    like, so whatever kept honest people's lists from being counted would make more of theirs. A client counts as one
    visitor a day, on few days if it would be a large part of all; the first list of the day on which one team's items
    were clicked more gives the visitor's credit to that team. What counts is decided when a list is shown, before it
    is known what is clicked.
    """

    def __init__(self) -> None:
        self.client: list[int] = []
        self.cohorts: list[list[int]] = []
        self.time: list[float] = []  # of the day's first list
        self.round: list[int] = []
        self.visitor: list[bool] = []
        self.credit: list[int] = []
        self.lists: list[list[int]] = []
        self.unnamed = 0  # mixed lists that were shown to nobody known: they give no credit
        self._latest: dict[int, int] = {}  # by client, its row of the latest day
        self._days: dict[int, int] = {}  # by client, on how many days it was a visitor
        self._visitors = 0

    def shown(self, event: events.OfVisitor) -> None:
        """A list was shown; one that is not mixed changes nothing."""
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
        """A mixed list was answered: its credit, and that of its visitor, unless it has given it."""
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
        """Everything, as arrays by name; nothing where no list was ever mixed."""
        if not self.client and not self.unnamed:
            return {}
        parts = self.tallies()._asdict() | {"time": np.array(self.time), "unnamed": np.array(self.unnamed)}
        return {f"interleaving.{name}": array for name, array in parts.items()}

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> "Interleaving":
        """The one that `arrays` came from."""
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
