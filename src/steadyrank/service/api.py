"""The routes: what each does, who may ask, what goes in and comes out. The API's description is made from this."""

import asyncio
from dataclasses import asdict

import msgspec
import numpy as np

from ..live.ranker import read_answer
from ..refusals import Refused
from . import events, lists, overseeing, shapes, steering, watch_shapes
from .boards import check_name
from .calls import Call, Route, describe
from .events import Config
from .held import Held
from .host import Host
from .sql import AWAY, Unavailable

_MOST_ITEMS = 1_000_000
_MOST_ROWS = 10_000  # of a batch
_ROWS_AT_ONCE = 1_000  # past clicks, or new items, of an event: applying one must not take long


async def list_boards(call: Call) -> shapes.BoardsOut:
    """Boards by name."""
    held = sorted(call.host.boards.items())
    broken = [name for name in sorted(call.host.broken) if call.visible(name)]
    return shapes.BoardsOut(boards=[describe(board) for name, board in held if call.visible(name)], broken=broken)


async def put_board(call: Call) -> shapes.BoardOut:
    """Make a board, or change the settings of one that is there."""
    body: shapes.BoardIn = call.body
    check_name(call.board)
    items = [] if body.items is msgspec.UNSET else body.items
    check_items(items)
    if call.board not in call.host.boards:
        if not items:
            raise Refused(422, "a new board needs at least one item")
        if await call.host.create(call.board, Config().changed(body.changes()), items):
            return describe(call.host.find(call.board))
    held = call.host.find(call.board)
    await steering.configure(call.host, held, body.changes())
    fresh = [item for item in items if item not in held.board.fold.slots]
    if fresh:
        await _add(call.host, held, fresh)
    return describe(call.host.find(call.board))


async def get_board(call: Call) -> shapes.BoardOut:
    """A board's settings and counts."""
    return describe(call.host.find(call.board))


async def delete_board(call: Call) -> shapes.DoneOut:
    """End a board and delete its log."""
    await call.host.delete(call.host.find(call.board))
    return shapes.DoneOut()


def check_items(items: list[str], there: int = 0) -> None:
    """Refuse items that cannot be, or are too many beside those there."""
    if there + len(items) > _MOST_ITEMS:
        raise Refused(422, f"a board has at most {_MOST_ITEMS} items, not {there + len(items)}")
    for item in items:
        if not 1 <= len(item) <= 500 or item in (".", ".."):  # these two cannot stand in a path
            raise Refused(422, f"an item is named by text of 1 to 500 characters, no . or .., not {item!r:.80}")


async def _add(host: Host, held: Held, items: list[str]) -> None:
    check_items(items, len(held.board.fold.names))
    names = list(dict.fromkeys(items))
    for start in range(0, len(names), _ROWS_AT_ONCE):
        await host.write(held, events.Added(names[start : start + _ROWS_AT_ONCE]))


async def add_items(call: Call) -> shapes.BoardOut:
    """Add items, or reinstate retired ones."""
    held = call.host.find(call.board)
    if not call.body.items:
        raise Refused(422, "items must name at least one item")
    await _add(call.host, held, call.body.items)
    return describe(held)


async def retire_item(call: Call) -> shapes.BoardOut:
    """Show an item no longer; what was learnt of it is kept."""
    held = call.host.find(call.board)
    if call.part not in held.board.fold.slots:
        raise Refused(404, f"no item {call.part!r:.80}")
    await call.host.write(held, events.Retired(call.part))
    return describe(held)


async def rank(call: Call) -> shapes.RankOut:
    """A list of items, and an id to answer it with."""
    body: shapes.RankIn = call.body
    if body.client is not None and not 1 <= len(body.client) <= 200:
        raise Refused(422, f"client must be text of 1 to 200 characters, not {body.client!r:.80}")
    if body.candidates is not None and not body.candidates:
        raise Refused(422, "candidates must name at least one item, or be left out")
    impression, items, expires = lists.rank(
        call.host, call.host.find(call.board), body.candidates, body.length, body.client
    )
    return shapes.RankOut(impression=impression, items=items, expires=expires)


def _check_form(answer: shapes.AnswerIn) -> None:
    if (answer.clicked is not msgspec.UNSET) == (answer.clicks is not None):
        raise Refused(422, "an answer has either clicked (an item or null) or clicks (a bit a place)")
    if answer.clicks is None and answer.examined is not None:
        raise Refused(422, f"examined ({answer.examined}) goes with clicks only")


async def _answer(call: Call, held: Held, body: shapes.FeedbackIn) -> str:
    if not held.board.config.public_feedback:
        call.may_answer(held.name)
    _check_form(body)
    clicked = None if body.clicked is msgspec.UNSET else body.clicked
    return await lists.answer(
        call.host, held, body.impression, clicked=clicked, clicks=body.clicks, examined=body.examined
    )


async def feedback(call: Call) -> shapes.FeedbackOut:
    """Answer an impression: once; the same answer again is a duplicate, another one is refused."""
    return shapes.FeedbackOut(outcome=await _answer(call, call.host.find(call.board), call.body))


async def feedback_batch(call: Call) -> shapes.BatchOut:
    """Answer many impressions, of any boards; an outcome for each."""
    rows: list[shapes.BatchRow] = call.body.feedback
    if len(rows) > _MOST_ROWS:
        raise Refused(422, f"a batch has at most {_MOST_ROWS} answers, not {len(rows)}")

    async def one(row: shapes.BatchRow) -> shapes.BatchRowOut:
        try:
            return shapes.BatchRowOut(code=200, outcome=await _answer(call, call.host.find(row.board), row))
        except Refused as error:
            return shapes.BatchRowOut(code=error.code, message=str(error))
        except Unavailable:
            return shapes.BatchRowOut(code=503, message=AWAY)

    return shapes.BatchOut(feedback=list(await asyncio.gather(*map(one, rows))))


async def history(call: Call) -> shapes.HistoryOut:
    """Start from past clicks, oldest first; items not known yet are added."""
    held, body = call.host.find(call.board), call.body
    if len(body.rows) > 100_000 or len(body.batch) > 200:
        raise Refused(422, "a batch of past clicks has at most 100000 rows and a name of at most 200 characters")
    rows = await asyncio.to_thread(_past_rows, body.rows, held.board.fold.length)
    fresh = {item for row in rows for item in row.items} - held.board.fold.slots.keys()
    check_items(list(fresh), len(held.board.fold.names))
    learnt, outcome = 0, "duplicate"
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        batch = f"{body.batch}#{start}" if body.batch else ""
        if await call.host.write(held, events.History(part, batch)) != "duplicate":
            learnt, outcome = learnt + len(part), "done"
    return shapes.HistoryOut(rows=learnt, outcome=outcome if rows else "done")


def _past_rows(given: list[shapes.PastIn], length: int) -> list[events.Past]:
    rows = []
    for i, row in enumerate(given, 1):
        try:
            rows.append(_past(row, length))
        except Refused as error:
            raise Refused(error.code, f"row {i}: {error}") from None
    return rows


def _past(row: shapes.PastIn, length: int) -> events.Past:
    if not 1 <= len(row.items) <= length or len(set(row.items)) < len(row.items):
        raise Refused(422, f"a list has 1 to {length} different items, not {row.items!r:.200}")
    check_items(row.items)
    _check_form(row)
    position = None
    if isinstance(row.clicked, str):
        if row.clicked not in row.items:
            raise Refused(422, f"item {row.clicked!r:.80} was not shown")
        position = row.items.index(row.clicked) + 1
    bits, examined = read_answer(len(row.items), position, row.clicks, row.examined)
    return events.Past(row.items, np.flatnonzero(bits).tolist(), examined)


async def state(call: Call) -> shapes.StateOut:
    """Items with their click rates and estimates, and the learner's own view."""
    held = call.host.find(call.board)
    view = held.board.fold.view()
    items = [
        shapes.ItemOut(item=s.item, active=s.active, looks=s.looks, clicks=s.clicks, rate=s.rate, estimate=s.estimate)
        for s in held.board.fold.standings(view)
    ]
    shown = None
    if view is not None:
        regimes = [
            shapes.RegimeOut(
                number=r.number, start=r.start, rounds=r.rounds, estimates=r.estimate[: len(items)].tolist()
            )
            for r in view.regimes
        ]
        changes = [shapes.ChangeOut(**asdict(change)) for change in view.changes]
        shown = shapes.ViewOut(
            current=view.current,
            trusted=view.trusted,
            rounds=view.rounds,
            rejected=view.rejected,
            corrupted=view.corrupted,
            n_changes=view.n_changes,
            regimes=regimes,
            changes=changes,
        )
    return shapes.StateOut(board=describe(held), items=items, view=shown, event=held.applied)


async def forget_client(call: Call) -> shapes.ForgottenOut:
    """Delete what is kept of a client."""
    held = call.host.find(call.board)
    count = await call.host.forget_client(held, call.part)
    return shapes.ForgottenOut(impressions=count)


_BOARD = "/v1/boards/{board}"
ROUTES = [
    Route("POST", f"{_BOARD}/rank", "rank", "A list of items", shapes.RankIn, shapes.RankOut, rank),
    Route("POST", f"{_BOARD}/feedback", "public", "Answer a list", shapes.FeedbackIn, shapes.FeedbackOut, feedback),
    Route(
        "POST", "/v1/feedback", "public", "Answer many lists", shapes.BatchIn, shapes.BatchOut, feedback_batch, True
    ),
    Route("GET", "/v1/boards", "rank", "All boards", None, shapes.BoardsOut, list_boards),
    Route("PUT", _BOARD, "admin", "Make or change a board", shapes.BoardIn, shapes.BoardOut, put_board, True),
    Route("GET", _BOARD, "rank", "A board", None, shapes.BoardOut, get_board),
    Route("DELETE", _BOARD, "admin", "End a board and delete its log", None, shapes.DoneOut, delete_board),
    Route(
        "POST", f"{_BOARD}/items", "admin", "Add or reinstate items", shapes.ItemsIn, shapes.BoardOut, add_items, True
    ),
    Route("DELETE", f"{_BOARD}/items/{{item}}", "admin", "Retire an item", None, shapes.BoardOut, retire_item),
    Route("POST", f"{_BOARD}/history", "admin", "Past clicks", shapes.HistoryIn, shapes.HistoryOut, history, True),
    Route("GET", f"{_BOARD}/state", "admin", "What is known", None, shapes.StateOut, state),
    Route(
        "DELETE", f"{_BOARD}/clients/{{client}}", "admin", "Forget a client", None, shapes.ForgottenOut, forget_client
    ),
    Route("GET", f"{_BOARD}/labels", "admin", "All labels", None, watch_shapes.LabelsOut, overseeing.labels),
    Route(
        "POST",
        f"{_BOARD}/labels",
        "admin",
        "Label rounds",
        watch_shapes.LabelIn,
        watch_shapes.LabelOut,
        overseeing.label,
    ),
    Route(
        "DELETE",
        f"{_BOARD}/labels/{{number}}",
        "admin",
        "Take a label back",
        None,
        shapes.DoneOut,
        overseeing.unlabel,
    ),
    Route("GET", f"{_BOARD}/watch", "admin", "What a page shows", None, watch_shapes.WatchOut, overseeing.watch),
    Route("GET", f"{_BOARD}/export", "admin", "The board as a file", None, None, overseeing.export),
]
