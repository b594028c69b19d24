"""From the store to boards in memory: the latest snapshot that can be read, and the events after it."""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from .. import snapshots
from . import events
from .boards import Board
from .events import Config, decode
from .held import Held
from .store import Entry, Key, Store

log = logging.getLogger("steadyrank.service")
_CHUNK = 1_000

Kept: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # a board's header and arrays


class Found(NamedTuple):
    """What a store holds."""

    boards: list[Held]
    broken: dict[str, str]  # boards that cannot be read, and why
    keys: list[Key]
    head: int


def recover(url: str) -> Found:
    """Every board as the log says at one moment."""
    store = Store(url)
    try:
        with store.db.reading():
            head, boards, broken = store.head(), [], {}
            for number, (name, secret) in store.boards().items():
                try:
                    held = Held(number, name, secret, rebuild(store, number, name, head))
                except ValueError as error:
                    log.error("board left out", extra={"fields": {"board": name, "why": str(error)}})
                    broken[name] = str(error)
                    continue
                held.applied = head
                boards.append(held)
            return Found(boards, broken, store.api_keys(), head)
    finally:
        store.close()


def rebuild(store: Store, number: int, name: str, upto: int, until: int = 0) -> Board:
    """A board up to an event: from its latest readable snapshot, or from its beginning. Read it at one moment.

    It learns by the settings that the log leads to at the event `until`, if that is a later one.
    """
    until = max(until, upto)
    for seq in store.snapshots(number):
        if seq > upto:
            continue
        try:
            board = Board.restore(store.snapshot(number, seq) or b"", f"snapshot {seq} of board {name!r}")
        except (ValueError, KeyError) as error:
            log.warning("snapshot left out", extra={"fields": {"board": name, "event": seq, "why": str(error)}})
            continue
        if settings_after(store, number, board.latest, seq, until).learning() == board.config.learning():
            take_all(board, store.entries(seq, upto, number))
            return board
    return from_start(store, number, name, upto, until)


def from_start(store: Store, number: int, name: str, upto: int, until: int = 0) -> Board:
    """A board folded from its first event: it learns by the latest settings, all else as it was at the time."""
    until = max(until, upto)
    entries = store.entries(0, upto, number)
    first = None if store.shortened(number) else next(entries, None)
    start = None if first is None else decode(first.body)
    if not isinstance(start, events.Created):
        raise ValueError(f"board {name!r}: no snapshot can be read, and the beginning of its log is no longer kept")
    learning = settings_after(store, number, start.config, number, until)
    board = Board(start.config.learning_as(learning), start.items)
    board.latest = start.config
    board.stale = start.config.learning() != learning.learning()
    take_all(board, entries)
    return board


def settings_after(store: Store, number: int, config: Config, after: int, upto: int) -> Config:
    """What changes of settings in the log lead to."""
    board = Board(config, ["any"])
    for entry in store.entries(after, upto, number):
        event = decode(entry.body)
        if isinstance(event, events.Configured):
            board.take(event)
    return board.latest


def take_all(board: Board, entries: Iterable[Entry]) -> int:
    """Apply events, and go on learning as before when settings change; the number of the last one, or 0."""
    last = 0
    for entry in entries:
        board.take(decode(entry.body))
        last = entry.seq
    return last


async def fold_again(url: str, held: Held) -> Board:
    """The board of a log that goes on growing, folded with its latest settings; complete when it returns."""
    done = held.applied
    store, board = await asyncio.to_thread(_begin, url, held.number, held.name, done)
    try:
        while done < held.applied:
            upto = held.applied
            entries = await asyncio.to_thread(_chunk, store, done, upto, held.number)
            last = take_all(board, entries)
            done = last if len(entries) == _CHUNK else upto
        return board
    finally:
        store.close()


def _begin(url: str, number: int, name: str, upto: int) -> tuple[Store, Board]:
    store = Store(url)
    with store.db.reading():
        return store, from_start(store, number, name, upto)


def _chunk(store: Store, after: int, upto: int, board: int) -> list[Entry]:
    return list(itertools.islice(store.entries(after, upto, board), _CHUNK))


def save(url: str, number: int, seq: int, kept: Kept) -> bool:
    """Keep a snapshot; False if another worker's of the same event differs."""
    body = snapshots.pack(*kept)
    store = Store(url)
    try:
        return store.save(number, seq, body) == body
    finally:
        store.close()
