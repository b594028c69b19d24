"""Which of two rankers is better, by the clicks on mixed lists, for people to read."""

from typing import NamedTuple

import numpy as np

from ...arrays import Bools
from ...interleaving import OURS, THEIRS, Standing, standing
from .board import Board
from .interleaving import MOST, Tallies
from .labels import FRAUD
from .suspects import Suspects, suspects


class InterleavingSummary(NamedTuple):
    """How both stand by visitors and by lists, without those that are suspect, and by all visitors.

    The verdict needs both counts: bots of few identities are few visitors, those of many are as many as their lists.
    """

    by_visitor: Standing
    by_list: Standing
    whole: Standing  # by visitor, suspect ones among them
    bots: float  # share of bots that a verdict has to withstand
    since: float | None  # when the first and the latest of the visitors came
    until: float | None

    @property
    def withstands(self) -> float:
        """Share of visitors, and of lists, that might be bots', and the one who leads would lead all the same."""
        agree = (self.by_visitor.low > 0.0) == (self.by_list.low > 0.0)
        return min(self.by_visitor.withstands, self.by_list.withstands) if agree else 0.0

    @property
    def verdict(self) -> str:
        """ours, theirs or open."""
        if self.withstands <= self.bots:
            return "open"
        return "ours" if self.by_visitor.low > 0.0 else "theirs"

    def says(self) -> list[str]:
        """What has to be known before the numbers are believed."""
        found = []
        count, left_out = self.whole.total, self.whole.total - self.by_visitor.total
        if left_out:
            found.append(f"{left_out:,} of {count:,} visitors are suspect and left out of the verdict.")
        if 0.0 < self.withstands <= self.bots:
            leader = "Ours" if self.by_visitor.low > 0.0 else "Theirs"
            found.append(
                f"{leader} leads, but if {self.withstands:.1%} of the visitors were bots that nobody found, they "
                f"could have brought that about. A verdict has to withstand {self.bots:.0%} (interleave_bots)."
            )
        if count >= MOST:
            found.append(f"{MOST:,} visitors are counted, and no more: turn interleave off and on to begin anew.")
        return found


def summarize_interleaving(board: Board) -> InterleavingSummary:
    """How the rankers stand now. O(visitors)."""
    found, times = board.interleaving.tallies(), board.interleaving.time
    kept = ~_suspect(found, suspects(board))
    return InterleavingSummary(
        _by_visitor(found, kept),
        standing(*found.lists[kept].sum(axis=0).tolist()),
        _by_visitor(found, np.ones(kept.size, np.bool_)),
        board.config.interleave_bots,
        min(times, default=None),
        max(times, default=None),
    )


def _by_visitor(found: Tallies, kept: Bools) -> Standing:
    ours, theirs = (int(np.count_nonzero(kept & (found.credit == team))) for team in (OURS, THEIRS))
    return standing(int(np.count_nonzero(kept)), ours, theirs)


def _suspect(found: Tallies, odd: Suspects) -> Bools:
    """[n] which visitors are suspect: as `Suspects.among` says of each."""
    among: Bools = np.zeros(found.round.size, np.bool_)
    among |= np.isin(found.senders, list(odd.senders)).any(axis=1)
    stretches = [(band.start, band.end) for band in odd.untrusted]
    stretches += [(start, end) for start, end, word in odd.spans.spans if word == FRAUD]
    for start, end in stretches:
        among |= (start <= found.round) & (found.round <= end)
    return among
