"""A query of a collection is forgotten: in memory, in its snapshots, and in its log.

In the log it is a keyed digest in every list and every answer. These events are written anew with a number by
chance in its place, the same in all of them: folded, they lead to the same memory, and nothing leads to the query.

The event that says so comes first. From then on no snapshot from before it is kept (`put_snapshot`), and those that
there are get the other number. It is the last of the events before it to be rewritten: whoever reads it as it was
forgets the query under both numbers, and whoever reads it rewritten finds the query nowhere in the store. A worker
that has read the events as they were, and this one rewritten, folds the log again (`Board.outdate`).
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

_AT_ONCE = 2_000  # events looked at between others that are to be written
_OTHERS = 20 * POLL  # seconds in which other workers on the same log have read what was written


class Forgotten(NamedTuple):
    """Whether anything was known of a query, and how many events said something of it."""

    known: bool
    events: int


async def forget(worker: Worker, session: BoardSession, query: int) -> Forgotten:
    """Forget a query by its id; done when it returns. If it ends before that, asking again does the rest."""
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
    """Rewrite some events; up to which one, and how many said something of the query."""
    marks = msgspec.msgpack.encode(query)
    seq, bodies = store.bodies(board, after, upto, _AT_ONCE)
    changed = {at: renamed(events.decode(body), query, now) for at, body in bodies.items() if marks in body}
    rewritten = {at: events.encode(event) for at, event in changed.items() if event is not None}
    store.rewrite(board, rewritten)
    return seq, sum(not isinstance(event, events.QueryForgotten | types.NoneType) for event in changed.values())


def renamed(event: AnyEvent, query: int, now: int) -> AnyEvent | None:
    """An event with another id for a query, and without its text; None if it says nothing of the query."""

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
    """Write snapshots anew that know the query."""
    with contextlib.closing(open_store(url, fences)) as store:
        for seq in store.snapshots(session.number):
            while not _renamed_in(store, session, seq, query, now):
                continue  # another query was forgotten meanwhile


def _renamed_in(store: SqlStore, session: BoardSession, seq: int, query: int, now: int) -> bool:
    """Write a snapshot anew if it knows the query; False if somebody else has written it since it was read."""
    content = store.snapshot(session.number, seq)
    if content is None:  # a later one has just taken its place
        return True
    board = Board.restore(content, f"snapshot {seq} of board {session.name!r}")
    if not board.rename_query(query, now):
        return True
    body = snapshot.pack(*board.keep())
    return store.replace_snapshot(session.number, seq, body, lambda: store.snapshot(session.number, seq) == content)
