"""HTTP: requests in, answers out."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

from ..refusals import Refused
from . import openapi
from .api import ROUTES, Call, Route
from .bodies import LARGE, SMALL, read
from .door import Door
from .host import Host
from .metrics import Metrics
from .shapes import ErrorOut
from .sql import Unavailable

log = logging.getLogger("steadyrank.service")
_encode = msgspec.json.Encoder().encode
_ANY_ORIGIN = {"access-control-allow-origin": "*"}  # an impression id proves itself; no cookie and no key is read
_PREFLIGHT = _ANY_ORIGIN | {
    "access-control-allow-methods": "POST", "access-control-allow-headers": "content-type, authorization",
    "access-control-max-age": "86400",
}  # fmt: skip


def error(code: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal."""
    extra = dict(headers or {})
    if code in (429, 503):
        extra["retry-after"] = "60" if code == 429 else "1"
    if code == 401:
        extra["www-authenticate"] = "Bearer"
    return Response(_encode(ErrorOut(code=code, message=message)), code, extra, "application/json")


class Service:
    """The routes over one host."""

    def __init__(self, host: Host, upkeep: Callable[[], None] | None = None, every: float = 3_600.0) -> None:
        self.host = host
        self._upkeep, self._every = upkeep, every
        self.door = Door(lambda: host.keys)
        self.metrics = Metrics(host)

    def app(self) -> Starlette:
        """An ASGI application; the host starts with it and reads its log in the background."""
        paths = [
            Path(route.path.replace("{item}", "{item:path}").replace("{client}", "{client:path}"),
                 functools.partial(self._serve, route), methods=[route.method])
            for route in ROUTES
        ]  # fmt: skip
        paths += [Path(route.path, _preflight, methods=["OPTIONS"]) for route in ROUTES if route.scope == "public"]
        paths += [
            Path("/healthz", _alive), Path("/readyz", self._ready), Path("/metrics", self._metrics),
            Path("/openapi.json", _description),
        ]  # fmt: skip
        return Starlette(routes=paths, lifespan=self._lifespan, exception_handlers={HTTPException: _unknown})

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._start()), asyncio.create_task(self._maintain())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.host.ready:
                await self.host.stop()
            log.info("stopped")

    async def _start(self) -> None:
        while True:
            try:
                await self.host.start()
            except Unavailable as away:
                log.error("store away", extra={"fields": {"why": str(away)}})
                await asyncio.sleep(1.0)
            else:
                log.info("ready", extra={"fields": {"boards": len(self.host.boards), "event": self.host.applied}})
                return

    async def _maintain(self) -> None:
        while self._upkeep is not None:
            await asyncio.sleep(self._every)
            await asyncio.to_thread(self._upkeep)

    async def _serve(self, route: Route, request: Request) -> Response:
        begin = time.perf_counter()
        headers = _ANY_ORIGIN if route.scope == "public" else {}
        try:
            result = await route.run(await self._call(route, request))
            response = Response(_encode(result), 200, headers, "application/json")
        except Refused as refusal:
            response = error(refusal.code, str(refusal), headers)
        except Unavailable as away:
            response = error(503, f"try again: {away}", headers)
        except Exception:
            log.exception("a request failed", extra={"fields": {"route": route.path}})
            response = error(500, "an error of the server; its log says more", headers)
        self.metrics.count(f"{route.method} {route.path}", response.status_code, time.perf_counter() - begin)
        return response

    async def _call(self, route: Route, request: Request) -> Call:
        board = request.path_params.get("board", "")
        part = request.path_params.get("item", "") or request.path_params.get("client", "")
        if route.scope != "public":
            self.door.check(request.headers, route.scope, board or None, some=route.path == "/v1/boards")
        body = None if route.takes is None else await read(request, route.takes, LARGE if route.large else SMALL)

        def may_answer(board: str) -> None:
            self.door.check(request.headers, "feedback", board)

        return Call(self.host, board, part, body, lambda name: self._visible(request, route, name), may_answer)

    def _visible(self, request: Request, route: Route, board: str) -> bool:
        try:
            self.door.check(request.headers, route.scope, board)
        except Refused:
            return False
        return True

    async def _ready(self, request: Request) -> Response:
        if not self.host.ready:
            return error(503, "the log is being read")
        if not self.host.journal.available:
            return error(503, "the store is away")
        return Response("ready\n", media_type="text/plain")

    async def _metrics(self, request: Request) -> Response:
        try:
            self.door.check(request.headers, "admin", None)
        except Refused as refusal:
            return error(refusal.code, str(refusal))
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4")


async def _alive(request: Request) -> Response:
    return Response("alive\n", media_type="text/plain")


async def _preflight(request: Request) -> Response:
    return Response(status_code=204, headers=_PREFLIGHT)


async def _description(request: Request) -> Response:
    return Response(_encode(openapi.describe()), media_type="application/json")


async def _unknown(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    return error(failure.status_code, failure.detail, dict(failure.headers or {}))
