"""How unanswered lists count. Ours, no paper's.

If pages report only clicks, a list without an answer was looked at and not clicked. But anybody who requests lists
can leave them unanswered, and maybe nobody has seen them. So answers vouch for silence: with each answer, as many
unanswered lists as usual on this board count as not clicked; the others count for nothing. Lists are drawn alike for
all clients, so silence in a constant proportion lowers all estimates alike, in order.
"""

import math
import statistics
from typing import Any

BLOCK = 20  # answers per block, in which unanswered lists are counted
BLOCKS = 31  # blocks kept: more than half of them must be high before many unanswered lists are usual
FIRST = 50.0  # unanswered lists per answer before the first block: two clicks in a hundred lists
RISE = 1.0 / 700.0  # largest relative growth of the usual number per block: it doubles in about 10,000 answers
_RECENT = 5  # blocks used for an alarm, besides the incomplete one
_MARGIN = 0.05  # least excess of the share over the usual one for an alarm
_SIGMAS = 5.0
_HIDDEN = math.log(2.0)  # most by which a Poisson mean exceeds its median (Choi 1994, Proc. AMS 121)


class Silence:
    """How many lists are left unanswered per answer, and which of them count as not clicked.

    `usual` is the median of the latest `BLOCKS` counts; once there are so many, it follows falls at once and rises
    slowly. A flood of any length without answers is one count, and can spend at most a block's credit.
    """

    def __init__(self) -> None:
        self.usual = FIRST  # unanswered lists per answer
        self.credit = FIRST  # unanswered lists that may count now
        self.answers = 0  # in this block
        self.unanswered = 0  # in this block
        self.blocks: list[int] = []  # unanswered lists in earlier blocks, oldest first
        self.alarmed = 0  # the latest round with an alarm, 0 if none

    def add_answered(self) -> None:
        """Count an answered list."""
        self.answers += 1
        self.credit = min(self.credit + self.usual, max(self.usual * BLOCK, 1.0))
        if self.answers == BLOCK:
            self.blocks = [*self.blocks, self.unanswered][-BLOCKS:]
            self.answers = self.unanswered = 0
            middle = statistics.median_low(self.blocks) / BLOCK
            young = len(self.blocks) < BLOCKS
            self.usual = middle if young else min(middle, self.usual + RISE * max(self.usual, 1.0 / BLOCK))

    def add_one_unanswered(self, t: int) -> bool:
        """Count the list of round t as expired without an answer; returns whether it counts as not clicked."""
        self.add_unanswered(1, t)
        if not self.may_count:
            return False
        self.credit -= 1.0
        return True

    @property
    def may_count(self) -> bool:
        """Whether the next unanswered list counts as not clicked."""
        return self.credit >= 1.0

    def add_unanswered(self, n: int, t: int) -> None:
        """Count n lists, the last of them of round t, as expired without an answer.

        More lists are more alarming, so if any of them raises an alarm, the last one does.
        """
        self.unanswered += n
        if self.alarming:
            self.alarmed = t

    @property
    def share(self) -> float:
        """Recent share of unanswered lists, over about 100 answers; 0 if no list has expired."""
        unanswered, answers = self._recent_counts()
        return unanswered / max(unanswered + answers, 1)

    @property
    def usual_share(self) -> float | None:
        """Upper bound of the usual share on this board; None while too few lists were answered.

        A median of small counts hides part of them: if one in 30 lists is unanswered, most blocks have none.
        """
        most = self.usual + _HIDDEN / BLOCK
        return most / (1.0 + most) if len(self.blocks) >= _RECENT else None

    @property
    def alarming(self) -> bool:
        """Whether more lists than usual are unanswered: by 5 percentage points, and by 5 standard deviations."""
        usual, lists = self.usual_share, sum(self._recent_counts())
        if usual is None:
            return False
        spread = math.sqrt(usual * (1.0 - usual) / max(lists, 1))
        return self.share > usual + max(_MARGIN, _SIGMAS * spread)

    def _recent_counts(self) -> tuple[int, int]:
        latest = self.blocks[-_RECENT:]
        return self.unanswered + sum(latest), self.answers + BLOCK * len(latest)

    def summary(self) -> dict[str, Any]:
        """Summary for people."""
        return {
            "share": self.share,
            "usual": self.usual_share,
            "alarming": self.alarming,
            "alarmed": self.alarmed or None,
        }

    def keep(self) -> dict[str, Any]:
        """The state as JSON."""
        return dict(vars(self))

    @classmethod
    def restore(cls, kept: dict[str, Any]) -> "Silence":
        """Restore what `keep` returned."""
        silence = cls()
        for name in vars(silence):
            setattr(silence, name, kept[name])
        return silence
