"""What a search engine found, re-ranked: responses of real engines' form, and the search page of the examples."""

import asyncio
import contextlib
import importlib.util
import pathlib
import random
import re
import sys
import threading
import urllib.request

import pytest

import browser
import steadyrank as sr
from service_tools import Server, free_port, serving, wait_until
from steadyrank.client import AsyncClient, Client
from steadyrank.search import Hits, re_rank, re_rank_async, ubi_query

SEARCH = pathlib.Path(__file__).parent.parent / "examples" / "search"
MARK = re.compile(r".*(#|//|<!--) \+ steadyrank( -->)?$")
# as OpenSearch 2 and Elasticsearch 8 answer a search
RESPONSE = {
    "took": 3,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 4, "relation": "eq"},
        "max_score": 3.5,
        "hits": [
            {"_index": "docs", "_id": f"d{k}", "_score": 3.5 - k, "_source": {"title": f"No. {k}"}} for k in range(4)
        ],
    },
}
STATUS = "\n".join(
    f"Package: {name}\nStatus: install ok installed\nDepends: libc6 (>= 2.3){needs}\nDescription: {about}\n"
    f" {about}, told at length.\n .\n It is of use.\n"
    for name, about, needs in [
        ("dull-editor", "Text editor for editing text", ""),
        ("plain-editor", "Text editor", ""),
        ("vim", "Editor of text that many want", ""),
        ("chess-of-old", "Chess", ""),
        *((f"lib{k}", "Library", ", vim | dull-editor" if k < 9 else ", vim") for k in range(12)),
        *((f"editor-{k}", f"Small text editor number {k}", "") for k in range(10)),
    ]
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def names(response):
    return [hit["_id"] for hit in response["hits"]["hits"]]


def test_hits_are_named_and_scored_in_the_engines_order():
    hits = Hits(RESPONSE)
    assert hits.names == ["d0", "d1", "d2", "d3"]
    assert hits.scores == [3.5, 2.5, 1.5, 0.5]
    ordered = hits.in_order(("d2", "d0"))
    assert names(ordered) == ["d2", "d0", "d1", "d3"]
    assert ordered["hits"]["hits"][0] is RESPONSE["hits"]["hits"][2]
    assert ordered["took"] == 3
    assert ordered["hits"]["total"] == {"value": 4, "relation": "eq"}
    assert names(RESPONSE) == ["d0", "d1", "d2", "d3"]
    assert Hits(RESPONSE, window=2).names == ["d0", "d1"]


def test_what_has_no_score_or_two_of_a_name_is_no_error():
    by_date = {"hits": {"hits": [{"_id": x, "_score": None, "sort": [5]} for x in "ab"]}}
    assert Hits(by_date).scores is None
    two = {
        "hits": {"hits": [{"_index": i, "_id": x, "_score": 1.0} for i, x in (("p", "1"), ("q", "1"), ("p", "2"))]}
    }
    assert Hits(two).names == ["1", "2"]
    assert len(Hits(two).in_order(("2",))["hits"]["hits"]) == 3
    whole = Hits(two, name=lambda hit: f"{hit['_index']}/{hit['_id']}")
    assert whole.names == ["p/1", "q/1", "p/2"]
    for wrong in ({}, {"hits": {"hits": [{"id": 3}]}}, {"hits": {"hits": None}}):
        with pytest.raises(ValueError, match=r"hits\.hits"):
            Hits(wrong)
    with pytest.raises(ValueError, match="window must be"):
        Hits(RESPONSE, window=0)


def test_a_response_is_re_ranked_by_what_was_clicked(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_collection("docs", length=2, settle=0)
    for n in range(30):
        found = re_rank(client, "docs", "query", RESPONSE, client=f"u{n}")
        assert len(names(found.response)) == 4
        assert tuple(names(found.response)[:2]) == found.shown.items
        clicked = "d3" if "d3" in found.shown.items else None
        client.feedback("docs", found.shown.impression, clicked=clicked)
    assert names(found.response)[0] == "d3"
    assert names(re_rank(client, "docs", "another", RESPONSE).response) == ["d0", "d1", "d2", "d3"]

    async def in_a_loop():
        async with AsyncClient(server.address) as other:
            return await re_rank_async(other, "docs", "query", RESPONSE, length=1)

    assert names(asyncio.run(in_a_loop()).response)[0] == "d3"
    nothing = re_rank(client, "docs", "query", {"hits": {"hits": []}})
    assert (nothing.response, nothing.shown.fallback) == ({"hits": {"hits": []}}, True)
    server.stop()
    away = re_rank(client, "docs", "query", RESPONSE)
    assert away.shown.fallback
    assert names(away.response) == ["d0", "d1", "d2", "d3"]
    with pytest.raises(ValueError, match="no impression"):
        ubi_query(away, "query", "docs")


async def test_events_of_user_behavior_insights_answer_our_lists_by_their_impressions(url):
    async with serving(url) as local:
        await local.ask("PUT", "collections/docs", {"length": 3, "settle": 0, "most_clicks": None})
        await local.board(settle=0)
        body = {"query": "Query", "candidates": ["d0", "d1", "d2"]}
        shown = [await local.ask("POST", "collections/docs/rank", body) for _ in range(3)]
        on_board = await local.rank()

        def event(one, item, board="docs"):
            about = {"object": {"object_id": item, "object_id_field": "_id"}}
            row = {"application": board, "action_name": "click", "query_id": one["impression"]}
            return row | {"event_attributes": about}

        rows = [event(shown[0], "d1"), event(shown[1], "d2"), event(shown[1], "d1"), event(shown[2], "d9")]
        told = await local.ask("POST", "ubi", rows + [event(on_board, on_board["items"][1], "b")])
        assert (told["clicks"], told["lists"], told["refused"]) == (4, 0, {"422": 1})
        assert "'d9' was not shown" in told["messages"][0]["message"]
        again = await local.ask("POST", "ubi", rows[:1])
        assert (again["clicks"], again["duplicates"]) == (0, 1)
        late = await local.ask("POST", "ubi", [event(shown[0], "d2")])
        assert late["refused"] == {"409": 1}
        page = await local.ask("POST", "collections/docs/query", {"query": "query"})
        assert {one["item"]: one["clicks"] for one in page["items"]} == {"d0": 0, "d1": 2, "d2": 1}
        found = type("Found", (), {"shown": sr.client.Ranking(shown[2]["impression"], ("d0", "d1"), 0.0)})
        row = ubi_query(found, "Query", "docs", client="ann")
        assert row["query_response_hit_ids"] == ["d0", "d1"]
        known = await local.ask("POST", "ubi", {"queries": [row], "events": [event(shown[2], "d0")]})
        assert (known["lists"], known["duplicates"], known["clicks"]) == (0, 1, 1)
        forged = await local.ask("POST", "ubi", [event({"impression": "x" * 300}, "d1")])
        assert "impression id of a list of ours" in forged["messages"][0]["message"]


@contextlib.contextmanager
def example(monkeypatch):
    """The modules of the example, as its scripts import them of one another."""
    monkeypatch.syspath_prepend(str(SEARCH))
    spec = importlib.util.spec_from_file_location("run_search", SEARCH / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    try:
        yield run
    finally:
        for name in ("packages", "pages", "visitors"):
            sys.modules.pop(name, None)


def test_the_engine_finds_packages_and_who_wants_them_is_counted(monkeypatch):
    with example(monkeypatch) as run:
        found = run.packages.read(STATUS)
        assert len(found) == 26
        assert found["vim"] == ("vim", "Editor of text that many want", found["vim"].about, 12)
        assert "told at length" in found["vim"].about
        assert found["dull-editor"].wanted == 9
        engine = run.packages.Engine(found)
        hits = engine.search("text editor")["hits"]["hits"]
        assert {"vim", "dull-editor", "plain-editor"} < {hit["_id"] for hit in hits}
        assert [hit["_score"] for hit in hits] == sorted((hit["_score"] for hit in hits), reverse=True)
        assert engine.search('"; DROP') == engine.search("") == {"hits": {"hits": []}}
        if run.packages.STATUS.exists():
            assert len(run.packages.read(run.packages.STATUS.read_text(errors="replace"))) > 50


def fetched(address, query):
    with urllib.request.urlopen(f"{address}/?q={query}", timeout=20) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def served(module, engine, handler):
    server = module.serve(engine, 0, handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_takes_eleven_lines_and_without_them_or_a_server_the_page_is_the_engines(tmp_path, monkeypatch):
    parts = ("pages.py", "page.html")
    marked = [sum(bool(MARK.match(line)) for line in (SEARCH / name).read_text().splitlines()) for name in parts]
    text = (SEARCH.parents[1] / "docs" / "collections.md").read_text()
    assert f"It takes {sum(marked)} lines: {marked[0]} in the server of the page, {marked[1]} in the page" in text
    bare = tmp_path / "examples" / "search"
    bare.mkdir(parents=True)
    for name in ("packages.py", *parts):
        lines = (SEARCH / name).read_text().splitlines(keepends=True)
        (bare / name).write_text("".join(line for line in lines if not MARK.match(line)))
    assert "steadyrank" not in (bare / "page.html").read_text()
    with example(monkeypatch) as run:
        engine = run.packages.Engine(run.packages.read(STATUS))
        run.pages.api = Client(f"http://127.0.0.1:{free_port()}", timeout=0.5, tries=1)
        with served(run.pages, engine, run.pages.Handler) as (_, address):
            away = fetched(address, "editor")
    monkeypatch.setattr(sys, "path", [str(bare), *sys.path])
    spec = importlib.util.spec_from_file_location("pages", bare / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with served(module, engine, module.Handler) as (_, address):
        without = fetched(address, "editor")
    sys.modules.pop("packages", None)
    listed = [re.search(r'<ol id="list">.*?</ol>', page, re.DOTALL)[0] for page in (away, without)]
    assert listed[0] == listed[1]
    assert listed[0].count("<li>") == 8


@browser.needed
def test_the_page_learns_what_is_opened_beside_the_engine_and_has_a_button_for_bots(url, tmp_path, monkeypatch):
    server = Server(url, tmp_path / "log").wait()
    with example(monkeypatch) as run:
        engine = run.packages.Engine(run.packages.read(STATUS))
        run.pages.PAGE = run.pages.PAGE.replace("http://127.0.0.1:8080", server.address)
        run.pages.api, client = server.client(), server.client()
        run.put_collections(client)
        taste = run.Taste(engine)
        assert taste.queries == ["text editor"]
        assert taste.liked("vim") > taste.liked("plain-editor")

        class Crowd:  # nobody but this browser comes, and what is done here
            attacked = False

            def __init__(self):
                self.taste = taste

            def call_bots(self):
                self.attacked = True

        told = run.Told(client, taste)
        with served(run.pages, engine, run.Stage) as (site, address):
            handler = site.RequestHandlerClass
            handler.client, handler.crowd, handler.told, handler.dashboard = client, Crowd(), told, server.address
            with browser.opened(f"{address}/?q=text+editor", 1100, offline=False) as (page, errors):
                page.wait_for_selector("#engine li")
                engines = page.locator("#engine li").all_inner_texts()
                assert page.locator("#list a").all_inner_texts() == engines
                last = engines[-1]
                page.wait_for_timeout(1_500)  # in view
                page.click("#list li:last-child a")
                page.wait_for_selector(f"h1 >> text={last}")
                wait_until(lambda: client.collection("packages")["clicks"] == 1)
                chance = random.Random(0)
                for n in range(40):
                    seen = run.visit(address, server.address, taste, f"v{n}", chance)
                    told(*seen)
                page.goto(f"{address}/?q=text+editor")
                page.wait_for_selector("#believing li")
                ours = page.locator("#list a").all_inner_texts()
                assert ours != engines
                assert ours[0] in ("vim", "dull-editor")
                assert page.locator("#engine li").all_inner_texts() == engines
                assert int(page.inner_text("#ours-worth")) > int(page.inner_text("#engine-worth"))
                page.click("#bots")
                page.wait_for_selector("#attack >> text=Bots click")
                red = page.locator("#engine .paid").all_inner_texts()
                assert set(red) <= {name for names in taste.paid.values() for name in names}
                assert red
                assert errors == []
    assert server.stop() == 0
