"""Which visits are suspect, by what a board knows now: of clients who are not heard, or of rounds not trusted."""

from collections.abc import Iterable
from typing import NamedTuple

from ...views import Band, bands
from .board import Board
from .guard_summary import summarize_guard
from .labels import FRAUD, Spans


class Suspects(NamedTuple):
    """Copied from a board, so that another thread may ask."""

    senders: frozenset[int]  # numbers of clients and cohorts that are not heard; in shadow: would not be
    spans: Spans  # labels of rounds
    untrusted: list[Band]

    def among(self, round_: int, senders: Iterable[int]) -> bool:
        """Whether a visit of these, a client and its cohorts, is suspect."""
        if not self.senders.isdisjoint(senders) or self.spans.word(round_) == FRAUD:
            return True
        return any(band.start <= round_ <= band.end for band in self.untrusted)


def suspects(board: Board) -> Suspects:
    """Who and what is suspect now."""
    senders = frozenset(one.client for one in summarize_guard(board).silenced)
    view = board.learner_state.view()
    seen = [] if view is None else bands(view, board.impressions.rounds)
    return Suspects(senders, board.feedback.spans, [band for band in seen if not band.trusted])
