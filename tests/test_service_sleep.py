"""Boards that are not in memory: they wake as they would be had they never slept, and nothing of them is missed."""

import asyncio
import contextlib
import gc
import signal
import urllib.request
import weakref

import msgspec
import pytest

from service_tools import ITEMS, Clocks, Server, logged_events, replayed, serving, sql, until, wait_until
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.storage import Fenced, Unavailable, open_store
from steadyrank.service.worker import board_cache
from steadyrank.service.worker.board_cache import BoardSummary
from steadyrank.service.worker.board_session import DueClock, Reached
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.store_threads import StoreThreads
from test_service import traffic


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def asleep(local, *names):
    """Until these boards sleep."""
    await until(lambda: all(name in local.worker.cache.evicted for name in names))


async def digest(local, name):
    async with local.worker.cache.hold_board(name):
        return local.digest(name)


@pytest.mark.parametrize("after", [3, 10_000])
async def test_a_board_that_slept_is_byte_for_byte_one_that_never_did(url, after, monkeypatch):
    monkeypatch.setattr(board_cache, "SNAPSHOT_AFTER", after)  # it wakes from snapshots, or from its log
    names = ["a", "b", "c", "d"]
    clocks, slept = Clocks(), set()
    async with serving(url, clocks, 1, most_awake=1) as drowsy, serving(url, clocks, 2) as awake:
        for k, name in enumerate(names):
            await drowsy.board(name, settle=[None, 0, 20.0, 300.0][k], lifetime=300.0, client_minute=100)
        for turn in range(6):
            for k, name in enumerate(names):
                await traffic(drowsy, 8, name, seed=turn)
                await traffic(awake, 3, name, seed=turn + 100)
                if turn == 2:
                    await drowsy.ask("POST", f"boards/{name}/items", {"items": ["late item"]})
                if turn == 3 and k == 1:
                    await awake.ask("PUT", f"boards/{name}", {"seed": 5})
                if turn == 4 and k == 2:
                    await drowsy.ask("POST", f"boards/{name}/labels", {"start": 2, "end": 9, "label": "fraud"})
            clocks.pass_time(130.0)
            await drowsy.quiet()
            await awake.quiet()
            slept |= set(drowsy.worker.cache.evicted)
        assert slept == set(names)
        for name in names:
            await until(lambda: not awake.worker.boards[name].board.stale)  # noqa: B023
            await awake.worker.catch_up()
            await drowsy.worker.catch_up()
            assert await digest(drowsy, name) == awake.digest(name) == replayed(url, name)
        assert awake.worker.divergences == drowsy.worker.divergences == 0
    snapshots = sql(url, "SELECT COUNT(*) FROM snapshots")[0][0]
    assert (snapshots > 4) == (after == 3)  # those that were folded again have one in any case


@pytest.mark.parametrize("settle", [None, 50.0])
async def test_what_is_due_wakes_a_board(url, settle):
    async with serving(url, most_awake=1) as local:
        await local.board("a", lifetime=100.0, settle=settle)
        first, second = await local.rank("a"), await local.rank("a")
        assert (await local.answer(first, "a", clicked=first["items"][0]))["outcome"] == "waiting"
        await local.board("b")
        await local.rank("b")
        await asleep(local, "a")
        local.clocks.pass_time(49.0)
        await local.quiet()
        assert "a" in local.worker.cache.evicted
        local.clocks.pass_time(52.0)
        await until(lambda: "a" not in local.worker.cache.evicted)
        await until(lambda: any(isinstance(e, events.Expired) for e in logged(url)))
        await local.quiet()  # it is applied after it is written
        assert (await local.ask("GET", "boards/a"))["unanswered"] == 1
        await local.answer(second, "a", code=410, clicked=None)
        assert await digest(local, "a") == replayed(url, "a")


def logged(url):
    with contextlib.closing(open_store(url)) as store:
        return logged_events(store)


def expired(url):
    """Boards of which the log says that lists were not answered."""
    with contextlib.closing(open_store(url)) as store:
        entries = store.entries(0, store.head())
        return {entry.board for entry in entries if isinstance(events.decode(entry.body), events.Expired)}


async def test_after_a_restart_what_is_open_ends_though_nobody_asks(url):
    clocks = Clocks()
    async with serving(url, clocks, most_awake=1) as local:
        for name in ("a", "b", "c"):
            await local.board(name, lifetime=100.0)
            await local.rank(name)
        await asleep(local, "a", "b")
    async with serving(url, clocks, most_awake=1) as local:
        listed = await local.ask("GET", "boards")
        assert [board["impressions"] for board in listed["boards"]] == [1, 1, 1]
        assert local.worker.cache.count_boards() == {"awake": 1, "asleep": 2, "parked": 0}
        await local.quiet()
        clocks.pass_time(101.0)
        await until(lambda: len(expired(url)) == 3)
        await local.quiet()
        for name in ("a", "b", "c"):
            assert (await local.ask("GET", f"boards/{name}"))["unanswered"] == 1


async def test_lists_of_a_worker_that_died_are_ended_by_one_where_the_board_sleeps(url):
    clocks = Clocks()
    async with serving(url, clocks, 1, most_awake=1) as here:
        await here.board("a", lifetime=100.0)
        await here.board("b")
        await here.rank("b")
        await asleep(here, "a")
        async with serving(url, clocks, 2) as there:
            for _ in range(12):  # as long as the other one ends a list within 26 seconds, nothing wakes
                await there.rank("a")
                await there.quiet()
                await here.worker.catch_up()
                clocks.pass_time(20.0)
                await there.quiet()
                await here.quiet()
            assert "a" in here.worker.cache.evicted
            assert any(isinstance(e, events.Expired) for e in logged(url))
            await there.rank("a")
            await there.quiet()
        await here.worker.catch_up()
        clocks.pass_time(126.5)
        await until(lambda: here.worker.cache.evicted.get("a") is None)
        await here.quiet()
        clocks.pass_time(101.0)
        for _ in range(100):  # it may have been evicted once more meanwhile, and is then being loaded
            await here.quiet()
            shown = await here.ask("GET", "boards/a")
            if shown["unanswered"] == 13:
                break
        assert (shown["impressions"], shown["unanswered"]) == (13, 13)
        assert await digest(here, "a") == replayed(url, "a")


async def test_sleep_gives_no_second_allowance_and_no_second_round(url):
    async with serving(url, most_awake=1) as local:
        await local.board("a", client_minute=1, settle=0)
        await local.board("b")
        one = await local.rank("a", client="ann")
        await local.answer(one, "a", clicked=None)
        await local.rank("b")
        await asleep(local, "a")
        two = await local.rank("a", client="ann")
        await local.answer(two, "a", code=429, clicked=None)
        await local.quiet()
        rounds = [event.round for event in logged(url) if isinstance(event, events.ListShown)]
        assert rounds == [1, 1, 2]


async def test_what_is_done_to_a_sleeping_board_is_done_to_a_board(url):
    async with serving(url, most_awake=1) as local:
        for name in ("a", "b", "c"):
            await local.board(name)
        await asleep(local, "a", "b")
        assert (await local.ask("PUT", "boards/a", {"lifetime": 7.0}))["lifetime"] == 7.0
        await local.rank("c")
        await asleep(local, "a")
        listed = await local.ask("GET", "boards")
        assert [(board["board"], board["lifetime"]) for board in listed["boards"]] == [
            ("a", 7.0), ("b", 1800.0), ("c", 1800.0),
        ]  # fmt: skip
        page = (await local.http.get("/metrics")).text
        assert 'steadyrank_boards{state="awake"} 1.0' in page
        assert 'steadyrank_boards{state="asleep"} 2.0' in page
        await local.ask("DELETE", "boards/a")
        await local.ask("POST", "boards/a/rank", {}, code=404)
        await local.board("a", lifetime=9.0)  # another one of the same name
        await local.rank("c")
        await asleep(local, "a")
        assert (await local.ask("GET", "boards/a"))["lifetime"] == 9.0
        shown = await local.rank("b")
        answers = {"feedback": [{"board": "b", "impression": shown["impression"], "clicked": None}]}
        await local.rank("c")
        await asleep(local, "b")
        assert (await local.ask("POST", "feedback", answers))["feedback"][0]["outcome"] == "waiting"


async def test_nobody_wakes_a_board_with_ids_that_it_did_not_sign(url):
    async with serving(url, most_awake=1) as local:
        await local.board("a", settle=0)
        await local.ask("POST", "boards/a/secret")
        mine = await local.rank("a")
        await local.board("b", settle=0)
        other = await local.rank("b")
        await asleep(local, "a")
        await local.answer(other, "a", code=403, clicked=None)
        await local.answer({"impression": "made up"}, "a", code=403, clicked=None)
        assert "a" in local.worker.cache.evicted
        assert (await local.answer(mine, "a", clicked=None))["outcome"] == "learnt"
        assert "a" not in local.worker.cache.evicted


async def test_a_deletion_elsewhere_is_heard_of_in_sleep(url):
    clocks = Clocks()
    async with serving(url, clocks, 1, most_awake=1) as here, serving(url, clocks, 2) as there:
        await here.board("a")
        await here.board("b")
        await asleep(here, "a")
        await there.worker.catch_up()
        await there.ask("DELETE", "boards/a")
        await here.worker.catch_up()
        assert [board["board"] for board in (await here.ask("GET", "boards"))["boards"]] == ["b"]
        await here.ask("GET", "boards/a", code=404)


async def test_a_board_that_cannot_be_read_when_it_wakes_is_named(url):
    async with serving(url, most_awake=1) as local:
        await local.board("a")
        await local.board("b")
        await asleep(local, "a")
        number = local.worker.cache.evicted["a"].number
        sql(url, "DELETE FROM events WHERE board = ?", number)
        await local.ask("POST", "boards/a/rank", {}, code=503)
        assert (await local.ask("GET", "boards"))["broken"] == ["a"]
        await local.rank("b")


async def test_a_board_that_cannot_be_read_now_sleeps_on_and_wakes_later(url, monkeypatch):
    async with serving(url, most_awake=1) as local:
        await local.board("a", lifetime=100.0)
        await local.rank("a")
        await local.board("b")
        await asleep(local, "a")
        await until(lambda: sql(url, "SELECT 1 FROM rests"))  # what it leaves is written: no thread opens a store now
        tried = []

        def away(address, fences=None):
            tried.append(address)
            raise Unavailable("away")

        for store in local.worker.cache._readers._stores:
            monkeypatch.setattr(store, "reading", lambda: away(url))
        monkeypatch.setattr("steadyrank.service.worker.store_threads.open_store", away)
        await local.ask("POST", "boards/a/rank", {}, code=503)
        await local.rank("b")
        local.clocks.pass_time(101.0)  # what is due is tried, and tried again
        count = len(tried)
        await until(lambda: len(tried) > count)
        assert "a" in local.worker.cache.evicted
        monkeypatch.undo()
        local.clocks.pass_time(5.1)
        await until(lambda: any(isinstance(e, events.Expired) for e in logged(url)))
        await local.quiet()  # it is applied after it is written
        assert (await local.ask("GET", "boards/a"))["unanswered"] == 1


async def test_settings_changed_elsewhere_are_known_though_the_board_could_not_wake_at_once(url, monkeypatch):
    clocks = Clocks()
    async with serving(url, clocks, 1, most_awake=1) as here, serving(url, clocks, 2) as there:
        await here.board("a")
        await here.board("b")
        await asleep(here, "a")
        await there.worker.catch_up()
        faults = [RuntimeError("odd"), Unavailable("away")]
        real = board_cache.load

        def load(*board):
            if faults:
                raise faults.pop()
            return real(*board)

        monkeypatch.setattr(board_cache, "load", load)
        await there.ask("PUT", "boards/a", {"lifetime": 5.0})
        await here.worker.catch_up()
        while faults:
            await here.quiet()
            clocks.pass_time(5.1)
        await here.quiet()
        clocks.pass_time(5.1)
        await until(lambda: here.worker.cache.evicted.get("a") is None or "a" in slept_with(here, 5.0))
        assert [board["lifetime"] for board in (await here.ask("GET", "boards"))["boards"]] == [5.0, 1800.0]


def slept_with(local, lifetime):
    evicted = local.worker.cache.evicted.values()
    return [board.name for board in evicted if board.is_known and board.summary().delays()[0] == lifetime]


async def test_memory_is_given_back(url):
    async with serving(url, most_awake=1) as local:
        await local.board("a")
        await traffic(local, 20, "a")
        board = weakref.ref(local.worker.boards["a"].board)
        gc.disable()  # a board in a cycle would stay until all of memory is looked through
        try:
            await local.board("b")
            await asleep(local, "a")
            await until(lambda: board() is None, 5.0)
        finally:
            gc.enable()


async def test_requests_at_the_same_time_wake_a_board_once_and_keep_it_awake(url):
    async with serving(url, most_awake=1) as local:
        for name in "abcdef":
            await local.board(name, settle=0)
        shown = await asyncio.gather(*(local.rank(name) for name in "abcdef" * 5))
        assert len({one["impression"] for one in shown}) == 30
        outcomes = await asyncio.gather(
            *(local.answer(one, name, clicked=None) for one, name in zip(shown, "abcdef" * 5, strict=True))
        )
        assert [found["outcome"] for found in outcomes] == ["learnt"] * 30
        for name in "abcdef":
            assert await digest(local, name) == replayed(url, name)


def test_moments_are_thinned_to_an_eighth_of_the_delay():
    clock = DueClock()
    for k in range(1, 101):
        assert not list(clock.due(float(k), Reached(k, 0, 0), 800.0, 800.0))
    clock.thin()
    reached = Reached(100, 0, 0)
    assert len(clock._queues["over"].moments) == 2
    assert clock.next(reached) == 801.0
    assert list(clock.due(801.0, reached, 800.0, 800.0)) == [events.Expired(1)]
    assert clock.next(Reached(100, 1, 1)) == 900.0
    assert list(clock.due(900.0, Reached(100, 1, 1), 800.0, 800.0)) == [events.Expired(100)]
    assert clock.next(Reached(100, 100, 100)) == float("inf")


def test_boards_survive_a_kill_and_an_end_though_most_of_them_sleep(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    server = Server(url, tmp_path / "log", options=["--awake-boards", "2"]).wait()
    client = server.client()
    names = [f"b{k:02}" for k in range(12)]
    for name in names:
        client.put_board(name, items=ITEMS, length=4, settle=0)
        shown = client.rank(name)
        client.feedback(name, shown.impression, clicked=shown.items[0])
    before = client.boards()
    assert [board["board"] for board in before] == names
    assert {(board["impressions"], board["answers"]) for board in before} == {(1, 1)}
    server.kill()
    server.start()
    server.wait()
    client = server.client()
    assert client.boards() == before
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=30) == 0
    server.start()
    server.wait()
    client = server.client()
    assert client.boards() == before
    for name in names:
        assert client.rank(name).items
    wait_until(lambda: b'state="asleep"} 10' in urllib.request.urlopen(f"{server.address}/metrics").read())
    server.stop()
    with contextlib.closing(open_store(url)) as store:
        for number, (name, _) in store.boards().items():
            assert rebuild(store, number, name, store.head()).summary(name).impressions == 2


async def test_what_another_version_left_of_a_sleeping_board_is_not_used(url):
    async with serving(url, most_awake=1) as local:
        for name in ("a", "b", "c"):
            await local.board(name, settle=0)
        before = await local.ask("GET", "boards")
    for body in (b"", msgspec.msgpack.encode([1, [], 0, 0])):
        sql(url, "UPDATE rests SET body = ?", body)
        async with serving(url, most_awake=1) as local:
            assert await local.ask("GET", "boards") == before


def test_a_sleeping_board_takes_few_bytes():
    assert len(BoardSummary.of(Board.create(Config(), ITEMS)).encode()) < 256


async def test_a_connection_is_made_anew_after_a_failure_but_not_where_a_partition_has_another_owner(url):
    def fail(error):
        raise error

    threads = StoreThreads("reader", url)
    first = await threads.run(lambda store: store)
    with pytest.raises(Fenced):
        await threads.run(lambda store: fail(Fenced([3])))
    assert await threads.run(lambda store: store) is first
    with pytest.raises(Unavailable):
        await threads.run(lambda store: fail(Unavailable("away")))
    second = await threads.run(lambda store: store)
    assert second is not first
    assert second.partitions == 1
    threads.close()
