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
from .connections import Sink, Take
from .forwarding import OWNER, is_passed_on
from .links import AskedLink
from .rank_routes import FeedbackIn, QueryRankIn, RankIn, answer_now, list_now, may_pass, outcome_of

# by kind of board and operation, the names of the routes
_ROUTES = {
    f"{kind}s/{verb}": f"POST /v1/{kind}s/{{{kind}}}/{verb}"
    for kind in ("board", "collection")
    for verb in ("rank", "feedback")
}
_WRONG = msgspec.MsgspecError, UnicodeDecodeError, RecursionError  # what an invalid body may raise
_LISTS, _ANSWERS = lines_of({}), lines_of(ANY_ORIGIN)
_STUCK = 0.3  # seconds to wait for an owner's list before falling back to `app`, which has other ways
_LONG = 600.0  # the same for answers, which wait for the disk
_MOST_KEPT, _LONGEST_KEPT = 4_000, 2_048  # cached requests of other workers, and bytes of each
_rank_in: dict[str, Callable[[bytes], RankIn | QueryRankIn]] = {
    "boards/rank": msgspec.json.Decoder(RankIn).decode,
    "collections/rank": msgspec.json.Decoder(QueryRankIn).decode,
}
_feedback_in = msgspec.json.Decoder(FeedbackIn).decode


class _Asked(NamedTuple):
    """What the head of a request asks for."""

    what: str  # one of _ROUTES
    board: str
    headers: dict[str, str]

    @property
    def lists(self) -> bool:
        """Whether it asks for a list."""
        return self.what in _rank_in


class Direct:
    """Handles requests of clients and of other workers on the fast path; used in the event loop's thread only."""

    def __init__(self, service: Service) -> None:
        self._worker, self._auth, self._metrics = service.worker, service.auth, service.metrics
        self._links, self._most = service.links, service.limits.body_bytes
        self._linked: dict[bytes, Take] = {}  # by the encoded request of another worker

    def find(self, target: bytes, headers: list[tuple[bytes, bytes]]) -> Take | None:
        """Return a handler for a request; None if it must take the normal route."""
        parts = target.decode("latin-1").split("/")
        if len(parts) != 5 or parts[:2] != ["", "v1"] or "%" in parts[3] or not parts[3].isascii():
            return None
        what = f"{parts[2]}/{parts[4]}"
        if what not in _ROUTES:
            return None
        asked = _Asked(what, parts[3], read_headers(headers))
        asked.headers.pop("content-length", None)
        if self._links is None or is_passed_on(headers):
            return functools.partial(self._take, asked)
        return functools.partial(self._take_or_pass_on, asked, msgspec.msgpack.encode(asked))

    def link(self, transport: Any) -> AskedLink | None:
        """Return a handler for a connection of another worker; None if there are no other workers."""
        return None if self._links is None else AskedLink(transport, self._find_linked)

    def _find_linked(self, what: bytes) -> Take | None:
        """Return a handler for a request of another worker."""
        take = self._linked.get(what)
        if take is None:
            try:
                wanted, board, headers = msgspec.msgpack.decode(what, type=tuple[str, str, dict[str, str]])
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ValueError(f"what is asked for cannot be read: {error}") from None
            if wanted not in _ROUTES:
                return None
            take = functools.partial(self._take, _Asked(wanted, board, headers))
            if len(what) <= _LONGEST_KEPT:
                if len(self._linked) >= _MOST_KEPT:
                    self._linked.clear()
                self._linked[what] = take
        return take

    def _take(self, asked: _Asked, reply: Sink, body: bytes) -> bool:
        """Answer a request if its board is in memory and owned by this worker. Lists also come from replicas."""
        worker = self._worker
        if not worker.ready or worker.log_writer.outdated or len(body) > self._most:
            return False
        session = worker.find_served(asked.board)
        if session is None:
            copies = worker.replicas
            if not asked.lists or copies is None or worker.is_served(asked.board):
                return False
            session = copies.find_copy(asked.board)
            return session is not None and self._rank_copy(asked, copies, session, reply, body)
        if asked.lists:
            return self._rank(asked, worker, session, reply, body)
        return self._feedback(asked, session, reply, body)

    def _take_or_pass_on(self, asked: _Asked, what: bytes, reply: Sink, body: bytes) -> bool:
        """Answer a request here, or forward it to the owner of the board. Lists may come from a replica."""
        worker = self._worker
        if not worker.ready or worker.is_served(asked.board) or worker.log_writer.outdated:
            return self._take(asked, reply, body)
        copies = worker.replicas
        if asked.lists and copies is not None and self._auth.opens(asked.headers, "rank", asked.board):
            session = copies.find(asked.board)
            if session is not None and self._rank_copy(asked, copies, session, reply, body):
                return True
        done, patience = functools.partial(self._passed_on, asked, reply, time.perf_counter()), _LONG
        if asked.lists:
            patience = _STUCK
        return self._links is not None and self._links.ask(asked.board, what, body, patience, done)

    def _passed_on(
        self, asked: _Asked, reply: Sink, begin: float, address: str, code: int, lines: bytes, content: bytes
    ) -> None:
        """Pass the owner's answer on, or fall back if it has none."""
        if not code:
            reply.leave()
            return
        if asked.lists:  # anybody may send an answer, and should not learn the addresses of workers
            lines += b"%b: %b\r\n" % (OWNER, address.encode())
        self._metrics.passed_on["link"] += 1
        self._send(asked, reply, begin, code, lines, content)

    def _rank_copy(self, asked: _Asked, copies: Replicas, session: BoardSession, reply: Sink, body: bytes) -> bool:
        """Make a list from a replica."""
        taken = self._rank(asked, copies, session, reply, body)
        copies.given += taken
        return taken

    def _rank(self, asked: _Asked, giver: Worker | Replicas, session: BoardSession, reply: Sink, body: bytes) -> bool:
        """Make a list. What a replica refuses may be valid at the owner, so it falls back."""
        begin, copied = time.perf_counter(), giver is not self._worker
        try:
            wanted = _rank_in[asked.what](body or b"{}")
            check_type(asked.headers)
            self._auth.check(asked.headers, "rank", asked.board)
        except (*_WRONG, Refused):
            return False
        if copied and wanted.theirs is not None:
            return False
        try:
            made = list_now(giver, session, wanted)
            content = b"" if made is None else encode(made)
        except Exception as failure:
            if copied and isinstance(failure, Refused | Unavailable) and getattr(failure, "code", 0) != 429:
                return False
            self._refuse(asked, reply, begin, failure)
            return True
        if made is None:
            return False
        self._send(asked, reply, begin, 200, _LISTS, content)
        return True

    def _feedback(self, asked: _Asked, session: BoardSession, reply: Sink, body: bytes) -> bool:
        """Process an answer; the reply is sent once it is on disk."""
        begin, may = time.perf_counter(), functools.partial(self._auth.check, asked.headers)
        try:
            outcome = answer_now(self._worker, session, _feedback_in(body or b"{}"), may)
        except _WRONG:
            return False
        except Exception as failure:
            if may_pass(failure):
                return False
            self._refuse(asked, reply, begin, failure)
            return True
        if isinstance(outcome, str):
            self._send(asked, reply, begin, 200, _ANSWERS, told(outcome, session.board.settle))
        elif outcome is not None:
            outcome.add_done_callback(functools.partial(self._answered, asked, session, reply, begin))
        return outcome is not None

    def _answered(
        self, asked: _Asked, session: BoardSession, reply: Sink, begin: float, answer: asyncio.Future[str]
    ) -> None:
        """Reply to an answer that has been written, or that was refused."""
        failure = Unavailable("the worker ends") if answer.cancelled() else answer.exception()
        if not isinstance(failure, Exception):
            self._send(asked, reply, begin, 200, _ANSWERS, told(answer.result(), session.board.settle))
        elif may_pass(failure):
            reply.leave()
        else:
            self._refuse(asked, reply, begin, failure)

    def _refuse(self, asked: _Asked, reply: Sink, begin: float, failure: Exception) -> None:
        extra = {} if asked.lists else ANY_ORIGIN
        code, extra, content = refusal_of(failure, _ROUTES[asked.what], extra)
        self._send(asked, reply, begin, code, lines_of(extra), content)

    def _send(self, asked: _Asked, reply: Sink, begin: float, code: int, lines: bytes, content: bytes) -> None:
        reply.send(code, lines, content)
        self._metrics.count(_ROUTES[asked.what], code, time.perf_counter() - begin)


@functools.lru_cache(1_000)
def told(outcome: str, settle: float) -> bytes:
    """The encoded reply to an answer."""
    return encode(outcome_of(outcome, settle))
