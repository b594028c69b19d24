"""A list for each segment of the visits, over HTTP: declared, checked, logged, learnt with, and shown."""

import contextlib
import shutil

import numpy as np
import pytest

from service_tools import ITEMS, logged_events, received, replayed, serving
from steadyrank.client import Client
from steadyrank.service.alerts.watcher import Watcher
from steadyrank.service.board import events
from steadyrank.service.storage import open_store
from steadyrank.service.worker.transfer import bring_in, export, read_board

pytestmark = pytest.mark.pure

BOARD = {
    "items": ITEMS,
    "length": 3,
    "learner": "SteadyRankSegments",
    "settings": {"window": 20},
    "segments": ["phone", "desktop"],
    "guard": "Anyone",
    "settle": 0,
}
LIKED = {"phone": "item 3", "desktop": "item 8", None: "item 11"}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def logged(url):
    with contextlib.closing(open_store(url)) as store:
        number = next(iter(store.boards()))
        return logged_events(store, number)


async def visited(local, rounds, liked=LIKED):
    """Visits of each segment by turns, who click the item that theirs likes."""
    for n in range(rounds):
        segment = list(liked)[n % len(liked)]
        shown = await local.rank(**({} if segment is None else {"segment": segment}))
        await local.answer(shown, clicked=liked[segment] if liked[segment] in shown["items"] else None)


async def test_each_segment_has_its_list_and_nothing_of_it_is_lost(url, tmp_path):
    """Phones like one item, desktops another, visits without a segment a third: 100 visits each."""
    async with serving(url) as local:
        board = await local.ask("PUT", "boards/b", BOARD)
        assert (board["segments"], board["features"]) == (["phone", "desktop"], None)
        await visited(local, 300)
        state, watch = [await local.ask("GET", f"boards/b/{part}") for part in ("state", "watch")]
        assert (state["features"], state["saved"], watch["diverging"]) == (None, None, [])
        assert [one["segment"] for one in state["segments"]] == [None, "phone", "desktop"]
        for one, seen in zip(state["segments"], watch["segments"], strict=True):
            best = ITEMS[int(np.argmax(one["estimates"]))]
            assert best == one["list"][0] == seen["list"][0]["item"] == LIKED[one["segment"]]
            assert len(one["estimates"]) == len(ITEMS)
            assert one["view"]["rounds"] == seen["view"]["rounds"] == 100
            assert [item["item"] for item in seen["list"]] == one["list"]
        known = [event.features for event in logged(url) if isinstance(event, events.ListShown)]
        assert known[:3] == [{"segment": "phone"}, {"segment": "desktop"}, {}]
        observed = {"id": "1", "items": ITEMS[:2], "clicked": None, "segment": "desktop"}
        await local.ask("POST", "boards/b/observe", observed)
        state = await local.ask("GET", "boards/b/state")
        assert [one["view"]["rounds"] for one in state["segments"]] == [100, 100, 101]
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        assert local.digest() == digest
        shown = await local.rank(segment="phone")
        await local.quiet()
        for end in ("", "-wal"):  # what a kill leaves
            shutil.copy(f"{tmp_path}/store.db{end}", f"{tmp_path}/copy.db{end}")
    digests = []
    for each in (url, f"sqlite:///{tmp_path}/copy.db"):
        async with serving(each, seed=2) as local:
            assert (await local.answer(shown, clicked=shown["items"][0]))["outcome"] == "learnt"
            view = local.worker.boards["b"].board.learner_state.view()
            assert [one.rounds for one in view.segments] == [100, 101, 101]
            digests.append(local.digest())
        assert replayed(each) == digests[-1]
    assert digests[0] == digests[1]
    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(f"{url}2")) as other:
        export(store, "b", tmp_path / "b.jsonl", True, lambda _: None)
        bring_in(other, read_board(tmp_path / "b.jsonl"), None)
    assert replayed(f"{url}2") == digests[0]
    async with serving(url, seed=3) as local:  # a segment that is declared no more is not known; one that is new, new
        await local.ask("PUT", "boards/b", {"segments": ["tablet", "phone"]})
        view = local.worker.boards["b"].board.learner_state.view()
        assert [one.rounds for one in view.segments] == [201, 0, 101]
        await local.ask("PUT", "boards/b", {"learner": "SteadyRank", "segments": None})
        state = await local.ask("GET", "boards/b/state")
        assert (state["segments"], state["view"]["rounds"]) == (None, 302)
        assert replayed(url) == local.digest()


async def test_past_clicks_and_ubi_say_segments_as_observe_does(url):
    """Three boards, told the same in three ways: learners and guards that are equal in every byte."""
    names = ("b", "past", "ubi")
    async with serving(url) as local:
        for name in names:
            await local.ask("PUT", f"boards/{name}", BOARD)
        past, queries, clicks = [], [], []
        for n in range(60):
            items, segment = ITEMS[n % 5 : n % 5 + 3], [None, "phone", "desktop"][n % 3]
            said = {"items": items, "clicked": items[n % 2], "segment": segment}
            await local.ask("POST", "boards/b/observe", {**said, "id": str(n)})
            past.append(said)
            about = {"query_attributes": {"segment": segment, "page": 2}, "query_response_hit_ids": items}
            queries.append({"query_id": str(n), **about})
            clicked = {"object": {"object_id": items[n % 2]}}
            clicks.append({"query_id": str(n), "action_name": "click", "event_attributes": clicked})
        assert (await local.ask("POST", "boards/past/history", {"rows": past, "batch": "1"}))["rows"] == 60
        taken = await local.ask("POST", "ubi?board=ubi", {"queries": queries, "events": clicks})
        assert (taken["lists"], taken["clicks"], taken["refused"]) == (60, 60, {})
        states = [local.worker.boards[name].board.learner_state for name in names]
        for state in states:
            assert [one.rounds for one in state.view().segments] == [20, 20, 20]
            for name, array in state.arrays().items():
                assert array.tobytes() == states[0].arrays()[name].tobytes(), name
        await local.ask("PUT", "boards/past", {"segments": ["tablet", "phone"]})
        view = local.worker.boards["past"].board.learner_state.view()
        assert [one.rounds for one in view.segments] == [40, 0, 20]  # the log has them by name
        assert all(replayed(url, name) == local.digest(name) for name in names)


async def test_a_change_in_one_segment_is_told_with_its_name(url):
    """Desktops come to like another item; phones go on as before."""
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD)
        told = []
        watcher = Watcher(local.worker, told.append, "w")
        liked = {segment: LIKED[segment] for segment in ("phone", "desktop")}
        await visited(local, 400, liked)
        await watcher.look()
        await visited(local, 400, {**liked, "desktop": "item 5"})
        await watcher.look()
        state = await local.ask("GET", "boards/b/state")
        none, phone, desktop = state["segments"]
        assert [len(one["changes"]) > 0 for one in (none, phone, desktop)] == [False, False, True]
        assert desktop["changes"][-1]["start"] > 390  # in rounds of the board
        alert = next(one for one in told if one.kind == "regime")
        assert alert.text.startswith("Board b: in segment desktop, ")
        assert alert.detail["segment"] == "desktop"


async def test_what_does_not_fit_is_refused_by_name_and_nothing_is_written(url):
    alone, films = {"visits": {"segment": ["phone"]}}, {"items": {"year": [1950, 2030]}}
    async with serving(url) as local:
        for body, words in [
            (
                {"learner": "SteadyRank"},
                "SteadyRank makes one list for all segments; one per segment: SteadyRankSegments",
            ),
            ({"segments": []}, "segments must be 1 to 50 different names of 1 to 100 characters, not []"),
            ({"segments": ["a", "b", "a"]}, "different names of 1 to 100 characters, not ['a', 'b', 'a']"),
            ({"segments": [1, 2]}, "segments[0] must be text, not 1"),
            ({"features": films}, "declare segments or features, not both"),
            ({"segments": None, "features": alone}, "a list for each of phone needs the setting segments"),
            ({"settings": {"segments": 2}}, "'segments' follows from the names of the segments: leave it out"),
        ]:
            answer = await local.ask("PUT", "boards/b", {**BOARD, **body}, 422)
            assert words in answer["message"], answer
        assert (await local.ask("GET", "boards"))["boards"] == []
        await local.ask("PUT", "boards/b", BOARD)
        await local.ask("PUT", "boards/plain", {"items": ITEMS})
        head, digest = len(logged(url)), local.digest()
        listed = {"id": "1", "items": ["new"]}
        past = [{"items": ["new"], "clicked": None, "segment": "phone"}, {"items": ["new"], "clicked": None}]
        for path, body, words in [
            ("b/rank", {"segment": "tablet"}, "'segment' is one of phone, desktop, not 'tablet'"),
            ("b/rank", {"segment": 1}, "segment must be text or null, not 1"),
            ("b/rank", {"features": {"segment": "phone"}}, "give segment (phone, desktop), and no features"),
            ("b/rank", {"segment": "x", "candidates": ["y"], "unknown": "add"}, "not 'x'"),
            ("b/observe", {**listed, "segment": "tablet"}, "'segment' is one of phone, desktop, not 'tablet'"),
            (
                "b/history",
                {"rows": [past[0], {**past[1], "segment": "tablet"}]},
                "row 2: feature 'segment' is one of phone, desktop, not 'tablet'",
            ),
            (
                "b/history",
                {"rows": [{**past[1], "features": {"age": 1}}]},
                "row 1: for a visit to this board, give segment",
            ),
            ("plain/history", {"rows": past[::-1]}, "row 2: segment 'phone' cannot be given"),
            ("plain/rank", {"segment": "phone"}, "segment 'phone' cannot be given: this board declares no segments"),
            ("plain/observe", {**listed, "segment": "phone"}, "this board declares no segments"),
        ]:
            answer = await local.ask("POST", f"boards/{path}", body, 422)
            assert words in answer["message"], answer
        query = {"query_id": "1", "query_response_hit_ids": ["new"], "query_attributes": {"segment": "tablet"}}
        answer = await local.ask("POST", "ubi?board=b", [query])
        assert answer["refused"] == {"422": 1}
        assert answer["messages"][0]["message"] == "feature 'segment' is one of phone, desktop, not 'tablet'"
        await local.worker.catch_up()
        assert (len(logged(url)), local.digest()) == (head, digest)


def test_the_client_sends_segments(monkeypatch):
    client, sent = Client(), []
    got = {"impression": "x", "items": [], "expires": 0.0, "outcome": "shown", "ours": []}
    monkeypatch.setattr(client, "_send", lambda step: sent.append(step.request.body) or received(got))
    client.put_board("b", items=ITEMS, learner="SteadyRankSegments", segments=["phone"])
    client.rank("b", segment="phone")
    client.rank("b")
    client.observe("b", "1", ["a"], segment="phone")
    paths = []
    monkeypatch.setattr(client, "_send", lambda step: paths.append(step.request.path) or received(got))
    client.state("b", segment="a b")
    client.watch("b", "phone")
    client.watch("b")
    assert [path.partition("/b/")[2] for path in paths] == ["state?segment=a+b", "watch?segment=phone", "watch"]
    assert sent[0]["segments"] == ["phone"]
    assert [body.get("segment") for body in sent[1:]] == ["phone", None, "phone"]
