"""User Behavior Insights: queries are learnt from as lists of another ranker, and clicks as their answers."""

import asyncio
import collections
import functools
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from ...click_logs.formats import ubi as ubi_rows
from ...click_logs.formats.fields import seconds
from ...core.refusals import Refused
from ...live.answers import Given
from ...live.features import SEGMENT_NAME, Values
from ...live.outcomes import RETURN, amount_of
from ..board.checks import check_name
from ..board.schema import Schema
from ..storage import Unavailable
from ..worker import observing, rank_and_answer
from ..worker.board_session import BoardSession
from ..worker.impression_ids import ImpressionId
from ..worker.listing import EngineResult
from .observe_routes import check_list
from .rank_routes import check_sender
from .request import AWAY, Call, at_owners, forward, gather_in_turns

_MOST_ROWS = 10_000
_TURN = 0.003  # seconds of reading rows between other requests
_BYTES_IN_A_TURN = 256 << 10
_CLICKS_IN_A_TURN = 500
_MESSAGES = 10  # refusals with a message
_KINDS = 20  # kinds of ignored rows that are listed
_LONGEST_ID = 200  # of another ranker's list; impression ids of ours are longer
_SHORTEST_OWN, _LONGEST_OWN = 64, 1 << 16
_NO_LIST = "no query {!r} on board {!r}: its list comes first"
_MILLISECONDS = 1e11  # larger times are in milliseconds: as seconds since 1970, they would be beyond the year 5138

# rows; an object with lists of `queries` and `events`; or a single row. Each is decoded on its own
UbiIn: TypeAlias = list[Raw] | dict[str, Raw]
_rows, _any = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder()
_fields = msgspec.json.Decoder(dict[str, Raw])


class UbiRowOut(Schema):
    """A refused row: `row 3` of a list, or `queries 3` or `events 3`, counted from 1."""

    row: str
    code: int
    message: str


class UbiOut(Schema):
    """`lists`, `clicks` and `outcomes` that were learnt from, and known ones (`duplicates`).

    `ignored`: other rows, by kind. `refused`: the number of refused rows by code, with `messages` for the first ten.
    """

    lists: int
    clicks: int
    outcomes: int
    duplicates: int
    ignored: dict[str, int]
    refused: dict[str, int]
    messages: list[UbiRowOut]


class _Outcome(NamedTuple):
    """An outcome of a click on an item, with its id; the amount is negative for a return."""

    action: str
    item: str
    id: str
    amount: float


class _Entry:
    """The rows about one list: its query, if present, its clicks, and their outcomes."""

    def __init__(self, board: str, id_: str) -> None:
        self.board, self.id = board, id_
        self.query: ubi_rows.Query | None = None
        self.row = ""  # of the query
        self.clicks: dict[str, str] = {}  # by item: the name of the row
        self.outcomes: dict[str, _Outcome] = {}  # by the name of the row
        self.client: Any = None
        self.place = "", 0  # of the query, if it came from a stream

    @property
    def list_rows(self) -> list[str]:
        """The names of the rows of the query and its clicks."""
        return [self.row, *self.clicks.values()] if self.row else [*self.clicks.values()]

    @property
    def rows(self) -> list[str]:
        """The names of all rows."""
        return [*self.list_rows, *self.outcomes]


class Count:
    """Counts of results; `most`: refusals with a message."""

    def __init__(self, most: int = _MESSAGES) -> None:
        self._most = most
        self.lists = self.clicks = self.outcomes = self.duplicates = 0
        self.ignored: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.messages: list[UbiRowOut] = []

    def refuse(self, row: str, code: int, why: str) -> None:
        """Refuse a row, by its name."""
        self.refused[str(code)] += 1
        if len(self.messages) < self._most:
            self.messages.append(UbiRowOut(row=row, code=code, message=why))

    def add(self, other: UbiOut, here: dict[str, str]) -> None:
        """Add the results of another worker; `here`: the names of its rows in this request."""
        self.lists += other.lists
        self.clicks += other.clicks
        self.outcomes += other.outcomes
        self.duplicates += other.duplicates
        self.ignored.update(other.ignored)
        self.refused.update(other.refused)
        room = max(self._most - len(self.messages), 0)
        self.messages += [UbiRowOut(row=here[x.row], code=x.code, message=x.message) for x in other.messages[:room]]

    def out(self) -> UbiOut:
        """The answer."""
        return UbiOut(
            lists=self.lists,
            clicks=self.clicks,
            outcomes=self.outcomes,
            duplicates=self.duplicates,
            ignored=dict(self.ignored.most_common(_KINDS)),
            refused=dict(self.refused),
            messages=self.messages,
        )


async def ubi(call: Call, body: UbiIn) -> UbiOut:
    """Learn from queries and events of User Behavior Insights 1.x; invalid rows are refused by name."""
    parts, count = _parts(body), Count()
    size = sum(len(rows) for _, rows in parts)
    if size > _MOST_ROWS:
        raise Refused(422, f"a request has at most {_MOST_ROWS} rows, not {size}")
    entries = await joined(parts, call, count)
    await at_owners(
        call,
        entries,
        lambda entry: entry.board,
        lambda some: process_all(call, some, count),
        lambda address, some: _forward(call, address, some, dict(parts), count),
    )
    return count.out()


async def process_all(call: Call, entries: list[_Entry], count: Count) -> None:
    """Learn from lists of boards of this worker."""
    for board in {entry.board for entry in entries}:
        if call.visible(board) and not call.worker.cache.knows_board(board):
            await call.worker.look_at_log()  # it may just have been created at another worker
    await gather_in_turns(lambda entry: _process(call, entry, count), entries)


async def _forward(
    call: Call, address: str, entries: list[_Entry], parts: dict[str, list[Raw]], count: Count
) -> None:
    """Have another worker process rows of its boards; refusals are reported by the rows' names in this request."""
    names = [name for entry in entries for name in entry.rows]
    body: dict[str, list[Raw]] = {}
    here: dict[str, str] = {}  # by the name there: the name here
    for name in names:
        part, _, number = name.rpartition(" ")
        there = body.setdefault("events" if part == "row" else part, [])
        there.append(parts[part][int(number) - 1])
        here[f"{'events' if part == 'row' else part} {len(there)}"] = name
    answer = await forward(call, address, "/v1/ubi", body, UbiOut)
    if isinstance(answer, UbiOut):
        count.add(answer, here)
        return
    for name in names:
        count.refuse(name, answer.code, AWAY)


def _parts(body: list[Raw] | dict[str, Raw]) -> list[tuple[str, list[Raw]]]:
    """Name the rows: of a list, of an object with `queries` and `events`, or a single one."""
    if isinstance(body, list):
        return [("row", body)]
    if "queries" not in body and "events" not in body:
        return [("row", [Raw(msgspec.json.encode(body))])]
    for part, rows in body.items():
        if part not in ("queries", "events") or not (isinstance(rows, list) or bytes(rows)[:1] == b"["):
            raise Refused(422, f"beside lists of queries and events nothing is taken, not {part!r:.80}")
    read = _rows.decode
    return [(part, rows if isinstance(rows, list) else read(rows)) for part, rows in body.items()]


def outcome_values(call: Call) -> ubi_rows.Values:
    """The actions that are outcomes, and the attributes with their values."""
    try:
        return ubi_rows.parse_values(call.query["outcomes"]) if "outcomes" in call.query else ubi_rows.PURCHASES
    except ValueError as error:
        raise Refused(422, str(error)) from None


async def joined(parts: list[tuple[str, list[Raw]]], call: Call, count: Count) -> list[_Entry]:
    """Join rows into one entry per list, in order, entries with queries first."""
    joining, turn, done = _Joining(call.query.get("board"), outcome_values(call), count), time.perf_counter(), 0
    for part, rows in parts:
        for number, row in enumerate(rows, 1):
            joining.take(f"{part} {number}", row)
            done += memoryview(row).nbytes
            if done > _BYTES_IN_A_TURN or time.perf_counter() - turn > _TURN:
                await asyncio.sleep(0)
                turn, done = time.perf_counter(), 0
    return await joining.end()


class _Joining:
    """Joins the rows about the same list.

    `board`: in place of `application`; `values`: which actions are outcomes.
    """

    def __init__(self, board: str | None, values: ubi_rows.Values, count: Count) -> None:
        self._board, self._values, self._count = board, values, count
        self._lists: dict[tuple[Any, str], _Entry] = {}
        self._where: dict[str, str] = {}  # by query: its board, which events need not name
        self._again: list[_Entry] = []
        self._clicks: list[tuple[str, ubi_rows.Click | ubi_rows.Worth]] = []

    def take(self, name: str, row: Raw) -> None:
        """Add a row."""
        try:
            read = ubi_rows.read(read_object(row), self._values)
            if isinstance(read, ubi_rows.Query) and read.items:
                entry = _Entry(_board(self._board or read.board), _id(read.id))
                entry.query, entry.row, entry.client = read, name, read.client
                if self._lists.setdefault((entry.board, entry.id), entry) is not entry:
                    self._again.append(entry)
                self._where[entry.id] = entry.board
            elif isinstance(read, ubi_rows.Click | ubi_rows.Worth):
                self._clicks.append((name, read))
            else:
                self._count.ignored[_what(read)] += 1
        except Refused as refusal:
            self._count.refuse(name, refusal.code, str(refusal))

    async def end(self) -> list[_Entry]:
        """Return the lists with their clicks and outcomes."""
        for number, (name, click) in enumerate(self._clicks):
            if number % _CLICKS_IN_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                id_ = _id(click.query)
                place = _board(self._board or click.board or self._where.get(id_))
                outcome = _outcome(click) if isinstance(click, ubi_rows.Worth) else None
                entry = self._lists.setdefault((place, id_), _Entry(place, id_))
                if outcome is not None:
                    entry.outcomes[name] = outcome
                else:
                    entry.clicks.setdefault(str(click.item), name)
                entry.client = click.client if entry.client is None else entry.client
            except Refused as refusal:
                self._count.refuse(name, refusal.code, str(refusal))
        return [*self._lists.values(), *self._again]


def read_object(row: Raw) -> dict[str, Any]:
    """The relevant fields of a row; other values are not even decoded."""
    try:
        fields = _fields.decode(row)
        return {name: _any.decode(value) for name, value in fields.items() if name.lower() in ubi_rows.FIELDS}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise Refused(422, f"a row is an object, not {bytes(row)[:80].decode(errors='replace')}")


def _outcome(worth: ubi_rows.Worth) -> _Outcome:
    """Parse an outcome. Raises Refused if its value or time is invalid."""
    _time(worth.time)
    kind = RETURN if worth.action in ubi_rows.RETURNS else worth.action
    amount = amount_of(worth.value, kind, f"{worth.field} of {worth.action}")
    return _Outcome(worth.action, str(worth.item), worth.id, amount)


def _what(row: ubi_rows.Row) -> str:
    if isinstance(row, ubi_rows.Query):
        return "queries without hits"
    return str(row.what)[:80] if isinstance(row, ubi_rows.Other) else "items shown"


def _board(name: Any) -> str:
    if not isinstance(name, str):
        raise Refused(422, f"application must name the board, or ?board= in the address, not {name!r:.80}")
    check_name(name)
    return name


def _id(given: Any) -> str:
    if not isinstance(given, str | int) or not 1 <= len(str(given)) <= _LONGEST_OWN:
        raise Refused(422, f"query_id must be text of 1 to {_LONGEST_ID} characters, not {given!r:.80}")
    return str(given)


def _time(given: Any) -> float | None:
    if given is None:
        return None
    moment = seconds(given)
    if not math.isfinite(moment):
        raise Refused(422, f"timestamp must be a time in ISO 8601 or a number, not {given!r:.80}")
    return moment / 1000.0 if moment > _MILLISECONDS else moment


async def _process(call: Call, entry: _Entry, count: Count) -> None:
    """Process a list and its clicks, then their outcomes, each accepted or refused on its own."""
    if entry.list_rows:
        await _attempt(call, entry, entry.list_rows, count, _take_list)
    for row, outcome in entry.outcomes.items():
        await _attempt(call, entry, [row], count, functools.partial(_process_outcome, outcome))


async def _attempt(
    call: Call,
    entry: _Entry,
    rows: list[str],
    count: Count,
    take: Callable[[Call, BoardSession, _Entry, Count], Awaitable[None]],
) -> None:
    """Run an action on a list with its board; if it is refused, so are its rows."""
    try:
        if not call.visible(entry.board):
            raise Refused(403, "this API key is for another board")
        with call.worker.answering(entry.board):
            async with call.worker.cache.hold_board(entry.board):
                await take(call, call.worker.find_board(entry.board), entry, count)
    except Refused as refusal:
        for row in rows:
            count.refuse(row, refusal.code, str(refusal))
    except Unavailable:
        for row in rows:
            count.refuse(row, 503, AWAY)


async def _take_list(call: Call, session: BoardSession, entry: _Entry, count: Count) -> None:
    shown = _own_list(call, session, entry.id)
    if shown is not None:
        await _answer_own(call, session, entry, shown, count)
    elif entry.query is None:
        await _answer(call, session, entry, count)
    else:
        await _report(call, session, entry, entry.query, count)


async def _process_outcome(said: _Outcome, call: Call, session: BoardSession, entry: _Entry, count: Count) -> None:
    """Report an outcome of a click; ignored on boards that take no outcomes."""
    if session.board.learner_state.outcomes is None:
        count.ignored[said.action] += 1
        return
    call.require("feedback", session.name)
    shown = _own_list(call, session, entry.id) or observing.known_impression(session, entry.id)
    if shown is None:
        await call.worker.look_at_log()  # it may just have been reported to another worker
        shown = observing.known_impression(session, entry.id)
    if shown is None:
        raise Refused(404, _NO_LIST.format(entry.id[:80], session.name))
    outcome = await rank_and_answer.outcome(call.worker, session, shown, said.item, said.id, said.amount)
    count.duplicates += outcome == "duplicate"
    count.outcomes += outcome != "duplicate"


def _own_list(call: Call, session: BoardSession, id_: str) -> ImpressionId | None:
    """Decode the id if it is an impression id of ours; otherwise None."""
    if len(id_) < _SHORTEST_OWN:
        return None
    try:
        return session.seals.open(id_, call.worker.clock())
    except Refused as refusal:
        if refusal.code != 403:
            raise
    if len(id_) > _LONGEST_ID:
        words = f"query_id must be text of 1 to {_LONGEST_ID} characters, or the impression id of a list of ours"
        raise Refused(422, words)
    return None


async def _answer_own(call: Call, session: BoardSession, entry: _Entry, shown: ImpressionId, count: Count) -> None:
    """Process clicks on a list of ours, identified by its impression id."""
    count.duplicates += entry.query is not None
    await rank_and_answer.look_for_items(call.worker, session, shown)
    items = rank_and_answer.items_of(session, shown, list(entry.clicks))
    clicked = _clicked(entry, items, count)
    if clicked:
        outcome = await rank_and_answer.answer(call.worker, session, shown, _given(items, clicked))
        count.duplicates += outcome == "duplicate"
        count.clicks += len(clicked) if outcome != "duplicate" else 0


async def _report(call: Call, session: BoardSession, entry: _Entry, query: ubi_rows.Query, count: Count) -> None:
    """Report a list with its clicks so far; a long list is cut to the board's length."""
    whole = list(map(str, query.items))
    items, features = whole[: session.board.length], _known(session, query)
    check_list(session, items)
    session.board.learner_state.features.check_visit(features)
    clicked = _clicked(entry, whole, count)
    answer = _given(items, clicked) if clicked else None
    outcome = await _observe(call, session, entry, items, answer, _time(query.time), features, _asked(session, query))
    count.duplicates += outcome == "duplicate"
    if outcome != "duplicate":
        count.lists += 1
        count.clicks += len(clicked)


async def _answer(call: Call, session: BoardSession, entry: _Entry, count: Count) -> None:
    """Process clicks on a list that was reported before."""
    if session.observed_items(entry.id, ()) is None:
        await call.worker.look_at_log()  # it may just have been reported to another worker
    items = session.observed_items(entry.id, entry.clicks)
    if items is None:
        raise Refused(404, _NO_LIST.format(entry.id[:80], session.name))
    clicked = _clicked(entry, items, count)
    if clicked:
        outcome = await _observe(call, session, entry, items, _given(items, clicked), None)
        count.duplicates += outcome == "duplicate"
        count.clicks += len(clicked) if outcome != "duplicate" else 0


def _asked(session: BoardSession, query: ubi_rows.Query) -> str | None:
    """The text of the query, on a collection; None on a board."""
    if session.keys is None:
        return None
    if not isinstance(query.text, str) or not query.text:
        raise Refused(422, f"user_query must be the text of the query, on a collection, not {query.text!r:.80}")
    return query.text


def _clicked(entry: _Entry, items: list[str], count: Count) -> list[str]:
    """The clicked items of a list; clicks on other items are refused."""
    shown = set(items)
    for item in [item for item in entry.clicks if item not in shown]:
        count.refuse(entry.clicks.pop(item), 422, f"item {item!r:.80} was not shown")
    return list(entry.clicks)


def _known(session: BoardSession, query: ubi_rows.Query) -> Values | None:
    """The features of a query that the board declares; other attributes are ignored."""
    space = session.board.learner_state.features
    if space.segments:
        return None if query.segment is None else {SEGMENT_NAME: query.segment}
    features: Values | None = query.features if space.visits else None
    return features


def _given(items: list[str], clicked: list[str]) -> Given:
    """An answer that examined places down to the last click; down to the end if that is below the board's places."""
    places, those = {item: place for place, item in enumerate(items)}, set(clicked)
    last = max(places.get(item, len(items) - 1) for item in clicked)
    return Given(clicks=[int(item in those) for item in items[: last + 1]])


async def _observe(
    call: Call,
    session: BoardSession,
    entry: _Entry,
    items: list[str],
    answer: Given | None,
    time: float | None,
    features: Values | None = None,
    query: str | None = None,
) -> str:
    client = None if entry.client is None else str(entry.client)
    check_sender(client, None)
    engine_result = None if query is None else EngineResult(query, items)
    rest: Any = client, {}, None, (), (), features, *entry.place, engine_result
    report = observing.Report(entry.id, items, answer, time, *rest)
    return (await observing.observe(call.worker, session, report)).outcome
