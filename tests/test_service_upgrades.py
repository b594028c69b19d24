"""Versions side by side, stores of other formats, rows that are damaged, memory that runs out: one board is parked at
most, a worker stops before it misreads anything, and nothing that was acknowledged is lost."""

import contextlib
import hashlib
import pathlib
import urllib.request

import msgspec
import pytest

import steadyrank as sr
from service_tools import ITEMS, Server, replayed, sql, wait_until
from steadyrank.cli import main
from steadyrank.service.board import events
from steadyrank.service.storage import NewEntry, Outdated, open_store, tables

OTHER = str(pathlib.Path(__file__).parent / "other_version.py")
NOVEL = b"\x91\xa5novel"  # an event of a kind that no version knows


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def answered(local, rounds, name="b"):
    """Lists, each answered."""
    for i in range(rounds):
        shown = await local.rank(name)
        await local.answer(shown, name, clicked=shown["items"][i % len(shown["items"])])


def number_of(store, name="b"):
    return next(n for n, (called, _) in store.boards().items() if called == name)


def append(url, name, body):
    """Write an event to a board as another worker would; its number."""
    with contextlib.closing(open_store(url)) as store:
        return store.append([NewEntry(number_of(store, name), body)], 1.0)[0]


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


def test_a_store_of_a_newer_format_is_refused_by_name_and_left_as_it_is(url, tmp_path, capsys):
    with contextlib.closing(open_store(url)) as store:
        store.create("b", events.encode(events.Created(events.Config(), ["a"])), 1.0)
    sql(url, "UPDATE meta SET value = ? WHERE name = 'format'", str(tables.FORMAT + 1))
    sql(url, "UPDATE head SET format = ?", tables.FORMAT + 1)
    path = tmp_path / "store.db"
    before = path.read_bytes()
    export = ["export", "b", "--out", str(tmp_path / "b.jsonl")]
    for command in (["serve"], ["boards"], export, ["compact"], ["keys", "list"], ["record"]):
        assert main([*command, "--store", url]) == 2
        said = capsys.readouterr().err
        assert f"the store has format {tables.FORMAT + 1}, this version knows {tables.FORMAT}: upgrade" in said
    assert path.read_bytes() == before
    with pytest.raises(Outdated):
        open_store(url)
