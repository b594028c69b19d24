"""Forget a query of a collection: in memory, in its snapshots, and in its log.

In the log, a query is a keyed digest in every list and answer. These events are rewritten with one random number in
its place: replayed, they give the same state, but nothing leads to the query.

The `QueryForgotten` event is written first. From then on no earlier snapshot is kept (`put_snapshot`), and the
existing ones are rewritten with the random number. The event itself is rewritten last: a worker that reads it in its
original form forgets the query under both numbers, and one that reads it rewritten finds the query nowhere in the
store. A worker that has read the original lists but the rewritten event replays the log (`Board.outdate`).
"""

import asyncio
import contextlib
import functools
import types
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ...core.refusals import Refused
from ...live import snapshot
from ...live.collection.collection_state import ShownItems
from ...live.collection.id_table import ID_BITS
from ..board import events
from ..board.board import Board
from ..board.events import AnyEvent
from ..storage import SqlStore, open_store
from .board_session import BoardSession
from .log_writer import POLL
from .worker import Worker

_AT_ONCE = 2_000  # events scanned at a time, with other writes in between
_OTHERS = 20 * POLL  # seconds within which other workers on the same log have read a write


class Forgotten(NamedTuple):
    """Whether the query was known, and how many events mentioned it."""

    known: bool
    events: int


async def forget(worker: Worker, session: BoardSession, query: int) -> Forgotten:
    """Forget a query by its id; complete on return. If interrupted, calling it again does the rest."""
    session.check_served()
    number, writer = session.number, worker.log_writer
    now = 1 + int(worker.chance.integers(2**ID_BITS - 1))
    was_known = await worker.write_event(session, events.QueryForgotten(query, now)) == "done"
    await asyncio.sleep(_OTHERS)
    await asyncio.to_thread(_rename_in_snapshots, worker.url, worker.fences, session, query, now)
    changed, at, head = 0, 0, await writer.run_chore(lambda store: store.head(number % store.partitions))
    while at < head:
        at, some = await writer.run_chore(functools.partial(_rewrite, number, at, head, query, now))
        changed += some
    await worker.catch_up()
    if number not in worker.cache.by_number:
        raise Refused(404, f"no board {session.name!r}")
    return Forgotten(was_known, changed)


def _rewrite(board: int, after: int, upto: int, query: int, now: int, store: SqlStore) -> tuple[int, int]:
    """Rewrite a chunk of events. Returns the last event scanned, and how many mentioned the query."""
    marks = msgspec.msgpack.encode(query)
    seq, bodies = store.bodies(board, after, upto, _AT_ONCE)
    changed = {at: renamed(events.decode(body), query, now) for at, body in bodies.items() if marks in body}
    rewritten = {at: events.encode(event) for at, event in changed.items() if event is not None}
    store.rewrite(board, rewritten)
    return seq, sum(not isinstance(event, events.QueryForgotten | types.NoneType) for event in changed.values())


def renamed(event: AnyEvent, query: int, now: int) -> AnyEvent | None:
    """The event with the query's id replaced and its text removed; None if it does not mention the query."""

    def other(of: ShownItems | None) -> ShownItems | None:
        return of._replace(query=now, text="") if of is not None and of.query == query else of

    new: AnyEvent = event
    match event:
        case events.ListShown() | events.Answered() | events.Withheld() | events.Outcome() | events.Observed():
            new = msgspec.structs.replace(event, of=other(event.of))
        case events.History():
            rows = [msgspec.structs.replace(row, of=other(row.of)) for row in event.rows]
            new = msgspec.structs.replace(event, rows=rows)
        case events.QueryForgotten():
            ids = [now if id == query else id for id in (event.query, event.now)]
            new = events.QueryForgotten(*ids)
    return None if new == event else new


def _rename_in_snapshots(
    url: str, fences: Mapping[int, int] | None, session: BoardSession, query: int, now: int
) -> None:
    """Rewrite the snapshots that contain the query."""
    with contextlib.closing(open_store(url, fences)) as store:
        for seq in store.snapshots(session.number):
            while not _renamed_in(store, session, seq, query, now):
                continue  # changed meanwhile: try again


def _renamed_in(store: SqlStore, session: BoardSession, seq: int, query: int, now: int) -> bool:
    """Rewrite a snapshot if it contains the query. Returns False if it was changed since it was read."""
    content = store.snapshot(session.number, seq)
    if content is None:  # replaced by a later one
        return True
    board = Board.restore(content, f"snapshot {seq} of board {session.name!r}")
    if not board.rename_query(query, now):
        return True
    body = snapshot.pack(*board.keep())
    return store.replace_snapshot(session.number, seq, body, lambda: store.snapshot(session.number, seq) == content)
