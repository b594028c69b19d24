"""All boards of a worker: ranks from memory, writes what happens to the log, applies the log in order."""

import asyncio
import collections
import contextlib
import functools
import gc
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core.memory_limit import MOST_BYTES
from ...core.refusals import Refused
from ...live.collection.collection_state import CollectionState
from ..board import events
from ..board.board import Board, Steps, finished
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

SNAPSHOT_EVERY = 20_000  # events of a board; every worker takes one at the same event
_FEWEST = 8  # lists of a board that are applied together: of fewer, each alone takes no longer
TICK = 0.1
MOST_AWAKE = 1_000  # boards in memory
_LOADING = 3.0  # seconds at the start for boards that were used last; the others load when they are asked for

_ADOPTING = 0.2  # the same for boards that were another worker's
_FINISHING = 1.0  # seconds for requests of boards that another worker is to serve
_KEEPING = 0.5  # seconds for snapshots of them
_LARGE = 10_000  # items, times segments, of a board that is looked at in a thread: below, a few milliseconds

log = logging.getLogger("steadyrank.service")
T = TypeVar("T")
C = TypeVar("C")


class _Answering(contextlib.AbstractContextManager[None]):
    """A request of a partition is being answered; a class, since a generator would take twice the time."""

    __slots__ = ("_in_flight", "_partition")

    def __init__(self, in_flight: collections.Counter[int], partition: int) -> None:
        self._in_flight, self._partition = in_flight, partition

    def __enter__(self) -> None:
        self._in_flight[self._partition] += 1

    def __exit__(self, *exception: object) -> None:
        self._in_flight[self._partition] -= 1


_NOTHING_TO_COUNT = contextlib.nullcontext()


class Worker:
    """The boards of one worker. Everything runs in the event loop's thread but the log writer and the snapshots.

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
        self._alarmed = False  # whether the log says that a clock is wrong
        self.most_bytes = most_bytes
        self.keys: list[Key] = []
        self.ready = False
        self.exporting = asyncio.Lock()  # one board at a time: it takes a thread, and room for its log
        self.chance = np.random.default_rng() if chance is None else chance
        self._inbox = Inbox(self._apply, self._apply_lists)
        self._key = self._first_key = int(self.chance.integers(1, 2**63))
        self._tasks: set[asyncio.Task[Any]] = set()
        self.partitions = 1  # how many the store has
        self.served: set[int] = set()  # partitions whose requests are answered here
        self._in_flight: collections.Counter[int] = collections.Counter()  # requests, by partition
        self.ownership: Ownership | None = None  # of a store whose partitions have one owner each
        if not url.startswith("sqlite:"):
            changes = self.adopt, self.lose, self.release, self._with_boards, self.spawn
            self.ownership = Ownership(url, int(self.chance.integers(1, 2**63)), address, *changes)
        self.replicas: Replicas | None = None  # of boards that other workers own, once it has started
        self.fences = None if self.ownership is None else self.ownership.fences
        self.cache = BoardCache(url, most_awake, monotonic, self.apply, self.catch_up, self.spawn, self.fences)
        self.look_at_log = SharedLook(self.catch_up, self.spawn)

    async def start(self) -> None:
        """Read the store, fold what is there, and begin to write; ready when it returns."""
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
            self._drop(gone)  # lost while they were read
            self.log_writer.drop(gone)
        self._ticking = self.spawn(self._tick())
        gc.collect()
        gc.freeze()  # what is there now stays: looking at it again and again would take a tenth of a second each time
        self.ready = True
        self.spawn(self.cache.load_unknown())

    async def stop(self) -> None:
        """Write what is left, take snapshots as far as time permits, end."""
        self.ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        available = self.log_writer.available
        await self.log_writer.stop()
        await asyncio.sleep(0)  # what the log writer delivered last
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
        """Whether a board of this name is, or would be, one of this worker's."""
        return self.ownership is None or self.ownership.partition_of(name) in self.served

    def answering(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Meanwhile the board is not given to another worker, unless that takes too long."""
        if self.ownership is None or not name:
            return _NOTHING_TO_COUNT
        return _Answering(self._in_flight, self.ownership.partition_of(name))

    def seen(self, session: BoardSession) -> int:
        """The latest event of a board's partition that was read."""
        return self.log_writer.seen.get(session.number % self.partitions, 0)

    def lag(self, session: BoardSession) -> int:
        """How many events of a board's partition were read, and are not applied yet."""
        applied = self._inbox.applied.get(session.number % self.partitions, 0)
        return max(self.seen(session) - applied, 0) // self.partitions

    async def adopt(self, fences: dict[int, int]) -> None:
        """Serve partitions that this worker owns from now on, with the boards of them that were used last in memory.

        The others are loaded when they are asked for.
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
        """Of partitions that this worker was given, those that it still owns and does not serve yet."""
        assert self.fences is not None
        return {p for p, fence in fences.items() if p not in self.served and self.fences.get(p) == fence}

    async def release(self, partitions: Sequence[int]) -> dict[int, int]:
        """Serve partitions no longer, in good order: what was asked for is answered and written; their fences.

        Partitions that are not served at the moment stay as they are. Lists are given out meanwhile, and go on.
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
            heads = await self.log_writer.run_chore(lambda store: store.heads(leaving))  # what was put is written
            for head in heads.values():
                await self._inbox.wait_for(head)
            numbers = [number for number in self.cache.numbers() if number % self.partitions in leaving]
            await self.cache.save_boards(numbers, _KEEPING)
        except Unavailable:
            self.served |= leaving & self.fences.keys()
            raise
        try:
            await self.log_writer.drop(leaving)
        except Unavailable:  # it may be done later all the same: what is still this worker's is adopted again
            self.lose(leaving)
            raise
        self._drop(leaving)
        return {partition: self.fences[partition] for partition in leaving if partition in self.fences}

    def lose(self, partitions: Iterable[int]) -> None:
        """Other workers own partitions: whatever was not written is theirs to be asked for."""
        assert self.ownership is not None
        gone = set(partitions)
        self.ownership.forget(gone)
        self.ownership.look_soon()
        self._drop(gone)
        if self.ready:
            self.log_writer.drop(gone)

    def _drop(self, partitions: set[int]) -> None:
        self.served -= partitions
        self._inbox.drop(partitions)
        for number in [number for number in self.cache.numbers() if number % self.partitions in partitions]:
            self.cache.remove_board(number)

    def _with_boards(self) -> set[int]:
        """Partitions of which there are boards here."""
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
        """How many snapshots were unlike another worker's."""
        return self.cache.divergences

    def find_board(self, name: str) -> BoardSession:
        """A board by its name; one that nobody holds may be evicted.

        While its partition leaves, for the requests that began before: nobody else is served.
        """
        if not self.ready:
            raise Unavailable("the log is being read: not ready yet")
        if self.ownership is not None and self.ownership.partition_of(name) not in self._inbox.applied:
            raise Unavailable(f"another worker serves board {name!r}")
        return self.cache.find_board(name)

    def find_served(self, name: str) -> BoardSession | None:
        """A board in memory that this worker serves, which counts as asked for; None if no such is of this name."""
        session = self.cache.boards.get(name)
        if session is None or session.number % self.partitions not in self.served:
            return None
        self.cache.count_use(session)
        return session

    def next_key(self) -> int:
        """A key for an impression: 63 bits, from a random start of this worker's own; never 0."""
        self._key = self._key % (2**63 - 1) + 1
        return self._key

    def _gave(self, event: AnyEvent) -> bool:
        """Whether this worker gave out a list: by its key."""
        given = (self._key - self._first_key) % (2**63 - 1)
        return isinstance(event, events.ListShown) and 0 < (event.key - self._first_key) % (2**63 - 1) <= given

    def put_event(self, session: BoardSession, event: AnyEvent, sender: Sender | None = None) -> asyncio.Future[str]:
        """Write an event; a future of its outcome, once it is on the disk and applied."""
        session.check_served()
        future = self.log_writer.put_event(session.number, event, wait=True, sender=sender)
        assert future is not None
        return future

    async def write_event(self, session: BoardSession, event: AnyEvent, sender: Sender | None = None) -> str:
        """Write an event; its outcome once it is on the disk and applied."""
        future = self.put_event(session, event, sender)
        try:
            return await future
        finally:
            del future  # an error in it leads back to this frame, and so to the board

    async def create_board(self, name: str, start: events.Created) -> bool:
        """A new board; False if the name is taken."""
        await asyncio.to_thread(check_memory, start.config, len(start.items), self.most_bytes)
        state = await asyncio.to_thread(
            check, start.config, start.items
        )  # refuses what is wrong; compiles the learner
        if start.config.rules is not None:
            await asyncio.to_thread(check_rules, start.config, state, start.features, state)
        event = events.encode(start)
        number = await self.log_writer.run_chore(lambda store: store.create_board(name, event, self.clock()))
        await self.catch_up()
        return number is not None

    async def check_room(self, session: BoardSession, more: int) -> None:
        """Refuse so many more items if the board would need too much memory for them."""
        state = session.board.learner_state
        items = len(state.names) + more
        if items > state.capacity:
            config = session.board.latest
            await asyncio.to_thread(check_memory, config, items, self.most_bytes, state.capacity)

    async def delete_board(self, name: str) -> None:
        """End a board, a parked one too; its log is deleted soon after."""
        number = self.parked[name].number if name in self.parked else self.find_board(name).number
        event = events.encode(events.Deleted())
        seq = await self.log_writer.run_chore(lambda store: store.delete_board(number, event, self.clock()))
        self.cache.remove_board(number)
        self.spawn(asyncio.to_thread(wipe, self.url, number, seq))  # takes long if the log is

    async def forget_client(self, session: BoardSession, client: str, kind: str | None = None) -> int:
        """Delete which number a client has, or a cohort: what stays in the log is nobody's. How many impressions."""
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
        """What a function makes of a board that it does not change; of a large one in a thread.

        It must not draw lists. Meanwhile nothing is applied, of any board, and lists are given out as always.
        """
        state = session.board.learner_state
        if state.capacity * (1 + len(state.features.segments)) <= _LARGE:
            return look(session.board)
        return await self.look_at(session, look)

    async def look_at(self, session: BoardSession, look: Callable[[Board], T]) -> T:
        """What a function makes of a board that it does not change, in a thread, as with `inspect_board`."""
        async with self._inbox.hold_events():
            return await asyncio.to_thread(look, session.board)

    async def look_at_copy(self, session: BoardSession, copy: Callable[[Board], C], look: Callable[[C], T]) -> T:
        """What a function makes, in a thread, of what another copies of a board: events wait for the copy alone."""
        return await asyncio.to_thread(look, await self.look_at(session, copy))

    async def catch_up(self) -> None:
        """Wait until the log is applied as far as it goes now."""
        writer = self.log_writer
        heads: dict[int, int] = await writer.run_chore(lambda store: store.heads(writer.seen))
        for partition, head in heads.items():
            if self._inbox.applied.get(partition, head) < head:
                with contextlib.suppress(Fenced):  # somebody else's by now
                    await self._inbox.wait_for(head)

    @property
    def applied(self) -> int:
        """The latest event that was applied: the highest number."""
        return max(self._inbox.applied.values(), default=0)

    def _apply(self, line: Line, made: dict[int, Any]) -> Steps:
        begun = made.get(line.board)  # none if it was deleted meanwhile
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
            if line.waiting is not None:  # the board went and came back meanwhile: who asks again hears the outcome
                raise Fenced([line.seq % self.partitions])
            return outcome
        return (yield from self._steps(session, line, in_turn=True))

    def _apply_lists(self, lines: Iterator[Line]) -> tuple[int, bool]:
        """Apply the first lines together, if they are lists of one board in memory: how many, and whether it was so.

        If not, so many are to be applied one by one.
        """
        first = next(lines)
        session = self.cache.by_number.get(first.board)
        if session is None or not _is_list(first) or first.seq <= session.applied:
            return 1, False
        others = itertools.takewhile(lambda line: line.board == first.board and _is_list(line), lines)
        most = SNAPSHOT_EVERY - session.board.events % SNAPSHOT_EVERY
        lists = [first, *itertools.islice(others, most - 1)]
        try:
            done = len(lists) >= _FEWEST and session.show_lists(lists, self._gave, self.monotonic())
        except Exception as error:  # as in `_steps`
            log.exception("lists cannot be applied", extra={"fields": {"event": first.seq}})
            self.cache.park_board(session.number, str(not_applied(first.seq, error)))
            done = False
        if done:
            self._after(session, lists[-1].seq, in_turn=True)
        return len(lists), done

    def apply(self, session: BoardSession, line: Line) -> str:
        """Apply an event to a board in memory, all of it at once."""
        return finished(self._steps(session, line))

    def _steps(self, session: BoardSession, line: Line, in_turn: bool = False) -> Steps:
        """Apply an event to a board in memory, which stays there; what it was loaded with is in it already.

        An event that fails half-way, for a lack of memory or by a fault of ours, leaves memory that no other worker
        has: the board is parked with it, and folded anew at the next start.
        """
        event = line.event
        assert not isinstance(event, Unreadable)
        if line.seq <= session.applied:
            return "done"
        session.applied = line.seq
        session.users += 1
        try:
            session.learn_clients(line)
            outcome = yield from session.board.steps(event)
            session.note(line, outcome, line.waiting is not None or self._gave(event), self.monotonic())
            if isinstance(event, events.Resealed):
                session.resealing = self.spawn(reseal(self.log_writer, session))
            if isinstance(event, events.QueryForgotten) and event.query == event.now:  # rewritten before it was read
                session.board.outdate()
        except Refused:
            self._after(session, line.seq, in_turn)
            raise
        except Exception as error:
            log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
            self.cache.park_board(session.number, str(not_applied(line.seq, error)))
            session.check_served()
            raise
        finally:
            session.users -= 1
        self._after(session, line.seq, in_turn)
        return outcome

    def _after(self, session: BoardSession, seq: int, in_turn: bool) -> None:
        """Fold again or take a snapshot, where an event makes that due.

        A large collection is copied in a thread, if no other event is applied before the inbox lets it.
        """
        board = session.board
        if board.stale and session.refolding is None:
            session.refolding = self.spawn(self._refold(session))
        elif board.events % SNAPSHOT_EVERY == 0 and not board.stale:
            state = board.learner_state
            if in_turn and isinstance(state, CollectionState) and state.n_pairs > _LARGE:
                session.users += 1
                self._inbox.begin_hold()
                keeping = asyncio.get_running_loop().run_in_executor(None, board.keep)
                keeping.add_done_callback(functools.partial(self._kept, session, board, seq))
                return
            try:
                kept = board.keep()
            except MemoryError as error:  # the board goes on without it
                _no_snapshot(session, error)
                return
            board.events_kept = board.events
            self._save(session, seq, kept)

    def _kept(self, session: BoardSession, board: Board, seq: int, keeping: "asyncio.Future[Kept]") -> None:
        """What a thread copied of a board, meanwhile no event was begun, becomes a snapshot."""
        board.events_kept = board.events
        session.users -= 1
        self._inbox.end_hold()
        error = keeping.exception()
        if error is not None:
            _no_snapshot(session, error)
        elif self.ready:  # else it ends, and all boards are saved
            self._save(session, seq, keeping.result())

    def cut_off(self) -> None:
        """This worker was away for so long that the log was shortened meanwhile: begin again."""
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
            except Exception as error:  # whatever it is: without an end to it, this worker serves nothing
                log.error("store away", extra={"fields": {"why": f"{type(error).__name__}: {error}"}})
                await asyncio.sleep(1.0)

    async def _refold(self, session: BoardSession) -> None:
        """Fold the log again with other settings, while the board goes on; then put the new fold in its place."""
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
        """Settle and expire what is due, by this worker's own clock; the log decides what that means."""
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
            if rounds % 10 == 0 and (chores is None or chores.done()):  # never waited for: the store may be stuck
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

        with contextlib.suppress(Unavailable):  # the next ones do what these could not
            self.keys, moved, time, latest = await self.log_writer.run_chore(chore)
            self.clock.look(time, *latest)
            for board, edge in moved.items():
                if board in self.cache.by_number:
                    self.cache.by_number[board].edge = edge

        self._report_clock()

    def _report_clock(self) -> None:
        """Say in the server's log when a clock begins to be wrong, and when that is over."""
        skew = self.clock.skew
        if skew.alarming != self._alarmed:
            self._alarmed = skew.alarming
            fields = {"fields": {name: round(seconds) for name, seconds in skew._asdict().items()}}
            if skew.alarming:
                log.error("a clock is wrong", extra=fields)
            else:
                log.warning("clocks agree again", extra=fields)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Do something meanwhile; what fails is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task


def _is_list(line: Line) -> bool:
    """Whether an event is a list whose outcome nobody waits for, nor how long it took."""
    return type(line.event) is events.ListShown and line.waiting is None and line.trace is None


def _no_snapshot(session: BoardSession, error: BaseException) -> None:
    log.warning("no snapshot", extra={"fields": {"board": session.name, "why": f"{type(error).__name__}: {error}"}})


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a task failed", exc_info=task.exception())
