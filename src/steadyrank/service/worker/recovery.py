"""Load boards from the store: the latest readable snapshot, and the events after it."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ...live import snapshot
from ..board import events
from ..board.board import Board
from ..board.config import Config
from ..board.labels import Labels
from ..storage import Key, KnownBoard, LogEntry, SqlStore, Unavailable, open_store
from .board_session import BoardSession, Edge, Parked
from .impression_ids import Seals
from .log_rows import not_applied, read_event

log = logging.getLogger("steadyrank.service")
_CHUNK = 1_000

Kept: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # a board's header and arrays


class Stored(NamedTuple):
    """The contents of a store."""

    boards: list[BoardSession]
    asleep: list[KnownBoard]  # boards that were not loaded
    parked: dict[str, Parked]  # unreadable boards, by name
    keys: list[Key]
    heads: dict[int, int]  # the latest event of each partition read
    partitions: int  # the total number of partitions
    time: float | None  # by the store's clock, after reading
    latest: tuple[int, float]  # the latest event, and when it was written


def recover(url: str, most: int, seconds: float, partitions: Collection[int] | None = None) -> Stored:
    """Load the most recently used boards as of one moment of the log, up to `most` boards and for up to `seconds`.

    `partitions`: only boards of these.
    """
    with contextlib.closing(open_store(url)) as store, store.reading():
        end = time.monotonic() + seconds
        heads = store.heads(range(store.partitions) if partitions is None else partitions)
        stored = Stored([], [], {}, store.api_keys(), heads, store.partitions, None, store.latest())
        for board in store.known_boards(heads):
            if len(stored.boards) >= most or time.monotonic() > end:
                stored.asleep.append(board)
                continue
            try:
                head = heads[board.number % store.partitions]
                session = open_session(store, board.number, board.name, board.secret, head)
            except Unavailable:
                raise
            except MemoryError:
                stored.asleep.append(board)  # retried on demand
            except Exception as error:  # whatever it is, other boards are served
                seals = Seals(board.secret, board.seals)
                stored.parked[board.name] = Parked(board.number, board.name, parking_words(error), seals)
                log_parked(stored.parked[board.name])
            else:
                stored.boards.append(session)
        return stored._replace(time=store.time())


def parking_words(error: Exception) -> str:
    """The reason why a board is parked."""
    return str(error) if isinstance(error, ValueError) else f"it cannot be loaded ({type(error).__name__}: {error})"


def log_parked(board: Parked) -> None:
    """Log that a board is not served from here on."""
    log.error("board parked", extra={"fields": {"board": board.name, "why": board.why}})


def open_session(store: SqlStore, number: int, name: str, secret: bytes, head: int) -> BoardSession:
    """Open a board as of the head of its partition. Call it within one read transaction."""
    session = BoardSession(number, name, secret, rebuild(store, number, name, head))
    session.applied, session.edge = head, read_edge(store, number)
    session.reseal(store.seals(number))
    return session


def load(store: SqlStore, number: int, name: str, secret: bytes) -> BoardSession | None:
    """Load a board as of now; None if it no longer exists. Call it within one read transaction."""
    if number not in store.edges([number]):
        return None
    return open_session(store, number, name, secret, store.head(number % store.partitions))


def rebuild(store: SqlStore, number: int, name: str, upto: int, until: int = 0) -> Board:
    """Rebuild a board up to event `upto`, from its latest valid snapshot or from the start of its log.

    Call it within one read transaction. The board learns by the settings and labels as of event `until`, if that is
    later. A snapshot made with other labels is valid if no feedback in it has another label now. The snapshot at the
    edge of a shortened log, before which nothing is kept, is always valid, and another guard starts there.
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
        if board.follow(config, labels, seq == edge):
            replay(board, store.entries(seq, upto, number))
            return board
    return from_start(store, number, name, upto, until, why)


def from_start(store: SqlStore, number: int, name: str, upto: int, until: int = 0, why: str = "") -> Board:
    """Fold a board from its first event, learning by the latest settings and labels, with all else as it was then.

    `why`: what is wrong with its snapshots, for the error if the log has no beginning.
    """
    until = max(until, upto)
    entries = store.entries(0, upto, number)
    first = None if store.shortened(number) else next(entries, None)
    start = None if first is None else read_event(first)
    if not isinstance(start, events.Created):
        words = f"board {name!r}: no snapshot can be read, and the beginning of its log is no longer kept"
        raise ValueError(f"{words} ({why})" if why else words)
    config, labels = config_and_labels(store, number, start.config, Labels(), number, until)
    board = Board.create(start.config.learning_as(config), start.items, start.features)
    board.latest = start.config
    board.feedback.follow(labels.spans, labels.words, anyway=True)
    board.compare()
    replay(board, entries)
    return board


def config_and_labels(
    store: SqlStore, number: int, config: Config, labels: Labels, after: int, upto: int
) -> tuple[Config, Labels]:
    """The settings and labels after applying later events to the given ones."""
    board = Board.create(config, ["any"])
    board.labels = Labels(labels.keep())
    for entry in store.entries(after, upto, number):
        if entry.damage or events.reconfigures(entry.body):
            _apply_past(board, entry)
    return board.latest, board.labels


def reconfigured(store: SqlStore, number: int, after: int) -> bool:
    """Return whether later events change how earlier ones are learnt from, or what they contain."""
    bodies = (entry.body for entry in store.entries(after, store.head(), number))
    return any(events.reconfigures(body) or events.forgets_query(body) for body in bodies)


def forgot_query(store: SqlStore, number: int, after: int, upto: int) -> bool:
    """Return whether a query was forgotten in this range of events."""
    return any(events.forgets_query(entry.body) for entry in store.entries(after, upto, number))


def is_forgetting(store: SqlStore, number: int, after: int, upto: int) -> bool:
    """Return whether a query is still being forgotten, by an event not rewritten yet, which happens last."""
    forgotten = (read_event(x) for x in store.entries(after, upto, number) if events.forgets_query(x.body))
    return any(isinstance(event, events.QueryForgotten) and event.query != event.now for event in forgotten)


def read_edge(store: SqlStore, number: int) -> Edge:
    """Where the log of a board begins, or what can be read of it."""
    edge = store.shortened(number)
    if not edge:
        return Edge(0, 0, 1)
    for seq in reversed(store.snapshots(number)):
        try:
            header, _ = snapshot.unpack(store.snapshot(number, seq) or b"", f"snapshot {seq}")
        except ValueError:
            continue
        return Edge(edge, header["events"], header["reached"] + 1)
    raise ValueError(f"board {number}: no snapshot can be read, and the beginning of its log is no longer kept")


def moved_edges(store: SqlStore, known: dict[int, int]) -> dict[int, Edge]:
    """Where logs begin now, for the boards where that differs from `known`."""
    moved = {}
    for number, edge in store.edges(list(known)).items():
        if known[number] != edge:
            try:
                moved[number] = read_edge(store, number)
            except ValueError as error:
                log.error(
                    "the snapshot at the first event kept was left out",
                    extra={"fields": {"board": number, "why": str(error)}},
                )
    return moved


def replay(board: Board, entries: Iterable[LogEntry]) -> int:
    """Apply events without replaying when settings change. Returns the number of the last one, or 0."""
    last = 0
    for entry in entries:
        _apply_past(board, entry)
        last = entry.seq
    return last


def _apply_past(board: Board, entry: LogEntry) -> None:
    """Apply a past event. Raises Unreadable if it fails, which leaves the board unusable."""
    event = read_event(entry)
    try:
        board.take(event)
    except Exception as error:  # including a lack of memory
        raise not_applied(entry.seq, error) from error


async def fold_again(url: str, session: BoardSession) -> Board:
    """Replay the log of a board with its latest settings while the log keeps growing; complete on return.

    If a query was forgotten meanwhile, events read before may have been rewritten: then the replay starts over.
    """
    while True:
        done, same = session.applied, True
        store, board = await asyncio.to_thread(_begin, url, session.number, session.name, done)
        try:
            while done < session.applied and same:
                upto = session.applied
                entries = await asyncio.to_thread(_chunk, store, done, upto, session.number)
                last = await asyncio.to_thread(replay, board, entries)
                done = last if len(entries) == _CHUNK else upto
                same = not any(events.forgets_query(entry.body) for entry in entries)
        finally:
            store.close()
        if same:
            return board


def _begin(url: str, number: int, name: str, upto: int) -> tuple[SqlStore, Board]:
    store = open_store(url)
    try:
        with store.reading():
            return store, rebuild(store, number, name, upto)
    except BaseException:
        store.close()
        raise


def _chunk(store: SqlStore, after: int, upto: int, board: int) -> list[LogEntry]:
    with store.reading():
        if store.shortened(board) > after:
            raise Unavailable("the log was shortened while it was replayed")
        return list(itertools.islice(store.entries(after, upto, board), _CHUNK))


def wipe(url: str, number: int, seq: int) -> None:
    """Delete what is left of a deleted board."""
    with contextlib.closing(open_store(url)) as store:
        store.wipe_board(number, seq)


def save(url: str, number: int, seq: int, kept: Kept, fences: Mapping[int, int] | None = None) -> bool:
    """Call `put_snapshot` with a connection of its own."""
    with contextlib.closing(open_store(url, fences)) as store:
        return put_snapshot(store, number, seq, kept)


def put_snapshot(store: SqlStore, number: int, seq: int, kept: Kept) -> bool:
    """Save a snapshot. Returns False if a readable one of the same event, from another worker, differs.

    It is not saved if a query was forgotten since, because the snapshot may contain that query.
    """
    body, head = snapshot.pack(*kept), store.head(number % store.partitions)
    if forgot_query(store, number, seq, head):
        return True

    def holds() -> bool:
        return not forgot_query(store, number, head, store.head(number % store.partitions))

    stored = store.save_snapshot(number, seq, body, holds=holds)
    if stored == body:
        return True
    try:
        Board.restore(stored, f"snapshot {seq}")
    except (ValueError, KeyError):
        store.replace_snapshot(number, seq, body, holds)
        return True
    return False
