"""Fast path for lists and answers: from a complete request in memory to its answer in one call, without a task.

These two routes get almost all requests, and the general machinery around routes would take most of their time. For
anything unusual (a board not in memory, an invalid body, a key without the right) the request falls back to `app`,
which gives the error message; nothing has been changed by then.
"""

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ...core.refusals import Refused
from ..storage import Unavailable
from ..worker.board_session import BoardSession
from ..worker.replicas import Replicas
from ..worker.worker import Worker
from .app import ANY_ORIGIN, Service, lines_of, refusal_of
from .auth import read_headers
from .bodies import check_type, encode
from .connections import Handler, Sink
from .forwarding import OWNER, is_forwarded
from .links import AnsweringLink
from .rank_routes import FeedbackIn, QueryRankIn, RankIn, answer_now, list_now, may_pass, outcome_of

# by kind of board and operation, the names of the routes
_ROUTES = {
    f"{kind}s/{verb}": f"POST /v1/{kind}s/{{{kind}}}/{verb}"
    for kind in ("board", "collection")
    for verb in ("rank", "feedback")
}
_INVALID_BODY = msgspec.MsgspecError, UnicodeDecodeError, RecursionError  # what an invalid body may raise
_LISTS, _ANSWERS = lines_of({}), lines_of(ANY_ORIGIN)
_LIST_PATIENCE = 0.3  # seconds to wait for an owner's list before falling back to `app`, which has other ways
_ANSWER_PATIENCE = 600.0  # the same for answers, which wait for the disk
_MOST_KEPT, _LONGEST_KEPT = 4_000, 2_048  # cached requests of other workers, and bytes of each
_rank_in: dict[str, Callable[[bytes], RankIn | QueryRankIn]] = {
    "boards/rank": msgspec.json.Decoder(RankIn).decode,
    "collections/rank": msgspec.json.Decoder(QueryRankIn).decode,
}
_feedback_in = msgspec.json.Decoder(FeedbackIn).decode


class _Request(NamedTuple):
    """What the head of a request asks for."""

    what: str  # one of _ROUTES
    board: str
    headers: dict[str, str]

    @property
    def is_rank(self) -> bool:
        """Whether it asks for a list."""
        return self.what in _rank_in


class Direct:
    """Handles requests of clients and of other workers on the fast path; used in the event loop's thread only."""

    def __init__(self, service: Service) -> None:
        self._worker, self._auth, self._metrics = service.worker, service.auth, service.metrics
        self._links, self._most = service.links, service.limits.body_bytes
        self._linked_handlers: dict[bytes, Handler] = {}  # by the encoded request of another worker

    def find(self, target: bytes, headers: list[tuple[bytes, bytes]]) -> Handler | None:
        """Return a handler for a request; None if it must take the normal route."""
        parts = target.decode("latin-1").split("/")
        if len(parts) != 5 or parts[:2] != ["", "v1"] or "%" in parts[3] or not parts[3].isascii():
            return None
        what = f"{parts[2]}/{parts[4]}"
        if what not in _ROUTES:
            return None
        request = _Request(what, parts[3], read_headers(headers))
        request.headers.pop("content-length", None)
        if self._links is None or is_forwarded(headers):
            return functools.partial(self._handle, request)
        return functools.partial(self._handle_or_forward, request, msgspec.msgpack.encode(request))

    def link(self, transport: Any) -> AnsweringLink | None:
        """Return a handler for a connection of another worker; None if there are no other workers."""
        return None if self._links is None else AnsweringLink(transport, self._find_linked)

    def _find_linked(self, what: bytes) -> Handler | None:
        """Return a handler for a request of another worker."""
        handler = self._linked_handlers.get(what)
        if handler is None:
            try:
                wanted, board, headers = msgspec.msgpack.decode(what, type=tuple[str, str, dict[str, str]])
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ValueError(f"what is asked for cannot be read: {error}") from None
            if wanted not in _ROUTES:
                return None
            handler = functools.partial(self._handle, _Request(wanted, board, headers))
            if len(what) <= _LONGEST_KEPT:
                if len(self._linked_handlers) >= _MOST_KEPT:
                    self._linked_handlers.clear()
                self._linked_handlers[what] = handler
        return handler

    def _handle(self, request: _Request, reply: Sink, body: bytes) -> bool:
        """Answer a request if its board is in memory and owned by this worker. Lists also come from replicas."""
        worker = self._worker
        if not worker.ready or worker.log_writer.outdated or len(body) > self._most:
            return False
        session = worker.find_served(request.board)
        if session is None:
            copies = worker.replicas
            if not request.is_rank or copies is None or worker.is_served(request.board):
                return False
            session = copies.find_copy(request.board)
            return session is not None and self._rank_copy(request, copies, session, reply, body)
        if request.is_rank:
            return self._rank(request, worker, session, reply, body)
        return self._feedback(request, session, reply, body)

    def _handle_or_forward(self, request: _Request, what: bytes, reply: Sink, body: bytes) -> bool:
        """Answer a request here, or forward it to the owner of the board. Lists may come from a replica."""
        worker = self._worker
        if not worker.ready or worker.is_served(request.board) or worker.log_writer.outdated:
            return self._handle(request, reply, body)
        copies = worker.replicas
        if request.is_rank and copies is not None:
            session = copies.find_copy(request.board)
            if session is not None and self._rank_copy(request, copies, session, reply, body):
                return True
            if request.board not in copies.copies and self._auth.permits(request.headers, "rank", request.board):
                copies.note_asked(request.board)
        done, patience = functools.partial(self._forwarded, request, reply, time.perf_counter()), _ANSWER_PATIENCE
        if request.is_rank:
            patience = _LIST_PATIENCE
        return self._links is not None and self._links.ask(request.board, what, body, patience, done)

    def _forwarded(
        self, request: _Request, reply: Sink, begin: float, address: str, code: int, lines: bytes, content: bytes
    ) -> None:
        """Pass the owner's answer on, or fall back if it has none."""
        if not code:
            reply.decline()
            return
        if request.is_rank:  # anybody may send an answer, and should not learn the addresses of workers
            lines += b"%b: %b\r\n" % (OWNER, address.encode())
        self._metrics.forwarded["link"] += 1
        self._send(request, reply, begin, code, lines, content)

    def _rank_copy(
        self, request: _Request, copies: Replicas, session: BoardSession, reply: Sink, body: bytes
    ) -> bool:
        """Make a list from a replica."""
        taken = self._rank(request, copies, session, reply, body)
        copies.given += taken
        return taken

    def _rank(
        self, request: _Request, giver: Worker | Replicas, session: BoardSession, reply: Sink, body: bytes
    ) -> bool:
        """Make a list. What a replica refuses may be valid at the owner, so it falls back."""
        begin, copied = time.perf_counter(), giver is not self._worker
        try:
            wanted = _rank_in[request.what](body or b"{}")
            check_type(request.headers)
            self._auth.check(request.headers, "rank", request.board)
        except (*_INVALID_BODY, Refused):
            return False
        if copied and wanted.theirs is not None:
            return False
        try:
            made = list_now(giver, session, wanted)
            content = b"" if made is None else encode(made)
        except Exception as failure:
            if copied and isinstance(failure, Refused | Unavailable) and getattr(failure, "code", 0) != 429:
                return False
            self._refuse(request, reply, begin, failure)
            return True
        if made is None:
            return False
        self._send(request, reply, begin, 200, _LISTS, content)
        return True

    def _feedback(self, request: _Request, session: BoardSession, reply: Sink, body: bytes) -> bool:
        """Process an answer; the reply is sent once it is on disk."""
        begin, require = time.perf_counter(), functools.partial(self._auth.check, request.headers)
        try:
            outcome = answer_now(self._worker, session, _feedback_in(body or b"{}"), require)
        except _INVALID_BODY:
            return False
        except Exception as failure:
            if may_pass(failure):
                return False
            self._refuse(request, reply, begin, failure)
            return True
        if isinstance(outcome, str):
            self._send(request, reply, begin, 200, _ANSWERS, encoded_outcome(outcome, session.board.settle))
        elif outcome is not None:
            outcome.add_done_callback(functools.partial(self._answered, request, session, reply, begin))
        return outcome is not None

    def _answered(
        self, request: _Request, session: BoardSession, reply: Sink, begin: float, answer: asyncio.Future[str]
    ) -> None:
        """Reply to an answer that has been written, or that was refused."""
        failure = Unavailable("the worker ends") if answer.cancelled() else answer.exception()
        if not isinstance(failure, Exception):
            self._send(request, reply, begin, 200, _ANSWERS, encoded_outcome(answer.result(), session.board.settle))
        elif may_pass(failure):
            reply.decline()
        else:
            self._refuse(request, reply, begin, failure)

    def _refuse(self, request: _Request, reply: Sink, begin: float, failure: Exception) -> None:
        extra = {} if request.is_rank else ANY_ORIGIN
        code, extra, content = refusal_of(failure, _ROUTES[request.what], extra)
        self._send(request, reply, begin, code, lines_of(extra), content)

    def _send(self, request: _Request, reply: Sink, begin: float, code: int, lines: bytes, content: bytes) -> None:
        reply.send(code, lines, content)
        self._metrics.count(_ROUTES[request.what], code, time.perf_counter() - begin)


@functools.lru_cache(1_000)
def encoded_outcome(outcome: str, settle: float) -> bytes:
    """The encoded reply to an answer."""
    return encode(outcome_of(outcome, settle))
