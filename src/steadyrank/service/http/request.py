"""Definitions of routes and calls, and what several routes share: schemas, and work in turns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, Generic, NamedTuple, TypeAlias, TypeVar, get_args, get_origin
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...core.refusals import Refused
from ...live.features import SEGMENT_NAME, Values
from ..board.schema import Schema
from ..storage import Unavailable
from ..worker.board_session import BoardSession
from ..worker.worker import Worker
from .bodies import encode
from .forwarding import OtherWorkers

NO_SEGMENTS = "segment {!r:.80} cannot be given: this board declares no segments"
NO_QUERY = "board {!r:.80} ranks items of its own, for no query: collections do"
AWAY = "the store is away or being read: try again"  # for the client; the log has the reason
_IN_FLIGHT = 500  # rows of a batch waiting for a commit
_IN_A_TURN = 20  # rows of a batch between other requests: a few milliseconds
T = TypeVar("T")
R = TypeVar("R")
# the board declares allowed values, and refuses others by name
Features: TypeAlias = dict[str, Annotated[Any, Meta(extra_json_schema={"type": ["number", "string", "null"]})]]


class AnswerIn(Schema, kw_only=True):
    """What was clicked: an item or null; or one bit per place, with the number of places examined."""

    clicked: str | UnsetType | None = UNSET
    clicks: list[int] | None = None
    examined: int | None = None


class DoneOut(Schema):
    """The request was carried out."""

    done: bool = True


class ErrorOut(Schema):
    """Why a request was refused."""

    code: int
    message: str


class Call(NamedTuple):
    """A request to a route."""

    worker: Worker
    board: str
    part: str  # the item, client or number in the path
    visible: Callable[[str], bool]  # whether the key may see a board
    require: Callable[[str, str], None]  # raises Refused if the key lacks a scope on a board
    query: Mapping[str, str] = {}  # query parameters that the route accepts
    other_workers: OtherWorkers | None = None  # other workers, for a route of several boards; None: only this worker


def no_detail(call: Call, body: Any = None) -> str:
    """No detail, since names of clients are never recorded."""
    return ""


class Change(NamedTuple):
    """What a route changes, for the audit record."""

    what: str
    detail: Callable[..., str] = no_detail


class Route(NamedTuple):
    """One operation."""

    method: str
    path: str
    scope: str  # rank or admin; "public": a signed impression id is enough
    summary: str
    run: Callable[..., Awaitable[Any]]  # of the call, and of the body if it takes one
    large: bool = False
    change: Change | None = None  # set if the change is recorded
    query: tuple[str, ...] = ()  # accepted query parameters

    @property
    def request_schema(self) -> Any:
        """The schema of the body, or None."""
        return self.run.__annotations__.get("body")

    @property
    def response_schema(self) -> Any:
        """The schema of the answer, or None for a file."""
        given: Any = self.run.__annotations__["return"]
        if given is File:
            return None
        return get_args(given)[0] if get_origin(given) is Parts else given


COLLECTIONS = "/v1/collections"


def check_path(session: BoardSession | None, path: str) -> None:
    """Raise Refused if the path is for boards and this is a collection, or vice versa."""
    if session is not None and (session.keys is not None) != path.startswith(COLLECTIONS):
        what, other = ("collection", "boards") if session.keys is not None else ("board", "collections")
        where = f"/v1/{what}s" if session.keys is not None else "/v1/boards"
        raise Refused(404, f"{session.name!r} is a {what}, and none of the {other}: see {where}/{session.name}")


def limit_of(given: str | None, most: int) -> int:
    """Parse a limit; defaults to `most`, its maximum."""
    if given is None:
        return most
    if not (given.isascii() and given.isdigit() and len(given) < 9 and 1 <= int(given) <= most):
        raise Refused(422, f"limit must be a whole number from 1 to {most}, not {given!r:.80}")
    return int(given)


def known_of_visit(session: BoardSession, features: Values | None, segment: str | None) -> Values | None:
    """The features of a visit in the board's terms: the segment where it has segments."""
    segments = session.board.learner_state.features.segments
    if segments and features:
        raise Refused(422, f"for a visit to this board, give segment ({', '.join(segments)}), and no features")
    if segment is None:
        return features
    if not segments:
        raise Refused(422, NO_SEGMENTS.format(segment))
    return {SEGMENT_NAME: segment}


class Parts(NamedTuple, Generic[T]):
    """An answer encoded in slices, since encoding it at once would delay other requests."""

    content: list[bytes]


class File(NamedTuple):
    """An answer that is a file; it is read from its beginning, and closed."""

    name: str
    content: BinaryIO


async def gather_in_turns(work: Callable[[T], Awaitable[R]], rows: Sequence[T]) -> list[R]:
    """Apply `work` to each row of a batch and return the results in order, with other requests in between."""
    done: list[R] = []
    for start in range(0, len(rows), _IN_FLIGHT):
        tasks = []
        for row in rows[start : start + _IN_FLIGHT]:
            tasks.append(asyncio.ensure_future(work(row)))
            if len(tasks) % _IN_A_TURN == 0:
                await asyncio.sleep(0)  # let these begin, in order
        done += await asyncio.gather(*tasks)
    return done


async def at_owners(
    call: Call,
    rows: list[T],
    board: Callable[[T], str],
    here: Callable[[list[T]], Awaitable[None]],
    there: Callable[[str, list[T]], Awaitable[None]],
) -> None:
    """Process rows at the workers that own their boards: by `here`, or by `there` with an address."""
    owners = {None: rows} if call.other_workers is None else call.other_workers.by_owner(rows, board)
    others = [there(address, some) for address, some in owners.items() if address is not None]
    await asyncio.gather(here(owners.get(None, [])), *others)


async def forward(call: Call, address: str, path: str, body: Any, gives: type[T]) -> T | ErrorOut:
    """Send rows to another worker that owns their boards; returns its answer, or why it accepted none."""
    assert call.other_workers is not None
    said = {name: call.query[name] for name in ("board", "outcomes") if name in call.query}
    query = f"?{urlencode(said)}" if said else ""
    try:
        code, content = await call.other_workers.ask(address, "POST", path + query, encode(body))
    except Unavailable:
        code, content = 503, b""
    if code == 200:
        return msgspec.json.decode(content, type=gives)
    return msgspec.json.decode(content, type=ErrorOut) if content else ErrorOut(code=code, message=AWAY)
