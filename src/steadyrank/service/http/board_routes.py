"""Routes for who runs a board: its settings, its items and its clients."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ...core.refusals import Refused
from ..board import events
from ..board.checks import check_known, check_name
from ..board.config import NEW_BOARD, Config, Known, Setting
from ..worker import reconfigure
from ..worker.board_cache import read_rest
from ..worker.board_session import BoardSession
from ..worker.resealing import rotate
from ..worker.worker import Worker
from . import schemas
from .bodies import encode as _encode
from .route import Call, Parts, describe, limit_of

MOST_BOARDS = 1_000  # of an answer
_MOST_PARKED = 1_000
_BOARDS_IN_A_TURN = 100  # of a list of boards, between other requests: some milliseconds
_KIND = re.compile(events.KIND_NAME)
_MOST_ITEMS = 1_000_000
_MOST_AT_ONCE = 100_000  # items of a request: what is done at once with all of their names takes some milliseconds
_NOTHING: Mapping[str, Known] = {}
_ITEMS_AT_ONCE = 1_000  # new items of an event: applying one must not take long
_DESCRIBED_AT_ONCE = 100  # the same, of items of which something is said: some 10 ms, 45 if all were shown lately


async def list_boards(call: Call) -> Parts:
    """Boards by name, at most `limit`, those after a name. Those that sleep are shown as they went to sleep here."""
    limit, after = limit_of(call.query.get("limit"), MOST_BOARDS), call.query.get("after", "")
    worker, last, more = call.worker, "", False
    shown: list[bytes] = []
    every = [*worker.boards, *worker.sleepers.by_name]
    names = await asyncio.to_thread(lambda: sorted({name for name in every if name > after}))
    for place, name in enumerate(names):
        if place % _BOARDS_IN_A_TURN == 0:
            await asyncio.sleep(0)
        if not call.visible(name):
            continue
        if len(shown) == limit:
            more = True
            break
        found = await _shown(worker, name)
        if found is not None:
            shown.append(_encode(found))
            last = name
    names = [name for name in sorted(worker.parked) if call.visible(name)][:_MOST_PARKED]
    parked = [schemas.ParkedOut(board=name, why=worker.parked[name].why) for name in names]
    end = [b'],"parked":', _encode(parked), b',"broken":', _encode(names)]
    end += [b',"next":', _encode(last if more else None), b"}"]
    return Parts([b'{"boards":[', b",".join(shown), *end])


async def _shown(worker: Worker, name: str) -> schemas.BoardOut | None:
    sleeper = worker.sleepers.by_name.get(name)
    rest = None if sleeper is None or sleeper.rest is None else read_rest(sleeper.rest)
    if rest is not None:
        return schemas.BoardOut(board=name, **rest.summary)
    async with worker.held(name):
        session = worker.boards.get(name)
        return None if session is None else describe(session)


async def put_board(call: Call) -> schemas.BoardOut:
    """Make a board, or change the settings of one that is there."""
    body: schemas.BoardIn = call.body
    check_name(call.board)
    items, given = await _names_and_features([] if body.items is msgspec.UNSET else body.items)
    if not call.worker.knows(call.board):
        if not items:
            raise Refused(422, "a new board needs at least one item")
        config = _new(body.changes())
        known = await asyncio.to_thread(check_known, config, given)
        if await call.worker.create(call.board, events.Created(config, items, known)):
            return describe(call.worker.find(call.board))
    session = call.worker.find(call.board)
    config = await asyncio.to_thread(session.board.after, body.changes()) if given else session.board.latest
    known = await asyncio.to_thread(check_known, config, given)
    await reconfigure.configure(call.worker, session, body.changes())
    fresh = [item for item in items if item not in session.board.learner_state.slots]
    if fresh:
        await add_new(call.worker, session, fresh, known)
    await _describe(call.worker, session, known)
    return describe(call.worker.find(call.board))


def _new(settings: dict[str, Setting]) -> Config:
    """The settings of a new board; refused where they contradict one another."""
    try:
        return NEW_BOARD.changed(settings)
    except ValueError as error:
        raise Refused(422, str(error)) from error


async def get_board(call: Call) -> schemas.BoardOut:
    """A board's settings and counts."""
    return describe(call.worker.find(call.board))


async def rotate_secret(call: Call) -> schemas.SecretOut:
    """Sign impression ids by a new secret; those given out before stay good until they expire."""
    worker, session = call.worker, call.worker.find(call.board)
    until = await rotate(worker.log_writer, session, worker.clock())
    await worker.catch_up()
    if session.resealing is not None:
        await asyncio.shield(session.resealing)
    return schemas.SecretOut(until=until)


async def delete_board(call: Call) -> schemas.DoneOut:
    """End a board and delete its log."""
    await call.worker.delete(call.board)
    return schemas.DoneOut()


def check_kind(kind: str) -> None:
    """Refuse what cannot name a kind of cohort."""
    if not _KIND.fullmatch(kind):
        raise Refused(422, f"a kind of cohort is named by 1 to 32 of A-Z a-z 0-9 _ -, not {kind!r:.80}")


def check_items(items: list[str], there: int = 0) -> None:
    """Refuse items that cannot be, or are too many beside those there."""
    check_room(items, there)
    for item in items:
        if not 1 <= len(item) <= 500 or item in (".", ".."):  # these two cannot stand in a path
            raise Refused(422, f"an item is named by text of 1 to 500 characters, no . or .., not {item!r:.80}")


def check_room(items: list[str], there: int) -> None:
    """Refuse more items than a board may have beside those there."""
    if there + len(items) > _MOST_ITEMS:
        raise Refused(422, f"a board has at most {_MOST_ITEMS} items, not {there + len(items)}")


async def _names_and_features(items: schemas.Items) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The names of items, and what is said to be known of them; empty where names alone are given."""
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
    known: Mapping[str, Known] = _NOTHING,
    by_lists: bool = False,
) -> None:
    """Add items that were checked, or reinstate retired ones, some in an event, with what is known of them."""
    check_room(items, len(session.board.learner_state.names))
    if by_lists:
        session.board.check_listed(items)
    names, slots = list(dict.fromkeys(items)), session.board.learner_state.slots
    await worker.check_room(session, sum(item not in slots for item in names))
    size = _DESCRIBED_AT_ONCE if known else _ITEMS_AT_ONCE
    for start in range(0, len(names), size):
        some = names[start : start + size]
        told = {item: known[item] for item in some if item in known}
        await worker.write(session, events.Added(some, told, by_lists))


async def _describe(worker: Worker, session: BoardSession, known: Mapping[str, Known]) -> None:
    """Let what is known of items be this, of those where the log says otherwise; some in an event."""
    before = session.board.described
    others = await asyncio.to_thread(lambda: [one for one, said in known.items() if said != before.get(one, {})])
    for start in range(0, len(others), _DESCRIBED_AT_ONCE):
        some = others[start : start + _DESCRIBED_AT_ONCE]
        await worker.write(session, events.Described({item: known[item] for item in some}))


async def add_items(call: Call) -> schemas.BoardOut:
    """Add items, or reinstate retired ones."""
    session = call.worker.find(call.board)
    if not call.body.items:
        raise Refused(422, "items must name at least one item")
    items, given = await _names_and_features(call.body.items)
    known = await asyncio.to_thread(check_known, session.board.config, given)
    await add_new(call.worker, session, items, known)
    return describe(session)


async def retire_item(call: Call) -> schemas.BoardOut:
    """Show an item no longer; what was learnt of it is kept."""
    session = call.worker.find(call.board)
    if call.part not in session.board.learner_state.slots:
        raise Refused(404, f"no item {call.part!r:.80}")
    await call.worker.write(session, events.Retired(call.part))
    return describe(session)


async def retire_items(call: Call) -> schemas.BoardOut:
    """Show items no longer; what was learnt of them is kept. All of them are retired by one event, or none."""
    session = call.worker.find(call.board)
    items, _ = await _names_and_features(call.body.items)
    if not items:
        raise Refused(422, "items must name at least one item")
    slots = session.board.learner_state.slots
    missing = [item for item in items if item not in slots]
    if missing:
        raise Refused(404, f"no item {missing[0]!r:.80}" + (f", and {len(missing) - 1} more" if missing[1:] else ""))
    await call.worker.write(session, events.Retired(items[0], items[1:]))
    return describe(session)


async def forget_client(call: Call) -> schemas.ForgottenOut:
    """Delete what is kept of a client, or of a cohort of a kind."""
    session, kind = call.worker.find(call.board), call.query.get("cohort")
    if kind is not None:
        check_kind(kind)
    count = await call.worker.forget_client(session, call.part, kind)
    return schemas.ForgottenOut(impressions=count)
