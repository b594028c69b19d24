"""What comes of clicks, over HTTP: once by id, before and after answers, by the log, after a kill, in batches."""

import contextlib

import pytest

from service_tools import ITEMS, Server, replayed, serving, until
from steadyrank.client import Refused
from steadyrank.core.contract import memory
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store

pytestmark = pytest.mark.pure

DAY = 86_400.0


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def report(local, shown, item, value, id_, code=200, **more):
    body = {"impression": shown["impression"], "item": item, "value": value, "id": id_, **more}
    return await local.ask("POST", "boards/b/outcomes", body, code)


def sums(local, name="b"):
    state = local.worker.boards[name].board.learner_state
    values = dict(memory(state.learner.values))
    return {
        item: (int(values["bought"][k]), round(float(values["sums"][k].sum()), 6))
        for item, k in state.slots.items()
        if values["bought"][k]
    }


async def test_outcomes_count_once_in_any_order_and_by_the_log(url):
    """Before the answer, after it, after settlement, days later; corrected; and the same after a restart."""
    async with serving(url) as local:
        board = await local.board(goal="value", lifetime=100, outcome_days=3)
        assert (board["goal"], board["outcome_days"], board["outcomes"]) == ("value", 3, 0)
        first, second = await local.rank(client="ann"), await local.rank()
        one, two = first["items"][0], second["items"][1]
        assert (await report(local, first, one, 20.0, "order 1"))["outcome"] == "waiting"
        assert (await local.answer(first, clicked=one))["outcome"] == "waiting"
        assert (await local.answer(second, clicked=two))["outcome"] == "waiting"
        assert sums(local) == {}
        await local.quiet()  # the worker has seen these lists before time passes
        local.clocks.pass_time(101.0)
        await local.quiet()
        assert sums(local)[one] == (1, 20.0)
        assert (await report(local, second, two, 7, "order 2"))["outcome"] == "learnt"
        assert (await report(local, second, two, 7, "order 2"))["outcome"] == "duplicate"
        assert (await report(local, second, two, 2.5, "back", kind="return"))["outcome"] == "learnt"
        assert sums(local)[two] == (1, 4.5) if two != one else (2, 24.5)
        local.clocks.pass_time(2.9 * DAY)
        assert (await report(local, first, one, 5.0, "later"))["outcome"] == "learnt"
        assert (await local.ask("GET", "boards/b"))["outcomes"] == 4
        other = await report(local, first, one, 21.0, "order 1", 409)
        assert other["message"] == "an outcome of this click was reported with this id and another value"
        unclicked = await report(local, first, first["items"][1], 1.0, "x", 409)
        assert unclicked["message"] == "the impression was answered without a click on this item"
        await report(local, first, next(x for x in ITEMS if x not in first["items"]), 1.0, "x", 422)
        for body in ({"value": -1}, {"kind": "a purchase"}, {"id": ""}, {"value": "5"}):
            whole = {"impression": first["impression"], "item": one, "value": 1.0, "id": "y", **body}
            await local.ask("POST", "boards/b/outcomes", whole, 422)
        before, digest = sums(local), local.digest()
        local.clocks.pass_time(DAY)
        assert "outcome_days" in (await report(local, first, one, 5.0, "too late", 410))["message"]
        metrics = (await local.http.get("/metrics")).text
        assert 'steadyrank_board_outcomes{board="b"} 4.0' in metrics
    assert replayed(url) == digest
    async with serving(url, local.clocks, seed=1) as local:
        assert sums(local) == before
        await report(local, second, two, 7, "order 2", 410)


async def aims_at(local, goal):
    await local.ask("PUT", "boards/b", {"goal": goal})
    await until(lambda: local.worker.boards["b"].board.learner_state.aims_at_value == (goal == "value"))


async def test_goals_change_and_the_log_is_folded_again(url):
    """A board of clicks counts outcomes and keeps them: one of value learns them, those of before as well."""
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank()
        await local.answer(shown, clicked=shown["items"][0])
        assert (await report(local, shown, shown["items"][0], 1.0, "a"))["outcome"] == "counted"
        assert (await report(local, shown, shown["items"][0], 1.0, "a"))["outcome"] == "duplicate"
        assert (await local.ask("GET", "boards/b"))["outcomes"] == 1
        await aims_at(local, "value")
        assert sums(local) == {shown["items"][0]: (1, 1.0)}
        shown = await local.rank()
        await local.answer(shown, clicked=shown["items"][0])
        assert (await report(local, shown, shown["items"][0], 3.0, "a"))["outcome"] == "learnt"
        known = sums(local)
        await aims_at(local, "click")
        await aims_at(local, "value")
        assert sums(local) == known
        message = (await local.ask("PUT", "boards/b", {"learner": "CascadeTS"}, 422))["message"]
        assert "SteadyRank" in message
        message = (await local.ask("PUT", "boards/b", {"settings": {"goal": "value"}}, 422))["message"]
        assert "goal" in message
        digest = local.digest()
    assert replayed(url) == digest


async def test_what_a_label_calls_fraud_brings_nothing(url):
    async with serving(url) as local:
        await local.board(goal="value", settle=0)
        shown = [await local.rank() for _ in range(3)]
        for i, each in enumerate(shown):
            await local.answer(each, clicked=each["items"][0])
            await report(local, each, each["items"][0], 10.0, f"order {i}")
        assert sum(n for n, _ in sums(local).values()) == 3
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 2, "label": "fraud"})
        await until(lambda: sum(n for n, _ in sums(local).values()) == 1)
        await local.quiet()
        assert (await report(local, shown[0], shown[0]["items"][0], 1.0, "more"))["outcome"] == "ignored"
        later = await local.rank()
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 4, "label": "fraud"})
        await until(lambda: not local.worker.boards["b"].board.stale)
        await local.answer(later, clicked=later["items"][0])
        assert (await report(local, later, later["items"][0], 1.0, "x"))["outcome"] == "ignored"
        digest = local.digest()
    assert replayed(url) == digest


async def test_what_was_not_clicked_brings_nothing_however_often_it_is_reported(url):
    """One outcome comes before the answer, which has no click on its item: later ones are refused."""
    async with serving(url) as local:
        await local.board(goal="value", settle=0)
        shown = await local.rank()
        clicked, other = shown["items"][:2]
        assert (await report(local, shown, other, 1.0, "early"))["outcome"] == "waiting"
        await local.answer(shown, clicked=clicked)
        for id_ in ("early", "later"):
            await report(local, shown, other, 1.0, id_, 409)
        assert (await report(local, shown, clicked, 1.0, "a"))["outcome"] == "learnt"
        assert sums(local) == {clicked: (1, 1.0)}


async def test_past_clicks_and_lists_of_others_bring_what_came_of_them(url):
    async with serving(url) as local:
        await local.board(goal="value", settle=0)
        rows = [{"items": ITEMS[:3], "clicked": ITEMS[1], "value": 4.0}, {"items": ITEMS[:2], "clicked": ITEMS[0]}]
        for outcome in ("done", "duplicate"):
            assert (await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "june"}))[
                "outcome"
            ] == outcome
        assert sums(local) == {ITEMS[1]: (1, 4.0)}
        body = {"rows": [{"items": ITEMS[:2], "clicked": None, "value": 1.0}]}
        assert "one click" in (await local.ask("POST", "boards/b/history", body, 422))["message"]
        seen = await local.ask("POST", "boards/b/observe", {"id": "1", "items": ITEMS[:2], "clicked": ITEMS[0]})
        assert (await report(local, seen, ITEMS[0], 7.0, "a"))["outcome"] == "learnt"
        assert sums(local) == {ITEMS[1]: (1, 4.0), ITEMS[0]: (1, 7.0)}
        assert (await local.ask("GET", "boards/b"))["outcomes"] == 2
        digest = local.digest()
    assert replayed(url) == digest


async def test_streams_and_lists_of_others_bring_what_came_of_clicks(url):
    """With a list, with its answer, as a message of its own: once each, and nothing of what is wrong is written."""
    async with serving(url) as local:
        await local.board(goal="value", settle=0)
        one = {"id": "1", "items": ITEMS[:2], "clicked": ITEMS[0], "value": 7.0}
        for outcome in ("learnt", "duplicate"):
            assert (await local.ask("POST", "boards/b/observe", one))["outcome"] == outcome
        for wrong in ({"value": -1.0}, {"clicked": None}, {"time": local.worker.clock() - 31 * DAY}):
            code = 410 if "time" in wrong else 422
            await local.ask("POST", "boards/b/observe", {**one, "id": "2", **wrong}, code)
        assert local.worker.boards["b"].board.impressions.last == 1
        shown = await local.rank()
        head = {"board": "b", "impression": shown["impression"]}
        item = shown["items"][0]
        rows = [
            {**head, "clicked": item, "value": 3.0},
            {"board": "b", "id": "3", "items": ITEMS[:2], "clicked": ITEMS[1], "value": 2.0},
            {**head, "item": item, "value": 5.0, "id": "order 1"},
            {**head, "item": item, "value": 5.0},
        ]
        for expected in (["learnt", "learnt", "learnt", None], ["duplicate", "duplicate", "duplicate", None]):
            done = (await local.ask("POST", "ingest", {"rows": rows}))["rows"]
            assert [row["outcome"] for row in done] == expected
            assert "id" in done[3]["message"]
        assert sum(total for _, total in sums(local).values()) == 17.0
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_value_may_come_with_the_answer(url):
    """One request, two events, counted once each; what is refused leaves no answer behind."""
    async with serving(url) as local:
        await local.board(goal="value", settle=0)
        shown = await local.rank()
        item = shown["items"][2]
        for wrong in ({"clicked": item, "value": -1}, {"clicked": None, "value": 1}, {"clicks": [1], "value": 1}):
            body = {"impression": shown["impression"], **wrong}
            await local.ask("POST", "boards/b/feedback", body, 422)
        body = {"impression": shown["impression"], "clicked": item, "value": 6.0}
        for outcome in ("learnt", "duplicate"):
            assert (await local.ask("POST", "boards/b/feedback", body))["outcome"] == outcome
        rows = [{"board": "b", **body}, {"board": "b", **body, "value": 7.0}]
        told = (await local.ask("POST", "feedback", {"feedback": rows}))["feedback"]
        assert [row["code"] for row in told] == [200, 409]
        assert sums(local) == {item: (1, 6.0)}
        digest = local.digest()
    assert replayed(url) == digest


@pytest.mark.always
def test_after_a_kill_outcomes_are_there_once(tmp_path, url):
    """kill -9 between reports: those that were acknowledged count, sent again they are duplicates."""
    server = Server(url, tmp_path / "log")
    try:
        client = server.client()
        client.put_board("b", items=ITEMS, length=4, goal="value", settle=0)
        lists = [client.rank("b") for _ in range(6)]
        for shown in lists:
            client.feedback("b", shown.impression, clicked=shown.items[0])
        rows = [
            {"board": "b", "impression": shown.impression, "item": shown.items[0], "value": 1.0 + i, "id": f"o{i}"}
            for i, shown in enumerate(lists)
        ]
        assert [row["outcome"] for row in client.outcome_batch(rows[:3])] == ["learnt"] * 3
        assert client.outcome("b", lists[3].impression, lists[3].items[0], 4.0, id="o3") == "learnt"
        server.kill()
        server.start()
        told = client.outcome_batch([*rows, {**rows[0], "value": 9.0}, {**rows[0], "board": "none"}])
        assert [row.get("outcome") for row in told[:6]] == ["duplicate"] * 4 + ["learnt"] * 2
        assert [row["code"] for row in told[6:]] == [409, 404]
        assert client.board("b")["outcomes"] == 6
    finally:
        server.kill()


@pytest.mark.always
def test_outcomes_need_a_key(tmp_path, url):
    """Where keys are asked for: an impression's id alone is not enough, as it is for an answer."""
    (admin, one), (key, two), (answers, three) = (make_key([x], None, 0.0) for x in ("admin", "rank", "feedback"))
    with contextlib.closing(open_store(url)) as store:
        for kept in (one, two, three):
            store.add_key(kept)
    server = Server(url, tmp_path / "log")
    try:
        server.client(admin).put_board("b", items=ITEMS, length=4, goal="value", settle=0)
        shown = server.client(key).rank("b")
        server.client().feedback("b", shown.impression, clicked=shown.items[0])
        for wrong in (None, key):
            with pytest.raises(Refused) as refused:
                server.client(wrong).outcome("b", shown.impression, shown.items[0], 1.0, id="a")
            assert refused.value.code in (401, 403)
        other = server.client(key).rank("b")
        for wrong in (None, key):
            with pytest.raises(Refused) as refused:
                server.client(wrong).feedback("b", other.impression, clicked=other.items[0], value=1.0)
            assert refused.value.code in (401, 403)
        told = server.client(answers).feedback("b", other.impression, clicked=other.items[0], value=1.0, id="order 1")
        assert told == "learnt"
        told = server.client(answers).outcome("b", shown.impression, shown.items[0], 1.0, id="a")
        assert told == "learnt"
    finally:
        server.kill()
