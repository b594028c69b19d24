"""From the store to boards in memory: the latest snapshot that can be read, and the events after it."""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from ...live import archive
from ..board import events
from ..board.board import Board
from ..board.config import Config
from ..board.events import decode
from ..board.labels import Labels
from ..storage import BoardStore, Key, LogEntry, Unavailable, open_store
from .board_session import BoardSession, Edge

log = logging.getLogger("steadyrank.service")
_CHUNK = 1_000

Kept: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # a board's header and arrays


class Found(NamedTuple):
    """What a store holds."""

    boards: list[BoardSession]
    broken: dict[str, str]  # boards that cannot be read, and why
    keys: list[Key]
    head: int


def recover(url: str) -> Found:
    """Every board as the log says at one moment."""
    store = open_store(url)
    try:
        with store.reading():
            head, boards, broken = store.head(), [], {}
            for number, (name, secret) in store.boards().items():
                try:
                    session = BoardSession(number, name, secret, rebuild(store, number, name, head))
                    session.applied, session.edge = head, read_edge(store, number)
                except ValueError as error:
                    log.error("board left out", extra={"fields": {"board": name, "why": str(error)}})
                    broken[name] = str(error)
                    continue
                boards.append(session)
            return Found(boards, broken, store.api_keys(), head)
    finally:
        store.close()


def rebuild(store: BoardStore, number: int, name: str, upto: int, until: int = 0) -> Board:
    """A board up to an event: from its latest readable snapshot, or from its beginning. Read it at one moment.

    It learns by the settings and labels that the log leads to at the event `until`, if that is a later one. A
    snapshot made with other labels will do if no feedback in it has another one now; the one at the edge of a
    shortened log, before which there is nothing, will do in any case.
    """
    until, edge, why = max(until, upto), store.shortened(number), ""
    for seq in store.snapshots(number):
        if seq > upto:
            continue
        try:
            content = store.snapshot(number, seq) or b""
            board = Board.restore(content, f"snapshot {seq} of board {name!r}")
        except (ValueError, KeyError) as error:
            why = str(error)
            log.warning("snapshot left out", extra={"fields": {"board": name, "event": seq, "why": why}})
            continue
        config, labels = config_and_labels(store, number, board.latest, board.labels, seq, until)
        same = config.learning() == board.config.learning()
        if same and board.feedback.follow(labels.spans, anyway=seq == edge):
            board.compare()
            take_all(board, store.entries(seq, upto, number))
            return board
    return from_start(store, number, name, upto, until, why)


def from_start(store: BoardStore, number: int, name: str, upto: int, until: int = 0, why: str = "") -> Board:
    """A board folded from its first event: it learns by the latest settings and labels, all else as at the time.

    `why`: what is wrong with its snapshots, if there is nothing else to read.
    """
    until = max(until, upto)
    entries = store.entries(0, upto, number)
    first = None if store.shortened(number) else next(entries, None)
    start = None if first is None else decode(first.body)
    if not isinstance(start, events.Created):
        words = f"board {name!r}: no snapshot can be read, and the beginning of its log is no longer kept"
        raise ValueError(f"{words} ({why})" if why else words)
    config, labels = config_and_labels(store, number, start.config, Labels(), number, until)
    board = Board(start.config.learning_as(config), start.items)
    board.latest = start.config
    board.feedback.spans = labels.spans
    board.compare()
    take_all(board, entries)
    return board


def config_and_labels(
    store: BoardStore, number: int, config: Config, labels: Labels, after: int, upto: int
) -> tuple[Config, Labels]:
    """The settings and labels that the log leads to from these."""
    board = Board(config, ["any"])
    board.labels = Labels(labels.keep())
    for entry in store.entries(after, upto, number):
        if events.reconfigures(entry.body):
            board.take(decode(entry.body))
    return board.latest, board.labels


def reconfigured(store: BoardStore, number: int, after: int) -> bool:
    """Whether there are events after this one that change how those before it are learnt from."""
    return any(events.reconfigures(entry.body) for entry in store.entries(after, store.head(), number))


def read_edge(store: BoardStore, number: int) -> Edge:
    """Where the log of a board begins, or where what can be read of it begins."""
    edge = store.shortened(number)
    if not edge:
        return Edge(0, 0, 1)
    for seq in reversed(store.snapshots(number)):
        try:
            header, _ = archive.unpack(store.snapshot(number, seq) or b"", f"snapshot {seq}")
        except ValueError:
            continue
        return Edge(edge, header["events"], header["reached"] + 1)
    raise ValueError(f"board {number}: no snapshot can be read, and the beginning of its log is no longer kept")


def moved_edges(store: BoardStore, known: dict[int, int]) -> dict[int, Edge]:
    """Where the logs begin that no longer begin where it is known, by board."""
    found = {}
    for number, edge in store.edges().items():
        if known.get(number, edge) != edge:
            try:
                found[number] = read_edge(store, number)
            except ValueError as error:
                log.error("edge left out", extra={"fields": {"board": number, "why": str(error)}})
    return found


def take_all(board: Board, entries: Iterable[LogEntry]) -> int:
    """Apply events, and go on learning as before when settings change; the number of the last one, or 0."""
    last = 0
    for entry in entries:
        board.take(decode(entry.body))
        last = entry.seq
    return last


async def fold_again(url: str, session: BoardSession) -> Board:
    """The board of a log that goes on growing, folded with its latest settings; complete when it returns."""
    done = session.applied
    store, board = await asyncio.to_thread(_begin, url, session.number, session.name, done)
    try:
        while done < session.applied:
            upto = session.applied
            entries = await asyncio.to_thread(_chunk, store, done, upto, session.number)
            last = await asyncio.to_thread(take_all, board, entries)
            done = last if len(entries) == _CHUNK else upto
        return board
    finally:
        store.close()


def _begin(url: str, number: int, name: str, upto: int) -> tuple[BoardStore, Board]:
    store = open_store(url)
    try:
        with store.reading():
            return store, rebuild(store, number, name, upto)
    except BaseException:
        store.close()
        raise


def _chunk(store: BoardStore, after: int, upto: int, board: int) -> list[LogEntry]:
    with store.reading():
        if store.shortened(board) > after:
            raise Unavailable("the log was shortened while it was folded again")
        return list(itertools.islice(store.entries(after, upto, board), _CHUNK))


def wipe(url: str, number: int, seq: int) -> None:
    """Delete what is left of a board that an event ended."""
    store = open_store(url)
    try:
        store.wipe(number, seq)
    finally:
        store.close()


def save(url: str, number: int, seq: int, kept: Kept) -> bool:
    """Keep a snapshot; False if another worker's of the same event differs, and can be read."""
    body = archive.pack(*kept)
    store = open_store(url)
    try:
        found = store.save(number, seq, body)
        if found == body:
            return True
        try:
            Board.restore(found, f"snapshot {seq}")
        except (ValueError, KeyError):
            store.replace(number, seq, body)
            return True
        return False
    finally:
        store.close()
