"""Answers beyond what a client may send: refused, never taken for non-clicks, and counted so that no trick helps."""

import asyncio
import contextlib

import pytest

from service_tools import ITEMS, Server, logged_events, replayed, serving, wait_until
from steadyrank.service.board import events
from steadyrank.service.storage import open_store
from steadyrank.service.worker import allowances
from steadyrank.service.worker.allowances import Allowances
from steadyrank.service.worker.transfer import bring_in, export, read_board


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def test_clicks_beyond_the_limit_do_not_become_non_clicks(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, lifetime=6, client_minute=60, client_lists=1000)
    shown = [client.rank("b", client="ann") for _ in range(200)]
    rows = [{"board": "b", "impression": s.impression, "clicked": s.items[0]} for s in shown]
    codes = [row["code"] for row in client.feedback_batch(rows)]
    taken = codes.count(200)
    assert 60 <= taken <= 120  # the minute may end meanwhile
    assert set(codes) == {200, 429}
    wait_until(lambda: client.board("b")["unanswered"] == 200 - taken)
    state = client.state("b")
    assert (sum(i["looks"] for i in state["items"]), sum(i["clicks"] for i in state["items"])) == (taken, taken)
    assert state["view"]["rounds"] == taken
    assert server.stop() == 0
    assert replayed(url)


@pytest.mark.parametrize("settle", [0, 10, 100])
async def test_a_refused_answer_leaves_its_list_unanswered_and_unknown(url, settle):
    async with serving(url) as local:
        await local.board(lifetime=100, settle=settle, client_minute=1)
        shown = [await local.rank(client="ann") for _ in range(4)]
        silent = await local.rank(client="ann")
        await local.answer(shown[0], clicked=shown[0]["items"][0])
        for s in shown[1:]:
            for _ in range(3):
                refusal = await local.answer(s, code=429, clicked=s["items"][1])
                assert "client_minute" in refusal["message"]
        written = local.worker.applied
        await local.answer(shown[1], code=429, clicked=None)
        assert local.worker.applied == written  # once is enough
        assert (await local.ask("GET", "boards/b/watch"))["open"] == 4
        local.clocks.pass_time(61)
        await local.answer(shown[1], clicked=shown[1]["items"][0])  # in the next minute
        assert (await local.answer(shown[1], clicked=shown[1]["items"][0]))["outcome"] == "duplicate"
        await local.answer(shown[1], code=409, clicked=None)
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, local.clocks, 1) as local:
        assert local.digest() == digest
        await local.quiet()
        local.clocks.pass_time(101)
        await local.quiet()
        board, state = await local.ask("GET", "boards/b"), await local.ask("GET", "boards/b/state")
        assert (board["answers"], board["unanswered"]) == (2, 3)
        # two answers at the first place, and the list of which nothing was ever said
        assert sum(item["looks"] for item in state["items"]) == 2 + len(silent["items"])
        await local.answer(shown[2], code=410, clicked=None)
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_refused_answer_whose_list_was_never_logged_is_unknown_as_well(url):
    """Its worker died before it wrote the list: the id says what was shown."""
    async with serving(url) as local:
        await local.board(lifetime=100, client_minute=1)
        await local.answer(await local.rank(client="ann"), clicked=None)
        put = local.worker.log_writer.put_event
        local.worker.log_writer.put_event = lambda *arguments, **options: None
        shown = await local.rank(client="ann")
        local.worker.log_writer.put_event = put
        await local.answer(shown, code=429, clicked=None)
        await local.quiet()
        local.clocks.pass_time(101)
        await local.quiet()
        state = await local.ask("GET", "boards/b/state")
        assert (state["board"]["impressions"], state["board"]["unanswered"]) == (2, 1)
        assert sum(item["looks"] for item in state["items"]) == 4
        digest = local.digest()
    assert replayed(url) == digest


async def test_the_same_answer_again_costs_nothing(url):
    async with serving(url) as local:
        await local.board(settle=0, client_minute=2)
        one, two, three = [await local.rank(client="ann") for _ in range(3)]
        before = local.worker.applied
        at_once = await asyncio.gather(*(local.answer(one, clicked=one["items"][0]) for _ in range(20)))
        assert sorted(a["outcome"] for a in at_once) == ["duplicate"] * 19 + ["learnt"]
        assert local.worker.applied - before <= 3 + 1  # of twenty, one was written
        for _ in range(20):
            assert (await local.answer(one, clicked=one["items"][0]))["outcome"] == "duplicate"
        assert (await local.answer(two, clicked=None))["outcome"] == "learnt"
        await local.answer(three, code=429, clicked=None)
        assert (await local.answer(two, clicked=None))["outcome"] == "duplicate"  # also when nothing is left


async def test_leaving_the_client_out_does_not_lift_the_limit(url):
    async with serving(url) as local:
        await local.board(settle=0, anonymous_minute=3)
        shown = [await local.rank() for _ in range(5)]
        for s in shown[:3]:
            await local.answer(s, clicked=None)
        for s in shown[3:]:
            assert "anonymous_minute" in (await local.answer(s, code=429, clicked=None))["message"]
        named = await local.rank(client="ann")
        await local.answer(named, clicked=None)


async def test_workers_share_the_allowance(url):
    async with serving(url) as one, serving(url, seed=5) as other:
        await one.board(settle=0, client_minute=4, anonymous_minute=4)
        await other.quiet()
        for name in ("ann", None):
            shown = [await one.rank(client=name) for _ in range(6)]
            await one.quiet()
            await other.quiet()
            for k, s in enumerate(shown[:4]):
                await (one, other)[k % 2].answer(s, clicked=None)
            await one.quiet()
            await other.quiet()
            for local in (one, other):
                await local.answer(shown[4], code=429, clicked=None)
        await one.quiet()
        await other.quiet()
        assert one.digest() == other.digest() == replayed(url)


async def test_lists_of_a_client_are_limited_and_a_refused_one_costs_nothing(url):
    async with serving(url) as local:
        assert (await local.board(settle=0))["client_lists"] == 120
        await local.ask("PUT", "boards/b", {"client_lists": 3})
        await local.ask("POST", "boards/b/rank", {"client": "ann", "candidates": ["no item"]}, 422)
        for _ in range(3):
            await local.rank(client="ann")
        refused = await local.ask("POST", "boards/b/rank", {"client": "ann"}, 429)
        assert "client_lists" in refused["message"]
        for who in ({"client": "bob"}, {}, {}, {}, {}):
            await local.rank(**who)
        await local.quiet()
        assert (await local.ask("GET", "boards/b"))["rounds"] == 8
        local.clocks.pass_time(60)
        await local.rank(client="ann")


async def test_workers_share_the_allowance_of_lists(url):
    async with serving(url) as one, serving(url, seed=5) as other:
        await one.board(client_lists=4)
        await other.quiet()
        for local in (one, other, one, other):
            await local.rank(client="ann")
            for each in (local, one, other):  # the list is in the log first
                await each.quiet()
        for local in (one, other):
            await local.ask("POST", "boards/b/rank", {"client": "ann"}, 429)


def test_many_ids_do_not_reset_the_allowance(monkeypatch):
    monkeypatch.setattr(allowances, "_MOST", 1_000)
    counted = Allowances()
    over = range(1, 11)
    for client in over:
        assert [counted.spend(client, None, 5, 1.0) for _ in range(6)] == [True] * 5 + [False]
    for client in range(100, 20_100):
        assert counted.spend(client, None, 5, 2.0)
        assert len(counted._counts) <= 1_000
    assert not any(counted.spend(client, None, 5, 3.0) for client in over)
    for client in range(30_000, 31_000):  # a table full of those who may send no more has no room for others
        while counted.spend(client, None, 5, 4.0):
            pass
    assert not counted.spend(99_999, None, 5, 5.0)
    assert not counted.spend(1, None, 5, 59.9)
    assert counted.spend(1, None, 5, 60.0)  # another minute


def test_an_answer_that_could_not_be_written_is_given_back():
    counted = Allowances()
    assert counted.spend(7, None, 1, 0.0)
    counted.give_back(7)
    assert counted.spend(7, None, 1, 0.0)
    counted.forget(7)
    counted.give_back(7)
    assert [counted.spend(7, 3, 2, 0.0) for _ in range(3)] == [True, True, False]
    counted.note(4, 2, 0.0)
    assert [counted.spend(8, 4, 2, 0.0) for _ in range(2)] == [True, False]


async def test_refused_answers_are_in_the_file_of_a_board(url, tmp_path):
    async with serving(url) as local:
        await local.board(settle=0, client_minute=1)
        for code in (200, 429):
            await local.answer(await local.rank(client="ann"), code=code, clicked=None)
        digest = local.digest()
    place = tmp_path / "b.jsonl"
    with contextlib.closing(open_store(url)) as store:
        export(store, "b", place, False, lambda count: None)
        found = logged_events(store)
        assert sum(isinstance(event, events.Withheld) for event in found) == 1
        assert bring_in(store, read_board(place), "copy")[0] == "copy"
    assert replayed(url, "copy") == digest
