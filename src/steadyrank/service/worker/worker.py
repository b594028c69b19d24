"""All boards of a worker: ranks from memory, writes events to the log, and applies the log in order."""

import asyncio
import collections
import contextlib
import functools
import gc
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core.memory_limit import MOST_BYTES
from ...core.refusals import Refused
from ...live.collection.collection_state import CollectionState
from ..board import events
from ..board.board import Board, Steps, run_to_end
from ..board.checks import check, check_memory, check_rules
from ..board.events import AnyEvent
from ..storage import Fenced, Key, Sender, SqlStore, Unavailable
from .board_cache import BoardCache
from .board_session import BoardSession, Edge, Parked, begin
from .clock import Clock, uptime
from .log_rows import Unreadable, not_applied
from .log_writer import Inbox, Line, LogWriter, SharedLook
from .ownership import Ownership
from .recovery import Kept, fold_again, moved_edges, recover, save, wipe
from .replicas import Replicas
from .resealing import reseal

SNAPSHOT_EVERY = 20_000  # events of a board; all workers take snapshots at the same events
TICK = 0.1
MOST_AWAKE = 1_000  # boards in memory
_LOADING = 3.0  # seconds at startup to load the most recently used boards; the others load on demand

_ADOPTING = 0.2  # the same for boards taken over from another worker
_FINISHING = 1.0  # seconds to finish requests of boards that are handed over to another worker
_KEEPING = 0.5  # seconds to write snapshots of them
_LARGE = 10_000  # items times segments; larger boards are inspected in a thread, smaller ones take a few milliseconds

log = logging.getLogger("steadyrank.service")
T = TypeVar("T")
C = TypeVar("C")


class _Answering(contextlib.AbstractContextManager[None]):
    """Counts a request of a partition as in flight. A class, since a generator would take twice the time."""

    __slots__ = ("_in_flight", "_partition")

    def __init__(self, in_flight: collections.Counter[int], partition: int) -> None:
        self._in_flight, self._partition = in_flight, partition

    def __enter__(self) -> None:
        self._in_flight[self._partition] += 1

    def __exit__(self, *exception: object) -> None:
        self._in_flight[self._partition] -= 1


_NOTHING_TO_COUNT = contextlib.nullcontext()


class Worker:
    """The boards of one worker. Runs in the event loop's thread, except for the log writer and snapshots.

    `address`: where other workers of the same store reach this one, as HOST:PORT.
    """

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = uptime,
        chance: np.random.Generator | None = None,
        most_awake: int = MOST_AWAKE,
        most_bytes: int = MOST_BYTES,
        address: str = "",
    ) -> None:
        self.url, self.clock, self.monotonic = url, clock or Clock(), monotonic
        self._alarmed = False  # whether the server's log says that a clock is wrong
        self.most_bytes = most_bytes
        self.keys: list[Key] = []
        self.ready = False
        self.exporting = asyncio.Lock()  # one export at a time: it takes a thread, and disk space for the log
        self.chance = np.random.default_rng() if chance is None else chance
        self._inbox = Inbox(self._apply)
        self._key = self._first_key = int(self.chance.integers(1, 2**63))
        self._tasks: set[asyncio.Task[Any]] = set()
        self.partitions = 1  # number of partitions of the store
        self.served: set[int] = set()  # partitions whose requests are handled here
        self._in_flight: collections.Counter[int] = collections.Counter()  # requests, by partition
        self.ownership: Ownership | None = None  # for stores whose partitions have one owner each
        if not url.startswith("sqlite:"):
            changes = self.adopt, self.lose, self.release, self._with_boards, self.spawn
            self.ownership = Ownership(url, int(self.chance.integers(1, 2**63)), address, *changes)
        self.replicas: Replicas | None = None  # of boards that other workers own; set on start
        self.fences = None if self.ownership is None else self.ownership.fences
        self.cache = BoardCache(url, most_awake, monotonic, self.apply, self.catch_up, self.spawn, self.fences)
        self.look_at_log = SharedLook(self.catch_up, self.spawn)

    async def start(self) -> None:
        """Read the store, load boards and start writing; the worker is ready on return."""
        if self.ownership is not None and not self.ownership.joined:
            await self.ownership.join()
            self.spawn(self.ownership.run())
        mine = None if self.fences is None else list(self.fences)
        stored = await asyncio.to_thread(recover, self.url, self.cache.most, _LOADING, mine)
        self.clock.look(stored.time, *stored.latest)
        self._report_clock()
        self.partitions = stored.partitions
        if self.ownership is not None and self.replicas is None:
            lists = self.chance, self.next_key, self._gave, self.spawn
            self.replicas = Replicas(self.url, self.partitions, self.clock, self.monotonic, *lists)
        self._inbox.reset(stored.heads, stored.partitions)
        self.cache.begin(stored.boards, stored.asleep, stored.parked)
        self.keys = stored.keys
        places = stored.heads, stored.partitions, self._inbox, begin, self.cut_off, self.clock
        self.log_writer = LogWriter(self.url, *places, self.fences, self.lose)
        self.served = set(stored.heads)
        if self.fences is not None and (gone := self.served - self.fences.keys()):
            self._drop(gone)  # lost while they were being read
            self.log_writer.drop(gone)
        self._ticking = self.spawn(self._tick())
        gc.collect()
        gc.freeze()  # what exists now is permanent; scanning it in each collection would take a tenth of a second
        self.ready = True
        self.spawn(self.cache.load_unknown())

    async def stop(self) -> None:
        """Write what is pending, take snapshots as far as time permits, and stop."""
        self.ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        available = self.log_writer.available
        await self.log_writer.stop()
        await asyncio.sleep(0)  # let the last deliveries of the log writer run
        while self._inbox:
            await asyncio.sleep(0)
        if available:
            await self.cache.save_all()
        self.cache.close()
        if self.replicas is not None:
            await self.replicas.finish()
        if self.ownership is not None:
            await self.ownership.leave()

    def is_served(self, name: str) -> bool:
        """Return whether this worker serves, or would serve, a board of this name."""
        return self.ownership is None or self.ownership.partition_of(name) in self.served

    def answering(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A context in which the board is not handed over to another worker, unless that takes too long."""
        if self.ownership is None or not name:
            return _NOTHING_TO_COUNT
        return _Answering(self._in_flight, self.ownership.partition_of(name))

    def seen(self, session: BoardSession) -> int:
        """The latest event read from the partition of a board."""
        return self.log_writer.seen.get(session.number % self.partitions, 0)

    def lag(self, session: BoardSession) -> int:
        """The number of events of a board's partition that were read but not applied yet."""
        applied = self._inbox.applied.get(session.number % self.partitions, 0)
        return max(self.seen(session) - applied, 0) // self.partitions

    async def adopt(self, fences: dict[int, int]) -> None:
        """Start serving newly owned partitions, with their most recently used boards loaded.

        The other boards are loaded on demand.
        """
        while self._fresh(fences):
            if not self.ready:
                await asyncio.sleep(TICK)
                continue
            some: set[int] = set()
            try:
                room = max(self.cache.most - len(self.cache.by_number), 0)
                stored = await asyncio.to_thread(recover, self.url, room, _ADOPTING, self._fresh(fences))
                some = self._fresh(fences) & stored.heads.keys()
                heads = {partition: stored.heads[partition] for partition in some}
                self._inbox.add(heads)
                awake = [session for session in stored.boards if session.number % self.partitions in some]
                asleep = [board for board in stored.asleep if board.number % self.partitions in some]
                parked = {n: board for n, board in stored.parked.items() if board.number % self.partitions in some}
                self.cache.add_boards(awake, asleep, parked)
                await self.log_writer.add(heads)
            except Unavailable as error:
                log.warning("partitions not read yet", extra={"fields": {"why": str(error)}})
                self._drop(some)
                await asyncio.sleep(TICK)
                continue
            self.served |= some & self._fresh(fences)
            self.spawn(self.cache.load_unknown())

    def _fresh(self, fences: dict[int, int]) -> set[int]:
        """The partitions among these that this worker still owns under the same fence, but does not serve yet."""
        assert self.fences is not None
        return {p for p, fence in fences.items() if p not in self.served and self.fences.get(p) == fence}

    async def release(self, partitions: Sequence[int]) -> dict[int, int]:
        """Stop serving partitions in order: finish their requests and writes. Returns their fences.

        Partitions not served at the moment are ignored. Lists can still be ranked meanwhile, and afterwards.
        """
        assert self.fences is not None
        leaving = {partition for partition in partitions if partition in self.served}
        self.served -= leaving
        sessions = [s for number, s in self.cache.by_number.items() if number % self.partitions in leaving]
        moved = False
        if self.replicas is not None:
            self.replicas.begin_move(sessions)
        try:
            fences = await self._release(leaving)
            moved = True
            return fences
        finally:
            if self.replicas is not None:
                self.replicas.end_move([session.name for session in sessions], moved)

    async def _release(self, leaving: set[int]) -> dict[int, int]:
        assert self.fences is not None
        try:
            end = time.monotonic() + _FINISHING
            while any(self._in_flight[partition] for partition in leaving) and time.monotonic() < end:
                await asyncio.sleep(0.002)
            # everything queued before is written
            heads = await self.log_writer.run_chore(lambda store: store.heads(leaving))
            for head in heads.values():
                await self._inbox.wait_for(head)
            numbers = [number for number in self.cache.numbers() if number % self.partitions in leaving]
            await self.cache.save_boards(numbers, _KEEPING)
        except Unavailable:
            self.served |= leaving & self.fences.keys()
            raise
        try:
            await self.log_writer.drop(leaving)
        # the drop may still happen later; if this worker remains the owner, it adopts the partitions again
        except Unavailable:
            self.lose(leaving)
            raise
        self._drop(leaving)
        return {partition: self.fences[partition] for partition in leaving if partition in self.fences}

    def lose(self, partitions: Iterable[int]) -> None:
        """Drop partitions that other workers own now; what was not written has to be retried there."""
        assert self.ownership is not None
        gone = set(partitions)
        self.ownership.forget(gone)
        self.ownership.renew_soon()
        self._drop(gone)
        if self.ready:
            self.log_writer.drop(gone)

    def _drop(self, partitions: set[int]) -> None:
        self.served -= partitions
        self._inbox.drop(partitions)
        for number in [number for number in self.cache.numbers() if number % self.partitions in partitions]:
            self.cache.remove_board(number)

    def _with_boards(self) -> set[int]:
        """The partitions that have boards here."""
        return {number % self.partitions for number in self.cache.numbers()}

    @property
    def boards(self) -> dict[str, BoardSession]:
        """The boards in memory, by name."""
        return self.cache.boards

    @property
    def parked(self) -> dict[str, Parked]:
        """The boards that cannot be served, by name."""
        return self.cache.parked

    @property
    def divergences(self) -> int:
        """The number of snapshots that differed from another worker's."""
        return self.cache.divergences

    def find_board(self, name: str) -> BoardSession:
        """Return a board in memory by name; without a hold it may be evicted at any time.

        While its partition is being handed over, this works only for requests already in flight.
        """
        if not self.ready:
            raise Unavailable("the log is being read: not ready yet")
        if self.ownership is not None and self.ownership.partition_of(name) not in self._inbox.applied:
            raise Unavailable(f"another worker serves board {name!r}")
        return self.cache.find_board(name)

    def find_served(self, name: str) -> BoardSession | None:
        """Return a board in memory that this worker serves, marking it as used; None if there is none."""
        session = self.cache.boards.get(name)
        if session is None or session.number % self.partitions not in self.served:
            return None
        self.cache.count_use(session)
        return session

    def next_key(self) -> int:
        """A new impression key: 63 bits, counting from a random start; never 0."""
        self._key = self._key % (2**63 - 1) + 1
        return self._key

    def _gave(self, event: AnyEvent) -> bool:
        """Return whether this worker gave out a list, or several in one event, judged by its key."""
        if not isinstance(event, events.ListShown | events.ListsShown):
            return False
        key = event.key if isinstance(event, events.ListShown) else event.first_key
        return 0 < (key - self._first_key) % (2**63 - 1) <= (self._key - self._first_key) % (2**63 - 1)

    def put_event(self, session: BoardSession, event: AnyEvent, sender: Sender | None = None) -> asyncio.Future[str]:
        """Queue an event for writing. The future gives its outcome once it is on disk and applied."""
        session.check_served()
        future = self.log_writer.put_event(session.number, event, wait=True, sender=sender)
        assert future is not None
        return future

    async def write_event(self, session: BoardSession, event: AnyEvent, sender: Sender | None = None) -> str:
        """Write an event. Returns its outcome once it is on disk and applied."""
        future = self.put_event(session, event, sender)
        try:
            return await future
        finally:
            del future  # an exception in it refers to this frame, and so keeps the board alive

    async def create_board(self, name: str, start: events.Created) -> bool:
        """Create a board. Returns False if the name is taken."""
        await asyncio.to_thread(check_memory, start.config, len(start.items), self.most_bytes)
        state = await asyncio.to_thread(
            check, start.config, start.items
        )  # raises Refused if invalid; compiles the learner
        if start.config.rules is not None:
            await asyncio.to_thread(check_rules, start.config, state, start.features, state)
        event = events.encode(start)
        number = await self.log_writer.run_chore(lambda store: store.create_board(name, event, self.clock()))
        await self.catch_up()
        return number is not None

    async def check_room(self, session: BoardSession, more: int) -> None:
        """Raise Refused if the board would need too much memory for `more` items."""
        state = session.board.learner_state
        items = len(state.names) + more
        if items > state.capacity:
            config = session.board.latest
            await asyncio.to_thread(check_memory, config, items, self.most_bytes, state.capacity)

    async def delete_board(self, name: str) -> None:
        """Delete a board, parked or not; its log is deleted in the background."""
        number = self.parked[name].number if name in self.parked else self.find_board(name).number
        event = events.encode(events.Deleted())
        seq = await self.log_writer.run_chore(lambda store: store.delete_board(number, event, self.clock()))
        self.cache.remove_board(number)
        self.spawn(asyncio.to_thread(wipe, self.url, number, seq))  # slow if the log is long

    async def forget_client(self, session: BoardSession, client: str, kind: str | None = None) -> int:
        """Delete the number of a client or a cohort, which makes its log entries anonymous.

        Returns how many impressions.
        """
        hashed = session.hash_client(client) if kind is None else session.hash_cohort(kind, client)
        now = self.clock()
        board = session.number
        count: int = await self.log_writer.run_chore(
            lambda store: store.forget_client(board, hashed, now, events.forgotten)
        )
        session.forget_client(hashed)
        await self.catch_up()
        return count

    async def inspect_board(self, session: BoardSession, look: Callable[[Board], T]) -> T:
        """Apply a read-only function to a board, in a thread if the board is large.

        It must not draw lists. Meanwhile no event of any board is applied, but lists are ranked as usual.
        """
        state = session.board.learner_state
        if state.capacity * (1 + len(state.features.segments)) <= _LARGE:
            return look(session.board)
        return await self.look_at(session, look)

    async def look_at(self, session: BoardSession, look: Callable[[Board], T]) -> T:
        """Apply a read-only function to a board in a thread, under the conditions of `inspect_board`."""
        async with self._inbox.hold_events():
            return await asyncio.to_thread(look, session.board)

    async def look_at_copy(self, session: BoardSession, copy: Callable[[Board], C], look: Callable[[C], T]) -> T:
        """Copy part of a board, then process the copy, both in a thread; events wait only for the copying."""
        return await asyncio.to_thread(look, await self.look_at(session, copy))

    async def catch_up(self) -> None:
        """Wait until everything now in the log is applied."""
        writer = self.log_writer
        heads: dict[int, int] = await writer.run_chore(lambda store: store.heads(writer.seen))
        for partition, head in heads.items():
            if self._inbox.applied.get(partition, head) < head:
                with contextlib.suppress(Fenced):  # another worker owns it by now
                    await self._inbox.wait_for(head)

    @property
    def applied(self) -> int:
        """The highest number of an applied event."""
        return max(self._inbox.applied.values(), default=0)

    def _apply(self, line: Line, made: dict[int, Any]) -> Steps:
        begun = made.get(line.board)  # None if it was deleted meanwhile
        if isinstance(line.event, Unreadable):
            self.cache.park_board(line.board, str(line.event), begun if isinstance(begun, Parked) else None)
            return "done"
        if isinstance(line.event, events.Created):
            if isinstance(begun, Parked):
                self.cache.park_board(line.board, begun.why, begun)
            elif begun is not None:
                self.cache.add_board(begun)
            return "done"
        if isinstance(line.event, events.Deleted):
            self.cache.remove_board(line.board)
            return "done"
        session = self.cache.by_number.get(line.board)
        if session is None:
            outcome = self.cache.note_event(line)
            if line.waiting is not None:  # the board was evicted and reloaded meanwhile: a retry gets the outcome
                raise Fenced([line.seq % self.partitions])
            return outcome
        return (yield from self._steps(session, line, in_turn=True))

    def apply(self, session: BoardSession, line: Line) -> str:
        """Apply an event to a board in memory, to its end."""
        return run_to_end(self._steps(session, line))

    def _steps(self, session: BoardSession, line: Line, in_turn: bool = False) -> Steps:
        """Apply an event to a board in memory, which is held meanwhile; events from before it was loaded are skipped.

        An event that fails half-way, for lack of memory or by a bug, leaves the board in a state that no other worker
        has: the board is parked, and rebuilt from the log at the next start.
        """
        event = line.event
        assert not isinstance(event, Unreadable)
        if line.seq <= session.applied:
            return "done"
        before, session.applied = session.board.events, line.seq
        session.users += 1
        try:
            session.learn_clients(line)
            outcome = yield from session.board.steps(event)
            session.note(line, outcome, line.waiting is not None or self._gave(event), self.monotonic())
            if isinstance(event, events.Resealed):
                session.resealing = self.spawn(reseal(self.log_writer, session))
            # its log was rewritten before this worker read it
            if isinstance(event, events.QueryForgotten) and event.query == event.now:
                session.board.outdate()
        except Refused:
            self._after(session, line.seq, before, in_turn)
            raise
        except Exception as error:
            log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
            self.cache.park_board(session.number, str(not_applied(line.seq, error)))
            session.check_served()
            raise
        finally:
            session.users -= 1
        self._after(session, line.seq, before, in_turn)
        return outcome

    def _after(self, session: BoardSession, seq: int, before: int, in_turn: bool) -> None:
        """Start a replay of the log or take a snapshot, if the event makes one due.

        `before`: how many events the board had before it. A large collection is copied in a thread while the inbox
        holds back all events.
        """
        board = session.board
        if board.stale and session.refolding is None:
            session.refolding = self.spawn(self._refold(session))
        elif board.events // SNAPSHOT_EVERY > before // SNAPSHOT_EVERY and not board.stale:
            state = board.learner_state
            if in_turn and isinstance(state, CollectionState) and state.n_pairs > _LARGE:
                session.users += 1
                self._inbox.begin_hold()
                keeping = asyncio.get_running_loop().run_in_executor(None, board.keep)
                keeping.add_done_callback(functools.partial(self._kept, session, board, seq))
                return
            try:
                kept = board.keep()
            except MemoryError as error:  # the board works without it
                _no_snapshot(session, error)
                return
            board.events_kept = board.events
            self._save(session, seq, kept)

    def _kept(self, session: BoardSession, board: Board, seq: int, keeping: "asyncio.Future[Kept]") -> None:
        """Save what a thread copied of a board while events were held back."""
        board.events_kept = board.events
        session.users -= 1
        self._inbox.end_hold()
        error = keeping.exception()
        if error is not None:
            _no_snapshot(session, error)
        elif self.ready:  # otherwise the worker is stopping, which saves all boards
            self._save(session, seq, keeping.result())

    def cut_off(self) -> None:
        """Restart from the store: this worker was away for so long that the log was shortened before it was read."""
        if self.ready:
            log.error("the log was shortened before it was read here: reading the store again")
            self.ready = False
            self.spawn(self._begin_again())

    async def _begin_again(self) -> None:
        self._ticking.cancel()
        await self.log_writer.stop()
        while not self.ready:
            try:
                await self.start()
            except Exception as error:  # whatever it is, keep trying: this worker serves nothing until it succeeds
                log.error("store away", extra={"fields": {"why": f"{type(error).__name__}: {error}"}})
                await asyncio.sleep(1.0)

    async def _refold(self, session: BoardSession) -> None:
        """Replay the log with other settings while the board keeps serving, then replace the board."""
        pause = 0.5
        while session.board.stale and session.number in self.cache.by_number:
            try:
                board = await fold_again(self.url, session)
            except Unreadable as error:
                self.cache.park_board(session.number, str(error))
                return
            except Exception as error:
                log.error("not replayed", extra={"fields": {"board": session.name, "why": str(error)}})
                await asyncio.sleep(pause)
                pause = min(2 * pause, 30.0)
                continue
            if not board.stale:
                session.board = board
        session.refolding = None
        if session.parked is None:
            async with self._inbox.hold_events():
                seq, kept = session.applied, session.board.keep()
            self._save(session, seq, kept)

    def _save(self, session: BoardSession, seq: int, kept: Kept) -> None:
        self.spawn(self._snapshot(session, seq, kept))

    async def _snapshot(self, session: BoardSession, seq: int, kept: Kept) -> None:
        try:
            if await asyncio.to_thread(save, self.url, session.number, seq, kept, self.fences):
                return
            self.cache.divergences += 1
            log.error("divergence", extra={"fields": {"board": session.name, "event": seq}})
        except Unavailable as error:
            log.warning("no snapshot", extra={"fields": {"board": session.name, "why": str(error)}})

    async def _tick(self) -> None:
        """Settle and expire what is due by this worker's clock; the resulting events in the log are what counts."""
        rounds, chores, evicting = 0, None, None
        while True:
            await asyncio.sleep(TICK)
            self.log_writer.give_up()
            now = self.monotonic()
            for session in list(self.cache.by_number.values()):
                if session.open:
                    for event in session.due(now):
                        self.log_writer.put_event(session.number, event)
            for evicted in self.cache.due_boards(now):
                self.spawn(self.cache.load_unasked(evicted))
            if self.cache.is_full and (evicting is None or evicting.done()):
                evicting = self.spawn(self.cache.evict_idle())
            rounds += 1
            if rounds % 10 == 0 and (chores is None or chores.done()):  # not awaited: the store may hang
                chores = self.spawn(self._chores(rounds))

    async def _chores(self, rounds: int) -> None:
        limits = []
        if rounds % 600 == 0 and self.clock.settled:
            limits = [(session.number, session.board.config.client_days) for session in self.cache.by_number.values()]
            limits += self.cache.client_days(rounds // 600)
        edges = {session.number: session.edge.seq for session in self.cache.by_number.values()}
        now = self.clock()

        def chore(store: SqlStore) -> tuple[list[Key], dict[int, Edge], float | None, tuple[int, float]]:
            for number, days in limits:
                store.cap_visits(number, now)
                store.forget_clients(number, now - 86_400 * days, now, events.forgotten)
            return store.api_keys(), moved_edges(store, edges), store.time(), store.latest()

        with contextlib.suppress(Unavailable):  # the next round makes up for it
            self.keys, moved, time, latest = await self.log_writer.run_chore(chore)
            self.clock.look(time, *latest)
            for board, edge in moved.items():
                if board in self.cache.by_number:
                    self.cache.by_number[board].edge = edge

        self._report_clock()

    def _report_clock(self) -> None:
        """Log when a clock begins to be wrong, and when all agree again."""
        skew = self.clock.skew
        if skew.alarming != self._alarmed:
            self._alarmed = skew.alarming
            fields = {"fields": {name: round(seconds) for name, seconds in skew._asdict().items()}}
            if skew.alarming:
                log.error("a clock is wrong", extra=fields)
            else:
                log.warning("clocks agree again", extra=fields)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Start a background task; failures are logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task


def _no_snapshot(session: BoardSession, error: BaseException) -> None:
    log.warning("no snapshot", extra={"fields": {"board": session.name, "why": f"{type(error).__name__}: {error}"}})


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a task failed", exc_info=task.exception())
