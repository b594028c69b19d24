"""Events that wait to be applied, in log order, and who waits until they are."""

import asyncio
import collections
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Any, TypeAlias

from ...refusals import Refused
from ..storage import Unavailable
from .log_writer import POLL, Line

_AT_ONCE = 32  # events applied between requests
_TURN = 0.004  # seconds after which requests have their turn, in the middle of a long event as well
_PATIENCE = 20.0  # seconds

log = logging.getLogger("steadyrank.service")


Steps: TypeAlias = Generator[None, None, str]  # an event being applied; it stops where requests may have their turn


class Inbox:
    """Applies events a few at a time, and long ones in steps, so that requests need not wait for all of them."""

    def __init__(self, apply: Callable[[Line, dict[int, Any]], Steps]) -> None:
        self.applied = 0  # every event up to this number was
        self._apply = apply
        self._steps: Steps | None = None  # of the first line, if it was begun
        self._holders = 0  # who keeps events from being begun
        self._scheduled = False
        self._lines: collections.deque[tuple[Line, dict[int, Any]]] = collections.deque()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def begin(self, head: int) -> None:
        """Everything up to this event is applied, and nothing waits."""
        self._lines.clear()
        self._steps, self.applied = None, head

    def deliver(self, lines: Sequence[Line], made: dict[int, Any]) -> None:
        """More events, and what was made of boards that they create."""
        idle = not self._lines
        self._lines.extend((line, made) for line in lines)
        if idle:
            self._drain()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Apply nothing meanwhile, and be in the middle of nothing: for who looks at a board as of one event."""
        self._holders += 1
        try:
            while self._steps is not None:
                await asyncio.sleep(0)
            yield
        finally:
            self._holders -= 1
            self._drain_soon()

    def _drain_soon(self) -> None:
        """Go on in the next turn, if there is anything that may be applied."""
        if self._lines and not self._scheduled and (self._steps is not None or not self._holders):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled, end = False, time.perf_counter() + _TURN
        for _ in range(min(len(self._lines), _AT_ONCE)):
            if self._holders and self._steps is None:
                break
            outcome = self._go_on(end)
            if outcome is None:
                break
            line, _ = self._lines.popleft()
            self._steps, self.applied = None, line.seq
            if line.waiting is not None and not line.waiting.done():
                if isinstance(outcome, str):
                    line.waiting.set_result(outcome)
                else:
                    line.waiting.set_exception(outcome)
            if time.perf_counter() > end:
                break
        self._drain_soon()
        for seq, future in [waiter for waiter in self._waiting if waiter[0] <= self.applied]:
            self._waiting.remove((seq, future))
            if not future.done():
                future.set_result(None)

    def _go_on(self, end: float) -> str | Exception | None:
        """Apply the first line until a moment; its outcome, None if there are steps left."""
        line, made = self._lines[0]
        steps = self._steps = self._steps or self._apply(line, made)
        try:
            while True:
                next(steps)
                if time.perf_counter() > end:
                    return None
        except StopIteration as stop:
            outcome: str = stop.value
            return outcome
        except Refused as error:
            return error
        except Exception as error:  # as a replay does: this event has failed, the next one is applied
            log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
            return error

    async def reach(self, seq: int) -> None:
        """Wait until the log is applied up to an event."""
        if self.applied < seq:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((seq, future))
            try:
                await asyncio.wait_for(future, _PATIENCE)
            except TimeoutError:
                raise Unavailable("the log cannot be read") from None


class SharedLook:
    """Apply what any worker wrote until now. Who asks within a moment shares one look: without a key it costs the
    store little, however many ask."""

    def __init__(self, catch_up: Callable[[], Awaitable[None]], spawn: Callable[[Any], "asyncio.Task[Any]"]) -> None:
        self._catch_up, self._spawn = catch_up, spawn
        self._next: asyncio.Task[Unavailable | None] | None = None

    async def __call__(self) -> None:
        """Look, and wait for it."""
        if self._next is None:
            self._next = self._spawn(self._look())
        failure = await asyncio.shield(self._next)
        if failure is not None:
            raise failure

    async def _look(self) -> Unavailable | None:
        await asyncio.sleep(POLL)
        self._next = None  # who comes from here on is too late for this one
        try:
            await self._catch_up()
        except Unavailable as error:
            return error
        return None
