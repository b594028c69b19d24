"""Which of two rankers is better, by the clicks on mixed lists: a summary for people."""

import numpy as np

from ...comparison.interleaving import NEITHER, OURS, THEIRS, Standing, standing
from ...core.arrays import Bools
from .board import Board
from .guard_summary import Suspects, suspects
from .interleaving import MOST, Tallies
from .labels import FRAUD
from .schema import IntervalOut, Schema


class StandingOut(Schema):
    """Of `total` visitors (a client on one day each) or lists: how many credited our items, and how many theirs.

    `lead`: ours minus theirs, in credits per visitor or list, with a 95 % interval that stays valid however often it
    is looked at. The interval covers the lead among those who gave a credit; their share is taken as observed.
    """

    total: int
    ours: int
    theirs: int
    lead: IntervalOut


class InterleavingOut(Schema):
    """What clicks on mixed lists say. `verdict`: ours, theirs, or open.

    `withstands`: the share of all `lists` that could be bots', under any names, without changing the leader.
    `by_visitor` and `by_list` exclude suspect visitors; `whole`: all visitors.
    """

    verdict: str
    withstands: float
    by_visitor: StandingOut
    by_list: StandingOut
    whole: StandingOut
    lists: int
    since: float | None
    until: float | None
    says: list[str]


def summarize_interleaving(board: Board) -> InterleavingOut:
    """Judge the rankers by the mixed lists so far. O(visitors)."""
    tallies, times = board.interleaving.tallies(), board.interleaving.time
    kept = ~_suspect(tallies, suspects(board))
    return judge(
        _by_visitor(tallies, kept),
        standing(*tallies.lists[kept].sum(axis=0).tolist()),
        _by_visitor(tallies, np.ones(kept.size, np.bool_)),
        int(tallies.lists[:, 0].sum()) + board.interleaving.unnamed,
        board.config.interleave_bots,
        times,
    )


def judge(
    by_visitor: Standing, by_list: Standing, whole: Standing, lists: int, bots: float, times: list[float]
) -> InterleavingOut:
    """Judge by visitors and by lists, both without suspect visitors; `whole`: by visitor, suspect ones included.

    The verdict needs both counts. Names are free, so bots may be any share of the visitors, but by list they have no
    more credits than they have lists. Bots with few names may have many lists, but are few visitors. `lists`: all
    mixed lists shown, including those of unknown visitors; `bots`: the share of bots that the verdict must withstand;
    `times`: when each visitor came.
    """
    leader = by_list.leader if by_list.leader == by_visitor.leader else NEITHER
    withstands = 0.0
    if leader != NEITHER:
        # its lead by lists is reduced by one credit for each list that bots may have had, under whatever names
        withstands = min(by_visitor.withstands, by_list.withstands * by_list.total / lists)
    says = []
    if left_out := whole.total - by_visitor.total:
        says.append(f"{left_out:,} of {whole.total:,} visitors are suspect and left out of the verdict.")
    if 0.0 < withstands <= bots:
        says.append(
            f"{_name(leader)} leads, but if {withstands:.1%} of all {lists:,} lists, or of the visitors, were those "
            "of bots that nobody found, they could have brought that about. A verdict has to withstand "
            f"{bots:.0%} (interleave_bots)."
        )
    elif NEITHER != by_list.leader != leader:
        visitors = "is not decided" if by_visitor.leader == NEITHER else "is the other way round"
        says.append(f"{_name(by_list.leader)} leads by lists, but by visitors it {visitors}: a verdict needs both.")
    if len(times) >= MOST:
        says.append(f"{MOST:,} clients and days are counted, and no more: turn interleave off and on to begin anew.")
    return InterleavingOut(
        verdict="open" if withstands <= bots else _name(leader).lower(),
        withstands=withstands,
        by_visitor=_out(by_visitor),
        by_list=_out(by_list),
        whole=_out(whole),
        lists=lists,
        since=min(times, default=None),
        until=max(times, default=None),
        says=says,
    )


def _name(leader: int) -> str:
    return "Ours" if leader == OURS else "Theirs"


def _out(one: Standing) -> StandingOut:
    return StandingOut.of(one, lead=IntervalOut.of(one, value=one.lead))


def _by_visitor(tallies: Tallies, kept: Bools) -> Standing:
    kept = kept & tallies.visitor
    ours, theirs = (int(np.count_nonzero(kept & (tallies.credit == team))) for team in (OURS, THEIRS))
    return standing(int(np.count_nonzero(kept)), ours, theirs)


def _suspect(found: Tallies, odd: Suspects) -> Bools:
    """[n] which visitors are suspect, vectorized: the same as `Suspects.among` for each."""
    among: Bools = np.zeros(found.round.size, np.bool_)
    among |= np.isin(found.senders, list(odd.senders)).any(axis=1)
    stretches = [(band.start, band.end) for band in odd.untrusted]
    stretches += [(start, end) for start, end, word in odd.spans.spans if word == FRAUD]
    for start, end in stretches:
        among |= (start <= found.round) & (found.round <= end)
    return among
