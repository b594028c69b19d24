"""What a route is, and what a request to it brings."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, BinaryIO, NamedTuple, Protocol

from ...core.refusals import Refused
from ...core.views import View
from ...live.features import SEGMENT_NAME, Values
from ..board.board import Board
from ..board.guard_summary import Silenced, summarize_guard
from ..board.savings import Savings, summarize_savings
from ..board.watch_summary import Seen, see, summarize_features
from ..worker.board_session import BoardSession
from ..worker.worker import Worker
from . import schemas
from .state_schemas import (
    EffectOut,
    FeaturesOut,
    GuardCountsOut,
    GuardOut,
    IntervalOut,
    SavedOut,
    SegmentVisits,
    SilencedOut,
)

_NO_SEGMENTS = "segment {!r:.80} cannot be given: this board declares no segments"
AWAY = "the store is away or being read: try again"  # what a request is told; the log says why


class Call(NamedTuple):
    """A request to a route."""

    worker: Worker
    board: str
    part: str  # the item, client or number in the path
    body: Any
    visible: Callable[[str], bool]  # whether the key may see a board
    may: Callable[[str, str], None]  # refuses who lacks a scope on a board, beyond that of the route
    query: Mapping[str, str] = {}  # what stands behind the question mark, of what the route takes


def nothing(call: Call) -> str:
    """No detail: names of clients are in no record."""
    return ""


class Change(NamedTuple):
    """What a route changes, for the record."""

    what: str
    detail: Callable[[Call], str] = nothing


class Route(NamedTuple):
    """One operation."""

    method: str
    path: str
    scope: str  # rank or admin; "public": a signed impression id is enough
    summary: str
    takes: Any  # a schema, a type of others, or None
    gives: type[Any] | None  # None: a file
    run: Callable[[Call], Awaitable[Any]]
    large: bool = False
    act: Change | None = None  # what it changes, if that is to be in the record
    query: tuple[str, ...] = ()  # what may stand behind a question mark


def limit_of(given: str | None, most: int) -> int:
    """How many are asked for: at most so many, and those unless it is said."""
    if given is None:
        return most
    if not (given.isascii() and given.isdigit() and len(given) < 9 and 1 <= int(given) <= most):
        raise Refused(422, f"limit must be a whole number from 1 to {most}, not {given!r:.80}")
    return int(given)


def describe(session: BoardSession) -> schemas.BoardOut:
    """A board as the API shows it."""
    return schemas.BoardOut(board=session.name, **session.board.summary())


def describe_guard(board: Board, segment: str | None, most: int | None = None) -> GuardOut:
    """Who is not heard, as the API shows it: all, or so many; with a `segment`, those with visits of it."""
    names, found = board.learner_state.features.segments, summarize_guard(board)
    chosen = found.silenced
    if segment is not None:
        if segment not in names:
            may = f"segment must be one of {', '.join(names)}, not {segment!r:.80}"
            raise Refused(422, may if names else _NO_SEGMENTS.format(segment))
        chosen = [one for one in chosen if one.visits_in(segment)]
        chosen.sort(key=lambda one: -one.visits_in(segment))
    return GuardOut(
        guard=found.guard,
        shadow=found.shadow,
        refused=found.refused,
        retracted=found.retracted,
        guards=[GuardCountsOut(**one._asdict()) for one in found.guards],
        count=len(found.silenced),
        of_segment=None if segment is None else len(chosen),
        silenced=[_silenced(one) for one in chosen[:most]],
    )


def _silenced(one: Silenced) -> SilencedOut:
    parts = None if one.segments is None else [SegmentVisits(segment=name, visits=n) for name, n in one.segments]
    return SilencedOut(**one._asdict() | {"segments": parts})


def look_over(board: Board) -> tuple[Seen, Savings | None]:
    """What takes the longer, the more items a board has: what is seen in them, and what was saved."""
    seen = see(board)
    return seen, summarize_savings(board, seen.view)


def describe_savings(board: Board, found: Savings | None) -> SavedOut | None:
    """What was saved by not believing, as the API shows it."""
    state = board.learner_state
    if found is None:
        return None
    return SavedOut(
        rounds=found.rounds,
        people=found.people,
        lost=IntervalOut(value=found.lost, low=found.low, high=found.high),
        believed=state.items_at(found.believed),
        plain=state.items_at(found.plain),
    )


def describe_features(board: Board, view: View | None, most: int | None = None) -> FeaturesOut | None:
    """What features are worth, as the API shows it: all effects, or so many."""
    found = summarize_features(board, view)
    if found is None:
        return None
    strongest = [EffectOut(**one._asdict()) for one in found.strongest[:most]]
    return FeaturesOut(explained=found.explained, says=found.says, count=len(found.strongest), strongest=strongest)


class _OfVisit(Protocol):
    """What a request says of a visit."""

    features: dict[str, Any] | None
    segment: str | None


def known_of_visit(session: BoardSession, body: _OfVisit) -> Values | None:
    """What is known of a visit as a board takes it: its segment where there are segments, else features."""
    segments = session.board.learner_state.features.segments
    if segments and body.features:
        raise Refused(422, f"of a visit to this board, give segment ({', '.join(segments)}), and no features")
    if body.segment is None:
        return body.features
    if not segments:
        raise Refused(422, _NO_SEGMENTS.format(body.segment))
    return {SEGMENT_NAME: body.segment}


class Parts(NamedTuple):
    """An answer that was encoded a part at a time, since all of it at once would keep others waiting."""

    content: list[bytes]


class File(NamedTuple):
    """An answer that is a file: read from its beginning, and closed."""

    name: str
    content: BinaryIO
