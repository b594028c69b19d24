"""Which of two rankers the visitors of mixed lists preferred: one credit a client and day, and few of any one."""

from typing import Any, NamedTuple

import numpy as np

from ...arrays import Ints
from ...contract import ANYONE
from ...interleaving import NEITHER, OURS, credit
from ...live.impression_buffer import MOST_KINDS
from . import events

DAY = 86_400.0  # seconds in which a client has one credit
MOST = 100_000  # visitors that are counted: by then the interval is 0.023 credits a visitor wide
MOST_LISTS = 5  # of a visitor
SHARE = 0.01  # of all visitors, at most, that one client may be on several days
_ROUNDED = 1.0  # seconds: an answer knows when its list was shown from when it expires


class Tallies(NamedTuple):
    """By visitor: in which round it came, the numbers of its client and cohorts, and whom it gave its credits to."""

    round: Ints  # [n]
    senders: Ints  # [n, kinds + 1], -1 where there are fewer
    credit: Ints  # [n] the visitor's own
    lists: Ints  # [n, 3] mixed lists, and of these the credits that were ours and theirs


class Interleaving:
    """The visitors that mixed lists were shown to: a client counts as one a day, from the first list of that day on.

    The first list of the day on which one team's items were clicked more gives the visitor's credit to that team; its
    first few lists are counted as well. Who counts is decided before it is known what is clicked.
    """

    def __init__(self) -> None:
        self.client: list[int] = []
        self.cohorts: list[list[int]] = []
        self.time: list[float] = []  # of the day's first list
        self.round: list[int] = []
        self.credit: list[int] = []
        self.lists: list[list[int]] = []
        self._days: dict[int, list[int]] = {}  # by client, its visitors

    def shown(self, event: events.OfVisitor) -> None:
        """A list was shown; one that is not mixed, or that nobody has a name for, changes nothing."""
        if not _mixed(event) or event.client == ANYONE:
            return
        days = self._days.get(event.client, [])
        if days and event.time < self.time[days[-1]] + DAY:
            lists = self.lists[days[-1]]
            lists[0] = min(lists[0] + 1, MOST_LISTS)
        elif len(self.client) < MOST and (not days or len(days) < SHARE * len(self.client)):
            cohorts = sorted(event.cohorts.values())[:MOST_KINDS]
            self._add(event.client, cohorts, event.time, event.round, NEITHER, [1, 0, 0])

    def answered(self, event: events.Answered | events.Observed) -> None:
        """A mixed list was answered: its credit, and that of its visitor, unless it has given it."""
        days = self._days.get(event.client)
        if isinstance(event, events.Observed) or not event.teams or not days:
            return
        last, given = days[-1], credit(event.teams, event.clicks)
        if given == NEITHER or not -_ROUNDED < event.time - self.time[last] < DAY:
            return
        if self.credit[last] == NEITHER:
            self.credit[last] = given
        lists = self.lists[last]
        if lists[1] + lists[2] < lists[0]:
            lists[1 if given == OURS else 2] += 1

    def _add(self, client: int, cohorts: list[int], time: float, round_: int, given: int, lists: list[int]) -> None:
        self._days.setdefault(client, []).append(len(self.client))
        self.client.append(client)
        self.cohorts.append(cohorts)
        self.time.append(time)
        self.round.append(round_)
        self.credit.append(given)
        self.lists.append(lists)

    def tallies(self) -> Tallies:
        """The visitors as arrays."""
        senders: Ints = np.full((len(self.client), MOST_KINDS + 1), ANYONE, np.int64)
        senders[:, 0] = self.client
        for row, cohorts in enumerate(self.cohorts):
            if cohorts:
                senders[row, 1 : 1 + len(cohorts)] = cohorts
        lists: Ints = np.array(self.lists, np.int64).reshape(-1, 3)
        return Tallies(np.array(self.round, np.int64), senders, np.array(self.credit, np.int64), lists)

    def arrays(self) -> dict[str, Any]:
        """Everything, as arrays by name; nothing where no list was ever mixed."""
        if not self.client:
            return {}
        parts = self.tallies()._asdict() | {"time": np.array(self.time)}
        return {f"interleaving.{name}": array for name, array in parts.items()}

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> "Interleaving":
        """The one that `arrays` came from."""
        found, names = cls(), ("senders", "time", "round", "credit", "lists")
        if "interleaving.senders" in arrays:
            columns = [arrays[f"interleaving.{name}"].tolist() for name in names]
            for (client, *cohorts), time, round_, given, lists in zip(*columns, strict=True):
                known = [number for number in cohorts if number != ANYONE]
                found._add(client, known, time, round_, given, lists)
        return found


def _mixed(event: events.OfVisitor) -> bool:
    match event:
        case events.ListShown():
            return event.mixed is not None
        case events.Answered():
            return bool(event.teams)
    return False
