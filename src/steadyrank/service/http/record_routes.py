"""The record of who changed what: written before anything is changed, and read by who may do everything."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from ...core.refusals import Refused
from ..storage import Act, Store
from .route import Call, Route
from .watch_schemas import ActOut, RecordOut


async def recorded(route: Route, call: Call, who: str) -> Any:
    """Run a route that changes something, after the record says that it was asked for; a refusal is told as well."""
    assert route.act is not None
    what, detail = route.act.what, route.act.detail(call)
    await call.worker.log_writer.do(_row(call, who, what, detail))
    try:
        return await route.run(call)
    except Refused as refusal:
        await call.worker.log_writer.do(_row(call, who, f"refused with {refusal.code}: {what}", detail))
        raise


def _row(call: Call, who: str, what: str, detail: str) -> Callable[[Store], None]:
    at, board = call.worker.clock(), call.board
    return lambda store: store.record(at, who, what, board, detail)


async def record(call: Call) -> RecordOut:
    """The latest rows of the record of who changed what, at most 500, oldest first."""
    return _out(await call.worker.log_writer.do(lambda store: store.acts()))


async def record_after(call: Call) -> RecordOut:
    """Rows of the record after a number, at most 500; 0 for the first ones."""
    if not (call.part.isascii() and call.part.isdigit() and len(call.part) < 19):
        raise Refused(404, f"no number {call.part!r:.80}")
    return _out(await call.worker.log_writer.do(lambda store: store.acts(int(call.part))))


def _out(found: list[Act]) -> RecordOut:
    rows = [ActOut(**act._asdict() | {"digest": act.digest.hex()}) for act in found]
    return RecordOut(record=rows)


def settings_and_items(call: Call) -> str:
    """What a board is to be."""
    items = [] if call.body.items is msgspec.UNSET else call.body.items
    return f"{msgspec.json.encode(call.body.changes()).decode()}, {len(items)} items"


def items(call: Call) -> str:
    """How many items a request has, and the first of them."""
    first = msgspec.json.encode(list(itertools.islice(call.body.items, 100))).decode()
    return first if len(call.body.items) <= 100 else f"{len(call.body.items)} items: {first}"


def part(call: Call) -> str:
    """The item or number in the path."""
    return call.part


def rows(call: Call) -> str:
    """How many past clicks."""
    return f"{len(call.body.rows)} rows, batch {call.body.batch!r:.200}"


def rounds(call: Call) -> str:
    """The rounds of a label."""
    return f"{call.body.start} to {call.body.end}: {call.body.label!r:.80}"


def sender(call: Call) -> str:
    """The client or cohort of a label, by its number; names of clients are in no record."""
    which = call.body.client if isinstance(call.body.client, int) else "by name"
    return f"{call.body.kind or 'client'} {which}: {call.body.label!r:.80}"
