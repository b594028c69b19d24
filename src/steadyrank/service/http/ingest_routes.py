"""Messages of a stream: answers, outcomes, lists of another ranker, and rows of User Behavior Insights.

Messages may be repeated: answers are deduplicated by impression, lists and outcomes by id.
"""

import asyncio
import time
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from ...click_logs.formats import ubi as ubi_rows
from ...core.refusals import Refused
from ..board.checks import check_name
from ..board.schema import Schema
from ..storage import Unavailable
from ..worker.rank_and_answer import TOO_MANY_UNNAMED
from .bodies import decode, encode
from .observe_routes import ObserveIn, observe_at
from .rank_routes import BatchRow, OutcomeRow, answer_row, outcome_row
from .request import AWAY, Call, at_owners, forward, gather_in_turns
from .ubi_routes import Count, joined, outcome_values, process_all, read_object

_MOST_ROWS = 10_000
_TURN = 0.003  # seconds of reading messages between other requests
_WIDEST = 256 << 10  # bytes of a message, which is decoded in one step
_WHAT = (
    "a message is an object with impression (an answer; with item, what came of a click), items (a list) or query_id "
    "(User Behavior Insights)"
)


Place: TypeAlias = tuple[Annotated[str, Meta(min_length=1, max_length=300)], Annotated[int, Meta(ge=0, le=2**63 - 1)]]


class IngestIn(Schema):
    """Messages, each of one kind, with the board that it concerns.

    An answer has `board` and `impression`, as in a batch; an outcome has an `item` too; a list of another ranker has
    its `board`; the others are rows of User Behavior Insights. `places`: for each message the name of its stream and
    partition, and its offset there.
    """

    rows: list[Raw]
    places: list[Place] | None = None


class IngestRowOut(Schema):
    """The result for a message: `code` 200 and an outcome, or why it was refused.

    `again`: the message was not looked at, or none of its kind is accepted at the moment: send it again.
    """

    code: int
    outcome: str | None = None
    message: str | UnsetType = UNSET
    again: bool = False


class IngestOut(Schema):
    """A result for each message, in order."""

    rows: list[IngestRowOut]


class ListRow(ObserveIn, kw_only=True):
    """A list of another ranker with its board."""

    board: str


class _Message(NamedTuple):
    number: int
    raw: Raw
    board: str  # empty: a row of User Behavior Insights that does not name it
    content: BatchRow | OutcomeRow | ListRow | None  # None: a row of User Behavior Insights
    place: Place | None = None


_answers, _outcomes, _lists = (msgspec.json.Decoder(kind) for kind in (BatchRow, OutcomeRow, ListRow))
_fields = msgspec.json.Decoder(dict[str, Raw])


async def ingest(call: Call, body: IngestIn) -> IngestOut:
    """Accept messages of a stream, of any boards: each is accepted or refused on its own; repetitions count once."""
    rows, places = body.rows, body.places
    if len(rows) > _MOST_ROWS:
        raise Refused(422, f"a request has at most {_MOST_ROWS} messages, not {len(rows)}")
    if places is not None and len(places) != len(rows):
        raise Refused(422, f"places must be one for each of the {len(rows)} messages, not {len(places)}")
    outcome_values(call)  # which is refused as a whole
    done: list[IngestRowOut] = [_refused(503, AWAY)] * len(rows)
    messages = await _read(rows, call.query.get("board"), done)
    if places is not None:
        messages = [message._replace(place=places[message.number]) for message in messages]
    await at_owners(
        call,
        messages,
        lambda message: message.board,
        lambda some: _process(call, some, done),
        lambda address, some: _forward(call, address, some, done),
    )
    return IngestOut(rows=done)


def _refused(code: int, why: str) -> IngestRowOut:
    """A refusal; those by a parked board, or for one client's rate, must not hold up other messages."""
    return IngestRowOut(code=code, message=why, again=why in (AWAY, TOO_MANY_UNNAMED))


async def _read(rows: list[Raw], board: str | None, done: list[IngestRowOut]) -> list[_Message]:
    """Decode messages; `board`: for those that name none, and for all of User Behavior Insights."""
    messages, turn = [], time.perf_counter()
    where: dict[Any, str] = {}  # by query: its board, which events need not name
    for number, raw in enumerate(rows):
        try:
            messages.append(_message(number, raw, board, where))
        except Refused as refusal:
            done[number] = _refused(refusal.code, str(refusal))
        if time.perf_counter() - turn > _TURN:
            await asyncio.sleep(0)
            turn = time.perf_counter()
    return [one if one.board else one._replace(board=_board_of(one.raw, where)) for one in messages]


def _message(number: int, raw: Raw, board: str | None, where: dict[Any, str]) -> _Message:
    size = memoryview(raw).nbytes
    if size > _WIDEST:
        raise Refused(422, f"a message has {size} bytes, at most {_WIDEST} are read")
    try:
        names = _fields.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(422, f"{_WHAT}, not {bytes(raw)[:80].decode(errors='replace')}") from None
    if "impression" not in names and "items" not in names:
        if not any(name.lower() == "query_id" for name in names):
            raise Refused(422, f"{_WHAT}, not {', '.join(names) or 'nothing'!r:.200}")
        row = ubi_rows.read(read_object(raw))
        named = board or getattr(row, "board", None)
        if isinstance(row, ubi_rows.Query) and isinstance(named, str):
            where[str(row.id)] = named
        return _Message(number, raw, named if isinstance(named, str) else "", None)
    body = bytes(raw)
    if "board" not in names and board is not None:
        body = encode(names | {"board": board})
    kind: Any = _lists if "impression" not in names else _outcomes if "item" in names else _answers
    content: BatchRow | OutcomeRow | ListRow = decode(body, kind)
    check_name(content.board)
    return _Message(number, raw, content.board, content)


def _board_of(raw: Raw, where: dict[Any, str]) -> str:
    """The board of a row that names none: that of its query."""
    return where.get(str(getattr(ubi_rows.read(read_object(raw)), "query", "")), "")


async def _process(call: Call, messages: list[_Message], done: list[IngestRowOut]) -> None:
    """Process messages of boards of this worker."""
    plain = [message for message in messages if message.content is not None]
    rows = [message for message in messages if message.content is None]

    async def one(message: _Message) -> IngestRowOut:
        if isinstance(message.content, BatchRow | OutcomeRow):
            if isinstance(message.content, BatchRow):
                row = await answer_row(call, message.content)
            else:
                row = await outcome_row(call, message.content)
            return (
                _refused(row.code, str(row.message))
                if row.code != 200
                else IngestRowOut(code=200, outcome=row.outcome)
            )
        return await _observe(call, message)

    outcomes, _ = await asyncio.gather(gather_in_turns(one, plain), _process_ubi(call, rows, done))
    for message, outcome in zip(plain, outcomes, strict=True):
        done[message.number] = outcome


async def _observe(call: Call, message: _Message) -> IngestRowOut:
    worker, board, content = call.worker, message.board, message.content
    assert isinstance(content, ListRow)
    try:
        call.require("observe", board)
        if not worker.cache.knows_board(board):
            await worker.look_at_log()  # it may just have been created at another worker
        with worker.answering(board):
            async with worker.cache.hold_board(board):
                seen = await observe_at(call._replace(board=board), content, *(message.place or ()))
        return IngestRowOut(code=200, outcome=seen.outcome)
    except Refused as refusal:
        return _refused(refusal.code, str(refusal))
    except Unavailable:
        return _refused(503, AWAY)


async def _process_ubi(call: Call, messages: list[_Message], done: list[IngestRowOut]) -> None:
    count = Count(len(messages))
    entries = await joined([("row", [message.raw for message in messages])], call, count)
    for entry in entries:
        if entry.row and (place := messages[_number(entry.row)].place) is not None:
            entry.place = place
    await process_all(call, entries, count)
    for message in messages:
        done[message.number] = IngestRowOut(code=200, outcome="taken")
    for refusal in count.messages:
        done[messages[_number(refusal.row)].number] = _refused(refusal.code, refusal.message)


def _number(row: str) -> int:
    """The index of a row called `row 1`, `row 2` and so on."""
    return int(row.rpartition(" ")[2]) - 1


async def _forward(call: Call, address: str, messages: list[_Message], done: list[IngestRowOut]) -> None:
    """Have another worker process messages of its boards."""
    places = [message.place for message in messages]
    body = {"rows": [message.raw for message in messages], "places": places if places[0] else None}
    answer = await forward(call, address, "/v1/ingest", body, IngestOut)
    if isinstance(answer, IngestOut):
        outcomes = answer.rows
    else:
        again = answer.code in (421, 503)
        outcomes = [IngestRowOut(code=answer.code, message=answer.message, again=again)] * len(messages)
    for message, outcome in zip(messages, outcomes, strict=True):
        done[message.number] = outcome
