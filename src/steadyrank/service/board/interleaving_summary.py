"""Which of two rankers is better, by the clicks on mixed lists, for people to read."""

from typing import NamedTuple

import numpy as np

from ...comparison.interleaving import NEITHER, OURS, THEIRS, Standing, standing
from ...core.arrays import Bools
from .board import Board
from .guard_summary import Suspects, suspects
from .interleaving import MOST, Tallies
from .labels import FRAUD


class InterleavingSummary(NamedTuple):
    """How both stand by visitors and by lists, without those that are suspect, and by all visitors.

    The verdict needs both counts. Names are free, so bots may be any share of the visitors, but by list they have no
    more credits than they have lists. Bots of few names may have many lists, but are few visitors.
    """

    by_visitor: Standing
    by_list: Standing
    whole: Standing  # by visitor, suspect ones among them
    lists: int  # mixed lists that were shown, suspect ones and those of nobody known among them
    bots: float  # share of bots that a verdict has to withstand
    since: float | None  # when the first and the latest of the visitors came
    until: float | None
    full: bool  # whether no more clients and days are counted

    @property
    def leader(self) -> int:
        """Who leads by visitors and by lists, where both intervals leave no doubt: OURS or THEIRS; else NEITHER."""
        return self.by_list.leader if self.by_list.leader == self.by_visitor.leader else NEITHER

    @property
    def withstands(self) -> float:
        """Share of all lists, and of visitors, that might be bots', and the one who leads would lead all the same.

        From its lead by lists as many credits are taken as bots would have lists, whatever they called themselves.
        """
        if self.leader == NEITHER:
            return 0.0
        return min(self.by_visitor.withstands, self.by_list.withstands * self.by_list.total / self.lists)

    @property
    def verdict(self) -> str:
        """ours, theirs or open."""
        if self.withstands <= self.bots:
            return "open"
        return "ours" if self.leader == OURS else "theirs"

    def says(self) -> list[str]:
        """What has to be known before the numbers are believed."""
        sentences = []
        count, left_out = self.whole.total, self.whole.total - self.by_visitor.total
        if left_out:
            sentences.append(f"{left_out:,} of {count:,} visitors are suspect and left out of the verdict.")
        if 0.0 < self.withstands <= self.bots:
            leader = "Ours" if self.leader == OURS else "Theirs"
            sentences.append(
                f"{leader} leads, but if {self.withstands:.1%} of all {self.lists:,} lists, or of the visitors, were "
                "those of bots that nobody found, they could have brought that about. A verdict has to withstand "
                f"{self.bots:.0%} (interleave_bots)."
            )
        elif NEITHER != self.by_list.leader != self.leader:
            leader = "Ours" if self.by_list.leader == OURS else "Theirs"
            visitors = "is not decided" if self.by_visitor.leader == NEITHER else "is the other way round"
            sentences.append(f"{leader} leads by lists, but by visitors it {visitors}: a verdict needs both.")
        if self.full:
            sentences.append(
                f"{MOST:,} clients and days are counted, and no more: turn interleave off and on to begin anew."
            )
        return sentences


def summarize_interleaving(board: Board) -> InterleavingSummary:
    """How the rankers stand now. O(visitors)."""
    tallies, times = board.interleaving.tallies(), board.interleaving.time
    kept = ~_suspect(tallies, suspects(board))
    return InterleavingSummary(
        _by_visitor(tallies, kept),
        standing(*tallies.lists[kept].sum(axis=0).tolist()),
        _by_visitor(tallies, np.ones(kept.size, np.bool_)),
        int(tallies.lists[:, 0].sum()) + board.interleaving.unnamed,
        board.config.interleave_bots,
        min(times, default=None),
        max(times, default=None),
        len(times) >= MOST,
    )


def _by_visitor(tallies: Tallies, kept: Bools) -> Standing:
    kept = kept & tallies.visitor
    ours, theirs = (int(np.count_nonzero(kept & (tallies.credit == team))) for team in (OURS, THEIRS))
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
