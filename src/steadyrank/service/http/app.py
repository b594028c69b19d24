"""The HTTP application: routes requests to the worker, or forwards them to the owner of the board."""

import asyncio
import contextlib
import functools
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from ...core.refusals import Refused
from ..alerts.watcher import watch
from ..alerts.webhook import Webhook
from ..storage import Outdated, Unavailable, Unwritable
from ..worker.log_rows import Unreadable
from ..worker.replicas import Replicas
from ..worker.worker import Worker
from . import openapi, pages
from .auth import LOCAL_CALLER, Auth, read_headers
from .board_routes import BOARDS, recorded
from .bodies import BATCH, LARGE, SMALL, Bodies, check_type, decode
from .bodies import encode as _encode
from .connections import ANSWER
from .forwarding import PATIENCE, Forwarder, is_forwarded, replayed
from .limits import Limits
from .links import Links
from .metrics import Metrics
from .openapi import FILE_TYPE
from .rank_routes import OUTCOMES, rank_from_copy
from .request import AWAY, COLLECTIONS, Call, ErrorOut, File, Parts, Route, check_path
from .routes import INGEST, ROUTES, UBI
from .slices import AT_ONCE, Slicer, free

log = logging.getLogger("steadyrank.service")
_LIMITS = Limits()
_DESCRIBED = functools.cache(lambda: _encode(openapi.describe()))
_MOVING = 0.3  # seconds to wait for a list of a moving board before making a replica of it
_STUCK = 0.75  # seconds until an owner that gives no list counts as gone
_PART = 1 << 18  # bytes of a file sent at a time
_LARGE_AT_ONCE = 2  # concurrent requests per route whose body is long and spooled to disk
ANY_ORIGIN = {"access-control-allow-origin": "*"}  # impression ids authenticate themselves; no cookie or key is read
_JSON = b"content-type: application/json\r\n"
_NOT_WRITABLE = "the store is away, or its disk is full or read-only: the server's log says why"
_NO_MEMORY = "the server has too little memory for this: ask for less at a time, or give it more"
_PREFLIGHT = ANY_ORIGIN | {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "content-type, authorization",
    "access-control-max-age": "86400",
}


class _Name(Convertor[str]):
    """The rest of a path as a name, with any characters, including slashes and line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the value unchanged."""
        return value

    def to_string(self, value: str) -> str:
        """Return the value unchanged."""
        return value


register_url_convertor("name", _Name())


def refusal_parts(code: int, message: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Code, headers and content of a refusal."""
    extra = dict(headers)
    if code in (429, 503):
        extra["retry-after"] = "60" if code == 429 else "1"
    if code == 401:
        extra["www-authenticate"] = "Bearer"
    return code, extra, _encode(ErrorOut(code=code, message=message))


def refusal_of(failure: Exception, route: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Code, headers and content for a request that failed; errors that are not the client's are logged."""
    match failure:
        case Refused():
            return refusal_parts(failure.code, str(failure), headers)
        case Unavailable():
            log.debug("refused", extra={"fields": {"why": str(failure)}})
            return refusal_parts(503, str(failure) if isinstance(failure, Outdated) else AWAY, headers)
        case Unreadable():
            return refusal_parts(503, str(failure), headers)
        case MemoryError():
            log.error("too little memory for a request", extra={"fields": {"route": route}}, exc_info=failure)
            return refusal_parts(503, _NO_MEMORY, headers)
    log.error("a request failed", extra={"fields": {"route": route}}, exc_info=failure)
    return refusal_parts(500, "an error of the server; its log says more", headers)


def refusal_response(code: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal as a response."""
    code, extra, content = refusal_parts(code, message, headers or {})
    return Response(content, code, extra, "application/json")


class Service:
    """The HTTP service of one worker."""

    def __init__(
        self,
        worker: Worker,
        upkeep: Callable[[], Awaitable[None]] | None = None,
        every: float = 3_600.0,
        background: Callable[[Worker], Awaitable[None]] | None = None,
        limits: Limits = _LIMITS,
        token: str = "",
        webhook: Webhook | None = None,
    ) -> None:
        self.worker, self.limits, self._webhook = worker, limits, webhook
        self.bodies = Bodies(limits.unfinished_bytes)
        self.forwarder = Forwarder(worker, self.bodies)
        self.links = None if worker.ownership is None else Links(worker.ownership)
        self._upkeep, self._every, self._background = upkeep, every, background
        self._not_started = ""  # the reason, once known
        self.auth = Auth(lambda: worker.keys, token, worker.clock)
        self.metrics = Metrics(worker, webhook)

    def app(self) -> Starlette:
        """The ASGI application; on startup the worker starts, and reads its log in the background."""
        paths = [
            Path(
                route.path.replace("{item}", "{item:name}").replace("{client}", "{client:name}"),
                _Endpoint(self, route),
                methods=[route.method],
            )
            for route in ROUTES
        ]
        paths += [Path(route.path, _preflight, methods=["OPTIONS"]) for route in ROUTES if route.scope == "public"]
        paths += [
            Path("/healthz", _alive),
            Path("/readyz", self._ready),
            Path("/metrics", self._metrics),
            Path("/openapi.json", _description),
            *pages.paths(),
        ]
        app = Starlette(routes=paths, lifespan=self._lifespan, exception_handlers={HTTPException: _unknown})
        app.router.redirect_slashes = False  # a path that a proxy shortened must not mean something else
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(work) for work in (self._start(), self._maintain(), watch(self.worker, self._webhook))
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.worker.ready:
                await self.worker.stop()
            self.forwarder.peers.close()
            if self.links is not None:
                self.links.close()
            log.info("stopped")

    async def _start(self) -> None:
        while True:
            try:
                await self.worker.start()
            except Exception as failure:
                expected = isinstance(failure, Unavailable)
                disk = isinstance(failure, Unwritable)
                self._not_started = _NOT_WRITABLE if disk else "the store is away: the server's log says why"
                if isinstance(failure, Outdated):
                    self._not_started = str(failure)
                why = {"fields": {"why": f"{type(failure).__name__}: {failure}"}}
                log.error("not started yet", extra=why, exc_info=None if expected else failure)
                await asyncio.sleep(1.0)
            else:
                log.info("ready", extra={"fields": self.worker.cache.count_boards() | {"event": self.worker.applied}})
                break
        if self._background is not None:
            try:
                await self._background(self.worker)
            except Exception:
                log.exception("the background task failed")

    async def _maintain(self) -> None:
        while self._upkeep is not None:
            await asyncio.sleep(self._every)
            try:
                await self._upkeep()
            except OSError as failure:
                log.error("no upkeep", extra={"fields": {"why": str(failure)}})

    async def _ready(self, request: Request) -> Response:
        if not self.worker.ready:
            return refusal_response(503, self._not_started or "the log is being read")
        if not self.worker.log_writer.available:
            return refusal_response(503, self.worker.log_writer.outdated or _NOT_WRITABLE)
        skew, parked = self.worker.clock.skew, len(self.worker.parked)
        text = f"ready, but {skew}\n" if skew.alarming else "ready\n"
        text += f"parked boards: {parked}\n" if parked else ""  # without names, since anybody may ask
        return Response(text, media_type="text/plain")

    async def _metrics(self, request: Request) -> Response:
        if not self.worker.ready:
            return refusal_response(503, "the log is being read")
        try:
            self.auth.check(request.headers, "admin", None)
        except Refused as refusal:
            return refusal_response(refusal.code, str(refusal))
        return Response(await self.metrics.page(), media_type="text/plain; version=0.0.4")


def board_in(path: Mapping[str, str]) -> str:
    """The board or collection named in a path, if any."""
    return path.get("board") or path.get("collection", "")


class _Endpoint:
    """One route as a bare ASGI application, since framework objects would take more than half of a request's time."""

    def __init__(self, service: Service, route: Route) -> None:
        self._service, self._route = service, route
        self.name = f"{route.method} {route.path}"
        self._decoder = None if route.request_schema is None else msgspec.json.Decoder(route.request_schema)
        self._slicer = None if route.request_schema is None else Slicer(route.request_schema)
        most = SMALL if not route.large else BATCH if route.scope == "public" else LARGE
        self._most = min(most, service.limits.body_bytes)
        self._large_turns = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._shared = {one.run for one in ROUTES if one.path.startswith(COLLECTIONS)} & {
            one.run for one in ROUTES if one.path.startswith(BOARDS)
        }
        self._any_board = route.path in (BOARDS, COLLECTIONS, UBI, INGEST, OUTCOMES)
        self._headers = ANY_ORIGIN if route.scope == "public" else {}
        self._is_rank = route.path.endswith("/rank")
        # routes that are safe to repeat
        self._repeatable = route.method in ("GET", "PUT") or route.path.endswith(("/rank", "/feedback", "/outcomes"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = time.perf_counter()
        code, extra = 200, self._headers
        try:
            if not self._service.worker.ready:
                raise Unavailable("the log is being read")
            if self._service.worker.log_writer.outdated:
                raise Outdated(self._service.worker.log_writer.outdated)
            board, answer = board_in(scope["path_params"]), None
            if board and not self._service.worker.is_served(board):
                passed = await (self._forward_list if self._is_rank else self._forward)(board, scope, receive, send)
                if isinstance(passed, int):
                    self._service.metrics.forwarded["http"] += 1
                    self._service.metrics.count(self.name, passed, time.perf_counter() - begin)
                    return
                receive, answer = (passed, None) if callable(passed) else (receive, passed)
            if answer is None:
                with self._service.worker.answering(board):
                    answer = await self._answer(scope, receive)
            content = answer if isinstance(answer, File | Parts) else _encode(answer)
        except Exception as failure:
            code, extra, content = refusal_of(failure, self._route.path, self._headers)
        await _send(scope, send, code, extra, content)
        self._service.metrics.count(self.name, code, time.perf_counter() - begin)

    async def _forward(self, board: str, scope: Scope, receive: Receive, send: Send, **patience: Any) -> Any:
        """Have the owner of a board answer, as described for `Forwarder.forward`."""
        rest = {"most": self._most, "repeatable": self._repeatable, "public": self._route.scope == "public"}
        return await self._service.forwarder.forward(board, scope, receive, send, **(rest | patience))

    async def _forward_list(self, board: str, scope: Scope, receive: Receive, send: Send) -> Any:
        """The same for a list, or make it from a replica: if there is one, or if the owner does not answer."""
        replicas = self._service.worker.replicas
        headers = read_headers(scope["headers"])
        opens = self._service.auth.permits(headers, self._route.scope, board)
        if replicas is None or not opens or is_forwarded(scope["headers"]):
            return await self._forward(board, scope, receive, send)
        body = await self._service.bodies.receive(receive, headers, self._most)
        if not isinstance(body, bytes):
            with body:
                body = body.read()
        made = self._list_from(replicas, board, headers, body) if replicas.find(board) is not None else None
        if made is not None:
            return made
        try:
            return await self._forward(board, scope, replayed(body), send, patience=_MOVING, answer=_STUCK)
        except Unavailable:
            if await replicas.need(board, PATIENCE - _MOVING) is not None:
                made = self._list_from(replicas, board, headers, body)
            if made is None:
                raise
            return made

    def _list_from(self, replicas: Replicas, board: str, headers: Mapping[str, str], body: bytes) -> Any:
        """Make a list from a replica; None if the owner must be asked: what is refused here may be valid there."""
        assert self._decoder is not None
        try:
            check_type(headers)
            return rank_from_copy(replicas, board, decode(body, self._decoder))
        except Refused as refusal:
            if refusal.code == 429:
                raise
        except Unavailable as error:
            log.debug("no list from a copy", extra={"fields": {"why": str(error)}})
        return None

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        service, route, path = self._service, self._route, scope["path_params"]
        board = board_in(path)
        other_workers = None if board else service.forwarder.other_workers(scope["headers"])
        headers = read_headers(scope["headers"])
        scope["headers"].clear()  # drop all other headers, so that a body that never ends does not hold them
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"))) if route.query else {}
        part = path.get("item", "") or path.get("client", "") or path.get("number", "")
        who = LOCAL_CALLER
        if route.scope != "public":
            who = service.auth.check(headers, route.scope, board or None, some=self._any_board)

        def require(scope: str, board: str) -> None:
            service.auth.check(headers, scope, board)

        def visible(board: str) -> bool:
            scopes = ("rank", "feedback") if route.scope == "public" else (route.scope,)
            return any(service.auth.permits(headers, scope, board) for scope in scopes)

        worker = service.worker
        if board and not worker.cache.knows_board(board) and route.method != "PUT" and route.scope != "public":
            await worker.look_at_log()  # it may just have been created at another worker

        async def run(*body: Any) -> Any:
            call = Call(worker, board, part, visible, require, query, other_workers)
            if route.scope == "public":
                return await route.run(call, *body)  # boards are loaded only for ids that they signed
            async with worker.cache.hold_board(board):
                if route.run not in self._shared:
                    check_path(worker.boards.get(board), route.path)
                return await (route.run(call, *body) if route.change is None else recorded(route, who, call, *body))

        if self._decoder is None or self._slicer is None:
            return await run()
        if route.scope != "public":  # pages may answer with a beacon, which has a text type
            check_type(headers)
        most = self._most
        if self._most > SMALL and route.scope == "public" and not service.auth.has_key(headers):
            most = SMALL
        body = await service.bodies.receive(receive, headers, most)
        if isinstance(body, bytes):
            return await run(decode(body, self._decoder))
        with body:
            if body.size <= AT_ONCE:
                return await run(decode(body.read(), self._decoder))
            async with self._large_turns:
                value = await self._slicer.decode(body.file)
                try:
                    return await run(value)
                finally:
                    await free(value)


async def _send(
    scope: Scope, send: Send, code: int, extra: Mapping[str, str], content: bytes | File | Parts[Any]
) -> None:
    if isinstance(content, File):
        await _send_file(send, content)
        return
    at_once = scope["extensions"].get(ANSWER) if "extensions" in scope else None
    if isinstance(content, bytes) and at_once is not None and at_once(code, lines_of(extra), content):
        return
    parts = [content] if isinstance(content, bytes) else content.content
    size = sum(map(len, parts))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
    headers += [(name.encode(), value.encode()) for name, value in extra.items()]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    for part in parts[:-1]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": parts[-1]})


def lines_of(extra: Mapping[str, str]) -> bytes:
    """Encode the headers of a JSON answer as lines."""
    return _lines(tuple(extra.items())) if extra else _JSON


@functools.lru_cache(100)
def _lines(extra: tuple[tuple[str, str], ...]) -> bytes:
    return _JSON + "".join(f"{name}: {value}\r\n" for name, value in extra).encode()


async def _send_file(send: Send, file: File) -> None:
    with file.content as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        headers = {
            "content-type": FILE_TYPE,
            "content-length": str(size),
            "content-disposition": f'attachment; filename="{file.name}"',
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        while part := await asyncio.to_thread(content.read, _PART):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _alive(request: Request) -> Response:
    return Response("alive\n", media_type="text/plain")


async def _preflight(request: Request) -> Response:
    return Response(status_code=204, headers=_PREFLIGHT)


async def _description(request: Request) -> Response:
    return Response(_DESCRIBED(), media_type="application/json")


async def _unknown(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    return refusal_response(failure.status_code, failure.detail, dict(failure.headers or {}))
