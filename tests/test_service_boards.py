"""Boards seen from outside: large ones keep nobody waiting, unknown ones cannot be told from forbidden ones."""

import asyncio
import contextlib
import dataclasses

import pytest

from service_tools import ITEMS, Server, serving
from steadyrank.core.compiling.jit import told_of_compiling
from steadyrank.service.http.auth import make_key
from steadyrank.service.http.server import compile_ahead
from steadyrank.service.storage import open_store
from steadyrank.service.worker import log_writer


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_a_server_that_has_started_compiles_nothing_for_a_usual_board(url):
    compile_ahead(lambda words: None)
    compiled = []
    with told_of_compiling(compiled.append):
        async with serving(url) as local:
            await local.board(settle=0)
            for client in ("one", None):
                shown = await local.rank(client=client)
                await local.answer(shown, clicked=shown["items"][0])
            await local.quiet()
            await local.ask("GET", "boards/b/state")
    assert compiled == []


async def test_others_have_their_turn_while_the_state_of_a_large_board_is_told(url):
    async with serving(url) as local:
        items, turns = [f"item {k}" for k in range(9_999)], 0
        await local.board(settle=0, items=items)
        shown = await local.rank()
        await local.answer(shown, clicked=shown["items"][0])
        standings = local.worker.boards["b"].board.learner_state.standings

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)
                if turns == 10:  # it is of the moment at which it was asked for
                    local.worker.boards["b"].board.learner_state.looks[:] += 5

        expected = standings(local.worker.boards["b"].board.learner_state.view())
        task = asyncio.create_task(others())
        state = await local.ask("GET", "boards/b/state")
        task.cancel()
        assert turns > 2 * len(items) / 500
        fields = ("item", "active", "looks", "clicks", "rate", "estimate")
        assert [tuple(row[f] for f in fields) for row in state["items"]] == [
            tuple(getattr(s, f) for f in fields) for s in expected
        ]
        assert [len(regime["estimates"]) for regime in state["view"]["regimes"]] == [len(items)]
        assert state["view"]["rounds"] == 1
        assert state["event"] == local.worker.boards["b"].applied


async def test_the_state_is_told_of_a_learner_without_a_view(url):
    async with serving(url) as local:
        await local.board(settle=0, learner="CascadeTS")
        state = await local.ask("GET", "boards/b/state")
        assert state["view"] is None
        assert [item["item"] for item in state["items"]] == ITEMS
        assert {item["estimate"] for item in state["items"]} == {None}


async def test_without_a_key_an_unknown_board_is_like_one_that_is_there(url):
    with contextlib.closing(open_store(url)) as store:
        made = {}
        for name, scopes in (("admin", ["admin"]), ("rank", ["rank"])):
            made[name], key = make_key(scopes, None, 1.0)
            store.add_key(key)
    async with serving(url) as local:
        admin = {"authorization": f"Bearer {made['admin']}"}
        for name, public in (("open", True), ("private", False)):
            body = {"items": ITEMS, "length": 4, "public_feedback": public}
            await local.ask("PUT", f"boards/{name}", body, headers=admin)
        shown = await local.ask("POST", "boards/private/rank", {}, headers=admin)

        async def told(method, path, body=None, key=None):
            headers = {} if key is None else {"authorization": f"Bearer {made[key]}"}
            answer = await local.http.request(method, f"/v1/{path}", json=body, headers=headers)
            return answer.status_code, answer.content, sorted(answer.headers.items())

        for body in ({"impression": "x", "clicked": None}, {"impression": shown["impression"] + "A", "clicks": [9]}):
            found = [await told("POST", f"boards/{name}/feedback", body) for name in ("open", "private", "none")]
            assert found[0] == found[1] == found[2]
            assert found[0][0] == 403
            rows = [{"board": name, **body} for name in ("open", "private", "none")]
            batch = await local.ask("POST", "feedback", {"feedback": rows})
            assert batch["feedback"][0] == batch["feedback"][1] == batch["feedback"][2]
        for method, path in (
            ("POST", "rank"),
            ("GET", ""),
            ("GET", "state"),
            ("DELETE", "items/x"),
            ("GET", "watch"),
        ):
            body = {} if method == "POST" else None
            found = [await told(method, f"boards/{name}/{path}".rstrip("/"), body) for name in ("open", "none")]
            assert found[0] == found[1]
            assert found[0][0] == 401
        answer = {"impression": shown["impression"], "clicked": None}
        assert (await told("POST", "boards/private/feedback", answer))[0] == 401  # who has an id knows the board
        assert (await told("POST", "boards/none/feedback", answer, "rank"))[0] == 404
        assert (await told("POST", "boards/none/rank", {}, "rank"))[0] == 404


async def test_many_who_ask_for_what_is_not_there_share_a_look_at_the_store(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        looks, real = [], local.worker.catch_up

        async def counted():
            looks.append(None)
            await real()

        monkeypatch.setattr(local.worker, "catch_up", counted)
        rows = [{"board": f"none {k}", "impression": "x", "clicked": None} for k in range(1_000)]
        answer = await local.ask("POST", "feedback", {"feedback": rows})
        assert answer["refused"] == {"404": 1_000}
        assert len(looks) < 100


async def test_a_list_that_was_refused_uses_up_no_round(url):
    async with serving(url) as local:
        await local.board(settle=0)
        for _ in range(5):
            await local.ask("POST", "boards/b/rank", {"candidates": ["unheard of"]}, 422)
        await local.rank()
        await local.quiet()
        assert (await local.ask("GET", "boards/b"))["rounds"] == 1


async def test_a_board_made_at_another_worker_is_found_at_once(url, monkeypatch):
    async with serving(url) as one, serving(url, seed=5) as other:
        await other.quiet()
        monkeypatch.setattr("steadyrank.service.worker.log_writer.POLL", 5.0)  # what others wrote is not noticed
        await asyncio.sleep(0.1)
        await one.board(settle=0)
        shown = await one.rank()
        assert (await other.answer(shown, clicked=None))["outcome"] == "learnt"
        await one.board("second", settle=0)
        assert len((await other.rank("second"))["items"]) == 4
        await one.ask("DELETE", "boards/second")
        await one.board("second", settle=0)  # with another secret
        shown = await one.rank("second")
        assert (await other.answer(shown, "second", clicked=None))["outcome"] == "learnt"
        await other.ask("POST", "boards/third/rank", {}, 404)
        monkeypatch.undo()
    assert log_writer.POLL == 0.025


def test_a_name_with_any_signs_can_stand_in_a_path(url, tmp_path):
    """Against a real server: what is between a client and a route must not take them for something else."""
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    odd = ["a/b", "a\nb", "a\r\nx: y", "%2e%2e", "a?b#c", "ünï", "\u2028", " "]
    client.put_board("b", items=[*odd, "plain"], length=4)
    for item in odd:
        client.retire_item("b", item)
    assert client.board("b")["items"] == 1
    assert server.stop() == 0


async def test_boards_are_told_a_page_at_a_time(url):
    async with serving(url, most_awake=3) as local:
        for k in range(7):
            await local.board(f"b{k}")
        found, after = [], ""
        for size in (3, 3, 1):
            page = await local.ask("GET", f"boards?limit=3&after={after}")
            assert len(page["boards"]) == size
            found += [board["board"] for board in page["boards"]]
            after = page["next"]
        assert after is None
        assert found == [f"b{k}" for k in range(7)]
        assert len((await local.ask("GET", "boards"))["boards"]) == 7
        assert (await local.ask("GET", "boards?limit=7"))["next"] is None
        assert (await local.ask("GET", "boards?after=b6"))["boards"] == []
        for limit in ("0", "1001", "x", "-1"):
            refused = await local.ask("GET", f"boards?limit={limit}", code=422)
            assert f"limit must be a whole number from 1 to 1000, not '{limit}'" in refused["message"]


def test_the_client_asks_for_every_page(url, tmp_path, monkeypatch):
    server = Server(url, tmp_path / "log").wait()
    client, asked = server.client(), []
    for k in range(3):
        client.put_board(f"b-{k}", items=["x"], length=1)
    send = client._send

    def one_at_a_time(step):
        asked.append(step.request.path)
        request = dataclasses.replace(step.request, path=f"{step.request.path}&limit=1")
        return send(dataclasses.replace(step, request=request))

    monkeypatch.setattr(client, "_send", one_at_a_time)
    assert [board["board"] for board in client.boards()] == ["b-0", "b-1", "b-2"]
    assert asked == [f"/v1/boards?after={name}" for name in ("", "b-0", "b-1")]
    assert next(client.each_board("b-1"))["board"] == "b-2"
    server.kill()
