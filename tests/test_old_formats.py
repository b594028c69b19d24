"""Files and stores that earlier versions wrote are read, or refused by name with what to do.

Those in `old_formats` were written by the code of commit 13da9e6: a ranker, a board, and a store with a board whose
log is whole and one whose log was shortened. The stores of formats 3 to 7 were written by servers of commits d133be9,
34ac445, 8167765, 2922d73 and 8934d46, the board of format 8 by the last of them.
"""

import contextlib
import gzip
import pathlib
import sqlite3

import msgspec
import pytest

import steadyrank as sr
from service_tools import replayed, serving, sql
from steadyrank.cli import main
from steadyrank.live import snapshot
from steadyrank.live.snapshot import UnreadableSnapshot
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.storage import NewEntry, open_store, tables
from steadyrank.service.worker.recovery import rebuild

OLD = pathlib.Path(__file__).parent / "old_formats"


def test_a_ranker_of_the_first_format_is_refused_by_name():
    with pytest.raises(
        UnreadableSnapshot, match=r"ranker-format-1.steadyrank has format 1, this version reads 6: load it"
    ):
        sr.Ranker.load(OLD / "ranker-format-1.steadyrank")


def test_a_board_of_the_third_format_is_refused_by_name(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/store.db"
    assert main(["import", str(OLD / "board-format-3.jsonl"), "--store", url]) == 2
    said = capsys.readouterr().err
    assert "board-format-3.jsonl cannot be read: it is a board of format 3, this version reads format 9" in said
    assert "open that store with this one" in said
    assert not (tmp_path / "store.db").exists()


async def test_a_store_of_the_second_format_is_brought_up_to_date(tmp_path):
    """What is said of the format of a board's file: by way of the store, the board comes along."""
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((OLD / "store-format-2.db.gz").read_bytes()))
    url, other = f"sqlite:///{path}", f"sqlite:///{tmp_path}/other.db"
    async with serving(url, seed=3) as local:
        state = await local.ask("GET", "boards/old/state")
        board = state["board"]
        assert (board["impressions"], board["answers"], board["clicks"], board["items"]) == (8, 6, 6, 3)
        assert sum(item["clicks"] for item in state["items"]) == 6
        assert "old" not in local.worker.parked
        await local.ask("POST", "boards/short/rank", {}, 503)
        assert "has format 1, this version reads 6" in local.worker.parked["short"].why
        await local.answer(await local.rank("old", client="visitor 1"), "old", clicked=None)
        assert sql(url, "SELECT number FROM clients") == [(0,)]
        digest = local.digest("old")
    assert replayed(url, "old") == digest
    assert main(["export", "old", "--out", str(tmp_path / "old.jsonl"), "--store", url]) == 0
    assert main(["import", str(tmp_path / "old.jsonl"), "--store", other]) == 0
    assert replayed(other, "old") == digest


def old_store(tmp_path, number):
    """A store as a version of this format left it; the first one had no edge of a log."""
    path = tmp_path / f"{number}.db"
    path.write_bytes(gzip.decompress((OLD / f"store-format-{max(number, 2)}.db.gz").read_bytes()))
    url = f"sqlite:///{path}"
    if number == 1:
        sql(url, "DELETE FROM boards WHERE name = 'short'")
        sql(url, "ALTER TABLE boards DROP COLUMN edge")
        sql(url, "UPDATE meta SET value = '1' WHERE name = 'format'")
    return url


@pytest.mark.parametrize("number", range(1, tables.FORMAT))
async def test_a_store_of_every_past_format_is_brought_up_to_date_and_goes_on(tmp_path, number):
    url = old_store(tmp_path, number)
    assert sql(url, "SELECT value FROM meta WHERE name = 'format'") == [(str(number),)]
    before = sql(url, "SELECT seq, board, at, body FROM events ORDER BY seq")
    async with serving(url, seed=3) as local:
        found = await local.ask("GET", "boards/old")
        assert (found["impressions"], found["answers"], found["clicks"]) == (8, 6, 6)
        shown = await local.rank("old", client="visitor 9")
        assert (await local.answer(shown, "old", clicked=shown["items"][0]))["outcome"] in ("learnt", "waiting")
        await local.quiet()
        digest = local.digest("old")
        assert set(local.worker.parked) <= {"short"}
    assert sql(url, "SELECT value FROM meta WHERE name = 'format'") == [(str(tables.FORMAT),)]
    assert sql(url, "SELECT format FROM head") == [(tables.FORMAT,)]
    after = sql(url, "SELECT seq, board, at, body, checksum FROM events ORDER BY seq")
    assert [row[:4] for row in after[: len(before)]] == before
    checked = [row[4] is not None for row in after]
    assert checked == [False] * len(before) + [True] * (len(after) - len(before))
    assert len(after) >= len(before) + 2
    assert replayed(url, "old") == digest


@pytest.mark.parametrize("number", range(1, 8))
def test_rows_without_a_checksum_are_refused_once_a_store_has_them(tmp_path, number):
    """What a worker of an older version would write, if it is still there after the upgrade."""
    url = old_store(tmp_path, number)
    with contextlib.closing(open_store(url)) as store:
        board, seq = min(store.boards()), store.head() + 1
    with pytest.raises(sqlite3.OperationalError, match="table events has 5 columns"):
        sql(url, "INSERT INTO events VALUES (?, ?, 1.0, ?)", seq, board, b"x")
    for table in ("events (seq, board, at, body)", "snapshots (seq, board, body)"):
        values = "?, ?, 1.0, ?" if table.startswith("events") else "?, ?, ?"
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            sql(url, f"INSERT INTO {table} VALUES ({values})", seq, board, b"x")


def test_a_board_of_a_format_before_is_refused_by_name(tmp_path, capsys):
    """Its memory, by which a file is checked, is not what this version makes of the same events."""
    path, url = OLD / "board-format-8.jsonl", f"sqlite:///{tmp_path}/store.db"
    assert main(["import", str(path), "--store", url]) == 2
    assert "it is a board of format 8, this version reads format 9: import it with the version that" in (
        capsys.readouterr().err
    )


CONFIG = {"length": 2, "settle": 0.0}
ROWS = [["answered", t, t, t - 1, 0, [t % 3, 3], [], [t % 2], t % 2 + 1, 0.0, t % 5] for t in range(1, 41)]
ITEMS = ["a", "b", "c", "d"]


def without_guards(config):
    return {name: value for name, value in config.items() if name not in ("guard", "guard_settings", "shadow")}


def fourth(board):
    """A snapshot as it was written before boards had guards, cohorts and labels on clients."""
    header, arrays = board.keep()
    new = ("kinds", "shadow", "cohorts", "words", "left_out")
    header = {name: value for name, value in header.items() if name not in new}
    header |= {name: without_guards(header[name]) for name in ("config", "latest")}
    arrays = {name: array for name, array in arrays.items() if name != "impressions.cohorts"}
    return snapshot.pack(header | {"format": 4}, arrays)


@pytest.mark.parametrize("shortened", [False, True])
def test_a_board_from_before_there_were_guards_gets_one(tmp_path, shortened):
    """From its log, whole; from a snapshot where the log was shortened: there it knows nobody yet."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    start = msgspec.msgpack.encode(["created", CONFIG, ITEMS])
    number = store.create("b", start, 1.0)
    store.append([NewEntry(number, msgspec.msgpack.encode(row)) for row in ROWS], 1.0)
    old = Board.create(Config(guard="Anyone", **CONFIG), ITEMS)
    for row in ROWS[:20]:
        old.apply(events.decode(msgspec.msgpack.encode(row)))
    if shortened:
        assert store.forget(number, 0, number + 20, fourth(old), lambda: True) == 21
    else:
        store.save(number, number + 20, fourth(old))
    with store.reading():
        board = rebuild(store, number, "b", store.head())
    store.close()
    assert board.config.guard == board.latest.guard == "ClientTrust"
    assert not board.stale
    assert board.learner_state.gate.posts[0].guards[""].visits.tally[1] == (20 if shortened else 40)
    whole = Board.create(Config(**CONFIG), ITEMS)
    for row in ROWS:
        whole.apply(events.decode(msgspec.msgpack.encode(row)))
    assert board.learner_state.looks.tolist() == whole.learner_state.looks.tolist()
    assert (board.digest() == whole.digest()) == (not shortened)


PAST = [["history", [[["a", "b"], [k], 2]], f"june#{k}"] for k in (0, 1)]


def with_names_alone(board):
    """A snapshot as it was written when batches of past clicks were known by their names alone."""
    header, arrays = board.keep()
    return snapshot.pack(header | {"batches": [name for name, *_ in header["batches"]]}, arrays)


@pytest.mark.parametrize("shortened", [False, True])
def test_batches_of_past_clicks_from_before_their_rows_were_compared(tmp_path, shortened):
    """From the log, whole, the rows are known; from a snapshot where it was shortened, names alone, as before."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    number = store.create("b", msgspec.msgpack.encode(["created", CONFIG, ITEMS]), 1.0)
    store.append([NewEntry(number, msgspec.msgpack.encode(row)) for row in PAST], 1.0)
    old = Board.create(Config(**CONFIG), ITEMS)
    for row in PAST:
        old.apply(events.decode(msgspec.msgpack.encode(row)))
    if shortened:
        assert store.forget(number, 0, number + 2, with_names_alone(old), lambda: True) == 3
    else:
        store.save(number, number + 2, with_names_alone(old))
        with pytest.raises(
            UnreadableSnapshot, match="of an earlier version: it does not hold what came in each batch"
        ):
            Board.restore(with_names_alone(old), "it")
    with store.reading():
        board = rebuild(store, number, "b", store.head())
    store.close()
    same, other = (events.History([events.Past(["a", "b"], [k], 2)], "june#0", 7) for k in (0, 1))
    assert board.apply(same) == "duplicate"
    if shortened:
        assert board.apply(other) == "duplicate"
    else:
        with pytest.raises(sr.Refused, match="batch 'june' came before with other rows") as refusal:
            board.apply(other)
        assert refusal.value.code == 409
    again = Board.restore(snapshot.pack(*board.keep()), "it", shortened)
    assert again.digest() == board.digest()


def visited(t):
    """A mixed list and its click, as events: of two clients, each on its own day."""
    teams = [1, -1] if t % 2 else [-1, 1]
    shown = t, t, t - 1, 0, [0, 1], []
    return [["shown", *shown, 9.0, t % 2, {}, [teams, [], []]], ["answered", *shown, [0], 1, 9.0, t % 2, {}, teams]]


def with_few_lists(board):
    """A snapshot as it was written when at most five mixed lists of a visitor were counted."""
    header, arrays = board.keep()
    arrays["interleaving.lists"] = arrays["interleaving.lists"].clip(0, 5)
    return snapshot.pack(header, {n: a for n, a in arrays.items() if n.split(".")[-1] not in ("visitor", "unnamed")})


@pytest.mark.parametrize("shortened", [False, True])
def test_mixed_lists_from_before_all_were_counted(tmp_path, shortened):
    """From the log, whole, they are counted again; where it was shortened, counting begins anew."""
    rows = [row for t in range(1, 31) for row in visited(t)]
    config = CONFIG | {"interleave": True}
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    number = store.create("b", msgspec.msgpack.encode(["created", config, ITEMS]), 1.0)
    store.append([NewEntry(number, msgspec.msgpack.encode(row)) for row in rows], 1.0)
    old = Board.create(Config(**config), ITEMS)
    for row in rows[:40]:
        old.apply(events.decode(msgspec.msgpack.encode(row)))
    if shortened:
        assert store.forget(number, 0, number + 40, with_few_lists(old), lambda: True) == 41
    else:
        store.save(number, number + 40, with_few_lists(old))
        with pytest.raises(UnreadableSnapshot, match="of an earlier version: it does not hold how many lists"):
            Board.restore(with_few_lists(old), "it")
    with store.reading():
        board = rebuild(store, number, "b", store.head())
    store.close()
    assert [sum(column) for column in zip(*board.interleaving.lists, strict=True)] == (
        [10, 5, 5] if shortened else [30, 15, 15]
    )
    assert Board.restore(snapshot.pack(*board.keep()), "it").digest() == board.digest()
