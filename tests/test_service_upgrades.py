"""Versions side by side, stores of other formats, rows that are damaged, memory that runs out: one board is parked at
most, a worker stops before it misreads anything, and nothing that was acknowledged is lost."""

import contextlib
import hashlib
import json
import pathlib
import re
import resource
import urllib.request

import msgspec
import numpy as np
import pytest

import steadyrank as sr
from service_tools import ITEMS, Server, answered, number_of, replayed, serving, sql, until, wait_until
from steadyrank.cli import main
from steadyrank.service.alerts.watcher import Watcher
from steadyrank.service.board import events
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import NewEntry, Outdated, open_store, tables
from steadyrank.service.worker import recovery
from steadyrank.service.worker.transfer import compact

OTHER = str(pathlib.Path(__file__).parent / "other_version.py")
NOVEL = b"\x91\xa5novel"  # an event of a kind that no version knows


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def append(url, name, body):
    """Write an event to a board as another worker would; its number."""
    with contextlib.closing(open_store(url)) as store:
        return store.append([NewEntry(number_of(store, name), body)], 1.0)[0][0]


def test_what_stores_hold_changes_with_the_format():
    said = repr(msgspec.inspect.type_info(events.AnyEvent)) + tables._TABLES
    found = hashlib.sha256(said.encode()).hexdigest()[:16]
    assert found == tables.VOCABULARY, (
        f"Events, settings of boards or tables are not those of format {tables.FORMAT}. If that format was released, "
        "raise FORMAT in storage/tables.py with a step in _UPGRADES, and FORMAT in worker/transfer.py: older workers "
        f'stop then, instead of misreading what you write. In any case set VOCABULARY = "{found}".'
    )


def test_an_older_worker_parks_the_board_whose_event_it_does_not_know_and_serves_the_others(url, tmp_path):
    new = Server(url, tmp_path / "new").wait()
    old = Server(url, tmp_path / "old", program=(OTHER, "older")).wait()
    clients = [new.client(tries=1), old.client(tries=1)]
    for name in ("b", "c", "d"):
        clients[0].put_board(name, items=ITEMS, length=4, settle=0)

    def visit(name, one, other):
        shown = clients[one].rank(name)
        assert clients[other].feedback(name, shown.impression, clicked=shown.items[1]) == "learnt"
        return shown

    in_flight = [visit(name, turn % 2, 1 - turn % 2) for turn in range(4) for name in ("b", "c", "d")]
    pending = clients[1].rank("b")  # given out by the old one, before it is parked there
    clients[0].retire_item("b", ITEMS[0])
    wait_until(lambda: old.readiness() == (200, "ready\nparked boards: 1\n"))
    with pytest.raises(
        sr.Refused, match=r"board 'b' is parked: event \d+ cannot be decoded .*newer version"
    ) as refusal:
        clients[1].state("b")
    assert refusal.value.code == 503
    assert new.readiness() == (200, "ready\n")
    for turn in range(4):
        for name in ("c", "d"):
            visit(name, turn % 2, 1 - turn % 2)
        visit("b", 0, 0)
    assert clients[0].feedback("b", pending.impression, clicked=None) == "learnt"
    for name in ("c", "d"):
        wait_until(lambda: {client.board(name)["answers"] for client in clients} == {8})  # noqa: B023
        one, other = (
            urllib.request.urlopen(f"{server.address}/v1/boards/{name}/export").read() for server in (new, old)
        )
        assert one == other
    assert clients[0].board("b")["answers"] == 9
    assert old.stop() == 0
    again = Server(url, tmp_path / "again").wait()  # the old one, upgraded
    client = again.client(tries=1)
    assert again.readiness() == (200, "ready\n")
    assert client.state("b")["items"] == clients[0].state("b")["items"]
    for shown in in_flight:
        with contextlib.suppress(sr.Refused):
            assert client.feedback("b", shown.impression, clicked=shown.items[1]) == "duplicate"
    assert (again.stop(), new.stop()) == (0, 0)
    for name in ("b", "c", "d"):
        replayed(url, name)


def test_a_worker_stops_when_a_newer_version_upgrades_the_store_under_it(url, tmp_path):
    here = Server(url, tmp_path / "here").wait()
    client = here.client(tries=1)
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(5)]
    assert client.feedback("b", shown[0].impression, clicked=None) == "learnt"
    newer = Server(url, tmp_path / "newer", program=(OTHER, "newer")).wait()
    why = f"the store was upgraded to format {tables.FORMAT + 1} by a newer version: restart this worker with it"
    wait_until(lambda: (here.readiness() or (0, ""))[0] == 503)
    assert here.readiness()[1].startswith(why)
    written = sql(url, "SELECT COUNT(*) FROM events")
    for ask in (
        lambda: client.rank("b"),
        lambda: client.feedback("b", shown[1].impression, clicked=None),
        lambda: client.put_board("other", items=ITEMS),
        lambda: client.state("b"),
    ):
        with pytest.raises(sr.Refused, match=why) as refusal:
            ask()
        assert refusal.value.code == 503
    assert sql(url, "SELECT COUNT(*) FROM events") == written
    for s in shown:
        outcome = newer.client(tries=1).feedback("b", s.impression, clicked=None)
        assert outcome == ("duplicate" if s is shown[0] else "learnt")
    assert newer.client(tries=1).board("b")["answers"] == 5
    assert here.stop() == 0
    assert sql(url, "SELECT COUNT(*) FROM snapshots") == [(0,)]
    assert newer.stop() == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (tables.FORMAT + 1, f"this version knows {tables.FORMAT}: upgrade"),
        (7, f"which was never released; this version reads {tables.FORMAT}: serve it with the version that wrote it"),
    ],
)
def test_a_store_of_another_format_is_refused_by_name_and_left_as_it_is(url, tmp_path, capsys, number, words):
    with contextlib.closing(open_store(url)) as store:
        store.create_board("b", events.encode(events.Created(events.Config(), ["a"])), 1.0)
    sql(url, "UPDATE meta SET value = ? WHERE name = 'format'", str(number))
    sql(url, "UPDATE heads SET format = ?", number)
    path = tmp_path / "store.db"
    before = path.read_bytes()
    export = ["export", "b", "--out", str(tmp_path / "b.jsonl")]
    for command in (["serve"], ["boards"], export, ["compact"], ["keys", "list"], ["record"]):
        assert main([*command, "--store", url]) == 2
        said = capsys.readouterr().err
        assert f"the store has format {number}, {words}" in said
    assert path.read_bytes() == before
    with pytest.raises(Outdated):
        open_store(url)


def test_a_board_of_another_format_is_refused_by_name(url, tmp_path, capsys):
    path = tmp_path / "b.jsonl"
    path.write_text('{"steadyrank": "board", "format": 8, "board": "b", "clients": 0}\n{"digest": ""}\n')
    assert main(["import", str(path), "--store", url]) == 2
    said = capsys.readouterr().err
    assert "b.jsonl cannot be read: it is a board of format 8, this version reads format 9: import it with" in said
    assert "or make a new board and learn from past clicks" in said
    assert not (tmp_path / "store.db").exists()


async def test_a_board_that_is_parked_is_told_of_and_the_others_go_on(url):
    alerts = []
    async with serving(url) as local:
        watcher = Watcher(local.worker, alerts.append, "here")
        for name in ("b", "c"):
            await local.board(name, settle=0)
            await answered(local, 3, name)
        shown = await local.rank()
        await watcher.look()
        seq = append(url, "b", NOVEL)
        await until(lambda: "b" in local.worker.parked)
        refusal = await local.ask("POST", "boards/b/rank", {}, 503)
        assert refusal["message"].startswith(f"board 'b' is parked: event {seq} cannot be decoded (ValidationError: ")
        for method, path in (
            ("GET", ""),
            ("GET", "/state"),
            ("GET", "/watch"),
            ("GET", "/export"),
            ("GET", "/labels"),
        ):
            assert await local.ask(method, f"boards/b{path}", code=503) == refusal
        assert await local.ask("PUT", "boards/b", {"length": 2}, 503) == refusal
        assert await local.answer(shown, code=503, clicked=None) == refusal
        await answered(local, 3, "c")
        seen = await local.ask("GET", "boards")
        assert [board["board"] for board in seen["boards"]] == ["c"]
        assert [board["board"] for board in seen["parked"]] == seen["broken"] == ["b"]
        assert 'steadyrank_boards{state="parked"} 1.0' in (await local.http.get("/metrics")).text
        assert (await local.http.get("/readyz")).text == "ready\nparked boards: 1\n"
        await watcher.look()
        assert [(alert.kind, alert.state, alert.detail) for alert in alerts] == [
            ("parked", "on", {"count": 1, "boards": ["b"]})
        ]
        assert f"Board b is parked, and answers 503: event {seq} cannot be decoded" in alerts[0].text
        await local.ask("DELETE", "boards/b")
        local.clocks.pass_time(61.0)
        await watcher.look()
        assert [alert.state for alert in alerts] == ["on", "off"]
        await local.board(settle=0)
        await answered(local, 1)
        assert (await local.http.get("/readyz")).text == "ready\n"


async def test_without_a_key_a_parked_board_is_like_one_that_is_there(url):
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank()
        await local.quiet()
        append(url, "b", NOVEL)
        await until(lambda: "b" in local.worker.parked)
        with contextlib.closing(open_store(url)) as store:
            store.add_key(make_key(["admin"], None, 1.0)[1])
        await until(lambda: local.worker.keys)
        forged = await local.answer({"impression": "made up"}, code=403, clicked=None)
        assert await local.answer({"impression": "made up"}, "none", code=403, clicked=None) == forged
        assert "is parked" in (await local.answer(shown, code=503, clicked=None))["message"]


async def test_a_board_that_sleeps_or_is_new_is_parked_as_well(url):
    async with serving(url, most_awake=1) as local:
        await local.board("a", settle=0)
        await local.board("b", settle=0)
        await local.rank("b")
        await until(lambda: "a" in local.worker.cache.evicted)
        append(url, "a", NOVEL)
        await until(lambda: "a" in local.worker.parked)
        with contextlib.closing(open_store(url)) as store:
            store.create_board("new", NOVEL, 1.0)  # the event that begins a board is of a newer version
        await until(lambda: "new" in local.worker.parked)
        await local.ask("GET", "boards/new", code=503)
        await answered(local, 2)
    async with serving(url, seed=1) as local:
        assert set(local.worker.parked) == {"a", "new"}
        await answered(local, 2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"novelty": 1}, r"cannot be applied \(UnknownHere: no setting 'novelty' in this version\)"),
        ({"learner": "Novel"}, r"cannot be applied \(UnknownHere: no learner 'Novel' in this version\)"),
        ({"guard": "Novel"}, r"cannot be applied \(UnknownHere: no guard 'Novel' in this version\)"),
    ],
)
async def test_settings_of_a_newer_version_are_not_left_out_in_silence(url, change, why):
    async with serving(url) as local:
        await local.board(settle=0)
        append(url, "b", events.encode(events.Configured(change)))
        await until(lambda: "b" in local.worker.parked)
        assert re.search(why, local.worker.parked["b"].why)


async def test_a_field_of_a_newer_version_is_not_left_out_in_silence(url):
    async with serving(url) as local:
        await local.board(settle=0)
        append(url, "b", msgspec.msgpack.encode(["settled", 1, "a field that came later"]))
        await until(lambda: "b" in local.worker.parked)
        assert "at most length" in local.worker.parked["b"].why


async def test_an_answer_edited_in_the_store_parks_its_board_and_comes_back_with_the_former_one(
    url, tmp_path, capsys
):
    async with serving(url) as local:
        for name in ("b", "c"):
            await local.board(name, settle=0)
            await answered(local, 5, name)
        await local.quiet()
        digests = {name: local.digest(name) for name in ("b", "c")}
        number = local.worker.boards["b"].number
    rows = sql(url, "SELECT seq, body FROM events WHERE board = ? ORDER BY seq", number)
    seq, body = next((seq, body) for seq, body in rows if isinstance(events.decode(body), events.Answered))
    edited = msgspec.structs.replace(events.decode(body), clicks=[2], examined=3)
    sql(url, "UPDATE events SET body = ? WHERE seq = ?", events.encode(edited), seq)
    why = f"event {seq} is damaged: its checksum is not that of its content"
    async with serving(url, seed=1) as local:
        assert (await local.ask("GET", "boards/b/state", code=503))["message"] == f"board 'b' is parked: {why}"
        assert local.digest("c") == digests["c"]
        await answered(local, 1, "c")
    assert main(["boards", "--store", url]) == 0
    assert why in capsys.readouterr().out
    assert main(["export", "b", "--out", str(tmp_path / "b.jsonl"), "--store", url]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "b.jsonl").exists()
    assert main(["compact", "--keep-days", "1", "--store", url]) == 2  # these are of years ago
    said = capsys.readouterr()
    assert "c: " in said.out
    assert f"b: left as it is, since it cannot be read: {why}" in said.err
    sql(url, "UPDATE events SET body = ? WHERE seq = ?", body, seq)
    async with serving(url, seed=2) as local:
        assert local.digest("b") == digests["b"]
        await answered(local, 1)


def flipped(value, place):
    """A value of a row with one bit turned over."""
    if isinstance(value, bytes):
        content = bytearray(value)
        content[place // 8 % len(content)] ^= 1 << place % 8
        return bytes(content)
    kind = np.float64 if isinstance(value, float) else np.int64
    bits = np.array([value], kind).view(np.uint64)
    bits[0] ^= np.uint64(1 << place % 64)
    return bits.view(kind)[0].item()


async def test_a_flipped_bit_is_never_learnt_from(url):
    """Any bit of any event or snapshot of a store at rest: boards are as they were, or the one is parked."""
    async with serving(url) as local:
        for name, rounds in (("whole", 20), ("kept", 20), ("short", 60)):
            await local.board(name, settle=0, learner="CascadeTS", guard="Anyone", most_open=200)
            await answered(local, rounds, name)
        await local.quiet()
        right = {name: local.digest(name) for name in ("whole", "kept", "short")}
    with contextlib.closing(open_store(url)) as store:
        assert compact(store, 0.0, 60).keys() == {"short"}
        number = number_of(store, "kept")
        middle = [entry.seq for entry in store.entries(0, store.head(), number)][25]
        kept = recovery.rebuild(store, number, "kept", middle).keep()
        assert recovery.put_snapshot(store, number, middle, kept)
        names = {n: name for n, (name, _) in store.boards().items()}
    chance, parked, decoded = np.random.default_rng(8), 0, 0
    for _ in range(100):
        table, columns = [("events", ("body", "at", "checksum")), ("snapshots", ("body", "seq", "checksum"))][
            int(chance.random() < 0.2)
        ]
        rows = sql(url, f"SELECT rowid, board FROM {table}")
        row, board = rows[int(chance.integers(len(rows)))]
        column = columns[int(chance.choice(3, p=[0.8, 0.1, 0.1]))]
        ((before,),) = sql(url, f"SELECT {column} FROM {table} WHERE rowid = ?", row)
        after = flipped(before, int(chance.integers(2**40)))
        sql(url, f"UPDATE {table} SET {column} = ? WHERE rowid = ?", after, row)
        if table == "events" and column == "body":
            with contextlib.suppress(ValueError):
                decoded += events.decode(after) is not None
        found = recovery.recover(url, 10, 60.0)
        assert found.parked.keys() <= {names[board]}
        parked += len(found.parked)
        digests = {session.name: session.board.digest() for session in found.boards}
        assert digests == {name: right[name] for name in right if name not in found.parked}
        sql(url, f"UPDATE {table} SET {column} = ? WHERE rowid = ?", before, row)
    assert parked > 30
    assert decoded > 20
    assert {session.board.digest() for session in recovery.recover(url, 10, 60.0).boards} == set(right.values())


def size_of(server):
    """Bytes of address space of a server."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmSize:\s+(\d+) kB", status)[1])


OF_BIG = "SELECT body FROM events WHERE board = (SELECT id FROM boards WHERE name = 'big')"


def test_a_server_without_memory_refuses_parks_the_one_board_and_serves_the_others(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client(tries=1, timeout=120)
    for name in ("b", "big"):
        client.put_board(name, items=ITEMS, length=4, settle=0)
    shown = [client.rank(name) for name in ("b", "big") for _ in range(3)]
    client.add_items("big", ["one more"])
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size_of(server) + 2**26, hard))
    many = [f"item number {k}" for k in range(300_000)]
    with pytest.raises(sr.Refused, match=r"(?i)memory") as refusal:
        client.put_board("new", items=many, length=4, settle=0)
    assert refusal.value.code == 503
    with pytest.raises(sr.Refused, match=r"'big' is parked: event \d+ cannot be applied \(.*MemoryError") as refusal:
        client.add_items("big", many)
    assert refusal.value.code == 503
    for s in shown[:3]:
        assert client.feedback("b", s.impression, clicked=s.items[0]) == "learnt"
    assert client.rank("b").items
    with pytest.raises(sr.Refused, match="is parked") as refusal:
        client.feedback("big", shown[-1].impression, clicked=None)
    assert server.readiness() == (200, "ready\nparked boards: 2\n")
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (hard, hard))  # an end with snapshots takes some, too
    assert server.stop() == 0
    server = Server(url, tmp_path / "log").wait()
    client = server.client(tries=1)
    assert server.readiness() == (200, "ready\n")
    assert client.board("b")["answers"] == 3
    added = sum(len(events.decode(body).items) for (body,) in sql(url, OF_BIG) if b"\xa5added" in body)
    assert client.board("big")["items"] == len(ITEMS) + added > 1_000
    assert client.feedback("big", shown[-1].impression, clicked=None) == "learnt"
    assert server.stop() == 0
    assert replayed(url, "big")


def last_line(lines):
    """The end of a file whose lines somebody edited, with a digest that fits."""
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines[:-1]).encode()).hexdigest()
    return json.dumps(json.loads(lines[-1]) | {"lines": digest})


async def test_a_line_of_an_exported_file_that_was_changed_is_noticed(url, tmp_path, capsys):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 5)
    out, key, other = tmp_path / "b.jsonl", tmp_path / "key", f"sqlite:///{tmp_path}/other.db"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    assert main(["export", "b", "--out", str(out), "--store", url, "--key-file", str(key)]) == 0
    lines = out.read_text().splitlines()
    bring_in, signed = ["import", str(out), "--store", other, "--as"], ["--key-file", str(key)]
    for place in range(1, len(lines) - 1):  # when it was: nothing is learnt from that
        row = json.loads(lines[place])
        out.write_text("\n".join([*lines[:place], json.dumps(row | {"at": row["at"] + 1.0}), *lines[place + 1 :]]))
        assert main([*bring_in, "x"]) == 2
        assert "b.jsonl is not as it was written: a line was changed" in capsys.readouterr().err
    place = next(i for i, line in enumerate(lines) if '"answered"' in line)
    row = json.loads(lines[place])
    lines[place] = json.dumps(row | {"at": row["at"] + 1.0})
    out.write_text("\n".join([*lines[:-1], last_line(lines)]))
    assert main([*bring_in, "without-a-key"]) == 0  # a digest is no signature
    assert main([*bring_in, "x", *signed]) == 2
    assert "b.jsonl is not signed with the key of --key-file, or was changed since" in capsys.readouterr().err
    assert main(["export", "b", "--out", str(out), "--store", url]) == 0
    assert main([*bring_in, "x", *signed]) == 2
    assert main(["export", "b", "--out", str(out), "--store", url, *signed]) == 0
    assert main([*bring_in, "signed", *signed]) == 0
    key.write_text("short\n")
    assert main([*bring_in, "x", *signed]) == 2
    assert f"--key-file {key} must hold a key of at least 16 bytes, not 5" in capsys.readouterr().err
    with contextlib.closing(open_store(other)) as store:
        assert sorted(name for name, _ in store.boards().values()) == ["signed", "without-a-key"]
