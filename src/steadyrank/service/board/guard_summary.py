"""Which senders a board does not hear, since when and why; and which visits are suspect."""

from collections.abc import Iterable
from typing import NamedTuple

from ...core.views import Band, bands
from ...live.gate import CLIENT, GuardReport
from .board import Board
from .checks import chosen_guards
from .labels import FRAUD, Spans
from .schema import Schema


class SegmentVisits(Schema):
    """The number of visits of a segment; null for visits without one."""

    segment: str | None
    visits: int


class SilencedOut(Schema):
    """A silenced client, by its number, or a cohort, with its kind; in shadow mode: one that would be silenced.

    `since`: the first remembered round of it that is not learnt from, and `time`: about when that was, in seconds
    since 1970. `visits`, `clicks`: its remembered counts. `label`: the number of the label that silences it, if a
    person did. `segments`: `visits` by segment, most first; null on a board without segments, and where segments are
    not remembered, as for labelled senders.
    """

    client: int
    kind: str | None
    since: int | None
    time: float | None
    visits: int
    clicks: int | None
    why: str
    label: int | None
    segments: list[SegmentVisits] | None

    def visits_in(self, segment: str) -> int:
        """How many of its visits are known to be of a segment."""
        return sum(part.visits for part in self.segments or () if part.segment == segment)


class GuardCountsOut(Schema):
    """How many answers one guard refused and retracted; one refused for several kinds of sender counts for each.

    `stands_down`: the round since which the guard refuses nobody, because it would refuse too many of the recent
    visits; null: it is active. `stood_down`: how often it has stood down.
    """

    guard: str
    refused: int
    retracted: int
    stands_down: int | None
    stood_down: int


class GuardOut(Schema):
    """Whose feedback does not reach the learner: counts of refused and retracted answers, and the silenced senders.

    `count`: how many senders are silenced; `silenced`: these, or the first of them. With `shadow`: what would have
    happened. `guards`: each guard, in the order in which they are asked, and `guard`: the last that the settings
    name. If a `segment` is requested, `silenced` has only senders with visits of it, and `of_segment` says how many
    there are.
    """

    guard: str
    shadow: bool
    refused: int
    retracted: int
    guards: list[GuardCountsOut]
    count: int
    of_segment: int | None
    silenced: list[SilencedOut]


def summarize_guard(board: Board) -> GuardOut:
    """List every sender silenced by the guard or by a label, most visits first. O(remembered visits)."""
    gate, state = board.learner_state.gate, board.learner_state
    judged = gate.views()
    silenced, counts = [*_by_label(board), *_by_guard(board, judged)], _counts(board, judged)
    return GuardOut(
        guard=chosen_guards(board.config)[-1][0],
        shadow=gate.shadow,
        refused=sum(one.refused for one in counts) if gate.shadow else int(state.refused[0]),
        retracted=sum(one.retracted for one in counts),
        guards=counts,
        count=len(silenced),
        of_segment=None,
        silenced=sorted(silenced, key=lambda one: (-one.visits, one.client)),
    )


def count_guarded(board: Board) -> tuple[int, list[GuardCountsOut]]:
    """Count the silenced clients and cohorts, and what each guard did."""
    judged = board.learner_state.gate.views()
    return len(_by_label(board)) + len(_by_guard(board, judged)), _counts(board, judged)


def count_by_guard(board: Board) -> tuple[int, list[GuardCountsOut]]:
    """Count those silenced by guards alone, and what each guard did."""
    judged = board.learner_state.gate.views()
    return len(_by_guard(board, judged)), _counts(board, judged)


def _counts(board: Board, judged: list[GuardReport]) -> list[GuardCountsOut]:
    def summed(guard: str) -> GuardCountsOut:
        views = [one.view for one in judged if one.guard == guard]
        return GuardCountsOut(
            guard=guard,
            refused=sum(view.refused for view in views),
            retracted=sum(view.retracted for view in views),
            stands_down=min((view.stands_down for view in views if view.stands_down), default=None),
            stood_down=sum(view.stood_down for view in views),
        )

    gate = board.learner_state.gate
    return [] if gate.open else [summed(post.name) for post in gate.posts]


def _by_guard(board: Board, judged: list[GuardReport]) -> list[SilencedOut]:
    words, time_of = board.feedback.words, board.feedback.timeline.time_of
    return [
        SilencedOut(
            client=one.client,
            kind=None if kind == CLIENT else kind,
            since=one.since or None,
            time=time_of(one.since) if one.since else None,
            visits=one.visits,
            clicks=one.clicks,
            why=one.why,
            label=None,
            segments=_by_segment(board, one.segments),
        )
        for _, kind, view in judged
        for one in view.suspects
        if one.client not in words
    ]


def _by_segment(board: Board, visits: tuple[int, ...]) -> list[SegmentVisits] | None:
    """Visits by segment name, most first; None where the board has no segments or they are not remembered."""
    names = board.learner_state.features.segments
    if not (names and visits):
        return None
    parts = [SegmentVisits(segment=name, visits=n) for name, n in zip((None, *names), visits, strict=False) if n]
    return sorted(parts, key=lambda part: -part.visits)


def _by_label(board: Board) -> list[SilencedOut]:
    feedback, silenced = board.feedback, []
    latest = {label.client: label for label in sorted(board.labels.labels.values())}
    for client, word in feedback.words.items():
        label = latest.get(client)
        if word == FRAUD and label is not None:
            since, visits, clicks = feedback.left_out.get(client, (0, 0, 0))
            row = SilencedOut(
                client=client,
                kind=label.kind or None,
                since=since or None,
                time=feedback.timeline.time_of(since) if since else None,
                visits=visits,
                clicks=clicks,
                why=f"a person labelled it as fraud (label {label.number})",
                label=label.number,
                segments=None,
            )
            silenced.append(row)
    return silenced


class Suspects(NamedTuple):
    """Suspect senders and rounds, copied from a board so that other threads can use them."""

    # numbers of silenced clients and cohorts; in shadow mode: of those that would be silenced
    senders: frozenset[int]
    spans: Spans  # labelled rounds
    untrusted: list[Band]

    def among(self, round_: int, senders: Iterable[int]) -> bool:
        """Return whether a visit is suspect, by its round or by its senders (a client and its cohorts)."""
        if not self.senders.isdisjoint(senders) or self.spans.word(round_) == FRAUD:
            return True
        return any(band.start <= round_ <= band.end for band in self.untrusted)


def suspects(board: Board) -> Suspects:
    """Copy the suspect senders and rounds of a board."""
    senders = frozenset(one.client for one in summarize_guard(board).silenced)
    view = board.learner_state.view()
    seen = [] if view is None else bands(view, board.impressions.rounds)
    return Suspects(senders, board.feedback.spans, [band for band in seen if not band.trusted])
