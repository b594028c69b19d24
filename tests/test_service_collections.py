"""Collections over HTTP: a board's promises, for lists of any number of queries that need not be declared."""

import asyncio
import contextlib
import csv
import sqlite3
import struct
import threading

import msgspec
import numpy as np
import psycopg
import pytest

import steadyrank as sr
from service_tools import Clocks, Server, number_of, replayed, serving, until, wait_until
from steadyrank.cli import main
from steadyrank.live.collection import collection_state
from steadyrank.live.collection.collection_state import CollectionState
from steadyrank.live.collection.id_table import find_row
from steadyrank.service.alerts.watcher import Watcher
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.http import collection_routes
from steadyrank.service.storage import open_store
from steadyrank.service.worker import worker as worker_module
from steadyrank.service.worker.recovery import from_start
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board
from test_stores import KILLS, Crowd, counted

pytestmark = pytest.mark.pure

DOCS = [f"d{k}" for k in range(12)]
LIKED = {"d7": 0.7, "d4": 0.4}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def collection(local, name="shop", **settings):
    return await local.ask("PUT", f"collections/{name}", {"length": 4, "settle": 0} | settings)


async def rank(local, query, name="shop", code=200, **body):
    return await local.ask("POST", f"collections/{name}/rank", {"query": query, "candidates": DOCS} | body, code)


async def answer(local, shown, name="shop", code=200, **body):
    return await local.ask("POST", f"collections/{name}/feedback", {"impression": shown["impression"], **body}, code)


async def visits(local, rounds, seed=0, queries=3, name="shop"):
    """Cascade users of some queries; the lists that they got."""
    rng, lists = np.random.default_rng(seed), []
    for _ in range(rounds):
        query, who = f"Query {int(rng.integers(queries))}", f"u{int(rng.integers(9))}"
        shown = await rank(local, query, name, client=who)
        hits = [item for item in shown["items"] if rng.random() < LIKED.get(item, 0.05)]
        assert (await answer(local, shown, name, clicked=hits[0] if hits else None))["outcome"] == "learnt"
        lists.append(tuple(shown["items"]))
    return lists


async def test_lists_are_those_of_a_collection_in_process(url):
    ours, rng, lists = sr.Collection(4, guard=["ClickLimit", "ClientTrust"]), np.random.default_rng(5), []
    for _ in range(150):
        query, who = f"Query {int(rng.integers(3))}", int(rng.integers(9))
        shown = ours.rank(query, DOCS, client=who)
        hits = [item for item in shown.items if rng.random() < LIKED.get(item, 0.05)]
        ours.feedback(shown.id, clicked=hits[0] if hits else None)
        lists.append(shown.items)
    async with serving(url) as local:
        await collection(local)
        assert await visits(local, 150, seed=5) == lists
        state = await local.ask("GET", "collections/shop/state")
        means, strength = ours.prior()
        assert [place["mean"] for place in state["places"]] == means[:20]
        assert state["strength"] == strength
        assert state["collection"]["pairs"] == len(list(ours.judgments()))
        assert [query["visits"] for query in state["queries"]] == sorted(
            (query["visits"] for query in state["queries"]), reverse=True
        )
        assert sum(query["visits"] for query in state["queries"]) == 150


@pytest.mark.parametrize("large", [True, False], ids=["in threads", "at once"])
async def test_whoever_folds_its_log_has_the_same_bytes(url, monkeypatch, large):
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 50)
    if large:
        monkeypatch.setattr("steadyrank.service.worker.worker._LARGE", 0)
        monkeypatch.setattr(collection_state, "LARGE", 0)
    async with serving(url) as local:
        await collection(local, most_pairs=1_000, keep_queries=True)
        await visits(local, 60)
        await new_queries(local, 300)  # beyond what it remembers
        assert (await local.ask("GET", "collections/shop"))["pairs"] <= 1_000
        await local.ask("POST", "collections/shop/labels", {"start": 3, "end": 9, "label": "fraud"})
        await local.ask("POST", "collections/shop/forget", {"query": "query 1"})
        await visits(local, 20, seed=1)
        await until(lambda: local.worker.boards["shop"].refolding is None)  # with the label
        digest = local.digest("shop")
        assert replayed(url, "shop") == digest
        with contextlib.closing(open_store(url)) as store, store.reading():
            number = local.worker.boards["shop"].number
            snapshots = store.snapshots(number)
            assert snapshots
            for seq in snapshots[:2]:  # each as of its event
                kept = Board.restore(store.snapshot(number, seq), "a snapshot").digest()
                assert from_start(store, number, "shop", seq, seq).digest() == kept
    async with serving(url, seed=1) as local:
        await local.quiet()
        await rank(local, "query 0")
        lists = await visits(local, 10, seed=2)
    assert lists[-1][0] in LIKED


@pytest.mark.always
@pytest.mark.parametrize(
    ("path", "slow"),
    [
        ("GET watch", "list_queries"),
        ("GET state", "list_queries"),
        ("POST query", "query_page"),
        ("GET judgments", "write"),
    ],
)
async def test_answers_do_not_wait_for_who_looks_at_all_queries(url, monkeypatch, path, slow):
    """What is shown is of the moment when it was asked for, whatever is learnt until it is there."""
    looking, done = threading.Event(), threading.Event()
    look = getattr(collection_routes, slow)

    def waits(*arguments):
        looking.set()
        assert done.wait(60)
        return look(*arguments)

    monkeypatch.setattr(collection_routes, slow, waits)
    async with serving(url) as local:
        await collection(local, keep_queries=True)
        await visits(local, 30, queries=1)
        method, name = path.split()
        body = {"json": {"query": "query 0"}} if method == "POST" else {}
        asked = asyncio.create_task(local.http.request(method, f"/v1/collections/shop/{name}", **body))
        await until(looking.is_set)
        await visits(local, 30, seed=1, queries=1)  # they are learnt from meanwhile
        done.set()
        shown = (await asked).text
        if name == "judgments":
            assert max(float(row["looks"]) for row in csv.DictReader(shown.splitlines())) <= 30
        else:
            told = msgspec.json.decode(shown)
            (query,) = [told] if name == "query" else told["queries"]
            assert query["visits"] == 30
        assert (await local.ask("POST", "collections/shop/query", {"query": "query 0"}))["visits"] == 60


async def new_queries(local, rounds):
    """Answers to lists of queries and items that nobody has seen."""
    for n in range(rounds):
        shown = await rank(local, f"rare {n}", candidates=[f"{n}-{k}" for k in range(10)])
        await answer(local, shown, clicked=None)


@pytest.mark.always
@pytest.mark.parametrize("act", ["make room", "forget"])
async def test_lists_are_given_out_while_tables_are_made_anew(url, monkeypatch, act):
    """A thread makes them: the loop, which all requests share, does none of it. Answers wait for their turn."""
    begun, go_on, makers, make = threading.Event(), threading.Event(), set(), CollectionState._tables_of

    def slow(state, stays):
        makers.add(threading.current_thread())
        begun.set()
        assert go_on.wait(60)
        return make(state, stays)

    monkeypatch.setattr(collection_state, "LARGE", 0)
    monkeypatch.setattr(CollectionState, "_tables_of", slow)
    async with serving(url) as local:
        await collection(local, most_pairs=1_000)
        await visits(local, 60)
        if act == "forget":
            doing = asyncio.create_task(local.ask("POST", "collections/shop/forget", {"query": "query 1"}))
        else:
            doing = asyncio.create_task(new_queries(local, 300))
        await until(begun.is_set)
        state = local.worker.boards["shop"].board.learner_state
        pairs = state.n_pairs
        for _ in range(3):
            shown = await rank(local, "query 0")
            assert shown["items"][0] in LIKED
        answering = asyncio.create_task(answer(local, shown, clicked=shown["items"][0]))
        await asyncio.sleep(0.05)
        assert not doing.done()
        assert not answering.done()
        assert state.n_pairs == pairs
        go_on.set()
        assert (await answering)["outcome"] == "learnt"
        await doing
        assert makers
        assert threading.main_thread() not in makers
        assert state.n_pairs <= 1_000
        assert replayed(url, "shop") == local.digest("shop")


def leads_to(url, query):
    """Whether anything in the store has the id of a query, however it is written."""
    forms = msgspec.msgpack.encode(query), struct.pack("<d", query), struct.pack("<q", query)
    return any(form in body for body in stored(url)[1] for form in forms)


@pytest.mark.always
async def test_a_snapshot_that_is_under_way_is_not_kept_once_a_query_in_it_is_forgotten(url, monkeypatch):
    slow, save, ended = threading.Event(), worker_module.save, []
    monkeypatch.setattr(worker_module, "SNAPSHOT_EVERY", 50)
    monkeypatch.setattr(worker_module, "save", lambda *given: slow.wait(60) and ended.append(save(*given)))
    async with serving(url) as local:
        await collection(local, keep_queries=True)
        await visits(local, 60)
        query, _ = local.worker.boards["shop"].keys.query("query 1")
        await local.ask("POST", "collections/shop/forget", {"query": "query 1"})
        assert not ended
        slow.set()
        await until(lambda: len(ended) >= 2)
        assert ended == [True] * len(ended)
        with contextlib.closing(open_store(url)) as store:
            assert store.snapshots(number_of(store, "shop")) == []
        assert not leads_to(url, query)
        await visits(local, 30, seed=1)
        await until(lambda: b"steadyrank snapshot" in repr(stored(url)[1]).encode())
        assert replayed(url, "shop") == local.digest("shop")


@pytest.mark.always
async def test_a_worker_that_reads_late_that_a_query_was_forgotten_forgets_it(url, monkeypatch):
    """It has learnt from the lists, and reads the event when that does not name the query any more."""
    monkeypatch.setattr(worker_module, "SNAPSHOT_EVERY", 40)
    async with serving(url) as local, serving(url, seed=5) as other:
        await collection(local)
        await visits(local, 70)
        await other.quiet()
        query, _ = local.worker.boards["shop"].keys.query("query 1")
        stuck, writer = threading.Event(), other.worker.log_writer
        hand_over = writer._hand_over
        monkeypatch.setattr(writer, "_hand_over", lambda store: stuck.wait(60) and hand_over(store))
        await local.ask("POST", "collections/shop/forget", {"query": "query 1"})
        late = other.worker.boards["shop"]
        assert find_row(late.board.learner_state.learner.queries.ids, query) >= 0
        stuck.set()
        await until(lambda: late.applied >= local.worker.boards["shop"].applied and late.refolding is None)
        assert find_row(late.board.learner_state.learner.queries.ids, query) < 0
        assert not (late.board.impressions.note == query).any()
        assert not leads_to(url, query)
        await visits(local, 30, seed=1)
        for one in (local, other):
            await one.quiet()
        assert other.digest("shop") == local.digest("shop") == replayed(url, "shop")


async def test_settings_that_change_what_is_learnt_fold_the_log_again(url):
    async with serving(url) as local:
        await collection(local)
        await visits(local, 80)
        changed = await collection(local, explore=0.0, attention=[1, 0.8, 0.6, 0.5], memory=100)
        assert (changed["explore"], changed["attention"], changed["memory"]) == (0.0, [1, 0.8, 0.6, 0.5], 100)
        assert not local.worker.boards["shop"].board.stale
        digest = local.digest("shop")
        assert replayed(url, "shop") == digest
        for wrong, named in [
            ({"fold": False}, "fold decides how queries are identified"),
            ({"keep_queries": True}, "cannot change"),
            ({"most_pairs": 5}, "most_pairs must be from 1000"),
            ({"most_pairs": 2**30}, "GB"),
            ({"attention": [1.0]}, "attention"),
            ({"learner": "CascadeTS"}, "learner"),
            ({"items": ["a"]}, "items"),
        ]:
            refusal = await local.ask("PUT", "collections/shop", wrong, 422)
            assert named in refusal["message"], refusal
        assert local.digest("shop") == digest


async def test_boards_and_collections_are_not_mixed_up(url):
    async with serving(url) as local:
        await local.board()
        await collection(local)
        assert [one["board"] for one in (await local.ask("GET", "boards"))["boards"]] == ["b"]
        listed = await local.ask("GET", "collections")
        assert [one["collection"] for one in listed["collections"]] == ["shop"]
        for method, path, body in [
            ("GET", "boards/shop", None),
            ("PUT", "boards/shop", {"items": ["a"]}),
            ("POST", "boards/shop/rank", {}),
            ("POST", "boards/shop/items", {"items": ["a"]}),
            ("GET", "boards/shop/state", None),
            ("POST", "boards/shop/history", {"rows": []}),
            ("GET", "collections/b", None),
            ("PUT", "collections/b", {}),
            ("POST", "collections/b/rank", {"query": "x", "candidates": ["a"]}),
            ("POST", "collections/b/forget", {"query": "x"}),
        ]:
            refusal = await local.ask(method, path, body, 404)
            assert ("'shop' is a collection" if "shop" in path else "'b' is a board") in refusal["message"]
        shown = {"id": "1", "items": ["item 1"], "query": "x"}
        assert "for no query" in (await local.ask("POST", "boards/b/observe", shown, 422))["message"]
        del shown["query"]
        assert "needs the query" in (await local.ask("POST", "collections/shop/observe", shown, 422))["message"]
        assert (await local.ask("GET", "collections/shop"))["impressions"] == 0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"query": ""}, "1 to 2,000 characters"),
        ({"candidates": []}, "at least one"),
        ({"candidates": ["a", "b", "a"]}, "'a' is among them twice"),
        ({"candidates": ["a", ""]}, "1 to 500 characters"),
        ({"candidates": ["a", "b"], "scores": [1.0]}, "one finite number for each of the 2"),
        ({"length": 9}, "length must be from 1 to 4"),
        ({"theirs": ["zzz"], "client": "x"}, "interleave"),
        ({"client": "."}, "client must be"),
        ({"features": {}}, "features"),
    ],
)
async def test_what_cannot_be_ranked_is_named_and_changes_nothing(url, body, named):
    async with serving(url) as local:
        await collection(local)
        assert named in (await rank(local, **{"query": "x"} | body, code=422))["message"]
        await local.quiet()
        assert (await local.ask("GET", "collections/shop"))["impressions"] == 0


async def test_answers_are_those_of_a_board(url):
    async with serving(url) as local:
        await collection(local)
        shown = await rank(local, "x", length=3)
        assert shown["items"] == DOCS[:3]
        assert (await rank(local, "x", candidates=["only"]))["items"] == ["only"]
        assert "'d9' was not shown" in (await answer(local, shown, clicked="d9", code=422))["message"]
        assert (await answer(local, shown, clicked="d1"))["outcome"] == "learnt"
        assert (await answer(local, shown, clicks=[0, 1]))["outcome"] == "duplicate"
        await answer(local, shown, clicked=None, code=409)
        await collection(local, "other")
        await answer(local, await rank(local, "x"), "other", clicked=None, code=403)
        batch = [{"board": "shop", "impression": (await rank(local, "x"))["impression"], "clicked": None}]
        assert (await local.ask("POST", "feedback", {"feedback": batch}))["feedback"][0]["outcome"] == "learnt"


async def test_lists_that_nobody_answers_wait_for_their_time(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await collection(local, settle=None, lifetime=60, count_unanswered=False)
        first = await answer(local, await rank(local, "x"), clicked="d1")
        assert first["outcome"] == "waiting"
        await rank(local, "x")
        await local.quiet()
        assert (await local.ask("GET", "collections/shop"))["pairs"] == 0
        clocks.pass_time(61)
        await local.quiet()
        page = await local.ask("POST", "collections/shop/query", {"query": " X "})
        assert [(one["item"], one["looks"], one["clicks"]) for one in page["items"]] == [("d1", 1, 1), ("d0", 1, 0)]
        assert (await local.ask("GET", "collections/shop"))["unanswered"] == 1
        assert replayed(url, "shop") == local.digest("shop")


async def test_lists_of_the_engine_itself_teach_as_past_ones_do(url):
    async with serving(url) as local:
        for name in ("seen", "past", "told"):
            await collection(local, name)
        rows = []
        for n in range(40):
            past = {"query": f"q {n % 2}", "items": DOCS[:4], "candidates": DOCS, "clicked": "d2" if n % 2 else None}
            seen = await local.ask("POST", "collections/seen/observe", {"id": f"{n}", **past})
            assert seen["outcome"] == "learnt"
            rows.append(past)
            row = {"query_id": f"{n}", "user_query": f"q {n % 2}", "query_response_hit_ids": DOCS[:4]}
            click = {"action_name": "click", "query_id": f"{n}", "object_id": "d2"}
            told = await local.ask("POST", "ubi?board=told", {"queries": [row], "events": [click] * (n % 2)})
            assert (told["lists"], told["refused"]) == (1, {})
            if not n % 2:
                shown = {"id": f"{n}", "query": "q 0", "items": DOCS[:4], "clicked": None}
                await local.ask("POST", "collections/told/observe", shown)
        assert seen["ours"][0] == "d2"
        same = await local.ask("POST", "collections/seen/observe", {"id": "1", **rows[1]})
        assert same["outcome"] == "duplicate"
        other = {"id": "1", "query": "another", "items": DOCS[:4]}
        await local.ask("POST", "collections/seen/observe", other, 409)
        body = {"rows": rows, "batch": "june"}
        assert (await local.ask("POST", "collections/past/history", body))["rows"] == 40
        assert (await local.ask("POST", "collections/past/history", body))["outcome"] == "duplicate"
        await rank(local, "q 1", "past")
        pages = [
            await local.ask("POST", f"collections/{name}/query", {"query": "q 1"})
            for name in ("seen", "past", "told")
        ]
        assert pages[0]["items"] == pages[1]["items"] == pages[2]["items"]
        for name in ("seen", "past", "told"):
            await local.quiet()
            assert replayed(url, name) == local.digest(name)


async def test_mixed_lists_tell_whose_items_are_clicked(url):
    async with serving(url) as local:
        await collection(local, interleave=True)
        await visits(local, 100)
        for n in range(60):
            shown = await rank(local, "query 0", client=f"c{n}", theirs=DOCS[:4])
            assert {"d7"} < set(shown["items"])
            await answer(local, shown, clicked="d7")
        verdict = await local.ask("GET", "collections/shop/interleaving")
        assert verdict["verdict"] == "ours"
        bad = await rank(local, "query 0", client="c", theirs=["nothing of it"], code=422)
        assert "not among the candidates" in bad["message"]
        assert replayed(url, "shop") == local.digest("shop")


async def test_lists_with_chances_are_compared_and_others_are_not(url):
    async with serving(url) as local:
        await collection(local)
        rng = np.random.default_rng(0)
        for n in range(300):
            theirs = {"id": f"{n}", "query": "q", "candidates": DOCS[:3], "client": f"c{n}"}
            if n < 5:
                await local.ask("POST", "collections/shop/observe", {**theirs, "items": DOCS[:2], "clicked": None})
                continue
            one, other = rng.permutation(3)[:2].tolist()
            items = [DOCS[one], DOCS[other]]
            clicked = next((item for item in items if rng.random() < {"d2": 0.6}.get(item, 0.1)), None)
            chances = {"propensities": [1 / 3, 1 / 2]}
            await local.ask(
                "POST", "collections/shop/observe", {**theirs, "items": items, "clicked": clicked, **chances}
            )
        verdict = await local.ask("GET", "collections/shop/comparison")
        assert verdict["verdict"]["lists"] == 295
        assert verdict["verdict"]["better"] == "ours"
        assert (verdict["theirs"], verdict["ours"]) == ([], [])


def stored(url):
    """Every byte that the database holds, in its rows."""
    if url.startswith("sqlite"):
        connect, names = sqlite3.connect, "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        connect, names = psycopg.connect, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    with contextlib.closing(connect(url.removeprefix("sqlite:///"))) as database:
        tables = [name for (name,) in database.execute(names)]
        return repr([database.execute(f"SELECT * FROM {table}").fetchall() for table in tables]).encode(), [
            body for (body,) in database.execute("SELECT body FROM events UNION ALL SELECT body FROM snapshots")
        ]


@pytest.mark.always
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_query_is_forgotten_in_memory_in_snapshots_and_in_the_log(store, url, request, monkeypatch):
    url = url if store == "sqlite" else request.getfixturevalue("database").fresh()
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 40)
    async with serving(url) as local:
        await collection(local, keep_queries=True)
        await visits(local, 90)
        session = local.worker.boards["shop"]
        id_, _ = session.keys.query("query 1")
        packed, noted = msgspec.msgpack.encode(id_), struct.pack("<d", id_)
        before, bodies = stored(url)
        assert b"query 1" in before
        assert any(packed in body for body in bodies)
        assert any(noted in body for body in bodies)
        late, others = await rank(local, "query 1"), await rank(local, "query 2")
        gone = await local.ask("POST", "collections/shop/forget", {"query": "QUERY  1"})
        assert gone["known"]
        assert gone["events"] > 40
        after, bodies = stored(url)
        assert b"query 1" not in after
        assert b"query 2" in after
        for body in bodies:
            assert packed not in body
            assert noted not in body
            assert struct.pack("<q", id_) not in body
        refusal = await local.ask("POST", "collections/shop/query", {"query": "query 1"}, 404)
        assert "not remembered" in refusal["message"]
        assert (await answer(local, late, clicked=late["items"][0]))["outcome"] == "learnt"  # nothing is
        assert (await rank(local, "query 2"))["items"] == others["items"]
        assert (await rank(local, "query 1"))["items"] == DOCS[:4]
        await local.quiet()
        assert replayed(url, "shop") == local.digest("shop")
        again = await local.ask("POST", "collections/shop/forget", {"query": "nobody asked"})
        assert again == {"known": False, "events": 0}
        two = await local.ask("POST", "collections/shop/forget", {"query": "x", "id": "0" * 14}, 422)
        assert "give either query" in two["message"]
    async with serving(url, seed=1) as local:
        assert replayed(url, "shop") == local.digest("shop")


async def past(local, query, clicked, rounds):
    """Past lists of a query; of 20 in a row, clicked are so many of each item."""
    chosen = [item for item, count in clicked.items() for _ in range(count)]
    chosen += [None] * (20 - len(chosen))
    rows = [{"query": query, "items": DOCS[:4], "clicked": chosen[n % 20]} for n in range(rounds)]
    await local.ask("POST", "collections/shop/history", {"rows": rows})


async def test_an_attack_on_many_queries_is_one_alarm_and_one_on_one_is_found_in_it(url):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await collection(local, keep_queries=True)
        for n in range(12):
            await past(local, f"query {n}", {"d0": 6, "d3": 1}, 200)
        await watcher.look()
        assert (await local.ask("GET", "collections/shop/state"))["alarms"] == []
        await past(local, "query 3", {"d3": 20}, 40)
        await watcher.look()
        (alert,) = told
        (alarm,) = (await local.ask("GET", "collections/shop/state"))["alarms"]
        surge = alarm["surges"][0]
        assert {(one["query"], one["item"]) for one in alarm["surges"]} == {("query 3", "d3")}
        assert (alarm["number"], alarm["queries"], alarm["first"]) == (1, 1, surge["noticed"])
        assert 2_400 < alarm["first"] <= alarm["latest"] <= 2_440
        assert surge["before"] < 0.1
        assert surge["clicks"] > 0.7 * surge["looks"]
        assert (alert.kind, alert.board, alert.state) == ("surge", "shop", "news")
        assert alert.detail == {
            "alarm": 1,
            "first": alarm["first"],
            "latest": alarm["latest"],
            "count": 1,
            "queries": [{"id": surge["id"], "query": "query 3"}],
            "items": ["d3"],
        }
        for n in range(12):
            await past(local, f"query {n}", {"d3": 20}, 40)
        await watcher.look()
        assert len(told) == 1  # one a minute
        local.clocks.pass_time(61)
        await watcher.look()
        assert [(alert.detail["alarm"], alert.detail["count"]) for alert in told] == [(1, 1), (1, 12)]
        assert "in 12 queries" in told[1].text
        assert told[1].text.endswith(" and 2 more.")
        other = Watcher(local.worker, told.append, "two")  # what was before its first look is no news
        for one in (watcher, other):
            local.clocks.pass_time(61)
            await one.look()
        assert len(told) == 2
        (alarm,) = (await local.ask("GET", "collections/shop/watch"))["alarms"]
        assert alarm["queries"] == len({surge["id"] for surge in alarm["surges"]}) == 12
        await local.ask("POST", "collections/shop/forget", {"query": "query 3"})
        (alarm,) = (await local.ask("GET", "collections/shop/state"))["alarms"]
        assert alarm["queries"] == 11
        assert "query 3" not in {surge["query"] for surge in alarm["surges"]}
        assert replayed(url, "shop") == local.digest("shop")


async def test_without_being_asked_no_text_of_a_query_is_stored(url):
    async with serving(url) as local:
        await collection(local)
        await visits(local, 20)
        await local.ask("POST", "collections/shop/query", {"query": "query 1"})
        await local.ask("POST", "collections/shop/forget", {"query": "query 2"})
        content, _ = stored(url)
        assert b"uery 1" not in content
        assert b"uery 2" not in content
        assert b"d7" in content
        named = (await local.ask("GET", "collections/shop/state"))["queries"]
        assert {query["query"] for query in named} == {None}
        page = await local.ask("POST", "collections/shop/query", {"id": named[0]["id"]})
        assert page["visits"] == named[0]["visits"]


async def test_a_collection_is_moved_with_its_secret_alone_and_a_copy_signs_by_another(url, tmp_path):
    async with serving(url) as local:
        await collection(local)
        await visits(local, 120)
        open_list, lists = (
            await rank(local, "query 0"),
            [(await rank(local, f"query {n}"))["items"] for n in range(3)],
        )
        await local.quiet()
    elsewhere = f"sqlite:///{tmp_path}/other.db"
    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(elsewhere)) as other:
        for secret in (False, True):
            export(store, "shop", tmp_path / f"{secret}.jsonl", secret, lambda n: None)
        with pytest.raises(ValueError, match="--with-secret"):
            bring_in(other, read_board(tmp_path / "False.jsonl"), None)
        assert bring_in(other, read_board(tmp_path / "True.jsonl"), None).same_secret
        assert not bring_in(other, read_board(tmp_path / "True.jsonl"), "copy").same_secret
    async with serving(elsewhere, seed=3) as local:
        for name in ("shop", "copy"):
            assert [(await rank(local, f"query {n}", name))["items"] for n in range(3)] == lists
        await answer(local, open_list, "copy", clicked="d7", code=403)
        assert (await answer(local, open_list, clicked="d7"))["outcome"] == "learnt"


async def test_a_log_that_was_shortened_goes_on_and_still_forgets(url):
    async with serving(url) as local:
        await collection(local)
        await visits(local, 60)
        await local.quiet()
        with contextlib.closing(open_store(url)) as store:
            assert compact(store, 0.0, 30)["shop"] > 50
        await visits(local, 20, seed=1)
        gone = await local.ask("POST", "collections/shop/forget", {"query": "query 2"})
        assert gone["known"]
        id_, _ = local.worker.boards["shop"].keys.query("query 2")
        _, bodies = stored(url)
        assert not any(struct.pack("<d", id_) in body or struct.pack("<q", id_) in body for body in bodies)
        digest = local.digest("shop")
    async with serving(url, seed=2) as local:
        await local.ask("GET", "collections/shop")
        assert local.digest("shop") == digest


async def test_judgments_are_a_file_that_other_tools_read(url, tmp_path):
    async with serving(url) as local:
        await collection(local, keep_queries=True)
        await visits(local, 200)
        answers = [
            await local.http.get(f"/v1/collections/shop/judgments?{more}") for more in ("", "format=qrels&looks=20")
        ]
        rows = list(csv.DictReader(answers[0].text.splitlines()))
        best = {row["query"]: row for row in rows if row["rating"] == "3"}
        assert {row["docid"] for row in best.values()} <= set(LIKED)
        assert set(best) == {"query 0", "query 1", "query 2"}
        assert all(float(row["low"]) <= float(row["rate"]) <= float(row["high"]) for row in rows)
        assert all(len(line.split(" ")) == 4 for line in answers[1].text.splitlines())
        refusal = await local.ask("GET", "collections/shop/judgments?format=xml", code=422)
        assert "csv, qrels" in refusal["message"]


async def test_who_is_labelled_is_not_heard_in_any_query_and_who_is_forgotten_is_nobody(url):
    async with serving(url) as local:
        await collection(local)
        for n in range(40):
            shown = await rank(local, f"q {n % 8}", client=f"u{n % 4}")
            await answer(local, shown, clicked="d3" if n % 4 == 1 and "d3" in shown["items"] else None)
        pages = [await local.ask("POST", "collections/shop/query", {"query": "q 1"})]
        await local.ask("POST", "collections/shop/client-labels", {"client": "u1", "label": "fraud"})
        await until(lambda: not local.worker.boards["shop"].board.stale)
        page = await local.ask("GET", "collections/shop/watch")
        assert [one["visits"] for one in page["guard"]["silenced"]] == [10]
        assert page["client_labels"][0]["label"] == "fraud"
        pages.append(await local.ask("POST", "collections/shop/query", {"query": "q 1"}, 200))
        assert [one["visits"] for one in pages] == [5, 0]
        assert (await local.ask("DELETE", "collections/shop/clients/u2"))["impressions"] == 10
        assert replayed(url, "shop") == local.digest("shop")


async def test_an_evicted_collection_is_listed_and_comes_back(url):
    async with serving(url, most_awake=2) as local:
        await collection(local, keep_queries=True)
        await visits(local, 30)
        for name in ("b", "c", "d"):
            await local.board(name, settle=0)
        await until(lambda: "shop" in local.worker.cache.evicted)
        listed = (await local.ask("GET", "collections"))["collections"]
        assert [(one["collection"], one["queries"], one["answers"]) for one in listed] == [("shop", 3, 30)]
        assert "shop" in local.worker.cache.evicted
        assert (await rank(local, "query 0"))["items"][0] in LIKED
        assert [one["board"] for one in (await local.ask("GET", "boards"))["boards"]] == ["b", "c", "d"]


class Searchers(Crowd):
    """Visitors of some queries of a collection."""

    def asked(self, client, rng):
        query = f"query {int(rng.integers(40))}"
        return client.rank_query(self.board, query, DOCS, fallback=False)


@pytest.mark.always
def test_a_server_killed_under_load_loses_no_answer_of_a_collection(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    server.client().put_collection("shop", length=4, settle=0)
    crowd = Searchers([server.address], board="shop")
    try:
        for _ in range(KILLS):
            before = len(crowd.acknowledged)
            wait_until(lambda: len(crowd.acknowledged) >= before + 60)  # noqa: B023
            server.kill()
            server.start()
            server.wait()
    finally:
        crowd.end()
    client = server.client()
    answers = client.collection("shop")["answers"]
    assert set(counted(url, "shop").values()) == {1}
    assert len(crowd.acknowledged) <= answers <= len(crowd.sent)
    for impression, clicked in list(crowd.acknowledged.items())[:20]:
        assert client.feedback("shop", impression, clicked=clicked) == "duplicate"
    assert {r.code for r in crowd.refused} <= {503}  # come again: the store was being read
    server.stop()
    replayed(url, "shop")


@pytest.mark.always
def test_the_client_speaks_of_collections(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    assert client.put_collection("shop", length=3, settle=0, keep_queries=True)["collection"] == "shop"
    shown = client.rank_query("shop", "red shoes", DOCS, rules={"pins": {"d9": 2}})
    assert shown.items == ("d0", "d9", "d1")
    shown = client.rank_query("shop", "red shoes", DOCS, scores=range(12, 0, -1), client="ann")
    assert shown.items == tuple(DOCS[:3])
    assert client.feedback("shop", shown.impression, clicked="d2") == "learnt"
    assert client.observe("shop", "1", DOCS[:2], query="red shoes", clicked=None).outcome == "learnt"
    assert client.history("shop", [{"query": "blue shoes", "items": DOCS[:2], "clicked": "d0"}]) == 1
    assert [one["collection"] for one in client.collections()] == ["shop"]
    assert client.collection_state("shop", limit=1)["queries"][0]["query"] == "red shoes"
    assert client.query("shop", "Red Shoes")["visits"] == 2
    assert client.judgments("shop", tmp_path / "j.csv") > 60
    assert client.forget_query("shop", "red shoes") >= 3
    assert client.collection("shop")["queries"] == 1
    client.delete_collection("shop")
    with pytest.raises(sr.Refused, match="no board 'shop'"):
        client.collection("shop")
    server.stop()
    shown = client.rank_query("shop", "red shoes", DOCS)
    assert (shown.items, shown.fallback) == (tuple(DOCS), True)


@pytest.mark.always
def test_another_worker_gives_lists_of_a_copy(database, tmp_path):
    """With PostgreSQL a collection has one owner; others rank from a copy of it, and pass answers on."""
    url = database.fresh()
    servers = [Server(url, tmp_path / f"log{n}").wait() for n in range(2)]
    one, other = (server.client() for server in servers)
    one.put_collection("shop", length=4, settle=0, client_lists=10_000, client_minute=10_000)
    rng = np.random.default_rng(0)
    for n in range(300):
        asked, answered = (one, other) if n % 2 else (other, one)
        shown = asked.rank_query("shop", "query", DOCS, client=f"u{n % 9}", fallback=False)
        hits = [item for item in shown.items if rng.random() < LIKED.get(item, 0.05)]
        assert answered.feedback("shop", shown.impression, clicked=hits[0] if hits else None) == "learnt"
    for client in (one, other):
        assert client.rank_query("shop", "query", DOCS, fallback=False).items[0] == "d7"
        assert client.collection("shop")["answers"] == 300
    for server in servers:
        server.stop()
    replayed(url, "shop")


@pytest.mark.always
def test_the_commands_know_collections(url, tmp_path, capsys):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_collection("shop", settle=0)
    client.feedback("shop", client.rank_query("shop", "x", DOCS).impression, clicked="d3")
    server.stop()
    main(["export", "shop", "--store", url, "--out", str(tmp_path / "shop.jsonl"), "--with-secret"])
    main(["import", str(tmp_path / "shop.jsonl"), "--store", url, "--as", "copy"])
    assert "copy" in capsys.readouterr().out
    with contextlib.closing(open_store(url)) as store:
        assert number_of(store, "copy") > number_of(store, "shop")
        first = next(iter(store.entries(0, store.head(), number_of(store, "copy"))))
        assert isinstance(events.decode(first.body), events.Created)
