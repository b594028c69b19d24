"""What must not happen: a fault at the wrong moment that loses, doubles or blocks something."""

import asyncio
import contextlib
import logging
import re
import socket
import sqlite3
import threading

import pytest

from service_tools import ITEMS, Clocks, Local, answered, number_of, replayed, serving, sql, until
from steadyrank.cli import main
from steadyrank.client import Client
from steadyrank.core.refusals import Refused
from steadyrank.live import snapshot
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.http.app import Service
from steadyrank.service.storage import Unavailable, open_store, sql_store
from steadyrank.service.storage.sql_store import SqlStore
from steadyrank.service.worker import impression_ids, log_writer, recovery
from steadyrank.service.worker import worker as worker_module
from steadyrank.service.worker.log_writer import Inbox
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board
from steadyrank.service.worker.worker import Worker


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@contextlib.contextmanager
def blind(worker, monkeypatch):
    """Meanwhile this worker sees nothing that others write."""
    seen, thread, real = dict(worker.worker.log_writer.seen), worker.worker.log_writer._thread, SqlStore.heads

    def heads(store, partitions):
        return seen if threading.current_thread() is thread else real(store, partitions)

    with monkeypatch.context() as patched:
        patched.setattr(SqlStore, "heads", heads)
        yield


async def test_a_stop_while_the_log_is_folded_again_forgets_no_setting(url, monkeypatch):
    async def slow(url, session):
        await asyncio.sleep(30)

    monkeypatch.setattr("steadyrank.service.worker.worker.fold_again", slow)
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 10)
        change = asyncio.create_task(local.http.put("/v1/boards/b", json={"learner": "CascadeTS"}))
        await until(lambda: local.worker.boards["b"].board.stale)
        change.cancel()
    monkeypatch.undo()
    async with serving(url, seed=1) as local:
        assert (await local.ask("GET", "boards/b"))["learner"] == "CascadeTS"
        digest = local.digest()
    assert replayed(url) == digest


async def test_folding_again_is_tried_again_and_takes_no_snapshot_meanwhile(url, monkeypatch):
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 5)
    fails = iter([Unavailable("away"), RuntimeError("worse")])

    async def flaky(url, session):
        failure = next(fails, None)
        if failure is None:
            return await recovery.fold_again(url, session)
        await answered(local, 5)
        raise failure

    monkeypatch.setattr("steadyrank.service.worker.worker.fold_again", flaky)
    async with serving(url) as local:
        await local.board(settle=0)
        assert (await local.ask("PUT", "boards/b", {"learner": "CascadeTS"}))["learner"] == "CascadeTS"
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest


async def test_changes_of_settings_at_the_same_time_are_all_kept(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 20)
        changes = [{"learner": "CascadeTS"}, {"client_minute": 5}, {"length": 3}, {"lifetime": 99.0}]
        await asyncio.gather(*(local.ask("PUT", "boards/b", change) for change in changes))
        board = await local.ask("GET", "boards/b")
        assert all(board[key] == value for change in changes for key, value in change.items())
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest


async def test_boards_made_at_the_same_time_get_all_items_and_one_set_of_settings(url):
    async with serving(url) as local:
        bodies = [{"items": [f"{i}", "x"], "length": i} for i in range(1, 5)]
        made = await asyncio.gather(*(local.ask("PUT", "boards/new", body) for body in bodies))
        board = await local.ask("GET", "boards/new")
        assert board["items"] == 5
        assert board["length"] in {body["length"] for body in bodies}
        assert len({b["board"] for b in made}) == 1


@pytest.mark.parametrize("settings", [{"a": 10**30}, {"a": 2**60}, {"a": -(2**60)}])
async def test_a_setting_beyond_numbers_is_refused_and_the_log_writer_lives(url, settings):
    async with serving(url) as local:
        await local.board(settle=0, learner="CascadeUCBV")
        await local.ask("PUT", "boards/b", {"settings": settings}, 422)
        await local.ask("PUT", "boards/c", {"items": ["x"], "learner": "CascadeUCBV", "settings": settings}, 422)
        await local.ask("PUT", "boards/b", {"seed": 2**62}, 422)
        await local.ask("PUT", "boards/b", {"length": 1000, "most_open": 100_000}, 422)
        await answered(local, 3)


async def test_longer_lists_and_fewer_of_them_fold_though_the_past_had_more(url):
    """The log is folded with lists of 1,000 places while 100,000 of them could be open: too many by today's rule."""
    async with serving(url) as local:
        await local.board(length=2)
        await local.answer(await local.rank(), clicked=None)
        await local.ask("PUT", "boards/b", {"length": 1000, "most_open": 10_000})
        digest = local.digest()
    assert replayed(url) == digest


async def test_settings_that_are_equal_but_written_otherwise_fold_alike(url):
    async with serving(url) as local:
        await local.board(settle=0, settings={"caution": 1})
        await answered(local, 5)
        await local.ask("PUT", "boards/b", {"settings": {"caution": 1.0}})
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest


async def test_an_event_that_cannot_be_applied_parks_its_board_alone(url, caplog):
    """An id for items that the board does not have, as after a move from an older copy of it, is refused; an event
    that fails half-way leaves memory that nobody else has."""
    with caplog.at_level(logging.ERROR):
        async with serving(url) as local:
            await local.board(settle=0)
            await local.board("c", settle=0)
            await answered(local, 3)
            session = local.worker.boards["b"]
            shown_list = impression_ids.ImpressionId(
                5, 1, 0, session.board.generation, local.clocks.wall + 9, 0, [400, 401], [(9999, 1.0)]
            )
            shown = {"impression": impression_ids.seal(shown_list, session.signer)}
            await local.answer(shown, code=422, clicked=None)
            digest = local.digest()
            with pytest.raises(Refused, match=r"'b' is parked: event \d+ cannot be applied \(IndexError") as refusal:
                await local.worker.write_event(session, events.History([events.Past(["a"], [-99], 1)], ""))
            assert refusal.value.code == 503
            await local.ask("POST", "boards/b/rank", {}, 503)
            await answered(local, 3, "c")
        async with serving(url, seed=1) as local:
            await local.ask("POST", "boards/b/rank", {}, 503)
            await answered(local, 3, "c")
        sql(url, "DELETE FROM events WHERE seq = ?", int(re.search(r"event (\d+)", local.worker.parked["b"].why)[1]))
        async with serving(url, seed=2) as local:
            assert local.digest() == digest
            await answered(local, 3)
    assert "cannot be applied" in caplog.text


async def test_a_board_that_cannot_be_read_is_left_out_and_the_others_are_served(url, caplog, capsys):
    async with serving(url) as local:
        for name in ("b", "bad"):
            await local.board(name, settle=0)
            await answered(local, 3, name)
    kept = open_store(url)
    bad = number_of(kept, "bad")
    sql(url, "DELETE FROM snapshots WHERE board = ?", bad)
    sql(url, "UPDATE boards SET edge = 1 WHERE id = ?", bad)
    kept.close()
    async with serving(url, seed=1) as local:
        await answered(local, 3)
        refusal = await local.ask("POST", "boards/bad/rank", {}, 503)
        why = "board 'bad': no snapshot can be read, and the beginning of its log is no longer kept"
        assert refusal["message"] == f"board 'bad' is parked: {why}"
        seen = await local.ask("GET", "boards")
        assert ([board["board"] for board in seen["boards"]], seen["broken"]) == (["b"], ["bad"])
        assert seen["parked"] == [{"board": "bad", "why": why}]
    assert "board parked" in caplog.text
    assert main(["boards", "--store", url]) == 0
    assert "bad                     cannot be read" in capsys.readouterr().out


async def test_a_failed_start_is_logged_and_tried_again(url, monkeypatch, caplog):
    with caplog.at_level(logging.ERROR):
        faults = iter([RuntimeError("a bad day")])

        def once(url, *limits):
            for fault in faults:
                raise fault
            return recovery.recover(url, *limits)

        monkeypatch.setattr("steadyrank.service.worker.worker.recover", once)
        worker = Worker(url)
        app = Service(worker).app()
        async with app.router.lifespan_context(app):
            local = Local(worker, Clocks(), Service(worker))
            await local.ask("GET", "boards", code=503)
            await until(lambda: worker.ready)
            assert (await local.ask("GET", "boards"))["boards"] == []
            await local.http.aclose()
    assert "a bad day" in caplog.text


async def test_an_impression_once_forgotten_stays_forgotten(url):
    async with serving(url) as local:
        await local.board(settle=0, most_open=2)
        first = await local.rank()
        await local.answer(first, clicked=None)
        for _ in range(4):
            await local.rank()
        await local.quiet()
        await local.answer(first, code=410, clicked=None)
        await local.ask("PUT", "boards/b", {"most_open": 1000})
        for _ in range(4):
            await local.rank()
        await local.quiet()
        events_before = local.worker.applied
        for _ in range(5):
            await local.answer(first, code=410, clicked=None)
        assert local.worker.applied == events_before
        assert local.worker.boards["b"].board.answers == 1


def test_a_list_logged_after_it_was_answered_and_forgotten_is_not_opened_again():
    board = Board.create(Config(length=2, settle=0, most_open=2), ["a", "b", "c"])
    board.apply(events.Answered(7, 1, 0, 0, [0, 1], [], [], 2))
    for key in (8, 9, 10):
        board.apply(events.ListShown(key, 2, 1, 0, [0, 1], []))
    last = board.impressions.last
    board.take(events.ListShown(7, 1, 0, 0, [0, 1], []))
    assert board.impressions.last == last


def test_a_snapshot_that_is_written_later_holds_no_later_item():
    board = Board.create(Config(length=2), ["a", "b", "c"])
    board.apply(events.Added(["d"]))  # from here on there is room for more
    before, kept = board.digest(), board.keep()
    board.apply(events.Added(["e"]))
    restored = Board.restore(snapshot.pack(*kept), "it")
    assert restored.digest() == before
    restored.apply(events.Added(["e"]))
    assert restored.digest() == board.digest()


async def test_a_log_shortened_before_a_change_of_learner_can_be_read_and_moved(url, tmp_path):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 30)
        await local.ask("PUT", "boards/b", {"learner": "CascadeTS"})
        await local.ask("PUT", "boards/b", {"learner": "CascadeUCB1", "lifetime": 77})
        await answered(local, 10)
        await local.quiet()
        digest = local.digest()
    kept = open_store(url)
    assert compact(kept, 0.0, 30)["b"] > 0
    # the snapshots after the edge are lost
    sql(url, "DELETE FROM snapshots WHERE seq > ?", kept.shortened(number_of(kept)))
    assert rebuild(kept, number_of(kept), "b", kept.head()).digest() == digest
    export(kept, "b", tmp_path / "b.jsonl", False, lambda count: None)
    kept.close()
    other = open_store(f"sqlite:///{tmp_path}/other.db")
    bring_in(other, read_board(tmp_path / "b.jsonl"), "c")
    assert rebuild(other, number_of(other, "c"), "c", other.head()).digest() == digest
    assert compact(other, 0.0, 10)["c"] > 0
    assert rebuild(other, number_of(other, "c"), "c", other.head()).digest() == digest
    other.close()


async def test_two_compactions_at_once_and_a_damaged_snapshot_lose_nothing(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 60)
        await local.quiet()
        digest = local.digest()
    one, other = open_store(url), open_store(url)
    number, real = number_of(one), recovery.rebuild

    def meanwhile(*arguments):
        board = real(*arguments)
        monkeypatch.setattr("steadyrank.service.worker.transfer.rebuild", real)
        assert compact(other, 0.0, 20)["b"] > 0
        return board

    edge = one.edge(number, 0.0, 40)
    sql(url, "INSERT INTO snapshots VALUES (?, ?, ?, 0)", number, edge, b"damaged")
    monkeypatch.setattr("steadyrank.service.worker.transfer.rebuild", meanwhile)
    assert compact(one, 0.0, 40) == {"b": 0}
    assert rebuild(one, number, "b", one.head()).digest() == digest
    one.close()
    other.close()


async def test_a_worker_that_was_away_while_the_log_was_shortened_reads_it_again(url, monkeypatch):
    async with serving(url) as local, serving(url, seed=5) as other:
        await local.board(settle=0)
        await other.quiet()
        with blind(other, monkeypatch):
            await answered(local, 50)
            kept = open_store(url)
            assert compact(kept, 0.0, 10)["b"] > 0
            kept.close()
        await until(lambda: other.worker.ready and other.worker.boards["b"].board.answers == 50)
        assert other.digest() == local.digest()


async def test_a_long_log_of_others_is_caught_up_with_in_parts(url, monkeypatch):
    monkeypatch.setattr(log_writer, "MOST_READ", 7)
    delivered, real = [], Inbox.deliver

    def deliver(self, lines, made):
        delivered.append((self, len(lines), any(line.waiting for line in lines)))
        real(self, lines, made)

    async with serving(url) as local, serving(url, seed=5) as other:
        await local.board(settle=0)
        await other.quiet()
        with blind(other, monkeypatch):
            await answered(local, 40)
            monkeypatch.setattr(Inbox, "deliver", deliver)
        shown = await other.rank()
        assert (await other.answer(shown, clicked=None))["outcome"] == "learnt"  # after all of them
        assert other.worker.boards["b"].board.answers == 41
        parts = [size for whose, size, own in delivered if whose is other.worker._inbox and not own]
        assert len(parts) >= 10
        assert max(parts) <= 7
        await local.quiet()
        assert other.digest() == local.digest()


@pytest.mark.parametrize("name", ["boards", "entries"])
async def test_a_store_that_fails_while_the_log_is_read_loses_no_event(url, monkeypatch, name):
    """Another worker makes a board and answers lists; this one cannot read the log at first, whichever call fails."""
    monkeypatch.setattr(log_writer, "MOST_READ", 7)
    async with serving(url) as local, serving(url, seed=5) as other:
        real, failures = getattr(SqlStore, name), []

        def failing(self, *arguments, **options):
            if threading.current_thread() is other.worker.log_writer._thread and len(failures) < 3:
                failures.append(None)
                raise Unavailable("gone for a moment")
            return real(self, *arguments, **options)

        monkeypatch.setattr(SqlStore, name, failing)
        await local.board(settle=0)
        await answered(local, 20)
        await until(lambda: "b" in other.worker.boards and other.worker.boards["b"].board.answers == 20)
        assert len(failures) == 3
        assert other.digest() == local.digest()


async def test_nothing_is_kept_of_the_clients_of_a_deleted_board(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await local.rank(client="somebody")
        await local.ask("DELETE", "boards/b")
        await until(lambda: sql(url, "SELECT * FROM clients") == [])


async def test_a_long_log_is_deleted_in_slices_after_the_board(url, monkeypatch):
    monkeypatch.setattr(sql_store, "_SLICE", 7)
    async with serving(url) as local:
        await local.board("other", settle=0)
        await local.board(settle=0)
        await answered(local, 20)
        await answered(local, 5, "other")
        number = local.worker.boards["b"].number
        await local.ask("DELETE", "boards/b")
        await local.ask("GET", "boards/b", code=404)
        count = "SELECT COUNT(*) FROM events WHERE board = ?"
        await until(lambda: sql(url, count, number) == [(1,)])  # the event that says that it was deleted
        assert (await local.ask("GET", "boards/other"))["answers"] == 5


async def test_who_waits_for_a_log_writer_that_ends_without_its_store_is_told(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        session = local.worker.boards["b"]

        def away(self, rows, now):
            raise Unavailable("gone")

        monkeypatch.setattr(SqlStore, "append", away)
        futures = [local.worker.log_writer.put_event(session.number, events.Settled(0), wait=True) for _ in range(3)]
        await local.worker.log_writer.stop()
        for future in futures:
            with pytest.raises(Unavailable):
                await asyncio.wait_for(future, 60.0)
        monkeypatch.undo()


async def test_a_worker_that_cannot_begin_again_tries_until_it_can(url, monkeypatch, caplog):
    async with serving(url) as local:
        await local.board(settle=0)
        real, failures = worker_module.recover, [RuntimeError("odd"), Unavailable("away")]

        def recover(url, *limits):
            if failures:
                raise failures.pop()
            return real(url, *limits)

        async def soon(seconds):
            await sleep(0.001)

        sleep = asyncio.sleep
        monkeypatch.setattr(worker_module, "recover", recover)
        monkeypatch.setattr(worker_module.asyncio, "sleep", soon)
        local.worker.cut_off()
        while not local.worker.ready:
            await sleep(0.01)
        monkeypatch.undo()
        await answered(local, 2)
    assert "RuntimeError: odd" in " ".join(str(getattr(record, "fields", "")) for record in caplog.records)


async def test_a_store_that_is_stuck_is_told_of_and_waited_for(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank()
        await local.quiet()
        usual = log_writer.PATIENCE
        monkeypatch.setattr(log_writer, "PATIENCE", 0.6)
        blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        answer = asyncio.create_task(local.answer(shown, code=503, clicked=None))
        await answer
        assert (await local.http.get("/readyz")).status_code == 503
        monkeypatch.setattr(log_writer, "PATIENCE", usual)
        blocker.execute("ROLLBACK")
        blocker.close()
        while (await local.http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        assert (await local.answer(shown, clicked=None))["outcome"] in ("learnt", "duplicate")
        assert local.worker.boards["b"].board.answers == 1


async def test_long_past_and_many_expiries_are_applied_in_parts(url):
    async with serving(url) as local:
        await local.board(lifetime=60)
        number = local.worker.boards["b"].number
    async with serving(url) as local:
        await local.board(lifetime=60)
        rows = [{"items": ITEMS[:3], "clicked": ITEMS[i % 3]} for i in range(2_500)]
        before = local.worker.applied
        done = await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "all"})
        assert done == {"rows": 2_500, "outcome": "done"}
        assert local.worker.applied - before == 3
        again = await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "all"})
        assert again == {"rows": 0, "outcome": "duplicate"}
        for key in range(1, 2_101):
            local.worker.log_writer.put_event(number, events.ListShown(key, 1, 0, 0, [0, 1], []))
        await local.quiet()
        local.clocks.pass_time(61)
        await local.quiet()
        await local.quiet()
        assert local.worker.boards["b"].board.impressions.expired == 2_100


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b'{"impression":', b'{"impression": 1e999}', b'{"impression": "\\ud800"}', b"[" * 200_000, b"\xff"],
)
async def test_a_broken_body_is_a_bad_request(url, body):
    async with serving(url) as local:
        await local.board(settle=0)
        for path in ("boards/b/feedback", "feedback", "boards/b/items", "boards/b/history"):
            answer = await local.http.post(f"/v1/{path}", content=body)
            assert answer.status_code == 422, (path, answer.text)


def test_a_connection_that_was_closed_while_idle_costs_no_wait():
    """Each connection answers once and is closed, as a proxy does after a while. A new one is waited for."""
    said = b'{"boards": [], "broken": []}'
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said)
    slept = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)
            server.accept()[0].close()  # a new connection that fails
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = Client(f"http://127.0.0.1:{server.getsockname()[1]}", sleep=slept.append)
        for _ in range(3):
            assert client.boards() == []
        assert slept == []
        client.close()
        assert client.boards() == []
        assert slept == [0.2]
        client.close()
        thread.join(5.0)
        assert not thread.is_alive()


async def test_a_path_that_was_shortened_on_its_way_means_nothing_else(url):
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", {"items": ["..", "x"]}, 422)
        await local.board(settle=0)
        await local.ask("POST", "boards/b/items", {"items": ["."]}, 422)
        for path in ("/v1/boards/b/", "/v1/boards/b/items/", "/v1/boards/b/items/%2e%2e"):
            assert (await local.http.delete(path)).status_code == 404
        with pytest.raises(ValueError, match="cannot stand in a path"):
            Client().retire_item("b", "..")
        await local.ask("GET", "boards/b")


async def test_a_refused_change_changes_nothing(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await local.ask("PUT", "boards/b", {"length": 2, "items": [""]}, 422)
        await local.ask("PUT", "boards/b", {"client_minute": 3, "lifetime": -1}, 422)
        board = await local.ask("GET", "boards/b")
        assert (board["length"], board["client_minute"]) == (4, 60)
        past = {"rows": [{"items": ["a"], "clicked": "a", "examined": 7}]}
        await local.ask("POST", "boards/b/history", past, 422)


async def test_upkeep_that_fails_is_tried_again_and_a_stop_ends_it(url, caplog):
    with caplog.at_level(logging.ERROR):
        calls = []

        async def upkeep():
            calls.append(len(calls))
            if len(calls) == 1:
                raise OSError("no memory for a process")
            await asyncio.sleep(3_600)

        worker = Worker(url)
        app = Service(worker, upkeep, every=0.05).app()
        async with app.router.lifespan_context(app):
            await until(lambda: len(calls) == 2)
    assert caplog.records[0].fields == {"why": "no memory for a process"}


def test_the_address_of_a_store_is_not_told():
    for bad in ("bob:secretpw@db/x", "postgresql://bob:sec%zzret@127.0.0.1:1/x"):
        with pytest.raises(ValueError, match="store") as refusal:
            open_store(bad)
        assert "sec" not in str(refusal.value)
