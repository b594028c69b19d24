"""What lists that nobody answered may count for. Ours, no paper's.

Where pages report clicks alone, a list without an answer was looked at and not clicked; but anybody who is given
lists can leave them unanswered, without ever being seen. So answers vouch for silence: with each of them, as many
unanswered lists as is usual on this board count as not clicked, and those beyond count for nothing. Lists are drawn
alike for all, whoever is silent, so silence in a constant proportion lowers all estimates alike, in order.
"""

import math
import statistics
from typing import Any

BLOCK = 20  # answers between two counts of what was left unanswered
BLOCKS = 31  # counts kept: more than half of them have to be high before many unanswered lists are usual
FIRST = 50.0  # unanswered lists for each answer before the first count: two clicks in a hundred lists
RISE = 1.0 / 700.0  # most that the usual number grows in a block, relative: it doubles in some 10,000 answers
_LATELY = 5  # blocks that an alarm looks at, beside the one that is not complete
_MARGIN = 0.05  # by which the share has to be more than usual, at least
_SIGMAS = 5.0
_HIDDEN = math.log(2.0)  # by which a Poisson mean may be above its median, at most (Choi 1994, Proc. AMS 121)


class Silence:
    """How many lists are left unanswered for each answer, and which of them count as not clicked.

    `usual` is the median of the latest `BLOCKS` counts; once there are so many, it falls as that does, and rises
    slowly. A flood of any length without answers is one count, and has no more to spend than a block's credit.
    """

    def __init__(self) -> None:
        self.usual = FIRST  # unanswered lists for each answer
        self.credit = FIRST  # unanswered lists that may count now
        self.answers = 0  # in this block
        self.unanswered = 0  # in this block
        self.blocks: list[int] = []  # unanswered lists in those before, the oldest first
        self.alarmed = 0  # the latest round that was alarming, 0 if none was

    def answer(self) -> None:
        """A list was answered."""
        self.answers += 1
        self.credit = min(self.credit + self.usual, max(self.usual * BLOCK, 1.0))
        if self.answers == BLOCK:
            self.blocks = [*self.blocks, self.unanswered][-BLOCKS:]
            self.answers = self.unanswered = 0
            middle = statistics.median_low(self.blocks) / BLOCK
            young = len(self.blocks) < BLOCKS
            self.usual = middle if young else min(middle, self.usual + RISE * max(self.usual, 1.0 / BLOCK))

    def leave(self, t: int) -> bool:
        """The list of round t is over without an answer that covers any place; whether it counts as not clicked."""
        self.leave_some(1, t)
        if not self.may_count:
            return False
        self.credit -= 1.0
        return True

    @property
    def may_count(self) -> bool:
        """Whether the next unanswered list counts as not clicked."""
        return self.credit >= 1.0

    def leave_some(self, n: int, t: int) -> None:
        """So many lists, the last of them of round t, are over without an answer.

        The more of them, the more alarming: the last is if one of them is.
        """
        self.unanswered += n
        if self.alarming:
            self.alarmed = t

    @property
    def share(self) -> float:
        """The share of unanswered lists lately: since some 100 answers ago. 0 if no list is over."""
        unanswered, answers = self._lately()
        return unanswered / max(unanswered + answers, 1)

    @property
    def usual_share(self) -> float | None:
        """The share that is usual on this board, at most; None while too few lists were answered to tell.

        A median of small counts hides a part of them: where one in 30 lists is left, most blocks have none.
        """
        most = self.usual + _HIDDEN / BLOCK
        return most / (1.0 + most) if len(self.blocks) >= _LATELY else None

    @property
    def alarming(self) -> bool:
        """Whether more lists than usual are left unanswered: by 5 in 100 lists, and by 5 standard deviations."""
        usual, lists = self.usual_share, sum(self._lately())
        if usual is None:
            return False
        spread = math.sqrt(usual * (1.0 - usual) / max(lists, 1))
        return self.share > usual + max(_MARGIN, _SIGMAS * spread)

    def _lately(self) -> tuple[int, int]:
        latest = self.blocks[-_LATELY:]
        return self.unanswered + sum(latest), self.answers + BLOCK * len(latest)

    def summary(self) -> dict[str, Any]:
        """What people see of it."""
        return {
            "share": self.share,
            "usual": self.usual_share,
            "alarming": self.alarming,
            "alarmed": self.alarmed or None,
        }

    def keep(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return dict(vars(self))

    @classmethod
    def restore(cls, kept: dict[str, Any]) -> "Silence":
        """The one that `keep` came from."""
        silence = cls()
        for name in vars(silence):
            setattr(silence, name, kept[name])
        return silence
