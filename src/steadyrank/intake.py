"""From impressions and answers to what a learner is told, and in which order."""

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .contract import Bools, Floats, Ints
from .fold import Fold
from .refusals import Refused
from .settings import flag, whole

Outcome: TypeAlias = Literal["learnt", "waiting", "late", "duplicate"]


@dataclass
class Impression:
    """A list that was shown, and its answer once there is one."""

    ranking: Ints
    note: Floats
    clicks: Bools | None = None
    examined: int = 0


class Intake:
    """Open impressions of a board. Every method is an event; their order decides everything, no clock does.

    `in_order`: answers wait until their impression is settled, and enter the learner in impression order. Where
    clicks come at once and non-clicks only when an impression's time is over, any other order looks like an attack.
    `count_unanswered`: an impression that expires without an answer was looked at in full, and nothing was clicked.
    `most`: open impressions, and answers remembered to tell a repeated one from another; the oldest go first.
    """

    def __init__(self, fold: Fold, in_order: bool, count_unanswered: bool, most: int) -> None:
        self.fold = fold
        self.in_order = flag("in_order", in_order)
        self.count_unanswered = flag("count_unanswered", count_unanswered)
        self.most = whole("most", most, 1)
        self.open: OrderedDict[int, Impression] = OrderedDict()  # by number, oldest first
        self.answered: OrderedDict[int, Impression] = OrderedDict()  # the latest ones
        self.last = 0  # number of the latest impression
        self.settled = 0  # answers to impressions up to this number are late
        self.expired = 0  # impressions that nobody answered

    def shown(self, t: int, ranking: Ints, note: Floats) -> None:
        """Impression number t was shown."""
        self.open[t] = Impression(ranking, note)
        self.last = max(self.last, t)
        if len(self.open) > self.most:
            self.expire(next(iter(self.open)))

    def find(self, t: int) -> Impression:
        """Impression number t, open or answered of late."""
        found = self.open.get(t) or self.answered.get(t)
        if found is not None:
            return found
        if 0 < t <= self.last:
            raise Refused(410, f"impression {t} has expired")
        raise Refused(403, f"impression {t} was never shown")

    def answer(self, t: int, clicks: Bools, examined: int) -> Outcome:
        """Impression t was answered; the same answer again changes nothing, another one is refused."""
        impression = self.find(t)
        if impression.clicks is not None:
            if impression.examined != examined or not np.array_equal(impression.clicks, clicks):
                raise Refused(409, f"impression {t} was answered otherwise before")
            return "duplicate"
        impression.clicks, impression.examined = clicks, examined
        self.answered[t] = impression
        while len(self.answered) > self.most:
            self.answered.popitem(last=False)
        if self.in_order and t > self.settled:
            return "waiting"
        self._enter(t, late=self.in_order)
        return "late" if self.in_order else "learnt"

    def settle(self, upto: int) -> None:
        """Time enough has passed for answers to impressions up to this number: those there are enter in order."""
        for t in [t for t, impression in self.open.items() if t <= upto and impression.clicks is not None]:
            self._enter(t, late=False)
        self.settled = max(self.settled, upto)

    def expire(self, upto: int) -> None:
        """The time of impressions up to this number is over, answered or not."""
        for t in list(itertools.takewhile(lambda t: t <= upto, self.open)):
            if self.open[t].clicks is None:
                self.expired += 1
                if not self.count_unanswered:
                    del self.open[t]
                    continue
                self.open[t].clicks = np.zeros(self.open[t].ranking.size, np.bool_)
                self.open[t].examined = self.open[t].ranking.size
            self._enter(t, late=self.in_order and t <= self.settled)
        self.settled = max(self.settled, upto)

    def _enter(self, t: int, late: bool) -> None:
        impression = self.open.pop(t)
        assert impression.clicks is not None
        self.fold.learn(t, impression.ranking, impression.note, impression.clicks, impression.examined, late=late)
