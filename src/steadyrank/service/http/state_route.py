"""The state of a board: pages of items, encoded in slices, since 10,000 items take a megabyte."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType

from ...core.arrays import Floats
from ...core.refusals import Refused
from ...core.views import View
from ...live.learner_state import LearnerState
from ..board.board import Board, BoardOut
from ..board.config import Known
from ..board.guard_summary import GuardOut, summarize_guard
from ..board.savings import SavedOut, summarize_savings
from ..board.schema import Schema
from ..board.watch_summary import (
    FeaturesOut,
    ItemOut,
    ItemScan,
    SegmentSummary,
    scan_items,
    summarize_features,
    summarize_segments,
    worths_out,
)
from .bodies import encode as _encode
from .request import NO_SEGMENTS, Call, Parts, limit_of

MOST_ITEMS = 10_000  # per answer
_AT_ONCE = 500  # items encoded between other requests: a few milliseconds


class RegimeOut(Schema):
    """A period of rounds with one click behaviour; estimates are by item, in the order of `items`."""

    number: int
    start: int
    rounds: int
    estimates: list[float]


class ChangeOut(Schema):
    """A change of regime: the round to which it is dated, and the round in which it was noticed.

    `inversion`: how much better, in nats, the previous regime inverted predicts the next one than the previous regime
    as learnt.
    """

    start: int
    noticed: int
    before: int
    after: int
    inversion: float


class ShortView(Schema):
    """Key figures of SteadyRank's view of the feedback.

    `inverted`: the latest change looks like an inversion of what was learnt before it. `attention`: the chance that
    each place of a list is looked at, as learnt from clicks; 1 everywhere for users who scan until they click.
    """

    current: int
    trusted: int
    rounds: int
    rejected: int
    corrupted: float
    n_changes: int
    inverted: bool
    attention: list[float]


class ViewOut(ShortView):
    """SteadyRank's view of the feedback."""

    regimes: list[RegimeOut]
    changes: list[ChangeOut]


class StateItem(ItemOut):
    """An item, with its features where the board has any."""

    features: Known | UnsetType = UNSET


_Names: TypeAlias = list[str]  # `list` is a member of the class below
_Changes: TypeAlias = list[ChangeOut]
_Estimates: TypeAlias = list[float]


class SegmentOut(Schema):
    """A segment of the visits (null: visits without one): its present list, and the learner's view of it.

    `estimates`: for each item in the segment's current regime, in the order of `items`.
    """

    segment: str | None
    list: _Names
    view: ShortView
    changes: _Changes
    estimates: _Estimates


class StateOut(Schema):
    """A board, its items, the learner's view if it has one, the silenced senders, and what silencing saved.

    `features`: what they explain; `segments`: each with its list; null on a board without any. `items` and the
    estimates of regimes cover one page; `next`: the value of `after` for the next page, null on the last.
    """

    board: BoardOut
    items: list[StateItem]
    view: ViewOut | None
    guard: GuardOut
    saved: SavedOut | None
    features: FeaturesOut | None
    segments: list[SegmentOut] | None
    next: str | None
    event: int


def scan_board(board: Board) -> tuple[ItemScan, SavedOut | None]:
    """Compute the parts of the state whose cost grows with the number of items."""
    seen = scan_items(board)
    return seen, summarize_savings(board, seen.view)


def describe_guard(board: Board, segment: str | None, most: int | None = None) -> GuardOut:
    """The silenced senders, at most `most`; with a `segment`, those with visits of it, most visits first."""
    names, guard = board.learner_state.features.segments, summarize_guard(board)
    if segment is not None:
        if segment not in names:
            may = f"segment must be one of {', '.join(names)}, not {segment!r:.80}"
            raise Refused(422, may if names else NO_SEGMENTS.format(segment))
        guard.silenced = [one for one in guard.silenced if one.visits_in(segment)]
        guard.silenced.sort(key=lambda one: -one.visits_in(segment))
        guard.of_segment = len(guard.silenced)
    guard.silenced = guard.silenced[:most]
    return guard


async def state(call: Call) -> Parts[StateOut]:
    """A page of at most `limit` items with click rates and estimates, and the learner's view of the feedback."""
    session = call.worker.find_board(call.board)
    limit_of(call.query.get("limit"), MOST_ITEMS)  # refuse an invalid limit before doing any work
    (view, _), saved = await call.worker.inspect_board(session, scan_board)
    learner_state = session.board.learner_state
    page = _page(learner_state, limit_of(call.query.get("limit"), MOST_ITEMS), call.query.get("after"))
    event, board = session.applied, session.summary()
    guard = describe_guard(session.board, call.query.get("segment"))
    features, segments = summarize_features(session.board, view), summarize_segments(session.board, view)
    items = _items(session.board, view, page)  # a copy, not affected by what happens between the slices
    more = learner_state.names[page.stop - 1] if page.stop < len(learner_state.names) else None
    regimes = [] if view is None else [regime.estimate[page.start : page.stop].copy() for regime in view.regimes]
    parts = [b'{"board":', _encode(board), b',"items":', *await _in_slices(len(page), items), b',"view":']
    parts += [b"null"] if view is None else await _view(view, regimes)
    parts += [b',"guard":', _encode(guard), b',"saved":', _encode(saved), b',"features":', _encode(features)]
    parts += [b',"segments":', *await _segments(segments, page)]
    return Parts([*parts, b',"next":', _encode(more), b',"event":', _encode(event), b"}"])


def _page(state: LearnerState, limit: int, after: str | None) -> range:
    """The slots of a page."""
    if after is not None and after not in state.slots:
        raise Refused(422, f"after must name an item of the board, not {after!r:.80}")
    start = 0 if after is None else state.slots[after] + 1
    return range(start, min(start + limit, len(state.names)))


def _items(board: Board, view: View | None, page: range) -> Callable[[int, int], list[StateItem]]:
    """Copy the items of a page; returns a function that builds those of a range of places."""
    state, part = board.learner_state, slice(page.start, page.stop)
    has_features = state.features.size > 0
    described = {name: board.described[name] for name in state.names[part] if name in board.described}
    names, active = state.names[part], state.active[part].copy()
    looks, clicks = state.looks[part].copy(), state.clicks[part].copy()
    estimates = None if view is None else view.regime(view.current).estimate[part].copy()
    invalid = [state.invalid_clicks(slot) for slot in page]
    worths: list[Any] = [UNSET] * len(page)
    if view is not None and view.worths is not None:
        worths = worths_out(view.worths, part)

    def features_of(name: str) -> Any:
        return described.get(name, {}) if has_features else UNSET

    def items(start: int, end: int) -> list[StateItem]:
        estimated = [None] * (end - start) if estimates is None else estimates[start:end].tolist()
        rates = (clicks[start:end] / np.maximum(looks[start:end], 1)).tolist()
        columns = active[start:end].tolist(), looks[start:end].tolist(), clicks[start:end].tolist(), rates, estimated
        return [
            StateItem(
                item=name,
                active=a,
                looks=b,
                clicks=c,
                rate=d,
                estimate=e,
                invalid_clicks=f,
                worth=g,
                features=features_of(name),
            )
            for name, a, b, c, d, e, f, g in zip(
                names[start:end], *columns, invalid[start:end], worths[start:end], strict=True
            )
        ]

    return items


async def _view(view: View, regimes: list[Floats]) -> list[bytes]:
    """Encode the view, with the estimates of each regime."""
    shown = ViewOut.of(view, regimes=[], changes=[ChangeOut.of(change) for change in view.changes])
    begin, end = _encode(shown).split(b'"regimes":[]')  # unique, since the view has no text
    parts = [begin, b'"regimes":[']
    for k, (regime, estimates) in enumerate(zip(view.regimes, regimes, strict=True)):
        empty = RegimeOut.of(regime, estimates=[])
        parts += [b"," if k else b"", _encode(empty).removesuffix(b"[]}"), *await _numbers(estimates), b"}"]
    return [*parts, b"]", end]


async def _segments(segments: list[SegmentSummary], page: range) -> list[bytes]:
    """Encode the segments, with the estimates of each for a page; null if there are none."""
    if not segments:
        return [b"null"]
    parts: list[bytes] = []
    for one in segments:  # views are copies, not affected by what happens between the slices
        view, estimates = one.view, one.view.regime(one.view.current).estimate[page.start : page.stop]
        empty = SegmentOut(
            segment=one.segment,
            list=[item.item for item in one.shown],
            view=ShortView.of(view),
            changes=[ChangeOut.of(change) for change in view.changes],
            estimates=[],
        )
        parts += [b"," if parts else b"[", _encode(empty).removesuffix(b"[]}"), *await _numbers(estimates), b"}"]
    return [*parts, b"]"]


async def _numbers(values: Floats) -> list[bytes]:
    def some(start: int, end: int) -> list[float]:
        numbers: list[float] = values[start:end].tolist()
        return numbers

    return await _in_slices(values.size, some)


async def _in_slices(size: int, values: Callable[[int, int], list[Any]]) -> list[bytes]:
    """Encode a list in slices, with other requests in between."""
    parts = [b"["]
    for start in range(0, size, _AT_ONCE):
        encoded = _encode(values(start, min(start + _AT_ONCE, size)))
        parts.append((b"," if start else b"") + encoded[1:-1])
        await asyncio.sleep(0)
    return [*parts, b"]"]
