"""Routes for operators of boards: settings, items, clients, and the audit record of changes."""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...core.refusals import Refused
from ...live.rules import Rules
from ..board import events
from ..board.board import BoardOut
from ..board.checks import check_known, check_name
from ..board.config import NEW_BOARD, Config, Known, Setting, with_settings
from ..board.schema import Schema
from ..storage import Act, SqlStore, Unavailable
from ..worker import reconfigure
from ..worker.board_session import BoardSession
from ..worker.resealing import rotate
from ..worker.worker import Worker
from .bodies import encode as _encode
from .forwarding import OtherWorkers
from .request import Call, DoneOut, Features, Parts, Route, limit_of

BOARDS = "/v1/boards"
MOST_BOARDS = 1_000  # per answer
_MOST_PARKED = 1_000
_BOARDS_IN_A_TURN = 100  # boards listed between other requests: a few milliseconds
_KIND = re.compile(events.KIND_NAME)
_MOST_ITEMS = 1_000_000
_MOST_AT_ONCE = 100_000  # items per request; what handles all their names in one step takes some milliseconds
_NO_FEATURES: Mapping[str, Known] = {}
_ITEMS_AT_ONCE = 1_000  # new items per event, so that applying it is quick
_DESCRIBED_AT_ONCE = 100  # the same for items with features: about 10 ms, 45 if all were shown recently


_FewSettings: TypeAlias = Annotated[dict[str, bool | int | float | str], Meta(max_length=100)]
Items: TypeAlias = list[str] | dict[str, Features]


class _Given(Schema):
    items: Items | UnsetType = UNSET


class BoardIn(
    with_settings(  # type: ignore[misc]
        _Given,
        optional=True,
        settings=_FewSettings,
        guard_settings=_FewSettings,
        segments=Annotated[list[str], Meta(max_length=1_000)] | None,
    )
):
    """Settings of a board; for an existing board, omitted settings keep their values, and new items are added.

    `items`: names, or an object with the features of each, where the board has `features`. `guards`: several, each
    with its settings; `guard` and `guard_settings` are the short form for one, and exclude it. `cohorts`: the kinds
    of cohort that lists may be requested with.
    """

    def changes(self) -> dict[str, Any]:
        """The settings that are given."""
        return given_settings(self, Config.__struct_fields__)


def given_settings(body: Any, names: Iterable[str]) -> dict[str, Any]:
    """The settings among `names` that a body gives, as JSON values."""
    given = {name: getattr(body, name, UNSET) for name in names}
    return {name: msgspec.to_builtins(value) for name, value in given.items() if value is not UNSET}


class ParkedOut(Schema):
    """A board that this worker does not serve, and why."""

    board: str
    why: str


class BoardsOut(Schema):
    """The boards that the key may see, by name; `next`: the value of `after` for the next page, null on the last.

    `parked`: boards that this worker does not serve, the first 1,000; `broken`: their names only.
    """

    boards: list[BoardOut]
    parked: list[ParkedOut]
    broken: list[str]
    next: str | None


class SecretOut(Schema):
    """Until when impression ids signed by the previous secret are valid, in seconds since 1970."""

    until: float


class ItemsIn(Schema):
    """Items to add or reinstate: names, or an object with the features of each."""

    items: Items


class RetireIn(Schema):
    """Items to retire."""

    items: list[str]


class ForgottenOut(Schema):
    """The number of impressions of a client that were made anonymous."""

    impressions: int


class ActOut(Schema):
    """A change and who made it; `digest`: a hash of this row and the previous digest, in hexadecimal."""

    number: int
    at: float
    who: str
    what: str
    board: str
    detail: str
    digest: str


class RecordOut(Schema):
    """Rows of the record, oldest first."""

    record: list[ActOut]


async def list_boards(call: Call) -> Parts[BoardsOut]:
    """At most `limit` boards by name, after a given name. Sleeping boards are shown as they were when evicted."""
    return await list_by_name(call, BOARDS, lambda board: board if board.collection is None else None)


Shown: TypeAlias = Callable[[BoardOut], Any]  # converts a board for the list; None leaves it out


async def list_by_name(call: Call, path: str, shown: Shown) -> Parts[Any]:
    """List boards or collections, at `path`; except for the list itself, both answers have the same members."""
    limit, after = limit_of(call.query.get("limit"), MOST_BOARDS), call.query.get("after", "")
    named_rows, more = await _own_boards(call, limit, after, shown)
    names = [name for name in sorted(call.worker.parked) if call.visible(name)][:_MOST_PARKED]
    parked = [ParkedOut(board=name, why=call.worker.parked[name].why) for name in names]
    if call.other_workers is not None:
        places, target = call.other_workers.others(), f"{path}?{urlencode({'limit': limit, 'after': after})}"
        for page in await asyncio.gather(*(_boards_of(call.other_workers, place, target) for place in places)):
            rows = page.boards or page.collections
            named_rows += [(msgspec.json.decode(row, type=_Named).name, bytes(row)) for row in rows]
            parked += page.parked
            more = more or page.next is not None
        more = more or len(named_rows) > limit
        named_rows = sorted(dict(named_rows).items())[:limit]
        parked = sorted(parked, key=lambda one: one.board)[:_MOST_PARKED]
    end = [b'],"parked":', _encode(parked), b',"broken":', _encode([one.board for one in parked])]
    end += [b',"next":', _encode(named_rows[-1][0] if more and named_rows else None), b"}"]
    return Parts([b'{"', path.rpartition("/")[2].encode(), b'":[', b",".join(row for _, row in named_rows), *end])


class _Named(msgspec.Struct):
    board: str = ""
    collection: Any = ""

    @property
    def name(self) -> str:
        """The name of the board or collection."""
        return self.board or str(self.collection)


class _Page(msgspec.Struct, kw_only=True):
    """A page of boards or of collections from another worker."""

    boards: list[msgspec.Raw] = []
    collections: list[msgspec.Raw] = []
    parked: list[ParkedOut]
    next: str | None


async def _boards_of(other_workers: OtherWorkers, place: str, target: str) -> _Page:
    code, content = await other_workers.ask(place, "GET", target)
    if code != 200:
        raise Unavailable(f"another worker answered {code}")
    return msgspec.json.decode(content, type=_Page)


async def _own_boards(call: Call, limit: int, after: str, shown: Shown) -> tuple[list[tuple[str, bytes]], bool]:
    """Names and summaries of boards of this worker, and whether there are more."""
    worker, rows = call.worker, list[tuple[str, bytes]]()
    every = [*worker.boards, *worker.cache.evicted]
    names = await asyncio.to_thread(lambda: sorted({name for name in every if name > after}))
    for place, name in enumerate(names):
        if place % _BOARDS_IN_A_TURN == 0:
            await asyncio.sleep(0)
        if not call.visible(name):
            continue
        board = await _summary(worker, name)
        row = None if board is None else shown(board)
        if row is not None and len(rows) == limit:
            return rows, True
        if row is not None:
            rows.append((name, _encode(row)))
    return rows, False


async def _summary(worker: Worker, name: str) -> BoardOut | None:
    evicted = worker.cache.evicted.get(name)
    summary = None if evicted is None else evicted.summary()
    if summary is not None:
        return summary.shown_as(name)
    async with worker.cache.hold_board(name):
        session = worker.boards.get(name)
        return None if session is None else session.summary()


async def put_board(call: Call, body: BoardIn) -> BoardOut:
    """Create a board, or change the settings of an existing one."""
    check_name(call.board)
    items, given = await _names_and_features([] if body.items is UNSET else body.items)
    if not call.worker.cache.knows_board(call.board):
        if not items:
            raise Refused(422, "a new board needs at least one item")
        config = _new(body.changes())
        features = await asyncio.to_thread(check_known, config, given)
        if await call.worker.create_board(call.board, events.Created(config, items, features)):
            return call.worker.find_board(call.board).summary()
    session = call.worker.find_board(call.board)
    others = {name: value for name, value in body.changes().items() if name != "rules"}
    config = await asyncio.to_thread(session.board.after, others) if given else session.board.latest
    features = await asyncio.to_thread(check_known, config, given)
    changes, rules = body.changes(), body.changes().get("rules")
    if rules is not None and items:  # rules may name new items, which must be added first
        _check_named(session, rules, items)
        del changes["rules"]
    await reconfigure.configure(call.worker, session, changes)
    fresh = [item for item in items if item not in session.board.learner_state.slots]
    if fresh:
        await add_new(call.worker, session, fresh, features)
    await _describe(call.worker, session, features)
    if rules is not None and items:
        await reconfigure.configure(call.worker, session, {"rules": rules})
    return call.worker.find_board(call.board).summary()


def _check_named(session: BoardSession, rules: dict[str, Any], items: list[str]) -> None:
    """Raise Refused for rules that name an item neither on the board nor new, before anything is changed."""
    try:
        made = Rules.of(rules)
    except ValueError as error:
        raise Refused(422, str(error)) from None
    there, slots = set(items), session.board.learner_state.slots
    for item in () if made is None else made.named():
        if item not in there and item not in slots:
            raise Refused(422, f"unknown item {item!r:.80}")


def _new(settings: dict[str, Setting]) -> Config:
    """The settings of a new board. Raises Refused where they contradict one another."""
    try:
        return NEW_BOARD.changed(settings)
    except ValueError as error:
        raise Refused(422, str(error)) from error


async def get_board(call: Call) -> BoardOut:
    """The settings and counts of a board."""
    return call.worker.find_board(call.board).summary()


async def rotate_secret(call: Call) -> SecretOut:
    """Sign impression ids with a new secret; ids already given out remain valid until they expire."""
    worker, session = call.worker, call.worker.find_board(call.board)
    until = await rotate(worker.log_writer, session, worker.clock())
    await worker.catch_up()
    if session.resealing is not None:
        await asyncio.shield(session.resealing)
    return SecretOut(until=until)


async def delete_board(call: Call) -> DoneOut:
    """Delete a board and its log."""
    await call.worker.delete_board(call.board)
    return DoneOut()


def check_kind(kind: str) -> None:
    """Raise Refused if this cannot be the name of a kind of cohort."""
    if not _KIND.fullmatch(kind):
        raise Refused(422, f"a kind of cohort is named by 1 to 32 of A-Z a-z 0-9 _ -, not {kind!r:.80}")


def check_items(items: list[str], there: int = 0) -> None:
    """Raise Refused for invalid names of items, or too many in addition to `there` existing ones."""
    check_room(items, there)
    for item in items:
        if not 1 <= len(item) <= 500 or item in (".", ".."):  # these two are impossible in a path
            raise Refused(422, f"an item is named by text of 1 to 500 characters, no . or .., not {item!r:.80}")


def check_room(items: list[str], there: int) -> None:
    """Raise Refused if a board with `there` items would have too many with these."""
    if there + len(items) > _MOST_ITEMS:
        raise Refused(422, f"a board has at most {_MOST_ITEMS} items, not {there + len(items)}")


async def _names_and_features(items: Items) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The names of items, and their features; these are empty if only names are given."""
    if len(items) > _MOST_AT_ONCE:
        raise Refused(
            422, f"a request has at most {_MOST_AT_ONCE} items, not {len(items)}: send the others after them"
        )
    names = list(items)
    await asyncio.to_thread(check_items, names)
    return names, {} if isinstance(items, list) else items


async def add_new(
    worker: Worker,
    session: BoardSession,
    items: list[str],
    features: Mapping[str, Known] = _NO_FEATURES,
    by_lists: bool = False,
) -> None:
    """Add validated items, or reinstate retired ones, in several events, with their features."""
    check_room(items, len(session.board.learner_state.names))
    if by_lists:
        session.board.check_listed(items)
    names, slots = list(dict.fromkeys(items)), session.board.learner_state.slots
    await worker.check_room(session, sum(item not in slots for item in names))
    size = _DESCRIBED_AT_ONCE if features else _ITEMS_AT_ONCE
    for start in range(0, len(names), size):
        some = names[start : start + size]
        described = {item: features[item] for item in some if item in features}
        await worker.write_event(session, events.Added(some, described, by_lists))


async def _describe(worker: Worker, session: BoardSession, features: Mapping[str, Known]) -> None:
    """Update the features of items where they differ from the log, in several events."""
    before = session.board.described
    others = await asyncio.to_thread(
        lambda: [one for one, values in features.items() if values != before.get(one, {})]
    )
    for start in range(0, len(others), _DESCRIBED_AT_ONCE):
        some = others[start : start + _DESCRIBED_AT_ONCE]
        await worker.write_event(session, events.Described({item: features[item] for item in some}))


async def add_items(call: Call, body: ItemsIn) -> BoardOut:
    """Add items, or reinstate retired ones."""
    session = call.worker.find_board(call.board)
    if not body.items:
        raise Refused(422, "items must name at least one item")
    items, given = await _names_and_features(body.items)
    features = await asyncio.to_thread(check_known, session.board.config, given)
    await add_new(call.worker, session, items, features)
    return session.summary()


async def retire_item(call: Call) -> BoardOut:
    """Retire an item: it is no longer shown; what was learnt of it is kept."""
    session = call.worker.find_board(call.board)
    if call.part not in session.board.learner_state.slots:
        raise Refused(404, f"no item {call.part!r:.80}")
    await call.worker.write_event(session, events.Retired(call.part))
    return session.summary()


async def retire_items(call: Call, body: RetireIn) -> BoardOut:
    """Retire items: they are no longer shown; what was learnt is kept.

    Either all are retired, by one event, or none.
    """
    session = call.worker.find_board(call.board)
    items, _ = await _names_and_features(body.items)
    if not items:
        raise Refused(422, "items must name at least one item")
    slots = session.board.learner_state.slots
    missing = [item for item in items if item not in slots]
    if missing:
        raise Refused(404, f"no item {missing[0]!r:.80}" + (f", and {len(missing) - 1} more" if missing[1:] else ""))
    await call.worker.write_event(session, events.Retired(items[0], items[1:]))
    return session.summary()


async def forget_client(call: Call) -> ForgottenOut:
    """Delete what is stored of a client, or of a cohort of a kind."""
    session, kind = call.worker.find_board(call.board), call.query.get("cohort")
    if kind is not None:
        check_kind(kind)
    count = await call.worker.forget_client(session, call.part, kind)
    return ForgottenOut(impressions=count)


async def recorded(route: Route, who: str, call: Call, *body: Any) -> Any:
    """Run a route after recording the request; a refusal is recorded as well."""
    assert route.change is not None
    what, detail = route.change.what, route.change.detail(call, *body)
    await call.worker.log_writer.run_chore(_row(call, who, what, detail))
    try:
        return await route.run(call, *body)
    except Refused as refusal:
        await call.worker.log_writer.run_chore(_row(call, who, f"refused with {refusal.code}: {what}", detail))
        raise


def _row(call: Call, who: str, what: str, detail: str) -> Callable[[SqlStore], None]:
    at, board = call.worker.clock(), call.board
    return lambda store: store.record(at, who, what, board, detail)


async def record(call: Call) -> RecordOut:
    """The latest rows of the audit record, at most 500, oldest first."""
    return _record(await call.worker.log_writer.run_chore(lambda store: store.acts()))


async def record_after(call: Call) -> RecordOut:
    """Rows of the audit record after a number, at most 500; 0 starts at the first."""
    if not (call.part.isascii() and call.part.isdigit() and len(call.part) < 19):
        raise Refused(404, f"no number {call.part!r:.80}")
    return _record(await call.worker.log_writer.run_chore(lambda store: store.acts(int(call.part))))


def _record(acts: list[Act]) -> RecordOut:
    return RecordOut(record=[ActOut.of(act, digest=act.digest.hex()) for act in acts])


def detail_settings(call: Call, body: BoardIn) -> str:
    """The settings that a request gives to a board."""
    items = [] if body.items is UNSET else body.items
    return f"{msgspec.json.encode(body.changes()).decode()}, {len(items)} items"


def detail_items(call: Call, body: ItemsIn | RetireIn) -> str:
    """The number of items in a request, and the first of them."""
    first = msgspec.json.encode(list(itertools.islice(body.items, 100))).decode()
    return first if len(body.items) <= 100 else f"{len(body.items)} items: {first}"


def detail_part(call: Call) -> str:
    """The item or number in the path."""
    return call.part


def detail_rows(call: Call, body: Any) -> str:
    """The number of past clicks."""
    return f"{len(body.rows)} rows, batch {body.batch!r:.200}"


def detail_rounds(call: Call, body: Any) -> str:
    """The rounds of a label."""
    return f"{body.start} to {body.end}: {body.label!r:.80}"


def detail_sender(call: Call, body: Any) -> str:
    """The client or cohort of a label, only by number: names of clients are never recorded."""
    which = body.client if isinstance(body.client, int) else "by name"
    return f"{body.kind or 'client'} {which}: {body.label!r:.80}"
