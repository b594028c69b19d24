"""From the store to boards in memory: the latest snapshot that can be read, and the events after it."""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any, TypeAlias

from .. import snapshots
from . import events
from .boards import Board
from .events import Config, decode
from .held import Held
from .store import Entry, Key, Store

log = logging.getLogger("steadyrank.service")
_CHUNK = 1_000

Kept: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # a board's header and arrays


def recover(url: str) -> tuple[list[tuple[int, str, bytes, Board]], list[Key], int]:
    """Every board as the log says, the keys, and the number of the latest event."""
    store = Store(url)
    try:
        head = store.head()
        found = []
        for number, (name, secret) in store.boards().items():
            found.append((number, name, secret, rebuild(store, number, name, head)))
        return found, store.api_keys(), head
    finally:
        store.close()


def rebuild(store: Store, number: int, name: str, upto: int) -> Board:
    """A board up to an event: from its latest readable snapshot, or from its beginning."""
    for seq in store.snapshots(number):
        if seq > upto:
            continue
        try:
            board = Board.restore(store.snapshot(number, seq) or b"", f"snapshot {seq} of board {name!r}")
        except (ValueError, KeyError) as error:
            log.warning("snapshot left out", extra={"fields": {"board": name, "event": seq, "why": str(error)}})
            continue
        return continued(store, number, name, board, seq, upto)
    return from_start(store, number, name, upto)


def continued(store: Store, number: int, name: str, board: Board, after: int, upto: int) -> Board:
    """A board with the events after one; folded again from the start if they change its learner."""
    for entry in store.entries(after, upto, number):
        event = decode(entry.body)
        if isinstance(event, events.Configured) and event.config.learning() != board.config.learning():
            return from_start(store, number, name, upto)
        board.take(event)
    return board


def from_start(store: Store, number: int, name: str, upto: int) -> Board:
    """A board folded from its first event: it learns by the latest settings, all else as it was at the time."""
    entries = store.entries(0, upto, number)
    first = next(entries, None)
    start = None if first is None else decode(first.body)
    if not isinstance(start, events.Created):
        raise ValueError(f"board {name!r}: no snapshot can be read, and the beginning of its log is no longer kept")
    changes = [
        event
        for entry in store.entries(0, upto, number)
        if isinstance(event := decode(entry.body), events.Configured)
    ]
    learning = changes[-1].config if changes else start.config
    board = Board(start.config.learning_as(learning), start.items)
    board.events = 1
    board.generation = generations(start.config, changes)
    take_all(board, entries)
    return board


def generations(first: Config, changes: Iterable[events.Configured]) -> int:
    """How often the learner was changed."""
    count, now = 0, first
    for change in changes:
        count += now.learning() != change.config.learning()
        now = change.config
    return count


def take_all(board: Board, entries: Iterable[Entry]) -> int:
    """Apply events, but go on learning as before when settings change; the number of the last one, or 0."""
    last = 0
    for entry in entries:
        event = decode(entry.body)
        last = entry.seq
        if isinstance(event, events.Configured):
            event = events.Configured(event.config.learning_as(board.config))
        board.take(event)
    return last


def _chunk(store: Store, after: int, upto: int, board: int) -> list[Entry]:
    return list(itertools.islice(store.entries(after, upto, board), _CHUNK))


async def fold_again(url: str, held: Held) -> Board:
    """The board of a log that goes on growing, folded with its latest settings; complete when it returns."""
    store = await asyncio.to_thread(Store, url)
    try:
        done = held.applied
        board = await asyncio.to_thread(from_start, store, held.number, held.name, done)
        while done < held.applied:
            upto = held.applied
            entries = await asyncio.to_thread(_chunk, store, done, upto, held.number)
            last = take_all(board, entries)
            done = last if len(entries) == _CHUNK else upto
        return board
    finally:
        store.close()


def save(url: str, number: int, seq: int, kept: Kept) -> bool:
    """Keep a snapshot; False if another worker's of the same event differs."""
    body = snapshots.pack(*kept)
    store = Store(url)
    try:
        if number not in store.boards():
            return True
        return store.save(number, seq, body) == body
    finally:
        store.close()
