"""Ownership of the partitions of a shared store: how workers take, keep, lose and hand over partitions.

Every worker sends heartbeats to the database, and reads there which others are alive. A partition whose owner has
sent none for the time of a lease is free, and any live worker may take it. The lease decides only that: what a worker
may write is decided by the fence of the partition, in the transaction that writes. So a worker that was suspended, or
whose clock is wrong, cannot write to partitions that have a new owner. Only lists ranked from copies of others'
boards have no fence (`replicas`).

A worker with much more load than another hands over some of its partitions, a few at a time.
"""

import asyncio
import collections
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..storage import Holding, Member, SqlStore, Unavailable, partition_of
from .store_threads import StoreThreads

LEASE = 3.0  # seconds without a heartbeat after which a worker counts as dead
BEAT = 0.4  # seconds between heartbeats
_SOON = 0.03  # the same, when a request indicates that something has changed
MOVED_AT_ONCE = 4  # partitions with boards that a worker hands over at a time
_WINDOW = 10.0  # seconds over which the events of a partition are counted
_UNEVEN = 0.1  # of the mean load; a smaller imbalance is not worth a move
_IDLE = 1.0  # events per second added to the measured load of each partition

log = logging.getLogger("steadyrank.service")


class Move(NamedTuple):
    """A partition and its intended owner."""

    partition: int
    to: int


class Ownership:
    """The partitions of a store as seen by one worker. Used in the event loop's thread only.

    Callbacks: `adopt` starts serving partitions under the given fences; `lost` is called with those that have other
    owners; `release` stops serving some in order, after which they can be handed over; `with_boards` returns the
    partitions that have boards here.
    """

    def __init__(
        self,
        url: str,
        id_: int,
        address: str,
        adopt: Callable[[dict[int, int]], Awaitable[None]],
        lost: Callable[[Iterable[int]], None],
        release: Callable[[Sequence[int]], Awaitable[dict[int, int]]],
        with_boards: Callable[[], set[int]],
        spawn: Callable[[Any], "asyncio.Task[Any]"],
    ) -> None:
        self.id, self.address, self._machine = id_, address, socket.gethostname()
        self._adopt, self._lost, self._release, self._with_boards = adopt, lost, release, with_boards
        self._spawn = spawn
        self.partitions = 0  # the total number
        self.joined = False  # whether this worker has announced itself
        self.fences: dict[int, int] = {}  # of the partitions owned by this worker, served or not
        self.members: dict[int, Member] = {}
        self.owners: dict[int, int] = {}
        self._history: collections.deque[tuple[float, dict[int, int]]] = collections.deque()
        self._beaten = 0.0  # the time of the last heartbeat
        self._since = 0.0  # since when heartbeats have had no gap
        self._moving: asyncio.Task[Any] | None = None
        self._hurry = asyncio.Event()
        self._changed: asyncio.Future[None] | None = None
        self._thread = StoreThreads("ownership", url)

    async def join(self) -> None:
        """Announce this worker to the others, and take free partitions."""

        def begin(store: SqlStore) -> int:
            if self.address:
                store.replace_worker(self.id, self._machine, self.address)
            return store.partitions

        self.partitions = await self._thread.run(begin)
        await self._beat()
        await self._take()
        self.joined = True

    async def run(self) -> None:
        """Send heartbeats, and take and hand over partitions, until cancelled."""
        working = True
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), BEAT)
                await asyncio.sleep(_SOON)
            self._hurry.clear()
            try:
                await self._renew()
                working = True
            except Unavailable as error:
                if working:
                    log.warning("ownership not renewed", extra={"fields": {"why": str(error)}})
                working = False
            except Exception:  # whatever it is, go on: without heartbeats the worker loses all its partitions
                log.exception("ownership not renewed")

    async def leave(self) -> None:
        """Give up all partitions when the worker stops."""
        try:
            await self._thread.run(lambda store: store.leave(self.id))
        except Unavailable as error:
            log.warning("partitions not given back", extra={"fields": {"why": str(error)}})
        self._thread.close()

    def renew_soon(self) -> None:
        """Renew soon: a request indicates that ownership has changed."""
        self._hurry.set()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until the owner of any partition changes, or until the timeout."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._changed], timeout=seconds)

    def partition_of(self, board: str) -> int:
        """The partition of a board."""
        return partition_of(board, self.partitions)

    def address_of(self, partition: int) -> str | None:
        """The address of the worker that serves a partition, as far as known; None if it has no live owner."""
        member = self.members.get(self.owners.get(partition, 0))
        return member.address if member is not None and member.alive else None

    def others(self) -> list[str]:
        """The addresses of all other live workers."""
        return [member.address for member in self.members.values() if member.alive and member.id != self.id]

    async def _renew(self) -> None:
        await self._beat()
        await self._take()
        if self._moving is None or self._moving.done():
            alive = [member.id for member in self.members.values() if member.alive]
            moves = plan(self.id, alive, self.owners, self._weights(), self._with_boards)
            if moves:
                self._moving = self._spawn(self._hand_over(moves))

    async def _beat(self) -> None:
        """Send a heartbeat, and read who is alive and who owns what."""

        def say(store: SqlStore) -> tuple[list[Member], dict[int, Holding]]:
            store.beat(self.id, self._machine, self.address, LEASE)
            return store.holdings()

        begin = time.monotonic()
        members, holdings = await self._thread.run(say)
        if begin > self._beaten + LEASE:
            self._since = begin if self._beaten else -LEASE  # at startup, other owners have had their time
        self._beaten = begin
        before = self.owners
        self.members = {member.id: member for member in members}
        self.owners = {partition: holding.owner for partition, holding in holdings.items()}
        self._history.append((begin, {partition: holding.seq for partition, holding in holdings.items()}))
        while self._history[0][0] < begin - _WINDOW:
            self._history.popleft()
        mine = {partition: holding.fence for partition, holding in holdings.items() if holding.owner == self.id}
        self._update_fences(mine)
        if before != self.owners and self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _update_fences(self, mine: Mapping[int, int]) -> None:
        """Start serving newly owned partitions, and stop serving lost ones."""
        gone = [partition for partition, fence in self.fences.items() if mine.get(partition) != fence]
        if gone:
            self.forget(gone)
            self._lost(gone)
        fresh = {partition: fence for partition, fence in mine.items() if partition not in self.fences}
        if fresh:
            self.fences |= fresh
            self._spawn(self._adopt(fresh))

    def forget(self, partitions: Iterable[int]) -> None:
        """Remove partitions from those of this worker."""
        for partition in partitions:
            self.fences.pop(partition, None)

    async def _take(self) -> None:
        """Take partitions whose owners are dead, up to a fair share of all.

        After the store was unavailable for everybody, returning workers get the time of a lease to send a heartbeat.
        """
        if time.monotonic() < self._since + LEASE:
            return
        alive = {member.id for member in self.members.values() if member.alive}
        free = sum(owner not in alive for owner in self.owners.values())
        share = -(-self.partitions // max(len(alive), 1)) - len(self.fences)
        if free and share > 0:
            taken = await self._thread.run(lambda store: store.take_partitions(self.id, share))
            if taken:
                log.info("partitions taken", extra={"fields": {"count": len(taken)}})
                self.fences |= taken
                self.owners |= dict.fromkeys(taken, self.id)
                self._spawn(self._adopt(taken))

    async def _hand_over(self, moves: Sequence[Move]) -> None:
        """Stop serving partitions, and make others their owners."""
        try:
            fences = await self._release([move.partition for move in moves])
        except Unavailable as error:
            log.warning("partitions not given away", extra={"fields": {"why": str(error)}})
            return
        gifts = [(partition, fences[partition], to) for partition, to in moves if partition in fences]
        try:
            await self._thread.run(lambda store: store.give_partitions(gifts))
            self.owners |= {partition: to for partition, _, to in gifts}
            log.info("partitions given away", extra={"fields": {"count": len(fences)}})
        except Unavailable as error:
            log.warning("partitions not given away", extra={"fields": {"why": str(error)}})
        finally:
            self.forget(fences)  # if this worker still owns them after all, it adopts them again

    def _weights(self) -> dict[int, float]:
        """The load of each partition in events per second."""
        (begin, before), (end, now) = self._history[0], self._history[-1]
        seconds = max(end - begin, 1.0)
        return {
            partition: _IDLE + max(seq - before.get(partition, seq), 0) / self.partitions / seconds
            for partition, seq in now.items()
        }


def plan(
    me: int,
    alive: Sequence[int],
    owners: Mapping[int, int],
    weights: Mapping[int, float],
    with_boards: Callable[[], set[int]],
) -> list[Move]:
    """The partitions that worker `me` should hand over now: the heaviest that fit, to the least loaded workers.

    Any number of partitions without boards, but only a few with boards, and none that would leave the receiver with
    more load than the giver has now, so that nothing goes back and forth.
    """
    loads = dict.fromkeys(alive, 0.0)
    for partition, owner in owners.items():
        if owner in loads:
            loads[owner] += weights[partition]
    if me not in loads:
        return []
    slack = _UNEVEN * sum(loads.values()) / len(loads)
    mine = sorted((p for p, owner in owners.items() if owner == me), key=lambda p: (-weights[p], p))
    moves: list[Move] = []
    if not mine or loads[me] - min(loads.values()) <= slack:
        return moves
    having, heavy = with_boards(), 0
    while mine:
        to = min(loads, key=lambda worker: (loads[worker], worker))
        gap = loads[me] - loads[to]
        if gap <= slack:
            break
        light = heavy == MOVED_AT_ONCE
        fits = [p for p in mine if weights[p] <= gap / 2 and not (light and p in having)]
        if not fits and not light and weights[mine[-1]] <= 0.75 * gap:
            fits = mine[-1:]
        if not fits:
            break
        chosen = fits[0]
        heavy += chosen in having
        mine.remove(chosen)
        loads[me] -= weights[chosen]
        loads[to] += weights[chosen]
        moves.append(Move(chosen, to))
    return moves
