"""Routes for people who watch a board: labels, the data of its page, and its export."""

import asyncio
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from ...core.contract import ANYONE
from ...core.refusals import Refused
from ...core.views import bands
from ..board.board import Board, BoardOut
from ..board.events import KIND_NAME
from ..board.few_outcomes import FewOutcomesOut
from ..board.guard_summary import GuardOut
from ..board.labels import WORDS, Label
from ..board.rule_costs import RulesOut, summarize_rules
from ..board.savings import SavedOut
from ..board.schema import Schema
from ..board.timeline import TimelineOut
from ..board.watch_summary import (
    FeaturesOut,
    WatchItem,
    count_open,
    list_shown,
    summarize_features,
    summarize_segments,
)
from ..worker import reconfigure, transfer
from ..worker.board_session import BoardSession
from ..worker.few_outcomes_watch import few_outcomes_of
from ..worker.worker import Worker
from .request import Call, DoneOut, File
from .state_route import ShortView, describe_guard, scan_board

_MOST_EFFECTS = 12  # effects of features shown, strongest first
MOST_SILENCED = 50  # silenced senders shown


class LabelIn(Schema):
    """Rounds from `start` to `end`, both included, and their label: fraud or honest."""

    start: int
    end: int
    label: Annotated[str, Meta(extra_json_schema={"enum": list(WORDS)})]


class LabelOut(Schema):
    """A label."""

    number: int
    start: int
    end: int
    label: str


class ClientLabelIn(Schema):
    """A client or a cohort, and its label: fraud or honest.

    `client`: the number that `state` and `watch` show, or the name with which lists were requested. `kind`: the kind
    of the cohort; omitted for a client.
    """

    client: Annotated[int, Meta(ge=0)] | Annotated[str, Meta(min_length=1, max_length=200)]
    label: Annotated[str, Meta(extra_json_schema={"enum": list(WORDS)})]
    kind: Annotated[str, Meta(pattern=f"^{KIND_NAME}$")] | None = None


class ClientLabelOut(Schema):
    """A label of a client, or of a cohort with its kind."""

    number: int
    client: int
    kind: str | None
    label: str


class LabelsOut(Schema):
    """The labels in force, by number; where they overlap, the later one counts. `clients`: those of senders."""

    labels: list[LabelOut]
    clients: list[ClientLabelOut]


class BandOut(Schema):
    """Consecutive rounds of one regime, both ends included, and whether it is the trusted one."""

    start: int
    end: int
    regime: int
    trusted: bool


_Items: TypeAlias = list[WatchItem]  # `list` is a member of the class below
_Bands: TypeAlias = list[BandOut]
_Labels: TypeAlias = list[LabelOut]
_ClientLabels: TypeAlias = list[ClientLabelOut]


class WatchSegment(Schema):
    """The list that a segment's visits get now; `segment`: null for visits without one."""

    segment: str | None
    list: _Items
    view: ShortView


_Segments: TypeAlias = list[WatchSegment]
_FewOutcomes: TypeAlias = list[FewOutcomesOut]


class WatchOut(Schema):
    """A board as its page shows it.

    `event`: the latest one applied; `open`: impressions that can still be answered; `events`: number of this board's
    events in the log, from event `first_event` on; `lag`: events in the store not applied here yet; `stale`: the log
    is being replayed; `first_round`: the first that can be labelled; `list`: what users get now; `diverging`: items
    whose click rate is outside the interval of their estimate, farthest first; `few_outcomes`: items whose clicks
    rose while their outcomes did not, in the remembered lists; `guard`: the silenced senders, the 50 with the most
    visits; `saved`: what people would have lost without that; `rules`: what the board's rules cost, null if it has
    none; `features`: what they explain, with the 12 strongest effects; `segments`: the list of each, null on a board
    without; `labels`: of rounds, and `client_labels`: of clients and cohorts.
    """

    board: BoardOut
    event: int
    open: int
    events: int
    first_event: int
    lag: int
    stale: bool
    first_round: int
    list: _Items
    diverging: _Items
    few_outcomes: _FewOutcomes
    view: ShortView | None
    bands: _Bands
    timeline: TimelineOut
    guard: GuardOut
    saved: SavedOut | None
    rules: RulesOut | None
    features: FeaturesOut | None
    segments: _Segments | None
    labels: _Labels
    client_labels: _ClientLabels


def _out_client(label: Label) -> ClientLabelOut:
    return ClientLabelOut.of(label, kind=label.kind or None)


def _of_rounds(board: Board) -> list[LabelOut]:
    return [LabelOut.of(label) for label in board.labels.labels.values() if label.client == ANYONE]


def _of_clients(board: Board) -> list[ClientLabelOut]:
    return [_out_client(label) for label in board.labels.labels.values() if label.client != ANYONE]


async def label(call: Call, body: LabelIn) -> LabelOut:
    """Label rounds: fraud is not learnt from, honest rounds open no regime. The log is replayed in the background."""
    session = call.worker.find_board(call.board)
    return LabelOut.of(await reconfigure.label(call.worker, session, body.start, body.end, body.label))


async def label_client(call: Call, body: ClientLabelIn) -> ClientLabelOut:
    """Label a client or cohort: fraud is not learnt from, honest is. The log is replayed in the background."""
    session = call.worker.find_board(call.board)
    return _out_client(await reconfigure.label_client(call.worker, session, body.client, body.kind, body.label))


async def unlabel(call: Call) -> DoneOut:
    """Remove a label, as if it had never existed. The log is replayed in the background."""
    session = call.worker.find_board(call.board)
    if not (call.part.isascii() and call.part.isdigit() and len(call.part) < 19):
        raise Refused(404, f"no label {call.part!r:.80}")
    await reconfigure.unlabel(call.worker, session, int(call.part))
    return DoneOut()


async def labels(call: Call) -> LabelsOut:
    """The labels in force, by number."""
    session = call.worker.find_board(call.board)
    return LabelsOut(labels=_of_rounds(session.board), clients=_of_clients(session.board))


async def watch(call: Call) -> WatchOut:
    """A summary of a board for its page, small at any number of items."""
    session, worker = call.worker.find_board(call.board), call.worker
    (view, diverging), saved = await worker.inspect_board(session, scan_board)
    board = session.board
    segments = [
        WatchSegment(segment=one.segment, list=one.shown, view=ShortView.of(one.view))
        for one in summarize_segments(board, view)
    ]
    return WatchOut(
        board=session.summary(),
        **progress(worker, session),
        list=list_shown(board, view),
        diverging=diverging,
        few_outcomes=await few_outcomes_of(worker, session),
        view=None if view is None else ShortView.of(view),
        bands=[] if view is None else [BandOut.of(band) for band in bands(view, board.impressions.rounds)],
        timeline=board.feedback.timeline.summary(),
        guard=describe_guard(board, call.query.get("segment"), MOST_SILENCED),
        saved=saved,
        rules=await worker.inspect_board(session, lambda each: summarize_rules(each, view)),
        features=summarize_features(board, view, _MOST_EFFECTS),
        segments=segments or None,
        **labelled(board),
    )


def progress(worker: Worker, session: BoardSession) -> dict[str, Any]:
    """The progress of a board, as its page shows it."""
    board, edge = session.board, session.edge
    return {
        "event": session.applied,
        "open": count_open(board),
        "events": board.events - edge.events,
        "first_event": edge.seq + 1 if edge.seq else session.number,
        "lag": worker.lag(session),
        "stale": board.stale,
        "first_round": edge.first_round,
    }


def labelled(board: Board) -> dict[str, Any]:
    """The labels of a board, as its page shows them."""
    return {"labels": _of_rounds(board), "client_labels": _of_clients(board)}


async def export(call: Call) -> File:
    """The board with its log, as a file for `steadyrank import`; without the secret that signs impression ids."""
    async with call.worker.exporting:
        name = call.worker.find_board(call.board).name
        return File(f"{name}.jsonl", await asyncio.to_thread(transfer.export_unnamed, call.worker.url, name))
