"""From the store to boards in memory: the latest snapshot that can be read, and the events after it."""

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
    """What a store holds."""

    boards: list[BoardSession]
    asleep: list[KnownBoard]  # those that were not loaded
    parked: dict[str, Parked]  # boards that cannot be read, by name
    keys: list[Key]
    heads: dict[int, int]  # the latest events of the partitions that were read
    partitions: int  # how many there are
    time: float | None  # by the store's own clock, when all was read
    latest: tuple[int, float]  # the latest event, and when it was written


def recover(url: str, most: int, seconds: float, partitions: Collection[int] | None = None) -> Stored:
    """The boards that were used last, as the log says at one moment: so many, and for so many seconds.

    `partitions`: those of some partitions alone.
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
                stored.asleep.append(board)  # tried again when it is asked for
            except Exception as error:  # whatever it is, the others are served
                seals = Seals(board.secret, board.seals)
                stored.parked[board.name] = Parked(board.number, board.name, parking_words(error), seals)
                log_parked(stored.parked[board.name])
            else:
                stored.boards.append(session)
        return stored._replace(time=store.time())


def parking_words(error: Exception) -> str:
    """Why a board is parked."""
    return str(error) if isinstance(error, ValueError) else f"it cannot be loaded ({type(error).__name__}: {error})"


def log_parked(board: Parked) -> None:
    """Say that a board is not served from here on."""
    log.error("board parked", extra={"fields": {"board": board.name, "why": board.why}})


def open_session(store: SqlStore, number: int, name: str, secret: bytes, head: int) -> BoardSession:
    """A board as the log says up to the head of its partition. Read it at one moment."""
    session = BoardSession(number, name, secret, rebuild(store, number, name, head))
    session.applied, session.edge = head, read_edge(store, number)
    session.reseal(store.seals(number))
    return session


def load(store: SqlStore, number: int, name: str, secret: bytes) -> BoardSession | None:
    """A board that wakes, as the log says now; None if it is no longer there. Read it at one moment."""
    if number not in store.edges([number]):
        return None
    return open_session(store, number, name, secret, store.head(number % store.partitions))


def rebuild(store: SqlStore, number: int, name: str, upto: int, until: int = 0) -> Board:
    """A board up to an event: from its latest readable snapshot, or from its beginning. Read it at one moment.

    It learns by the settings and labels that the log leads to at the event `until`, if that is a later one. A
    snapshot made with other labels will do if no feedback in it has another one now; the one at the edge of a
    shortened log, before which there is nothing, will do in any case, and another guard begins there.
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
            take_all(board, store.entries(seq, upto, number))
            return board
    return from_start(store, number, name, upto, until, why)


def from_start(store: SqlStore, number: int, name: str, upto: int, until: int = 0, why: str = "") -> Board:
    """A board folded from its first event: it learns by the latest settings and labels, all else as at the time.

    `why`: what is wrong with its snapshots, if there is nothing else to read.
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
    take_all(board, entries)
    return board


def config_and_labels(
    store: SqlStore, number: int, config: Config, labels: Labels, after: int, upto: int
) -> tuple[Config, Labels]:
    """The settings and labels that the log leads to from these."""
    board = Board.create(config, ["any"])
    board.labels = Labels(labels.keep())
    for entry in store.entries(after, upto, number):
        if entry.damage or events.reconfigures(entry.body):
            _take(board, entry)
    return board.latest, board.labels


def reconfigured(store: SqlStore, number: int, after: int) -> bool:
    """Whether there are events after this one that change how those before it are learnt from, or what they say."""
    bodies = (entry.body for entry in store.entries(after, store.head(), number))
    return any(events.reconfigures(body) or events.forgets_query(body) for body in bodies)


def forgot_query(store: SqlStore, number: int, after: int, upto: int) -> bool:
    """Whether events after one and up to another say that a query was forgotten."""
    return any(events.forgets_query(entry.body) for entry in store.entries(after, upto, number))


def is_forgetting(store: SqlStore, number: int, after: int, upto: int) -> bool:
    """Whether events before such a one may still lead to the query: it is the last one to be rewritten."""
    forgotten = (read_event(x) for x in store.entries(after, upto, number) if events.forgets_query(x.body))
    return any(isinstance(event, events.QueryForgotten) and event.query != event.now for event in forgotten)


def read_edge(store: SqlStore, number: int) -> Edge:
    """Where the log of a board begins, or where what can be read of it begins."""
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
    """Where the logs begin that no longer begin where it is known, by board."""
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


def take_all(board: Board, entries: Iterable[LogEntry]) -> int:
    """Apply events, and go on learning as before when settings change; the number of the last one, or 0."""
    last = 0
    for entry in entries:
        _take(board, entry)
        last = entry.seq
    return last


def _take(board: Board, entry: LogEntry) -> None:
    """Apply an event of the past, or say by its number why it cannot be; what the board holds is then of no use."""
    event = read_event(entry)
    try:
        board.take(event)
    except Exception as error:  # a lack of memory, too
        raise not_applied(entry.seq, error) from error


async def fold_again(url: str, session: BoardSession) -> Board:
    """The board of a log that goes on growing, folded with its latest settings; complete when it returns.

    When a query was forgotten meanwhile, events that were read before it may be other ones by now: then once more.
    """
    while True:
        done, same = session.applied, True
        store, board = await asyncio.to_thread(_begin, url, session.number, session.name, done)
        try:
            while done < session.applied and same:
                upto = session.applied
                entries = await asyncio.to_thread(_chunk, store, done, upto, session.number)
                last = await asyncio.to_thread(take_all, board, entries)
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
    """Delete what is left of a board that an event ended."""
    with contextlib.closing(open_store(url)) as store:
        store.wipe_board(number, seq)


def save(url: str, number: int, seq: int, kept: Kept, fences: Mapping[int, int] | None = None) -> bool:
    """`put_snapshot` with a connection of its own."""
    with contextlib.closing(open_store(url, fences)) as store:
        return put_snapshot(store, number, seq, kept)


def put_snapshot(store: SqlStore, number: int, seq: int, kept: Kept) -> bool:
    """Keep a snapshot; False if another worker's of the same event differs, and can be read.

    It is not kept if a query was forgotten since: that query may be in it.
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
