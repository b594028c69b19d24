"""What is known of a board, a page of its items at a time, encoded a part at a time: 10,000 items are a megabyte.

What answers about the state of a board look like: its items, its learner, and who is not heard.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from ...core.contract import Floats
from ...core.refusals import Refused
from ...core.views import View
from ...live.learner_state import LearnerState
from ..board.board import Board
from ..board.config import Known
from ..board.watch_summary import SegmentSummary, summarize_segments
from . import schemas
from .bodies import encode as _encode
from .route import Call, Parts, describe, describe_features, describe_guard, describe_savings, limit_of, look_over
from .schemas import BoardOut, ChangeOut, ItemOut, Schema, ShortView, ViewOut

_Names: TypeAlias = list[str]  # `list` is a member of what follows
_Changes: TypeAlias = list[ChangeOut]
_Estimates: TypeAlias = list[float]


class SegmentVisits(Schema):
    """How many visits are of a segment, null for visits without one."""

    segment: str | None
    visits: int


class SilencedOut(Schema):
    """A client that is not heard, by its number, or a cohort, with its kind; in shadow: would not be.

    `since`: the first round of it that is not learnt from, as far as it is remembered, and about when that was, in
    seconds since 1970. `visits`, `clicks`: what it had, as far as it is remembered. `label`: the label that says so,
    if a person did. `segments`: those of `visits` by segment, the most first; null on a board without segments, and
    where it is not remembered, as of who was labelled.
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


class GuardCountsOut(Schema):
    """How many answers one guard refused and took back; one that it refused for several kinds of senders counts for
    each of them.

    `stands_down`: since this round the guard refuses nobody, because it would refuse too many of the recent visits;
    null: it does not. `stood_down`: how often it has done so.
    """

    guard: str
    refused: int
    retracted: int
    stands_down: int | None
    stood_down: int


class GuardOut(Schema):
    """Whose feedback does not reach the learner: how many answers were refused and taken back, and who is not heard.

    `count`: how many are not heard; `silenced`: these, or the first of them. With `shadow`: what would have been.
    `guards`: each of them, in the order in which they are asked, and `guard`: the last that the settings name.
    Where a `segment` is asked for, `silenced` has those with visits of it, and `of_segment` says how many there are.
    """

    guard: str
    shadow: bool
    refused: int
    retracted: int
    guards: list[GuardCountsOut]
    count: int
    of_segment: int | None
    silenced: list[SilencedOut]


class IntervalOut(Schema):
    """A mean with its 95 % interval; null where there is too little."""

    value: float | None
    low: float | None
    high: float | None


class SavedOut(Schema):
    """What people would have lost if feedback that is not trusted had been believed (docs/dashboard.md).

    `rounds`: of the stretches that are not trusted, from when each was noticed; `people`: the share of their visits
    that were people's, as estimated; `lost`: clicks. `believed`: the list that the latest such stretch leads to,
    empty if there was none; `plain`: the list by plain click rates now.
    """

    rounds: int
    people: float
    lost: IntervalOut
    believed: list[str]
    plain: list[str]


class StateItem(ItemOut):
    """An item, and what is known of it, where the board has `features`."""

    features: Known | UnsetType = UNSET


class EffectOut(Schema):
    """What a feature does: it moves the logit of a click by `effect` of its standard deviations, in words `says`.

    `odds`: what the odds of a click are multiplied by where the feature is a standard deviation above its mean.
    """

    feature: str
    effect: float
    odds: float
    says: str


class FeaturesOut(Schema):
    """What features are worth: the share of the differences in how readily items are clicked that they explain.

    `count`: how many effects there are, features of items alone and with those of visits; `strongest`: all, or the
    strongest of them.
    """

    explained: float
    says: str
    count: int
    strongest: list[EffectOut]


class SegmentOut(Schema):
    """A segment of the visits, null for visits without one: the list that it gets now, and what is learnt in it.

    `estimates`: of each item in the segment's current regime, in the order of `items`.
    """

    segment: str | None
    list: _Names
    view: ShortView
    changes: _Changes
    estimates: _Estimates


class StateOut(Schema):
    """A board, its items, the learner's own view where it has one, who is not heard, and what that saved.

    `features`: what these are worth, `segments`: each with its list; null on a board that has none.
    `items` and the estimates of regimes are of a page; `next`: what to give as `after` for the one that follows, null
    if there is none.
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
