"""Which worker owns which partitions of a store that several share: taken, kept, lost and given away.

Every worker says again and again that it is alive, in the database, and reads there who else is. A partition whose
owner has said nothing for the time of a lease is free, and whoever is alive takes it. The lease decides no more than
that: what a worker may write is decided by the fence of the partition, in the transaction that writes. So a worker
that was stopped for a while, or whose clock is wrong, writes nothing to partitions that were given away meanwhile.
Only lists made from copies of others' boards have no fence (`replicas`).

Where one worker has much more to do than another, it gives some of its partitions away, a few at a time.
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

LEASE = 3.0  # seconds after which a worker that says nothing is taken for dead
BEAT = 0.4  # seconds between two times that it says it is alive
_SOON = 0.03  # the same, when a request says that something has changed
MOVED_AT_ONCE = 4  # partitions with boards that a worker gives away at a time
_WINDOW = 10.0  # seconds over which the events of a partition are counted
_UNEVEN = 0.1  # of the mean load: less is not worth a move
_IDLE = 1.0  # events a second that a partition counts for beside those that are written

log = logging.getLogger("steadyrank.service")


class Move(NamedTuple):
    """A partition, and the worker that is to own it."""

    partition: int
    to: int


class Ownership:
    """The partitions of a store as one worker sees them; used in the event loop's thread.

    `adopt` has this worker serve partitions under fences, `lost` is told of those that have other owners, and
    `release` stops serving some in good order, after which they may be given away. `with_boards`: the partitions that
    have boards here.
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
        self.partitions = 0  # how many there are
        self.joined = False  # whether the others know of this worker
        self.fences: dict[int, int] = {}  # of the partitions that are this worker's, whether served yet or not
        self.members: dict[int, Member] = {}
        self.owners: dict[int, int] = {}
        self._history: collections.deque[tuple[float, dict[int, int]]] = collections.deque()
        self._beaten = 0.0  # when it said last that it is alive
        self._since = 0.0  # since when it has said so without a gap
        self._moving: asyncio.Task[Any] | None = None
        self._hurry = asyncio.Event()
        self._changed: asyncio.Future[None] | None = None
        self._thread = StoreThreads("ownership", url)

    async def join(self) -> None:
        """Become known to the others, and take partitions that nobody owns."""

        def begin(store: SqlStore) -> int:
            if self.address:
                store.replace_worker(self.id, self._machine, self.address)
            return store.partitions

        self.partitions = await self._thread.run(begin)
        await self._beat()
        await self._take()
        self.joined = True

    async def run(self) -> None:
        """Stay known, and take and give partitions, until it is cancelled."""
        working = True
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), BEAT)
                await asyncio.sleep(_SOON)
            self._hurry.clear()
            try:
                await self._turn()
                working = True
            except Unavailable as error:
                if working:
                    log.warning("ownership not renewed", extra={"fields": {"why": str(error)}})
                working = False
            except Exception:  # whatever it is: a worker that no longer says that it is alive loses all it has
                log.exception("ownership not renewed")

    async def leave(self) -> None:
        """Give everything up, for a worker that ends."""
        try:
            await self._thread.run(lambda store: store.leave(self.id))
        except Unavailable as error:
            log.warning("partitions not given back", extra={"fields": {"why": str(error)}})
        self._thread.close()

    def look_soon(self) -> None:
        """Something has changed, as far as a request can tell."""
        self._hurry.set()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until somebody else owns something, or for so long."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._changed], timeout=seconds)

    def partition_of(self, board: str) -> int:
        """The partition of a board."""
        return partition_of(board, self.partitions)

    def address_of(self, partition: int) -> str | None:
        """Where a partition is served, by what is known here; None if nobody who is alive owns it."""
        member = self.members.get(self.owners.get(partition, 0))
        return member.address if member is not None and member.alive else None

    def others(self) -> list[str]:
        """The addresses of all other workers that are alive."""
        return [member.address for member in self.members.values() if member.alive and member.id != self.id]

    async def _turn(self) -> None:
        await self._beat()
        await self._take()
        if self._moving is None or self._moving.done():
            alive = [member.id for member in self.members.values() if member.alive]
            moves = plan(self.id, alive, self.owners, self._weights(), self._with_boards)
            if moves:
                self._moving = self._spawn(self._give(moves))

    async def _beat(self) -> None:
        """Say that this worker is alive, and see who is, and who owns what."""

        def say(store: SqlStore) -> tuple[list[Member], dict[int, Holding]]:
            store.beat(self.id, self._machine, self.address, LEASE)
            return store.holdings()

        begin = time.monotonic()
        members, holdings = await self._thread.run(say)
        if begin > self._beaten + LEASE:
            self._since = begin if self._beaten else -LEASE  # at the start others have had their time
        self._beaten = begin
        before = self.owners
        self.members = {member.id: member for member in members}
        self.owners = {partition: holding.owner for partition, holding in holdings.items()}
        self._history.append((begin, {partition: holding.seq for partition, holding in holdings.items()}))
        while self._history[0][0] < begin - _WINDOW:
            self._history.popleft()
        mine = {partition: holding.fence for partition, holding in holdings.items() if holding.owner == self.id}
        self._follow(mine)
        if before != self.owners and self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _follow(self, mine: Mapping[int, int]) -> None:
        """Serve what this worker was given, and no longer what it was not."""
        gone = [partition for partition, fence in self.fences.items() if mine.get(partition) != fence]
        if gone:
            self.forget(gone)
            self._lost(gone)
        fresh = {partition: fence for partition, fence in mine.items() if partition not in self.fences}
        if fresh:
            self.fences |= fresh
            self._spawn(self._adopt(fresh))

    def forget(self, partitions: Iterable[int]) -> None:
        """Partitions are no longer this worker's."""
        for partition in partitions:
            self.fences.pop(partition, None)

    async def _take(self) -> None:
        """Take partitions whose owners are gone: a fair share of all.

        After the store was away for everybody, those who come back get the time of a lease to say that they do.
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

    async def _give(self, moves: Sequence[Move]) -> None:
        """Stop serving partitions, and have others own them."""
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
            self.forget(fences)  # what is still this worker's after all, it adopts again

    def _weights(self) -> dict[int, float]:
        """How much each partition has to do: events a second."""
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
    """The partitions that a worker should give away now: to those with the least to do, the heaviest that fit.

    Any number without boards, few with; none that would leave the other one with more than this one has now, so that
    nothing goes back and forth.
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
