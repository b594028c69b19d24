"""No request holds the event loop: the worst accepted body of every route, and what the loop did without a break.

What is measured is processor time of the loop's own thread in one turn of the loop, so that other work on the machine
does not matter; how long a turn may take is docs/security.md's figure, with room for slower machines.
"""

import asyncio
import json
import time

import pytest

from service_tools import ITEMS, replayed, serving
from steadyrank.service.http import bodies
from steadyrank.service.http.board_routes import MOST_BOARDS
from steadyrank.service.http.routes import ROUTES

BUDGET = 0.020  # seconds, docs/security.md
SLOWER = 8.0  # times, on a machine that does other work; the attack that this is about took 17 s
NAMES = [f"item {k:06}" for k in range(20_000)]


class Turns:
    """The longest turn of the event loop, in seconds of its thread's processor time."""

    def __init__(self, monkeypatch):
        self.longest = 0.0
        turn = asyncio.base_events.BaseEventLoop._run_once

        def timed(loop):
            begin = time.thread_time()
            turn(loop)
            self.longest = max(self.longest, time.thread_time() - begin)

        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "_run_once", timed)


@pytest.fixture
def turns(monkeypatch):
    return Turns(monkeypatch)


def padded(rows, row, most):
    """So many rows as fit into a body."""
    return rows[: max(1, (most - 1_000) // (len(json.dumps(row)) + 2))]


def stray(k):
    return {f"stray field {n}": k for n in range(300)}


def wide_queries(shown):
    row = {"query_id": "q00000", "application": "b", "query_response_hit_ids": ITEMS[:4], **stray(1)}
    rows = [row | {"query_id": f"q{k:05}"} for k in range(10_000)]
    return padded(rows, row, bodies.LARGE)


def clicks_on_one_list(shown):
    """Many clicks on a list of which the board has the first places alone."""
    query = {
        "query_id": "q",
        "application": "b",
        "query_response_hit_ids": ITEMS[:4] + [f"hit {k}" for k in range(9_000)],
    }
    click = {"query_id": "q", "application": "b", "action_name": "click"}
    return [query] + [
        click | {"event_attributes": {"object": {"object_id": f"hit {k % 9_000}"}}} for k in range(9_999)
    ]


def answers(shown):
    row = {"board": "b", "impression": shown["impression"], "clicks": [2] * 200}
    return {"feedback": padded([row] * 10_000, row, bodies.BATCH)}


def outcomes(shown):
    """Those of one click, which remembers a hundred, and of as many that nobody made."""
    row = {"board": "b", "impression": shown["impression"], "item": shown["items"][0], "value": 1.0, "id": "00000"}
    rows = [row | {"id": f"{k:05}", "item": (shown["items"] * 2)[k % 5]} for k in range(10_000)]
    return {"outcomes": padded(rows, row, bodies.BATCH)}


def past(shown):
    row = {"items": ITEMS[:4], "clicked": ITEMS[1]}
    return {"rows": [row] * 20_000}


def past_of_many(shown):
    return {"rows": [{"items": [f"past {k}-{n}" for n in range(4)], "clicked": None} for k in range(4_000)]}


def past_queries(shown):
    row = {"query": "query 0000", "items": ITEMS[:4], "candidates": ITEMS, "clicked": ITEMS[1]}
    return {"rows": padded([row | {"query": f"query {k}"} for k in range(4_000)], row, bodies.LARGE)}


def candidates(shown):
    return {"candidates": NAMES[:10_000]}


def rules_of(names):
    """Of all kinds, which most lists do not keep by themselves."""
    groups = {f"g{k}": {"items": names[k::50], "most": 1} for k in range(50)}
    include = {f"n{k}": {"items": names[k::9]} for k in range(5)}
    boosts = dict.fromkeys(names[:500], 1.5)
    return {"pins": {names[-1]: 1}, "exclude": names[100:200], "boosts": boosts, "groups": groups, "include": include}


# of each route: what to send to it, all that is accepted or not, and to which board; with a query if it takes one
LONG = "boards/large"
WORST = {
    ("POST", "/v1/boards/{board}/rank"): [
        (LONG, candidates),
        ("boards/b", lambda shown: {"candidates": [f"other {k}" for k in range(60_000)]}),
        ("boards/b", lambda shown: {"cohort": {f"kind{k}": "x" for k in range(50_000)}}),
        ("boards/b", lambda shown: {"features": {f"feature {k}": [[], []] for k in range(30_000)}}),
        ("boards/b", lambda shown: {"theirs": [f"other {k}" for k in range(60_000)], "client": "ann"}),
    ],
    ("POST", "/v1/boards/{board}/feedback"): [
        ("boards/b", lambda shown: {"impression": shown["impression"], "clicks": [0] * 300_000}),
        ("boards/b", lambda shown: {"impression": "A" * 1_000_000, "clicked": None}),
    ],
    ("POST", "/v1/feedback"): [("", answers)],
    ("POST", "/v1/boards/{board}/outcomes"): [
        (
            "boards/b",
            lambda shown: {"impression": shown["impression"], "item": "x", "value": 1e12, "id": "y" * 900_000},
        ),
    ],
    ("POST", "/v1/outcomes"): [("", outcomes)],
    ("POST", "/v1/boards/{board}/observe"): [
        ("boards/b", lambda shown: {"id": "x", "items": [f"i{k}" for k in range(90_000)]}),
        (LONG, lambda shown: {"id": "x", "items": NAMES[:4], "candidates": NAMES[:10_000]}),
    ],
    ("POST", "/v1/ubi"): [
        ("", wide_queries),
        ("", clicks_on_one_list),
        ("", lambda shown: {"queries": [[]] * 500_000}),
    ],
    ("POST", "/v1/ingest"): [
        ("", lambda shown: {"rows": answers(shown)["feedback"]}),
        ("", lambda shown: {"rows": wide_queries(shown)}),
    ],
    ("GET", "/v1/boards"): [("", None)],
    ("PUT", "/v1/boards/{board}"): [
        (LONG, lambda shown: {"items": [f"new {k:06}" for k in range(30_000)]}),
        (LONG, lambda shown: {"items": ["a"] * 3_000_000}),
        ("boards/b", lambda shown: {"settings": {f"setting {k}": 1 for k in range(300_000)}}),
    ],
    ("GET", "/v1/boards/{board}"): [(LONG, None)],
    ("DELETE", "/v1/boards/{board}"): [("boards/spare", None)],
    ("POST", "/v1/boards/{board}/items"): [(LONG, lambda shown: {"items": [f"more {k:06}" for k in range(30_000)]})],
    ("DELETE", "/v1/boards/{board}/items/{item}"): [(f"{LONG}/items/{NAMES[5]}", None)],
    ("POST", "/v1/boards/{board}/items/retire"): [(LONG, lambda shown: {"items": NAMES})],
    ("POST", "/v1/boards/{board}/history"): [("boards/b", past), ("boards/c", past_of_many)],
    ("GET", "/v1/boards/{board}/state"): [(LONG, None)],
    ("DELETE", "/v1/boards/{board}/clients/{client}"): [("boards/b/clients/ann", None)],
    ("GET", "/v1/boards/{board}/labels"): [("boards/b", None)],
    ("POST", "/v1/boards/{board}/labels"): [
        ("boards/b", lambda shown: {"start": 1, "end": 1, "label": "fraud" * 200_000})
    ],
    ("POST", "/v1/boards/{board}/client-labels"): [
        ("boards/b", lambda shown: {"client": "x" * 1_000_000, "label": "fraud"})
    ],
    ("DELETE", "/v1/boards/{board}/labels/{number}"): [("boards/b/labels/1", None)],
    ("POST", "/v1/boards/{board}/secret"): [("boards/c", None)],
    ("GET", "/v1/boards/{board}/comparison"): [("boards/b", None)],
    ("GET", "/v1/boards/{board}/interleaving"): [("boards/b", None)],
    ("GET", "/v1/boards/{board}/watch"): [(LONG, None)],
    ("GET", "/v1/boards/{board}/export"): [(LONG, None)],
    ("GET", "/v1/record"): [("", None)],
    ("GET", "/v1/record/{number}"): [("record/0", None)],
}


# The same of collections: many queries, long lists, and what boards share with them by one body each.
SHOP = "collections/shop"
WORST |= {
    ("POST", "/v1/collections/{collection}/rank"): [
        (SHOP, lambda shown: {"query": "q", "candidates": NAMES[:1_000], "scores": [1.0] * 1_000, "client": "ann"}),
        (SHOP, lambda shown: {"query": "q", "candidates": [f"other {k}" for k in range(60_000)]}),
        (SHOP, lambda shown: {"query": "q" * 900_000, "candidates": ["a"]}),
        (SHOP, lambda shown: {"query": "q", "candidates": NAMES[:1_000], "rules": rules_of(NAMES[:1_000])}),
        (SHOP, lambda shown: {"query": "q", "candidates": ["a", "b"], "theirs": [f"o {k}" for k in range(60_000)]}),
    ],
    ("POST", "/v1/collections/{collection}/feedback"): [
        (SHOP, lambda shown: {"impression": shown["impression"], "clicks": [0] * 300_000}),
    ],
    ("POST", "/v1/collections/{collection}/outcomes"): [
        (SHOP, lambda shown: {"impression": shown["impression"], "item": "x", "value": 1e12, "id": "y" * 900_000}),
    ],
    ("POST", "/v1/collections/{collection}/observe"): [
        (SHOP, lambda shown: {"id": "x", "query": "q", "items": [f"i{k}" for k in range(90_000)], "clicked": None}),
    ],
    ("POST", "/v1/collections/{collection}/history"): [(SHOP, past_queries)],
    ("POST", "/v1/collections/{collection}/query"): [(SHOP, lambda shown: {"query": "query 1"})],
    ("POST", "/v1/collections/{collection}/forget"): [(SHOP, lambda shown: {"query": "query 1"})],
    ("GET", "/v1/collections/{collection}/judgments"): [(SHOP, None)],
    ("GET", "/v1/collections"): [("", None)],
    ("PUT", "/v1/collections/{collection}"): [
        (SHOP, lambda shown: {"attention": [1.0] * 300_000}),
        (SHOP, lambda shown: {f"setting {k}": 1 for k in range(100_000)}),
    ],
    ("POST", "/v1/collections/{collection}/labels"): [
        (SHOP, lambda shown: {"start": 1, "end": 1, "label": "fraud" * 200_000})
    ],
    ("POST", "/v1/collections/{collection}/client-labels"): [
        (SHOP, lambda shown: {"client": "x" * 1_000_000, "label": "fraud"})
    ],
    ("DELETE", "/v1/collections/{collection}/clients/{client}"): [(f"{SHOP}/clients/ann", None)],
    ("DELETE", "/v1/collections/{collection}/labels/{number}"): [(f"{SHOP}/labels/1", None)],
    ("POST", "/v1/collections/{collection}/secret"): [(SHOP, None)],
    ("DELETE", "/v1/collections/{collection}"): [(SHOP, None)],
    ("GET", "/v1/collections/{collection}"): [(SHOP, None)],
} | {
    ("GET", f"/v1/collections/{{collection}}/{what}"): [(SHOP, None)]
    for what in ("comparison", "export", "interleaving", "labels", "state", "watch")
}


def test_every_route_has_its_worst_body():
    assert set(WORST) == {(route.method, route.path) for route in ROUTES}


def address(route, where):
    """Where a request goes: what the table says, with the end of the route's path."""
    if "{item}" in route or "{client}" in route or "{number}" in route:
        return f"/v1/{where}"
    for named in ("/v1/boards/{board}", "/v1/collections/{collection}"):
        route = route.replace(named, f"/v1/{where}")
    return route


async def sent(content):
    """A body as a connection brings it."""
    for start in range(0, len(content), 64 << 10):
        yield content[start : start + (64 << 10)]
        await asyncio.sleep(0)


async def prepared_collection(local):
    """A collection to attack, with three thousand queries."""
    await local.ask("PUT", SHOP, {"length": 10, "settle": 0, "keep_queries": True, "outcomes": True})
    await local.ask("POST", f"{SHOP}/history", past_queries(None))
    asked = {"query": "query 1", "candidates": ITEMS, "client": "ann"}
    await local.ask("POST", f"{SHOP}/observe", {"id": "1", "query": "q", "items": ITEMS[:4], "clicked": None})
    return await local.ask("POST", f"{SHOP}/rank", asked)


async def prepared(local, goal="click"):
    """Boards to attack: a small one with an answered list of ours and another ranker's, one with many items."""
    for name in ("b", "c", "spare"):
        await local.board(name, settle=0, most_open=20_000, goal=goal if name == "b" else "click")
    await local.ask("PUT", "boards/large", {"items": NAMES, "length": 10, "settle": 0})
    shown = await local.rank(client="ann")
    for k in range(3):
        await local.answer(await local.rank(client="ann"), clicked=None)
        await local.ask("POST", "boards/b/observe", {"id": f"seen {k}", "items": ITEMS[:4], "clicked": ITEMS[0]})
    return shown


def of_one_server():
    """Routes that change nothing are asked of one server, one for boards and one for collections."""
    reading = [route for route in WORST if route[0] == "GET"]
    return [
        *([route] for route in WORST if route not in reading),
        *([route for route in reading if ("collection" in route[1]) == whose] for whose in (False, True)),
    ]


@pytest.mark.parametrize("routes", of_one_server(), ids=lambda routes: " ".join(routes[0]))
async def test_no_request_holds_the_loop(routes, tmp_path, turns):
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        if "collection" in routes[0][1]:
            shown = await prepared_collection(local)
        else:
            shown = await prepared(local, "value" if "outcomes" in routes[0][1] else "click")
        for (method, path), (where, make) in [(route, one) for route in routes for one in WORST[route]]:
            content = None if make is None else sent(json.dumps(make(shown)).encode())
            await asyncio.sleep(0)  # what made it is none of the server's work
            turns.longest = 0.0
            answer = await local.http.request(method, address(path, where), content=content)
            assert answer.status_code < 500, answer.text
            await local.worker.catch_up()
            assert turns.longest < SLOWER * BUDGET, (method, path, where, turns.longest)


async def test_what_watches_a_server_does_not_hold_the_loop(tmp_path, turns):
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        await prepared(local)
        for k in range(60):
            await local.board(f"board-{k}")
        turns.longest = 0.0
        for page in ("/metrics", "/healthz", "/openapi.json", f"/v1/boards?limit={MOST_BOARDS}"):
            assert (await local.http.get(page)).status_code == 200
        assert turns.longest < SLOWER * BUDGET


async def test_nobody_sees_a_board_in_the_middle_of_an_event(tmp_path, monkeypatch):
    """Who holds the log back waits for the end of an event that is applied in steps; nothing follows meanwhile."""
    monkeypatch.setattr("steadyrank.service.worker.log_writer._TURN", 0.0)  # each step is a turn
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        await local.board(settle=0)
        inbox, board, seen = local.worker._inbox, local.worker.boards["b"].board, []

        async def look():
            while True:
                async with inbox.hold_events():
                    before = len(board.learner_state.names)
                    await asyncio.sleep(0.01)
                    assert len(board.learner_state.names) == before
                seen.append(before)
                await asyncio.sleep(0)

        task = asyncio.create_task(look())
        for k in range(6):
            await local.ask("POST", "boards/b/items", {"items": [f"new {k}-{n}" for n in range(50)]})
        task.cancel()
        assert {size for size in seen if size > len(ITEMS)} <= {len(ITEMS) + 50 * k for k in range(1, 7)}
        assert len(set(seen)) > 1
        assert local.worker.boards["b"].users == 0
        assert local.digest() == replayed(f"sqlite:///{tmp_path}/store.db")
