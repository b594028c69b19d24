"""Who is not heard on a board, since when and why, for people to read.

Which visits are suspect, by what a board knows now: of clients who are not heard, or of rounds not trusted.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ...core.views import Band, bands
from ...live.gate import CLIENT, Judged
from .board import Board
from .checks import chosen_guards
from .labels import FRAUD, Spans


class Silenced(NamedTuple):
    """A client, or a cohort, whose feedback is not learnt from; in shadow: would not be.

    `since`: the first round that is not, of those that are remembered, and when that was. `visits` and `clicks`: what
    it had, as far as it is remembered. `label`: the number of the label that says so, if a person did. `segments`:
    the visits by segment, None for those without one, the most first; None if that is not known.
    """

    client: int
    kind: str | None  # of cohort; None: a client
    since: int | None
    time: float | None
    visits: int
    clicks: int | None
    why: str
    label: int | None
    segments: list[tuple[str | None, int]] | None = None

    def visits_in(self, segment: str) -> int:
        """How many of its visits are known to be of a segment."""
        return dict(self.segments or ()).get(segment, 0)


class GuardCounts(NamedTuple):
    """What one guard did: visits that it refused and took back, of each kind of sender that it judges; in shadow:
    would.

    `stands_down`: since which round it refuses nobody of some kind, because it would refuse too many; None: it does
    not. `stood_down`: how often it has done so.
    """

    guard: str
    refused: int
    retracted: int
    stands_down: int | None
    stood_down: int


class GuardSummary(NamedTuple):
    """What a board's guards did: visits that did not reach the learner, and that were taken back; in shadow: would.

    `guard`: the last that the settings name; `guards`: all, in the order in which they are asked.
    """

    guard: str
    shadow: bool
    refused: int
    retracted: int
    guards: list[GuardCounts]
    silenced: list[Silenced]  # those with the most visits first


def summarize_guard(board: Board) -> GuardSummary:
    """Everybody who is not heard, by the guard or by a label. O(remembered visits)."""
    gate, state = board.learner_state.gate, board.learner_state
    judged = gate.views()
    found, counts = [*_by_label(board), *_by_guard(board, judged)], _counts(board, judged)
    return GuardSummary(
        chosen_guards(board.config)[-1][0],
        gate.shadow,
        sum(one.refused for one in counts) if gate.shadow else int(state.refused[0]),
        sum(one.retracted for one in counts),
        counts,
        sorted(found, key=lambda one: (-one.visits, one.client)),
    )


def count_guarded(board: Board) -> tuple[int, list[GuardCounts]]:
    """How many clients and cohorts are not heard, and what each guard did."""
    judged = board.learner_state.gate.views()
    return len(_by_label(board)) + len(_by_guard(board, judged)), _counts(board, judged)


def count_by_guard(board: Board) -> tuple[int, list[GuardCounts]]:
    """How many of them by guards alone, and what each guard did."""
    judged = board.learner_state.gate.views()
    return len(_by_guard(board, judged)), _counts(board, judged)


def _counts(board: Board, judged: list[Judged]) -> list[GuardCounts]:
    def summed(guard: str) -> GuardCounts:
        views = [one.view for one in judged if one.guard == guard]
        return GuardCounts(
            guard,
            sum(view.refused for view in views),
            sum(view.retracted for view in views),
            min((view.stands_down for view in views if view.stands_down), default=None),
            sum(view.stood_down for view in views),
        )

    gate = board.learner_state.gate
    return [] if gate.open else [summed(post.name) for post in gate.posts]


def _by_guard(board: Board, judged: list[Judged]) -> list[Silenced]:
    words, time_of = board.feedback.words, board.feedback.timeline.time_of
    return [
        Silenced(
            one.client,
            None if kind == CLIENT else kind,
            one.since or None,
            time_of(one.since) if one.since else None,
            one.visits,
            one.clicks,
            one.why,
            None,
            _by_segment(board, one.segments),
        )
        for _, kind, view in judged
        for one in view.suspects
        if one.client not in words
    ]


def _by_segment(board: Board, visits: tuple[int, ...]) -> list[tuple[str | None, int]] | None:
    """Visits by the names of segments; None where there are none, or it is not remembered."""
    names = board.learner_state.features.segments
    if not (names and visits):
        return None
    found = [(name, n) for name, n in zip((None, *names), visits, strict=False) if n]
    return sorted(found, key=lambda pair: -pair[1])


def _by_label(board: Board) -> list[Silenced]:
    feedback, found = board.feedback, []
    latest = {label.client: label for label in sorted(board.labels.labels.values())}
    for client, word in feedback.words.items():
        label = latest.get(client)
        if word == FRAUD and label is not None:
            since, visits, clicks = feedback.left_out.get(client, (0, 0, 0))
            time = feedback.timeline.time_of(since) if since else None
            why = f"a person labelled it as fraud (label {label.number})"
            row = Silenced(client, label.kind or None, since or None, time, visits, clicks, why, label.number)
            found.append(row)
    return found


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
