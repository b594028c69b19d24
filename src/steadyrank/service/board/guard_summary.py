"""Who is not heard on a board, since when and why, for people to read."""

from typing import NamedTuple

from ...live.gate import CLIENT
from .board import Board
from .labels import FRAUD


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


class GuardSummary(NamedTuple):
    """What a board's guard did: visits that did not reach the learner, and that were taken back; in shadow: would."""

    guard: str
    shadow: bool
    refused: int
    retracted: int
    silenced: list[Silenced]  # those with the most visits first


def summarize_guard(board: Board) -> GuardSummary:
    """Everybody who is not heard, by the guard or by a label. O(remembered visits)."""
    gate, state = board.learner_state.gate, board.learner_state
    judged = gate.views()
    found = [*_by_label(board), *_by_guard(board)]
    return GuardSummary(
        gate.guard_class.__name__,
        gate.shadow,
        sum(kind.view.refused for kind in judged) if gate.shadow else int(state.refused[0]),
        sum(kind.view.retracted for kind in judged),
        sorted(found, key=lambda one: (-one.visits, one.client)),
    )


def count_silenced(board: Board) -> int:
    """How many clients and cohorts are not heard."""
    return len(_by_label(board)) + len(_by_guard(board))


def count_by_guard(board: Board) -> int:
    """How many of them by the guard alone."""
    return len(_by_guard(board))


def _by_guard(board: Board) -> list[Silenced]:
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
        for kind, view in board.learner_state.gate.views()
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
