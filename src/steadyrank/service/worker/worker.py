"""All boards of a worker: ranks from memory, writes what happens to the log, applies the log in order."""

import asyncio
import collections
import contextlib
import gc
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...refusals import Refused
from ..board import events
from ..board.board import check
from ..board.config import Config
from ..board.events import AnyEvent
from ..storage import Key, Sender, Store, Unavailable
from .board_session import BoardSession, Edge, begin
from .log_writer import POLL, Line, LogWriter
from .recovery import Kept, fold_again, moved_edges, recover, save, wipe

SNAPSHOT_EVERY = 20_000  # events of a board; every worker takes one at the same event
TICK = 0.1
_AT_ONCE = 32  # events applied between requests

log = logging.getLogger("steadyrank.service")


class Worker:
    """The boards of one worker. Everything runs in the event loop's thread but the log writer and the snapshots."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        chance: np.random.Generator | None = None,
    ) -> None:
        self.url, self.clock, self.monotonic = url, clock, monotonic
        self.boards: dict[str, BoardSession] = {}
        self.numbers: dict[int, BoardSession] = {}
        self.keys: list[Key] = []
        self.ready = False
        self.broken: dict[str, str] = {}  # boards that cannot be read, and why
        self.divergences = 0
        self.applied = 0
        self.exporting = asyncio.Lock()  # one board at a time: it takes a thread, and room for its log
        self.chance = np.random.default_rng() if chance is None else chance
        self._inbox: collections.deque[tuple[Line, dict[int, Any]]] = collections.deque()
        self._key = int(self.chance.integers(1, 2**63))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._seen: list[tuple[int, asyncio.Future[None]]] = []
        self._next_look: asyncio.Task[Unavailable | None] | None = None

    begin = staticmethod(begin)  # called by the log writer's thread, since a learner may have to be compiled

    async def start(self) -> None:
        """Read the store, fold what is there, and begin to write; ready when it returns."""
        found = await asyncio.to_thread(recover, self.url)
        self._inbox.clear()
        self.boards, self.numbers, self.broken = {}, {}, found.broken
        for session in found.boards:
            self._take_up(session)
        self.keys, self.applied = found.keys, found.head
        self.log_writer = LogWriter(self.url, found.head, self, self.clock)
        self._ticking = self._spawn(self._tick())
        gc.collect()
        gc.freeze()  # what is there now stays: looking at it again and again would take a tenth of a second each time
        self.ready = True

    async def stop(self) -> None:
        """Write what is left, take snapshots, end."""
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
            kept = [(session, session.board.keep()) for session in self.numbers.values() if not session.board.stale]
            await asyncio.gather(*(self._snapshot(session, session.applied, copy) for session, copy in kept))

    def find(self, name: str) -> BoardSession:
        """A board by its name."""
        if not self.ready:
            raise Unavailable("the log is being read: not ready yet")
        if name in self.broken:
            raise Refused(503, f"board {name!r} cannot be read: the server's log says why")
        if name not in self.boards:
            raise Refused(404, f"no board {name!r}")
        return self.boards[name]

    def next_key(self) -> int:
        """A key for an impression: 63 bits, from a random start of this worker's own; never 0."""
        self._key = self._key % (2**63 - 1) + 1
        return self._key

    async def write(self, session: BoardSession, event: AnyEvent, sender: Sender | None = None) -> str:
        """Write an event; its outcome once it is on the disk and applied."""
        future = self.log_writer.put(session.number, event, wait=True, sender=sender)
        assert future is not None
        return await future

    async def create(self, name: str, config: Config, items: list[str]) -> bool:
        """A new board; False if the name is taken."""
        await asyncio.to_thread(check, config, items)  # refuses what is wrong, and compiles the learner
        event = events.encode(events.Created(config, items))
        number = await self.log_writer.do(lambda store: store.create(name, event, self.clock()))
        await self.catch_up()
        return number is not None

    async def delete(self, session: BoardSession) -> None:
        """End a board; its log is deleted soon after."""
        event = events.encode(events.Deleted())
        seq = await self.log_writer.do(lambda store: store.delete(session.number, event, self.clock()))
        self._drop(session.number)
        self._spawn(asyncio.to_thread(wipe, self.url, session.number, seq))  # takes long if the log is

    async def forget_client(self, session: BoardSession, client: str) -> int:
        """Delete which number a client has: what stays in the log is nobody's. How many impressions it had."""
        hashed, now = session.hash_client(client), self.clock()
        board = session.number
        count: int = await self.log_writer.do(lambda store: store.forget_client(board, hashed, now, events.forgotten))
        session.forget_client(hashed)
        await self.catch_up()
        return count

    async def catch_up(self) -> None:
        """Wait until the log is applied as far as it goes now."""
        seq = await self.log_writer.do(lambda store: store.head())
        if self.applied < seq:
            future = asyncio.get_running_loop().create_future()
            self._seen.append((seq, future))
            try:
                await asyncio.wait_for(future, 20.0)
            except TimeoutError:
                raise Unavailable("the log cannot be read") from None

    async def look(self) -> None:
        """Apply what any worker wrote until now. Who asks within a moment shares one look: without a key it costs
        the store little, however many ask."""
        if self._next_look is None:
            self._next_look = self._spawn(self._look())
        failure = await asyncio.shield(self._next_look)
        if failure is not None:
            raise failure

    async def _look(self) -> Unavailable | None:
        await asyncio.sleep(POLL)
        self._next_look = None  # who comes from here on is too late for this one
        try:
            await self.catch_up()
        except Unavailable as error:
            return error
        return None

    def _take_up(self, session: BoardSession) -> None:
        self.boards[session.name] = self.numbers[session.number] = session

    def _drop(self, number: int) -> None:
        session = self.numbers.pop(number, None)
        if session is not None and self.boards.get(session.name) is session:
            del self.boards[session.name]

    @property
    def unapplied(self) -> int:
        """Events that wait for their turn."""
        return len(self._inbox)

    def deliver(self, lines: Sequence[Line], made: dict[int, Any]) -> None:
        """Apply events in log order, a few at a time so that requests need not wait for all of them."""
        idle = not self._inbox
        self._inbox.extend((line, made) for line in lines)
        if idle:
            self._drain()

    def _drain(self) -> None:
        for _ in range(min(len(self._inbox), _AT_ONCE)):
            line, made = self._inbox[0]
            try:
                outcome: str | Exception = self._apply(line, made)
            except Refused as error:
                outcome = error
            except Exception as error:  # as a replay does: this event has failed, the next one is applied
                log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
                outcome = error
            self.applied = line.seq
            if line.waiting is not None and not line.waiting.done():
                if isinstance(outcome, str):
                    line.waiting.set_result(outcome)
                else:
                    line.waiting.set_exception(outcome)
            self._inbox.popleft()
        if self._inbox:
            asyncio.get_running_loop().call_soon(self._drain)
        for seq, future in [waiter for waiter in self._seen if waiter[0] <= self.applied]:
            self._seen.remove((seq, future))
            if not future.done():
                future.set_result(None)

    def _apply(self, line: Line, made: dict[int, Any]) -> str:
        if isinstance(line.event, events.Created):
            begun = made.get(line.board)  # none if it was deleted meanwhile
            if isinstance(begun, Exception):
                raise begun
            if begun is not None:
                self._take_up(begun)
            return "done"
        if isinstance(line.event, events.Deleted):
            self._drop(line.board)
            return "done"
        session = self.numbers.get(line.board)
        if session is None:
            raise Refused(404, "the board was deleted")
        session.applied = line.seq
        session.learn_clients(line)
        try:
            outcome = session.board.apply(line.event)
            session.note_answer(line, outcome, self.monotonic())
            return outcome
        finally:
            if session.board.stale and session.refolding is None:
                session.refolding = self._spawn(self._refold(session))
            elif session.board.events % SNAPSHOT_EVERY == 0 and not session.board.stale:
                self._spawn(self._snapshot(session, line.seq, session.board.keep()))

    def cut_off(self) -> None:
        """This worker was away for so long that the log was shortened meanwhile: begin again."""
        if self.ready:
            log.error("the log was shortened before it was read here: reading the store again")
            self.ready = False
            self._spawn(self._begin_again())

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
        while session.board.stale and session.number in self.numbers:
            try:
                board = await fold_again(self.url, session)
            except Exception as error:
                log.error("not folded again", extra={"fields": {"board": session.name, "why": str(error)}})
                await asyncio.sleep(pause)
                pause = min(2 * pause, 30.0)
                continue
            if not board.stale:
                session.board = board
        session.refolding = None
        await self._snapshot(session, session.applied, session.board.keep())

    async def _snapshot(self, session: BoardSession, seq: int, kept: Kept) -> None:
        try:
            if await asyncio.to_thread(save, self.url, session.number, seq, kept):
                return
            self.divergences += 1
            log.error("divergence", extra={"fields": {"board": session.name, "event": seq}})
        except Unavailable as error:
            log.warning("no snapshot", extra={"fields": {"board": session.name, "why": str(error)}})

    async def _tick(self) -> None:
        """Settle and expire what is due, by this worker's own clock; the log decides what that means."""
        rounds, chores = 0, None
        while True:
            await asyncio.sleep(TICK)
            self.log_writer.give_up()
            now = self.monotonic()
            for session in list(self.numbers.values()):
                for event in session.due(now):
                    self.log_writer.put(session.number, event)
            rounds += 1
            if rounds % 10 == 0 and (chores is None or chores.done()):  # never waited for: the store may be stuck
                chores = self._spawn(self._chores(rounds))

    async def _chores(self, rounds: int) -> None:
        limits = [(session.number, session.board.config.client_days) for session in self.numbers.values()]
        edges = {session.number: session.edge.seq for session in self.numbers.values()}
        now = self.clock()

        def chore(store: Store) -> tuple[list[Key], dict[int, Edge]]:
            if rounds % 600 == 0:
                for number, days in limits:
                    store.forget_clients(number, now - 86_400 * days, now, events.forgotten)
            return store.api_keys(), moved_edges(store, edges)

        with contextlib.suppress(Unavailable):  # the next ones do what these could not
            self.keys, moved = await self.log_writer.do(chore)
            for board, edge in moved.items():
                if board in self.numbers:
                    self.numbers[board].edge = edge

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a task failed", exc_info=task.exception())
