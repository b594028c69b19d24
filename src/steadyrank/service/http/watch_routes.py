"""Routes for people who watch a board: labels, what a page shows, the board as a file."""

import asyncio

from ...core.contract import ANYONE
from ...core.refusals import Refused
from ..board.board import Board
from ..board.labels import Label
from ..board.watch_summary import SegmentSummary, summarize
from ..worker import reconfigure, transfer
from . import schemas
from .route import Call, File, describe, describe_features, describe_guard, describe_savings, look_over
from .watch_schemas import (
    BandOut,
    ClientLabelIn,
    ClientLabelOut,
    LabelIn,
    LabelOut,
    LabelsOut,
    PointOut,
    TimelineOut,
    WatchItem,
    WatchOut,
    WatchSegment,
)

_MOST_EFFECTS = 12  # shown of what features do, the strongest
_MOST_SILENCED = 50  # shown of those who are not heard


def _out(label: Label) -> LabelOut:
    return LabelOut(number=label.number, start=label.start, end=label.end, label=label.label)


def _out_client(label: Label) -> ClientLabelOut:
    return ClientLabelOut(number=label.number, client=label.client, kind=label.kind or None, label=label.label)


def _out_segment(found: SegmentSummary) -> WatchSegment:
    return WatchSegment(
        segment=found.segment,
        list=[WatchItem(**item._asdict()) for item in found.shown],
        view=schemas.ShortView(**schemas.in_short(found.view)),
    )


def _of_rounds(board: Board) -> list[LabelOut]:
    return [_out(label) for label in board.labels.labels.values() if label.client == ANYONE]


def _of_clients(board: Board) -> list[ClientLabelOut]:
    return [_out_client(label) for label in board.labels.labels.values() if label.client != ANYONE]


async def label(call: Call) -> LabelOut:
    """Label rounds: fraud is not learnt from, honest rounds open no regime. The log is folded again meanwhile."""
    body: LabelIn = call.body
    session = call.worker.find(call.board)
    return _out(await reconfigure.label(call.worker, session, body.start, body.end, body.label))


async def label_client(call: Call) -> ClientLabelOut:
    """Label a client or a cohort: fraud is not learnt from, honest is heard. The log is folded again meanwhile."""
    body: ClientLabelIn = call.body
    session = call.worker.find(call.board)
    return _out_client(await reconfigure.label_client(call.worker, session, body.client, body.kind, body.label))


async def unlabel(call: Call) -> schemas.DoneOut:
    """Take a label back, as if it had never been. The log is folded again meanwhile."""
    session = call.worker.find(call.board)
    if not (call.part.isascii() and call.part.isdigit() and len(call.part) < 19):
        raise Refused(404, f"no label {call.part!r:.80}")
    await reconfigure.unlabel(call.worker, session, int(call.part))
    return schemas.DoneOut()


async def labels(call: Call) -> LabelsOut:
    """The labels in force, by number."""
    session = call.worker.find(call.board)
    return LabelsOut(labels=_of_rounds(session.board), clients=_of_clients(session.board))


async def watch(call: Call) -> WatchOut:
    """What a page of a board shows, small at any number of items."""
    session, worker = call.worker.find(call.board), call.worker
    seen, saved = await worker.look_at(session, look_over)
    board, edge = session.board, session.edge
    found, timeline = summarize(board, seen), board.feedback.timeline
    return WatchOut(
        board=describe(session),
        event=session.applied,
        open=found.open,
        events=board.events - edge.events,
        edge=edge.seq + 1 if edge.seq else session.number,
        lag=max(worker.log_writer.seen - worker.applied, 0),
        stale=board.stale,
        first_round=edge.first_round,
        list=[WatchItem(**item._asdict()) for item in found.shown],
        diverging=[WatchItem(**item._asdict()) for item in found.diverging],
        view=None if found.view is None else schemas.ShortView(**schemas.in_short(found.view)),
        bands=[BandOut(**band._asdict()) for band in found.bands],
        timeline=TimelineOut(size=timeline.size, points=[PointOut(**p._asdict()) for p in timeline.points()]),
        guard=describe_guard(board, call.query.get("segment"), _MOST_SILENCED),
        saved=describe_savings(board, saved),
        features=describe_features(board, found.view, _MOST_EFFECTS),
        segments=[_out_segment(one) for one in found.segments] or None,
        labels=_of_rounds(board),
        client_labels=_of_clients(board),
    )


async def export(call: Call) -> File:
    """The board with its log, as a file for `steadyrank import`; without the secret that signs impression ids."""
    async with call.worker.exporting:
        name = call.worker.find(call.board).name
        return File(f"{name}.jsonl", await asyncio.to_thread(transfer.export_unnamed, call.worker.url, name))
