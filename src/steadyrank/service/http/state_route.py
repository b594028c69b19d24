"""What is known of a board, a page of its items at a time, encoded a part at a time: 10,000 items are a megabyte."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from ...core.arrays import Floats
from ...core.refusals import Refused
from ...core.views import View
from ...live.learner_state import LearnerState
from ..board.board import Board
from ..board.watch_summary import SegmentSummary, summarize_segments
from . import schemas
from .bodies import encode as _encode
from .route import Call, Parts, describe, describe_features, describe_guard, describe_savings, limit_of, look_over
from .state_schemas import SegmentOut, StateItem

MOST_ITEMS = 10_000  # of an answer
_AT_ONCE = 500  # items encoded between other requests: some milliseconds


async def state(call: Call) -> Parts:
    """Items with their click rates and estimates, at most `limit`, those after one; and the learner's own view."""
    session = call.worker.find(call.board)
    limit_of(call.query.get("limit"), MOST_ITEMS)  # what is refused is so before anything is looked at
    (view, _), saving = await call.worker.look_at(session, look_over)
    learner_state = session.board.learner_state
    page = _page(learner_state, limit_of(call.query.get("limit"), MOST_ITEMS), call.query.get("after"))
    event, board = session.applied, describe(session)
    guard = describe_guard(session.board, call.query.get("segment"))
    saved = describe_savings(session.board, saving)
    features, segments = describe_features(session.board, view), summarize_segments(session.board, view)
    items = _items(session.board, view, page)  # as of this moment, whatever happens between the parts
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
    """What gives the items of some places of a page, as they stand now."""
    state, part = board.learner_state, slice(page.start, page.stop)
    has_features = state.features.size > 0
    known = {name: board.described[name] for name in state.names[part] if name in board.described}
    names, active = state.names[part], state.active[part].copy()
    looks, clicks = state.looks[part].copy(), state.clicks[part].copy()
    estimates = None if view is None else view.regime(view.current).estimate[part].copy()

    def told(name: str) -> Any:
        return known.get(name, {}) if has_features else msgspec.UNSET

    def items(start: int, end: int) -> list[StateItem]:
        said = [None] * (end - start) if estimates is None else estimates[start:end].tolist()
        rates = (clicks[start:end] / np.maximum(looks[start:end], 1)).tolist()
        columns = active[start:end].tolist(), looks[start:end].tolist(), clicks[start:end].tolist(), rates, said
        return [
            StateItem(item=name, active=a, looks=b, clicks=c, rate=d, estimate=e, features=told(name))
            for name, a, b, c, d, e in zip(names[start:end], *columns, strict=True)
        ]

    return items


async def _view(view: View, regimes: list[Floats]) -> list[bytes]:
    """The view in JSON, with the estimates of each regime."""
    shown = schemas.ViewOut(
        **schemas.in_short(view),
        regimes=[],
        changes=[schemas.ChangeOut(**asdict(change)) for change in view.changes],
    )
    begin, end = _encode(shown).split(b'"regimes":[]')  # there is no text in it: this stands there once
    parts = [begin, b'"regimes":[']
    for k, (regime, estimates) in enumerate(zip(view.regimes, regimes, strict=True)):
        empty = schemas.RegimeOut(number=regime.number, start=regime.start, rounds=regime.rounds, estimates=[])
        parts += [b"," if k else b"", _encode(empty).removesuffix(b"[]}"), *await _numbers(estimates), b"}"]
    return [*parts, b"]", end]


async def _segments(segments: list[SegmentSummary], page: range) -> list[bytes]:
    """The segments in JSON, with the estimates of each for a page; null if there are none."""
    if not segments:
        return [b"null"]
    parts: list[bytes] = []
    for one in segments:  # views are copies: nothing that happens between the parts changes them
        view, estimates = one.view, one.view.regime(one.view.current).estimate[page.start : page.stop]
        empty = SegmentOut(
            segment=one.segment,
            list=[item.item for item in one.shown],
            view=schemas.ShortView(**schemas.in_short(view)),
            changes=[schemas.ChangeOut(**asdict(change)) for change in view.changes],
            estimates=[],
        )
        parts += [b"," if parts else b"[", _encode(empty).removesuffix(b"[]}"), *await _numbers(estimates), b"}"]
    return [*parts, b"]"]


async def _numbers(values: Floats) -> list[bytes]:
    def some(start: int, end: int) -> list[float]:
        found: list[float] = values[start:end].tolist()
        return found

    return await _in_slices(values.size, some)


async def _in_slices(size: int, values: Callable[[int, int], list[Any]]) -> list[bytes]:
    """A list in JSON, encoded a part at a time with other requests in between."""
    parts = [b"["]
    for start in range(0, size, _AT_ONCE):
        encoded = _encode(values(start, min(start + _AT_ONCE, size)))
        parts.append((b"," if start else b"") + encoded[1:-1])
        await asyncio.sleep(0)
    return [*parts, b"]"]
