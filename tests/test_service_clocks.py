"""Clocks that are wrong: nobody is forgotten by them, no id or key ends by them, and somebody is told.

A worker goes by the clock of the database, or of its machine, and by how much time has passed since it read it. Here
both are turned by hand, or, in servers that are processes, by a file.
"""

import asyncio
import contextlib
import pathlib
import threading
import urllib.request

import pytest

from service_tools import ITEMS, Clocks, Server, logged_events, replayed, serving, sql, until, wait_until
from steadyrank.cli import main
from steadyrank.core.contract import ANYONE
from steadyrank.service.alerts.watcher import Watcher
from steadyrank.service.board import events
from steadyrank.service.http.auth import make_key
from steadyrank.service.http.server import _compact
from steadyrank.service.storage import open_store
from steadyrank.service.storage.sql_store import SqlStore
from steadyrank.service.worker import impression_ids
from steadyrank.service.worker.transfer import compact
from test_service_faults import blind

YEAR = 365 * 86_400.0


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request, url):
    return url if request.param == "sqlite" else request.getfixturevalue("database").fresh()


def written(url):
    with contextlib.closing(open_store(url)) as store:
        return logged_events(store)


def shown_to(url):
    """The client of each list in the log."""
    return [event.client for event in written(url) if isinstance(event, events.ListShown)]


@contextlib.contextmanager
def mute(local, monkeypatch):
    """Meanwhile this worker writes nothing: what is put into its log waits."""
    thread, real, done = local.worker.log_writer._thread, SqlStore.append, threading.Event()

    def append(store, rows, at):
        if threading.current_thread() is thread:
            assert done.wait(60)
        return real(store, rows, at)

    with monkeypatch.context() as patched:
        patched.setattr(SqlStore, "append", append)
        try:
            yield
        finally:
            done.set()


async def visit(local, *names):
    """Each asks for a list and answers it."""
    for name in names:
        shown = await local.rank(client=name)
        assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"


async def minute(local):
    """What a worker does once a minute, after it has read its clock."""
    await local.worker._chores(1)
    await local.worker._chores(600)
    await local.quiet()


class Alarms:
    """What a watcher says of clocks."""

    def __init__(self, local):
        self._told, self._clocks = [], local.clocks
        self._watcher = Watcher(local.worker, self._told.append, "one")

    async def look(self):
        """The alerts of this look; a minute passes, since there is at most one a minute."""
        del self._told[:]
        await self._watcher.look()
        self._clocks.pass_time(61)
        return [alert for alert in self._told if alert.kind == "clock"]


async def test_a_clock_that_is_a_year_ahead_for_a_minute_does_no_harm_and_is_told(url):
    async with serving(url) as local:
        await local.board(settle=0, client_days=1)
        await visit(local, "ann", "bob")
        alarms, clocks = Alarms(local), local.clocks
        clocks.pass_time(7_200)
        await minute(local)
        assert await alarms.look() == []
        open_one = await local.rank(client="ann")
        clocks.wall += YEAR
        clocks.pass_time(30)
        await minute(local)
        assert (await local.answer(open_one, clicked=None))["outcome"] == "learnt", "it has not expired"
        await local.ask("DELETE", "boards/b/clients/cid")  # by a wrong clock
        await visit(local, "ann", "bob")
        (alert,) = await alarms.look()
        assert (alert.state, alert.detail) == ("on", {"machine": int(YEAR), "store": int(YEAR), "log": 0})
        assert "the clock of this machine is 31,536,000 seconds ahead of the time that it goes by" in alert.text
        assert "nothing is deleted because of its age" in alert.text
        ready = await local.http.get("/readyz")
        assert (ready.status_code, ready.text.startswith("ready, but the clock")) == (200, True)
        page = (await local.http.get("/metrics")).text
        assert 'steadyrank_clock_skew_seconds{clock="machine"} 3.1536e+07' in page
        clocks.wall -= YEAR
        await minute(local)
        (alert,) = await alarms.look()
        assert alert.state == "off"
        assert (await local.http.get("/readyz")).text == "ready\n"
        await visit(local, "ann", "bob", "cid")
        assert alert.time == pytest.approx(clocks.wall, abs=120)
    async with serving(url, clocks, seed=1) as local:
        await visit(local, "ann", "bob", "cid")
        await local.quiet()
        assert shown_to(url) == [0, 1, 0, 0, 1, 0, 1, 2, 0, 1, 2]
        assert local.digest() == replayed(url)


async def test_a_clock_that_is_ahead_while_the_server_starts_is_followed_back(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(settle=0, client_days=1)
        await visit(local, "ann", "bob")
    clocks.wall += YEAR
    async with serving(url, clocks, seed=1) as local:
        await visit(local, "ann")
        clocks.pass_time(60)
        await minute(local)
        await local.ask("DELETE", "boards/b/clients/eve")
        shown = await local.rank(client="bob")
        assert shown["expires"] == pytest.approx(clocks.wall + 1800, abs=1)
        clocks.wall -= YEAR
        await minute(local)
        assert local.worker.clock.skew.alarming
        assert len(sql(url, "SELECT * FROM clients")) == 2
        clocks.pass_time(61)  # as long as it went by the other time
        await minute(local)
        assert (await local.rank(client="bob"))["expires"] == pytest.approx(clocks.wall + 1800, abs=1)
        await visit(local, "ann", "bob")
        await minute(local)
        assert not local.worker.clock.skew.alarming
    async with serving(url, clocks, seed=2) as local:
        await visit(local, "ann", "bob", "eve")
        assert shown_to(url) == [0, 1, 0, 1, 1, 0, 1, 0, 1, 2]
        clocks.pass_time(3_601)
        await minute(local)
        assert max(at for (at,) in sql(url, "SELECT at FROM clients")) <= clocks.wall
        assert len(sql(url, "SELECT * FROM clients")) == 3
        clocks.pass_time(86_400)
        await minute(local)
        assert sql(url, "SELECT * FROM clients") == []  # when the time is beyond doubt they are forgotten as ever


async def test_a_start_with_a_clock_behind_the_log_is_told_and_deletes_nothing(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(settle=0, client_days=1)
        await visit(local, "ann")
    clocks.wall -= YEAR
    async with serving(url, clocks, seed=1) as local:
        (alert,) = await Alarms(local).look()
        assert (alert.state, alert.detail["log"]) == ("on", int(YEAR))
        assert "the latest event was written 31,536,000 seconds in the future" in alert.text
        await visit(local, "ann")
        clocks.wall += YEAR  # it is set while the server runs
        clocks.pass_time(120)
        await minute(local)
        clocks.pass_time(200)  # longer than it went by the other time
        await minute(local)
        assert not local.worker.clock.skew.alarming
        assert local.worker.clock() == pytest.approx(clocks.wall)
        assert len(sql(url, "SELECT * FROM clients")) == 1
        await visit(local, "ann")
        assert shown_to(url) == [0, 0, 0]


async def test_a_clock_that_is_set_back_or_stays_ahead_is_believed_after_an_hour(url):
    async with serving(url) as local:
        await local.board(settle=0, client_days=1)
        await visit(local, "ann")
        clocks = local.clocks
        for jump in (-600.0, 86_400.0 * 3):
            clocks.pass_time(7_200)
            await minute(local)
            clocks.wall += jump
            await minute(local)
            for _ in range(4):
                assert local.worker.clock() == pytest.approx(clocks.wall - jump)
                assert local.worker.clock.skew.store == pytest.approx(jump)
                clocks.pass_time(850)
                await minute(local)
            clocks.pass_time(250)
            await minute(local)
            assert local.worker.clock() == pytest.approx(clocks.wall)
            assert len(sql(url, "SELECT * FROM clients")) == 1, "by that time she is old: but age does not count yet"
            await visit(local, "ann")
        clocks.pass_time(3_601)
        await minute(local)
        clocks.pass_time(86_400)
        await minute(local)
        assert sql(url, "SELECT * FROM clients") == []


async def test_a_worker_that_was_stopped_believes_the_clock_when_others_do(url):
    stopped, running = Clocks(), Clocks()
    async with serving(url, stopped, 1) as local, serving(url, running, 2) as other:
        await local.board(settle=0)
        await other.quiet()
        stopped.pass_time(10_000)
        running.pass_time(10_000)
        await minute(local)
        stopped.wall += 1_000  # the machine was: its seconds stood still
        running.pass_time(1_000)
        await minute(local)
        assert local.worker.clock.skew.store == 1_000
        await visit(local, "ann")
        await minute(local)
        assert local.worker.clock.skew.store == 1_000, "its own events say nothing"
        await visit(other, "ann")
        await minute(local)
        assert local.worker.clock() == stopped.wall
        assert not local.worker.clock.skew.alarming
        assert not local.worker.clock.settled


async def test_keys_and_secrets_do_not_end_by_a_clock_that_jumps(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(settle=0)
        text, key = make_key(["admin"], None, clocks.wall, clocks.wall + 86_400.0)
        with contextlib.closing(open_store(url)) as store:
            store.add_key(key)
        local.headers["authorization"] = f"Bearer {text}"
        await until(lambda: local.worker.keys)
        clocks.pass_time(7_200)
        await minute(local)
        clocks.wall += YEAR
        shown = await local.rank(client="ann")
        until_ = (await local.ask("POST", "boards/b/secret"))["until"]
        assert until_ == pytest.approx(clocks.wall - YEAR + 1860)
        clocks.wall -= 2 * YEAR
        assert (await local.answer(shown, clicked=None))["outcome"] == "learnt"
        clocks.wall += YEAR
        report = {"id": "x", "items": ITEMS[:4], "clicked": None}
        assert (await local.ask("POST", "boards/b/observe", report))["outcome"] == "learnt"


async def test_logs_are_not_shortened_by_events_of_a_wrong_clock(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(settle=0, client_days=900)
        for jump in (0.0, -YEAR, YEAR, YEAR, -YEAR):
            clocks.wall += jump
            clocks.pass_time(60)
            await local.worker._chores(1)
            local.worker.clock._offset = clocks.wall - clocks.since  # as if it had started with such a clock
            await visit(local, "ann" if jump == 0 else "bob")
            await local.quiet()
    with contextlib.closing(open_store(url)) as store:
        day = clocks.wall - 86_400
        assert compact(store, day, 1_000) == {}, "nothing is older than a day"
        assert compact(store, 0.0, 2)["b"] > 0
        assert [number for (number,) in sql(url, "SELECT number FROM clients")] == [1]


async def test_upkeep_goes_by_the_time_of_the_worker_and_spares_old_events_while_that_is_in_doubt(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await visit(local, "ann")
        clocks = local.clocks
        clocks.pass_time(7_200)
        await minute(local)
        for jump in (100 * 86_400.0, -100 * 86_400.0):
            clocks.wall += jump
            await minute(local)
            assert not local.worker.clock.settled
            await _compact(local.worker, 0.01, 1_000)
            assert sql(url, "SELECT edge FROM boards") == [(0,)]
        clocks.pass_time(3_601)
        await minute(local)
        await _compact(local.worker, 90, 1_000)
        assert sql(url, "SELECT edge FROM boards") == [(0,)], "by the clock of this machine all of it is old"
        await _compact(local.worker, 0.01, 1_000)
        assert sql(url, "SELECT edge FROM boards") > [(0,)]


async def test_after_a_client_was_deleted_workers_with_skewed_clocks_know_the_others(url):
    """On SQLite all fold the same log; one of them notices that another is ahead."""
    right, slow, fast = skewed()
    async with serving(url, right, 1) as here, serving(url, slow, 2) as behind, serving(url, fast, 3) as ahead:
        workers = here, behind, ahead
        await here.board(settle=0, lifetime=300)
        for local in workers:
            await local.worker.catch_up()
            await visit(local, "ann", "bob")
        await here.ask("DELETE", "boards/b/clients/ann")
        for local in workers:
            await local.worker.catch_up()
            await visit(local, "bob", "cid")
        await behind.ask("DELETE", "boards/b/clients/bob")
        for local in workers:
            await local.worker.catch_up()
            await visit(local, "cid", "ann", "bob")
        assert shown_to(url) == [0, 1] * 3 + [1, 2] * 3 + [2, 3, 4] * 3
        for local in workers:
            await local.worker._chores(1)
        skews = [local.worker.clock.skew for local in workers]
        assert [round(skew.log, -1) for skew in skews] == [600, 1200, 0]
        await asyncio.gather(*(local.quiet() for local in workers))
        assert here.digest() == behind.digest() == ahead.digest()


def skewed():
    """Clocks that agree, of which one is behind the first and one ahead of it."""
    right, slow, fast = Clocks(), Clocks(), Clocks()
    slow.wall -= 600.0
    fast.wall += 600.0
    return right, slow, fast


async def test_owners_one_after_the_other_go_by_the_clock_of_the_database(database):
    """Whatever their own clocks say; what one of them had forgotten, the next one does not know either."""
    url, shown, skews = database.fresh(), None, []
    for seed, clocks in enumerate(skewed()):
        async with serving(url, clocks, seed) as local:
            if shown is None:
                await local.board(settle=0, lifetime=300)
            else:
                assert (await local.answer(shown, clicked=None))["outcome"] == "learnt", "though its lifetime is 300"
            await visit(local, "ann", "bob")
            await local.ask("DELETE", "boards/b/clients/ann")
            shown = await local.rank(client="cid")
            await local.quiet()
            await local.worker._chores(1)
            skews.append(local.worker.clock.skew)
    assert shown_to(url) == [0, 1, 2, 3, 1, 2, 4, 1, 2]
    assert skews[2].machine - skews[1].machine == pytest.approx(1200, abs=5)
    assert all(skew.alarming for skew in skews)  # of machines in another year than the database


async def test_what_a_worker_gave_out_before_it_read_of_a_deletion_is_nobodys(url, monkeypatch):
    """By the order of the log, whatever clocks say; later lists of it, and of others, are their clients'."""
    late = Clocks()
    late.wall += 600.0
    async with serving(url) as local, serving(url, late, seed=5) as other:
        await local.board(settle=0)
        await other.quiet()
        await visit(local, "ann")
        await other.quiet()
        with blind(other, monkeypatch), mute(other, monkeypatch):
            before = await other.rank(client="ann")
            await local.ask("DELETE", "boards/b/clients/ann")
            also = await other.rank(client="ann")
        await other.quiet()
        for shown in (before, also):
            await other.answer(shown, clicked=None)
        await visit(other, "ann")
        await visit(local, "ann")
        assert shown_to(url) == [0, ANYONE, ANYONE, 1, 1]
        id_ = impression_ids.open_sealed(before["impression"], local.worker.boards["b"].signer)
        assert id_.seen < next(n for n, event in enumerate(written(url), 1) if isinstance(event, events.Forgotten))


async def test_what_is_reported_of_a_time_before_a_client_was_deleted_is_nobodys(url):
    async with serving(url) as local:
        await local.board(settle=0, lifetime=300)
        local.clocks.pass_time(100)
        await local.ask("DELETE", "boards/b/clients/ann")
        local.clocks.pass_time(1)
        for n, age in enumerate((5, None, 0)):
            report = {"id": f"r{n}", "items": ITEMS[:4], "client": "ann", "clicked": None}
            report |= {} if age is None else {"time": local.clocks.wall - age}
            await local.ask("POST", "boards/b/observe", report)
        assert [event.client for event in written(url) if isinstance(event, events.Observed)] == [ANYONE, 0, 0]
        sql(url, "UPDATE boards SET forgot = ?", local.clocks.wall + YEAR)  # an earlier version, by a wrong clock
        report |= {"id": "r9", "time": local.clocks.wall}
        await local.ask("POST", "boards/b/observe", report)
        assert written(url)[-1].client == 0


# what is kept of compiled code is looked after before the clock is turned: by a clock a year ahead it would be old
TURNED = """
import os, pathlib, time
import steadyrank.core.compiling.jit
real, turned = time.time, pathlib.Path(os.environ["TURNED_BY"])
time.time = lambda: real() + float(turned.read_text() or 0)
"""


@pytest.fixture
def turn(tmp_path, monkeypatch):
    """Turn the clocks of servers that are started from here on: processes like any other but for `time.time`."""
    (tmp_path / "turned").mkdir()
    (tmp_path / "turned" / "sitecustomize.py").write_text(TURNED)
    by = tmp_path / "by"
    by.write_text("0")
    monkeypatch.setenv("TURNED_BY", str(by))
    source = pathlib.Path(__file__).parent.parent / "src"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'turned'}:{source}")

    def turn(seconds):
        (tmp_path / "next").write_text(str(seconds))
        (tmp_path / "next").rename(by)

    return turn


def test_a_server_whose_clock_jumps_a_year_and_back_goes_on_over_a_restart(url, tmp_path, turn, capsys):
    """A process: what it gives out, stores and says by a clock that is turned under it."""
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)

    def visits(*names):
        for name in names:
            assert client.feedback("b", client.rank("b", client=name).impression, clicked=None) == "learnt"

    def ready():
        with urllib.request.urlopen(f"{server.address}/readyz", timeout=5) as answer:
            return answer.read().decode()

    visits("ann", "bob")
    open_one = client.rank("b", client="ann")
    turn(YEAR)
    wait_until(lambda: "31,53" in ready())
    assert client.feedback("b", open_one.impression, clicked=None) == "learnt"
    assert client.forget_client("b", "eve") == 0
    visits("ann", "bob")
    server.kill()  # and starts by the wrong clock
    server.start()
    client = server.wait().client()
    visits("ann", "bob")
    assert client.forget_client("b", "eve") == 0
    turn(0)
    wait_until(lambda: "behind" in ready())
    visits("ann", "bob")
    assert server.stop() == 0
    server.start()
    client = server.wait().client()
    visits("ann", "bob", "eve")
    wait_until(lambda: ready() == "ready\n")
    assert server.stop() == 0
    assert shown_to(url) == [0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 2]
    assert "a clock is wrong" in (tmp_path / "log").read_text()
    assert main(["compact", "--store", url]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
