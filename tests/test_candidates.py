"""Candidates that are no items: refused, skipped or added, in a process and over HTTP."""

import contextlib

import pytest

import steadyrank as sr
from service_tools import ITEMS, Server, replayed, serving
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def test_in_a_process():
    ranker = sr.Ranker(["a", "b", "c"], 2, "CascadeTS")
    with pytest.raises(sr.Refused, match="unknown item 'x'"):
        ranker.rank(["a", "x"])
    assert set(ranker.rank(["a", "x", "b", "x"], unknown="skip").items) == {"a", "b"}
    with pytest.raises(sr.Refused, match="none of the 2 candidates is an item, such as 'x'"):
        ranker.rank(["x", "y"], unknown="skip")
    with pytest.raises(sr.Refused, match="unknown must be one of refuse, skip, add, not 'ignore'"):
        ranker.rank(["a"], unknown="ignore")
    with pytest.raises(ValueError, match="item"):
        ranker.rank(["new", ""], unknown="add")
    assert [one.item for one in ranker.standings()] == ["a", "b", "c"], "a bad name adds nothing"
    assert set(ranker.rank(["new", "a", "new"], unknown="add").items) == {"new", "a"}
    assert [one.item for one in ranker.standings()] == ["a", "b", "c", "new"]
    with pytest.raises(sr.Refused, match="candidates must be several names, not the text 'ab'"):
        ranker.rank("ab", unknown="skip")


async def test_over_http(url):
    async with serving(url) as local:
        await local.board(settle=0)
        digest = local.digest()
        some = [ITEMS[0], "x", ITEMS[1], "y", "x"]
        refused = await local.ask("POST", "boards/b/rank", {"candidates": some}, 422)
        assert "unknown item 'x'" in refused["message"]
        for body in ({"unknown": "maybe"}, {"unknown": "skip", "candidates": ["x"]}):
            await local.ask("POST", "boards/b/rank", body, 422)
        await local.ask("POST", "boards/b/rank", {"candidates": some, "unknown": "add", "length": 9}, 422)
        await local.ask("POST", "boards/b/rank", {"candidates": [*some, ""], "unknown": "add"}, 422)
        await local.quiet()
        assert local.digest() == digest, "what is refused adds nothing"
        shown = await local.rank(candidates=some, unknown="skip")
        assert (set(shown["items"]), shown["skipped"]) == ({ITEMS[0], ITEMS[1]}, 2)
        assert "skipped" not in await local.rank(candidates=ITEMS[:3], unknown="skip")
        await local.ask("DELETE", f"boards/b/items/{ITEMS[1]}")
        shown = await local.rank(candidates=some, unknown="add")
        assert set(shown["items"]) <= {ITEMS[0], "x", "y"}, "a retired item stays retired"
        await local.answer(shown, clicked=shown["items"][0])
        assert (await local.ask("GET", "boards/b"))["items"] == len(ITEMS) - 1 + 2
        digest = local.digest()
    assert replayed(url) == digest


@pytest.mark.always
def test_who_adds_items_needs_the_scope_for_it(tmp_path, url):
    keys = {}
    with contextlib.closing(open_store(url)) as store:
        for name, scopes in {"admin": ["admin"], "rank": ["rank"], "both": ["rank", "observe"]}.items():
            keys[name], row = make_key(scopes, None, 1.0)
            store.add_key(row)
    server = Server(url, tmp_path / "log").wait()
    server.client(keys["admin"]).put_board("b", items=ITEMS, length=4)
    some = [ITEMS[0], "x"]
    ranks, both = server.client(keys["rank"]), server.client(keys["both"])
    with pytest.raises(sr.Refused, match="lacks the scope 'observe'"):
        ranks.rank("b", some, unknown="add")
    shown = ranks.rank("b", some, unknown="skip")
    assert (shown.items, shown.skipped) == ((ITEMS[0],), 1)
    assert set(both.rank("b", some, unknown="add").items) == set(some)
    assert set(ranks.rank("b", some, unknown="add").items) == set(some), "it is an item by now"
    assert server.stop() == 0
