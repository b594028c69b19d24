"""All boards of a worker: ranks from memory, writes what happens to the log, applies the log in order."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..live import read_answer
from ..refusals import Refused
from . import events
from .boards import check
from .events import AnyEvent, Config
from .held import Held
from .journal import MOST_BEHIND, Journal, Line
from .recovery import Kept, fold_again, recover, save
from .sql import Unavailable
from .store import Key, Store
from .tickets import Ticket, open_sealed, seal

SNAPSHOT_EVERY = 20_000  # events of a board; every worker takes one at the same event
TICK = 0.1

log = logging.getLogger("steadyrank.service")


class Host:
    """The boards of one worker. Everything runs in the event loop's thread but the journal and the snapshots."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic,
        chance: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        self.url, self.clock, self.monotonic = url, clock, monotonic
        self.boards: dict[str, Held] = {}
        self.numbers: dict[int, Held] = {}
        self.keys: list[Key] = []
        self.ready = False
        self.divergences = 0
        self.applied = 0
        self._rng = np.random.default_rng() if chance is None else chance
        self._tasks: set[asyncio.Task[Any]] = set()
        self._seen: list[tuple[int, asyncio.Future[None]]] = []
        self._clients: list[tuple[int, int, int, float]] = []

    async def start(self) -> None:
        """Read the store, fold what is there, and begin to write; ready when it returns."""
        recovered, self.keys, head = await asyncio.to_thread(recover, self.url)
        for number, name, secret, board in recovered:
            held = Held(number, name, secret, board)
            held.applied = head
            self._hold(held)
        self.applied = head
        self.journal = Journal(self.url, head, self._deliver, self.clock)
        self._spawn(self._tick())
        self.ready = True

    async def stop(self) -> None:
        """Write what is left, take snapshots, end."""
        self.ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.journal.stop()
        await asyncio.sleep(0)  # what the journal delivered last
        if self.journal.available:
            kept = [(held, held.board.keep()) for held in self.numbers.values()]
            await asyncio.gather(*(self._snapshot(held, held.applied, copy) for held, copy in kept))

    def find(self, name: str) -> Held:
        """A board by its name."""
        if not self.ready:
            raise Unavailable("the log is being read: not ready yet")
        if name not in self.boards:
            raise Refused(404, f"no board {name!r}")
        return self.boards[name]

    def rank(
        self, held: Held, candidates: Sequence[str] | None, length: int | None, client: str | None
    ) -> tuple[str, list[str], float]:
        """Impression id, items from the top, and when the id expires."""
        if self.journal.behind >= MOST_BEHIND:
            raise Unavailable("too many impressions wait to be written")
        board, now = held.board, self.clock()
        size = board.fold.length if length is None else length
        if not 1 <= size <= board.fold.length:
            raise Refused(422, f"length must be from 1 to {board.fold.length}, not {length!r}")
        held.round = max(held.round, board.intake.rounds) + 1
        ranking, note = board.fold.rank(held.round, candidates, size, self._rng)
        key = int(self._rng.bit_generator.random_raw()) >> 1 or 1
        slots = ranking.tolist()
        notes = [(int(i), float(note[i])) for i in np.flatnonzero(note)] if note.any() else []
        hashed = 0 if client is None else held.hash_client(client)
        if hashed:
            self._clients.append((held.number, hashed, key, now))
        base, generation = board.intake.last, board.generation
        self.journal.put(held.number, events.Shown(key, held.round, base, generation, slots, notes))
        expires = now + board.config.lifetime
        ticket = Ticket(key, held.round, base, generation, expires, hashed, slots, notes)
        return seal(ticket, held.signer), [board.fold.names[slot] for slot in slots], expires

    async def answer(
        self, held: Held, impression: str, *, clicked: Any = None, clicks: Sequence[int] | None = None,
        examined: int | None = None,
    ) -> str:  # fmt: skip
        """Answer an impression; the outcome, once it is on the disk."""
        ticket = open_sealed(impression, held.signer)
        if ticket.expires < self.clock():
            raise Refused(410, "the impression has expired")
        if ticket.client:
            held.count_client(ticket.client, self.monotonic())
        size = len(ticket.ranking)
        position = None
        if clicked is not None:
            slot = held.board.fold.slots.get(clicked, -1)
            if slot not in ticket.ranking:
                raise Refused(422, f"item {clicked!r} was not shown")
            position = ticket.ranking.index(slot) + 1
        bits, looked = read_answer(size, position, clicks, examined)
        event = events.Answered(*ticket[:4], ticket.ranking, ticket.note, np.flatnonzero(bits).tolist(), looked)
        known = held.board.known(event)
        return known or await self.write(held, event)

    async def write(self, held: Held, event: AnyEvent) -> str:
        """Write an event; its outcome once it is on the disk and applied."""
        future = self.journal.put(held.number, event, wait=True)
        assert future is not None
        return await future

    async def create(self, name: str, config: Config, items: list[str]) -> bool:
        """A new board; False if the name is taken."""
        await asyncio.to_thread(check, config, items)  # refuses what is wrong, and compiles the learner
        event = events.encode(events.Created(config, items))
        number = await self.journal.do(lambda store: store.create(name, event, self.clock()))
        if number is None:
            return False
        await self.reach(number)
        return True

    async def configure(self, held: Held, config: Config) -> None:
        """Change a board's settings; if that changes what is learnt, fold its log again and wait for it."""
        await asyncio.to_thread(check, config, held.board.fold.names[:1])
        if config.learning() != held.board.config.learning():
            whole = await self.journal.do(lambda store: held.number == store.first(held.number))
            if not whole:
                raise Refused(
                    409, "the beginning of the board's log is no longer kept, so another learner cannot be told "
                    "of it: make a new board",
                )  # fmt: skip
        await self.write(held, events.Configured(config))
        if held.refolding is not None:
            await asyncio.shield(held.refolding)

    async def delete(self, held: Held) -> None:
        """End a board and delete its log."""
        event = events.encode(events.Deleted())
        await self.journal.do(lambda store: store.delete(held.number, event, self.clock()))
        self._drop(held.number)

    async def forget_client(self, held: Held, client: str) -> int:
        """Delete what is kept of a client; how many impressions."""
        hashed = held.hash_client(client)
        self._clients = [row for row in self._clients if row[:2] != (held.number, hashed)]
        count: int = await self.journal.do(lambda store: store.forget_client(held.number, hashed))
        return count

    async def reach(self, seq: int) -> None:
        """Wait until the log is applied up to an event."""
        if self.applied < seq:
            future = asyncio.get_running_loop().create_future()
            self._seen.append((seq, future))
            await asyncio.wait_for(future, 20.0)

    def _hold(self, held: Held) -> None:
        self.boards[held.name] = self.numbers[held.number] = held

    def _drop(self, number: int) -> None:
        held = self.numbers.pop(number, None)
        if held is not None:
            self.boards.pop(held.name, None)

    def _deliver(self, lines: Sequence[Line], names: dict[int, tuple[str, bytes]]) -> None:
        for line in lines:
            outcome: str | Refused = "done"
            held = self.numbers.get(line.board)
            if isinstance(line.event, events.Created):
                if line.board in names:  # else it was deleted meanwhile
                    self._hold(Held.begin(line.board, *names[line.board], line.event))
            elif isinstance(line.event, events.Deleted):
                self._drop(line.board)
            elif held is None:
                outcome = Refused(404, "the board was deleted")
            else:
                outcome = self._apply(held, line)
            self.applied = line.seq
            if line.waiting is not None and not line.waiting.done():
                if isinstance(outcome, str):
                    line.waiting.set_result(outcome)
                else:
                    line.waiting.set_exception(outcome)
        for seq, future in [waiter for waiter in self._seen if waiter[0] <= self.applied]:
            self._seen.remove((seq, future))
            if not future.done():
                future.set_result(None)

    def _apply(self, held: Held, line: Line) -> str | Refused:
        outcome: str | Refused = "done"
        learning = held.board.config.learning()
        if isinstance(line.event, events.Configured) and (
            held.refolding is not None or line.event.config.learning() != learning
        ):
            held.board.events += 1
            held.stale = True
            if held.refolding is None:
                held.refolding = self._spawn(self._refold(held))
        else:
            try:
                outcome = held.board.apply(line.event)
            except Refused as error:
                outcome = error
        held.applied = line.seq
        if held.board.events % SNAPSHOT_EVERY == 0 and held.refolding is None:
            self._spawn(self._snapshot(held, line.seq, held.board.keep()))
        return outcome

    async def _refold(self, held: Held) -> None:
        """Fold the log again with other settings, while the board goes on; then put the new fold in its place."""
        try:
            while held.stale:
                held.stale = False
                board = await fold_again(self.url, held)
                if not held.stale:
                    held.board = board
        finally:
            held.refolding = None
        await self._snapshot(held, held.applied, held.board.keep())

    async def _snapshot(self, held: Held, seq: int, kept: Kept) -> None:
        try:
            if await asyncio.to_thread(save, self.url, held.number, seq, kept):
                return
            self.divergences += 1
            log.error("divergence", extra={"fields": {"board": held.name, "event": seq}})
        except Unavailable as error:
            log.warning("no snapshot", extra={"fields": {"board": held.name, "why": str(error)}})

    async def _tick(self) -> None:
        """Settle and expire what is due, by this worker's own clock; the log decides what that means."""
        rounds = 0
        while True:
            await asyncio.sleep(TICK)
            now = self.monotonic()
            for held in list(self.numbers.values()):
                for event in held.due(now):
                    self.journal.put(held.number, event)
            rounds += 1
            if rounds % 10 == 0:
                await self._chores(rounds)

    async def _chores(self, rounds: int) -> None:
        clients, self._clients = self._clients, []
        limits = [(held.number, held.board.config.client_days) for held in self.numbers.values()]
        now = self.clock()

        def chore(store: Store) -> list[Key]:
            if clients:
                store.note_clients(clients)
            if rounds % 6000 == 0:
                for number, days in limits:
                    store.forget_clients(number, now - 86_400 * days)
            return store.api_keys()

        try:
            self.keys = await self.journal.do(chore)
        except Unavailable:
            self._clients = (clients + self._clients)[:MOST_BEHIND]

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a task failed", exc_info=task.exception())
