"""Boards with one owner among the workers of a PostgreSQL: taken over, fenced off, moved, and asked for anywhere."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import os
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from service_tools import ITEMS, Server, replayed, until, wait_until
from steadyrank.client import Client
from steadyrank.client.wire import Request
from steadyrank.service.board import events
from steadyrank.service.board.config import RulesSetting, new_collection
from steadyrank.service.http.rank_routes import FeedbackIn, QueryRankIn, RankIn, answer_now, list_now
from steadyrank.service.http.server import announced
from steadyrank.service.storage import Fenced, NewEntry, Unavailable, open_store, partition_of, sql
from steadyrank.service.worker import log_writer, rank_and_answer
from steadyrank.service.worker.ownership import LEASE, MOVED_AT_ONCE, plan
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.replicas import MOST_AGE, Replicas
from steadyrank.service.worker.worker import Worker
from test_service_direct import ODD
from test_stores import Crowd, counted

KILLS = int(os.environ.get("STEADYRANK_KILLS", "2"))
PARTITIONS = 4
BOARDS = [next(f"b{k}" for k in range(100) if partition_of(f"b{k}", PARTITIONS) == p) for p in range(PARTITIONS)]
CREATED = events.encode(events.Created(events.Config(length=2), ["x", "y", "z"]))
SETTLED = events.encode(events.Settled(0))


@pytest.fixture
def url(database, monkeypatch):
    """A store of four partitions."""
    found = database.fresh()
    monkeypatch.setattr(sql.Postgres, "partitions", PARTITIONS)
    open_store(found).close()
    return found


def rows(url, query):
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def exchange(port, request):
    """Code and content of what a worker says to a request."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection, method=request.split()[0].decode())
        answer.begin()
        return answer.status, answer.read()


def everything(url):
    """All that workers write, but who they are."""
    tables = ("boards", "events", "snapshots", "clients", "rests", "seals")
    return [sorted(map(repr, rows(url, f"SELECT * FROM {table}"))) for table in tables]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.01, 50.0), min_size=8, max_size=40),
    st.integers(1, 6),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_loads_become_even_a_few_partitions_at_a_time_and_stay(loads, count, dead, random):
    workers = list(range(1, count + 1))
    weights = dict(enumerate(loads))
    owners = {p: random.choice([*workers, 7][: count + (dead > 0)]) for p in weights}
    orphans = {p: owner for p, owner in owners.items() if owner == 7}
    having = {p for p in weights if random.random() < 0.7}
    for _ in range(200):
        moved = 0
        for me in workers:
            moves = plan(me, workers, owners, weights, lambda: having)
            assert sum(p in having for p, _ in moves) <= MOVED_AT_ONCE
            assert all(owners[p] == me and to in workers and to != me for p, to in moves)
            owners |= dict(moves)
            moved += len(moves)
        if not moved:
            break
    assert not moved
    assert {p: owners[p] for p in orphans} == orphans  # they are taken, not given
    held = {me: sorted(weights[p] for p in weights if owners[p] == me) for me in workers}
    most, least = max(workers, key=lambda me: sum(held[me])), min(workers, key=lambda me: sum(held[me]))
    gap = sum(held[most]) - sum(held[least])
    mean = sum(map(sum, held.values())) / count
    assert gap <= max(0.1 * mean, held[most][0] / 0.75 if held[most] else 0.0) + 1e-9


def test_what_has_another_owner_is_not_written_whatever_it_is(url):
    with contextlib.ExitStack() as stack:
        tool, one, other = (stack.enter_context(contextlib.closing(open_store(url))) for _ in range(3))
        one.beat(1, "here", "here:1", 60.0)
        other.beat(2, "there", "there:1", 60.0)
        fences = one.take_partitions(1, 99)
        assert fences == dict.fromkeys(range(PARTITIONS), 1)
        assert other.take_partitions(2, 99) == {}
        mine = stack.enter_context(contextlib.closing(open_store(url, fences)))
        numbers = [mine.create_board(name, CREATED, 1.0) for name in BOARDS]
        assert [number % PARTITIONS for number in numbers] == list(range(PARTITIONS))
        seqs, _ = mine.append([NewEntry(number, SETTLED) for number in [*numbers, numbers[2]]], 2.0)
        assert seqs == [number + PARTITIONS for number in numbers] + [numbers[2] + 2 * PARTITIONS]
        one.give_partitions([(2, 1, 2)])
        one.give_partitions([(3, 7, 2)])  # of another time
        members, holdings = other.holdings()
        assert [(m.id, m.address, m.alive) for m in members] == [(1, "here:1", True), (2, "there:1", True)]
        assert [holdings[p][1:] for p in range(PARTITIONS)] == [(1, 1), (1, 1), (2, 2), (1, 1)]
        before = everything(url)
        number = numbers[2]
        for write in (
            lambda: mine.append([NewEntry(numbers[0], SETTLED), NewEntry(number, SETTLED)], 3.0),
            lambda: mine.append_if(number, 0, SETTLED, 3.0),
            lambda: mine.delete_board(number, SETTLED, 3.0),
            lambda: mine.rotate_seal(number, SETTLED, 3.0, 9.0),
            lambda: mine.promise(number, 9.0),
            lambda: mine.keep_summaries([(numbers[0], 1, b""), (number, 1, b"")]),
            lambda: mine.save_snapshot(number, 1, b"x"),
            lambda: mine.replace_snapshot(number, 1, b"x"),
            lambda: mine.forget_client(number, 5, 3.0, events.forgotten),
            lambda: mine.create_board(
                next(f"c{k}" for k in range(99) if mine.partition_of(f"c{k}") == 2), CREATED, 3.0
            ),
        ):
            with pytest.raises(Fenced) as refusal:
                write()
            assert refusal.value.partitions == {2}
            assert everything(url) == before
        mine.append([NewEntry(numbers[0], SETTLED)], 3.0)  # the others are still its own
        tool.append([NewEntry(number, SETTLED)], 3.0)  # a command of an operator
        one.beat(1, "here", "here:1", -1.0)
        assert other.take_partitions(2, 2) == {0: 2, 1: 2}
        other.leave(2)
        one.beat(1, "here", "here:1", 60.0)
        assert one.take_partitions(1, 99) == {0: 4, 1: 4, 2: 4}  # the last one it has had all the time
        one.replace_worker(9, "here", "here:1")
        assert one.holdings()[0] == []


def test_who_stops_in_the_middle_of_writing_keeps_nobody_waiting_for_long(url):
    """The lock of a transaction whose worker was stopped ends before the partition is needed."""
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(contextlib.closing(open_store(url))) for _ in range(2))
        fences = one.take_partitions(1, 99)
        with pytest.raises(Unavailable, match="idle-in-transaction"), one._db.transaction():  # noqa: PT012
            one._take_numbers(0, 1)
            other.beat(2, "there", "there:1", 600.0)
            assert other.take_partitions(2, 99) == {1: 2, 2: 2, 3: 2}
            wait_until(lambda: other.take_partitions(2, 99) == {0: 2})
            one._db.read("SELECT 1")
        assert sql._STUCK < 1_000 * LEASE
        assert fences == dict.fromkeys(range(PARTITIONS), 1)
        assert other.head(0) == 0  # nothing was written


def start(url, folder, count, **options):
    """Workers, each with a share of the partitions."""
    servers = [Server(url, folder / f"log{i}", **options) for i in range(count)]
    for server in servers:
        server.wait()
    wait_for_shares(url, count)
    return servers


def shares(url):
    alive = "SELECT id FROM workers WHERE until > EXTRACT(EPOCH FROM clock_timestamp())"
    return sorted(
        count for _, count in rows(url, f"SELECT owner, COUNT(*) FROM heads WHERE owner IN ({alive}) GROUP BY 1")
    )


def wait_for_shares(url, count):
    wait_until(lambda: shares(url) == [PARTITIONS // count] * count, 60.0)


def owner_port(url, board):
    """The port of the worker that owns a board."""
    query = "SELECT heads.partition, workers.address FROM heads JOIN workers ON workers.id = heads.owner"
    return int(dict(rows(url, query))[partition_of(board, PARTITIONS)].rpartition(":")[2])


def lease(url, server, change="0"):
    """Seconds for which others take a worker for alive, once they are changed by some."""
    change = f"UPDATE workers SET until = until + ({change}) WHERE address LIKE '%:{server.port}' RETURNING until"
    left = rows(url, f"WITH lease AS ({change}) SELECT MAX(until) - EXTRACT(EPOCH FROM clock_timestamp()) FROM lease")
    return float(left[0][0])


def exported(server, board):
    return urllib.request.urlopen(f"{server.address}/v1/boards/{board}/export", timeout=30).read()


def settled(url):
    """Everything in the store, once nothing is written for a second."""
    found, before = everything(url), None
    while found != before:
        time.sleep(1.0)
        found, before = everything(url), found
    return found


def test_workers_that_are_killed_or_paused_lose_nothing_and_count_nothing_twice(url, tmp_path):
    """Two workers, four partitions, a board in each; the paused one is away for longer than its lease."""
    servers = start(url, tmp_path, 2)
    for k, board in enumerate(BOARDS):
        servers[k % 2].client().put_board(board, items=ITEMS, length=4, settle=0)
    crowds = [Crowd([s.address for s in servers], threads=1, board=board, seed=k) for k, board in enumerate(BOARDS)]

    def acknowledged():
        return [len(crowd.acknowledged) for crowd in crowds]

    def wait_for_more(boards, count=5):
        before = acknowledged()
        wait_until(lambda: all(acknowledged()[k] >= before[k] + count for k in boards), 60.0)

    try:
        for turn in range(KILLS):
            wait_for_more(range(PARTITIONS))
            victim, other = servers[turn % 2], servers[1 - turn % 2]
            client = other.client(tries=1, timeout=10)
            lost = next(board for board in BOARDS if owner_port(url, board) == victim.port)
            if turn % 2 == 0:
                victim.kill()
            else:
                os.kill(victim.process.pid, signal.SIGSTOP)
            begin = time.monotonic()

            left, codes = lease(url, victim), set()

            def served(client=client, lost=lost, codes=codes):
                try:
                    return client.feedback(lost, client.rank(lost).impression, clicked=None)
                except ConnectionError:
                    return False
                except sr.Refused as refusal:
                    codes.add(refusal.code)
                    return False

            wait_until(served, 60.0)
            assert time.monotonic() - begin > left - 0.1, "nobody else answers while the victim may be alive"
            assert codes <= {503}
            if turn % 2 == 0:
                victim.start()
                victim.wait()
            else:
                os.kill(victim.process.pid, signal.SIGCONT)
            wait_for_shares(url, 2)
            wait_for_more(range(PARTITIONS))
    finally:
        for server in servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.process.pid, signal.SIGCONT)
        for crowd in crowds:
            crowd.end()
    settled(url)  # lists that copies gave out are written some tenths of a second later
    for crowd, board in zip(crowds, BOARDS, strict=True):
        assert {r.code for r in crowd.refused} <= {503}
        keys = counted(url, board)
        for server in servers:
            client = server.client()
            for impression, clicked in list(crowd.acknowledged.items())[-20:]:
                assert client.feedback(board, impression, clicked=clicked) == "duplicate"
        state = servers[0].client().state(board)
        assert len(crowd.acknowledged) <= state["board"]["answers"] == len(keys) <= len(crowd.sent)
        assert state["view"]["rounds"] == state["board"]["answers"]
        assert exported(servers[0], board) == exported(servers[1], board)
    assert [server.stop() for server in servers] == [0, 0]
    for board in BOARDS:
        assert replayed(url, board)
    assert "divergence" not in "".join((tmp_path / f"log{i}").read_text() for i in range(2))


def test_a_worker_that_wakes_after_its_lease_writes_nothing(url, tmp_path):
    """It gave out lists just before, which wait to be written; meanwhile nobody else writes anything."""
    servers = start(url, tmp_path, 2)
    for board in BOARDS:
        servers[0].client().put_board(board, items=ITEMS, length=4, lifetime=86_400)
    paused = next(server for server in servers if server.port == owner_port(url, BOARDS[0]))
    other = next(server for server in servers if server is not paused)
    mine = [board for board in BOARDS if owner_port(url, board) == paused.port]
    client = paused.client(timeout=30)
    shown = [(board, client.rank(board)) for board in mine for _ in range(20)]
    os.kill(paused.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: shares(url) == [PARTITIONS], 60.0)
        for board in mine:
            assert other.client(timeout=30).board(board)["board"] == board
        before = settled(url)  # boards may have moved before, and the other one may have lists to write
    finally:
        os.kill(paused.process.pid, signal.SIGCONT)
    wait_for_shares(url, 2)
    after = everything(url)
    assert after[:2] == before[:2]
    assert after[3] == before[3]
    for board, one in shown:
        assert client.feedback(board, one.impression, clicked=one.items[0]) == "waiting"
        assert other.client().feedback(board, one.impression, clicked=one.items[0]) == "duplicate"
    for board in BOARDS:
        assert exported(paused, board) == exported(other, board)
    assert [server.stop() for server in servers] == [0, 0]
    for board in BOARDS:
        assert replayed(url, board)


def test_boards_move_to_a_worker_that_comes_and_back_when_it_goes_and_nobody_is_refused(url, tmp_path):
    first = Server(url, tmp_path / "first").wait()
    for board in BOARDS:
        first.client().put_board(board, items=ITEMS, length=4, settle=0)
    crowds = [Crowd([first.address], threads=1, board=board, seed=k) for k, board in enumerate(BOARDS)]
    try:
        wait_until(lambda: all(len(crowd.acknowledged) > 10 for crowd in crowds))
        second = Server(url, tmp_path / "second").wait()
        wait_until(lambda: len(shares(url)) == 2 and min(shares(url)) >= 1, 60.0)
        assert {owner_port(url, board) for board in BOARDS} == {first.port, second.port}
        before = [len(crowd.acknowledged) for crowd in crowds]
        wait_until(lambda: all(len(c.acknowledged) > n + 5 for c, n in zip(crowds, before, strict=True)))
        assert second.stop() == 0
        wait_for_shares(url, 1)
        before = [len(crowd.acknowledged) for crowd in crowds]
        wait_until(lambda: all(len(c.acknowledged) > n + 5 for c, n in zip(crowds, before, strict=True)))
    finally:
        for crowd in crowds:
            crowd.end()
    for crowd, board in zip(crowds, BOARDS, strict=True):
        assert not crowd.refused, crowd.refused[0]
        assert first.client().board(board)["answers"] == len(crowd.acknowledged)
    assert first.stop() == 0
    for board in BOARDS:
        assert replayed(url, board)


def test_what_was_asked_for_before_a_board_moves_is_answered(url):
    async def move():
        worker = Worker(url, address="127.0.0.1:1")
        await worker.start()
        board, partition = BOARDS[0], 0
        assert await worker.create_board(BOARDS[1], events.decode(CREATED))  # compiles what the other one needs
        with worker.answering(board):
            leaving = asyncio.create_task(worker.release([partition]))
            await asyncio.sleep(0)
            assert not worker.is_served(board)
            assert await worker.create_board(board, events.decode(CREATED))
            rank_and_answer.rank(worker, worker.find_board(board), None, None, "ann")
            assert not leaving.done()
        assert await leaving == {partition: 1}
        with pytest.raises(Unavailable, match="another worker"):
            worker.find_board(board)
        await worker.stop()

    asyncio.run(move())
    assert len(rows(url, "SELECT * FROM events")) == 3  # the beginnings of two boards, and the list


def test_lists_of_a_board_that_moves_are_given_out_by_who_had_it(url, monkeypatch):
    """From when it leaves until its next owner is known, and in one log with what that one writes."""

    async def move():
        worker, board = Worker(url, address="127.0.0.1:1"), BOARDS[0]
        await worker.start()
        assert await worker.create_board(board, events.Created(events.Config(length=4, settle=0), ITEMS))
        session, copies, given = worker.find_board(board), worker.replicas, []
        save = worker.cache.save_boards

        def give():
            giver = copies if worker.find_served(board) is None else worker
            held = copies.find_copy(board) if giver is copies else session
            given.append(list_now(giver, held, RankIn(client=f"c{len(given)}")))

        async def give_and_save(numbers, seconds):
            give()
            await save(numbers, seconds)
            give()

        monkeypatch.setattr(worker.cache, "save_boards", give_and_save)
        give()
        fences = await worker.release([0])
        give()
        copy = copies.find_copy(board)
        assert copy is session
        with contextlib.closing(open_store(url, fences)) as store:  # the next owner
            answer = events.Answered(7, 9, 0, 0, [3, 1, 2], [], [1], 3)
            store.append([NewEntry(session.number, events.encode(answer))], 2.0)
        await until(lambda: copy.board.events == 6)  # the beginning, four lists, and the answer
        await until(lambda: copies.log_writer.behind == 0)
        with contextlib.closing(open_store(url)) as store:
            head = store.head(0)
            assert rebuild(store, session.number, board, head).digest() == copy.board.digest()
        await worker.stop()
        return given

    given = asyncio.run(move())
    assert len({shown.impression for shown in given}) == 4


def test_a_board_that_is_not_given_away_after_all_is_served_on(url, monkeypatch):
    """The store is so slow that who waits gives up, just when nothing more is to be written to the partition."""

    async def move():
        worker, slow = Worker(url, address="127.0.0.1:1"), threading.Event()
        await worker.start()
        board = BOARDS[0]
        assert await worker.create_board(board, events.decode(CREATED))
        save = worker.cache.save_boards

        async def save_and_stall(numbers, seconds):
            await save(numbers, seconds)
            worker.log_writer.run_chore(lambda store: slow.wait())
            monkeypatch.setattr(log_writer, "PATIENCE", 0.2)

        monkeypatch.setattr(worker.cache, "save_boards", save_and_stall)
        with pytest.raises(Unavailable, match="too long"):
            await worker.release([0])
        assert not worker.replicas.copies
        monkeypatch.setattr(log_writer, "PATIENCE", 60.0)
        slow.set()
        await until(lambda: worker.is_served(board))
        async with worker.cache.hold_board(board):
            session = worker.find_board(board)
            assert await worker.write_event(session, events.Settled(0)) == "done"
        await worker.stop()

    asyncio.run(move())


def metric(server, name):
    page = urllib.request.urlopen(f"{server.address}/metrics", timeout=30).read().decode()
    return float(next(line.split()[1] for line in page.splitlines() if line.startswith(name + " ")))


def test_a_board_that_is_asked_for_often_is_ranked_by_every_worker(url, tmp_path):
    servers = start(url, tmp_path, 2)
    board = BOARDS[0]
    servers[0].client().put_board(board, items=ITEMS, length=4, settle=0)
    owner = next(server for server in servers if server.port == owner_port(url, board))
    other = next(server for server in servers if server is not owner)
    client, there = other.client(), owner.client()
    shown = []

    def copied():
        shown.extend(client.rank(board, client=f"visitor {len(shown)} {k}") for k in range(60))
        return metric(other, "steadyrank_replica_lists_total") > 100

    wait_until(copied, 60.0)
    assert metric(other, "steadyrank_replicas") == 1
    assert metric(owner, "steadyrank_replicas") == 0
    line, host = f"POST /v1/boards/{board}/rank HTTP/1.1", "host: 127.0.0.1\r\ncontent-length: 2"
    for proxy, code in (("", 200), ("\r\nx-forwarded-for: 1.2.3.4", 403)):  # no list without the right to it
        assert exchange(other.port, f"{line}\r\n{host}{proxy}\r\n\r\n{{}}".encode())[0] == code
    for k, one in enumerate(shown):  # answers find their list, whether it is in the log yet or not
        assert (client, there)[k % 2].feedback(board, one.impression, clicked=one.items[0]) == "learnt"
        assert (client, there)[k % 3 % 2].feedback(board, one.impression, clicked=one.items[0]) == "duplicate"
    wait_until(lambda: there.board(board)["impressions"] == len(shown) + 1)
    assert there.board(board)["answers"] == len(shown)
    there.add_items(board, ["brand new"])
    assert client.rank(board, ["brand new"]).items == ("brand new",)  # where the copy does not know better, the owner
    with pytest.raises(sr.Refused, match="unknown item 'none'"):
        client.rank(board, ["none"])
    there.retire_item(board, "brand new")
    time.sleep(2 * MOST_AGE)
    assert not any("brand new" in client.rank(board).items for _ in range(50))
    there.delete_board(board)
    time.sleep(2 * MOST_AGE)
    with pytest.raises(sr.Refused, match="no board"):
        client.rank(board)
    there.put_board(board, items=ITEMS, length=4, settle=0)
    assert set(client.rank(board).items) <= set(ITEMS)
    assert [server.stop() for server in servers] == [0, 0]
    assert replayed(url, board)


def copies_of(owner):
    """Copies of a worker's boards, as if another one had them."""
    lists = owner.chance, owner.next_key, lambda event: False, owner.spawn
    return Replicas(owner.url, PARTITIONS, owner.clock, owner.monotonic, *lists)


@pytest.mark.parametrize("kind", ["rules", "collection"])
def test_a_copy_keeps_the_rules_of_its_board_and_ranks_for_queries(url, kind):
    """Lists of a copy have their place in the owner's log, and are answered there; both learn the same."""
    items = [] if kind == "collection" else ITEMS
    config = new_collection({"length": 4, "settle": 0})
    if kind == "rules":
        groups = {"half": {"items": ITEMS[:6], "most": 2}}
        config = events.Config(length=4, settle=0, rules=msgspec.convert({"groups": groups}, RulesSetting))

    def wanted(k):
        if kind == "collection":
            return QueryRankIn(query=f"Query {k % 3}", candidates=ITEMS[:6], client=f"c{k}")
        return RankIn(rules=RulesSetting(pins={ITEMS[11]: 2}, exclude=[ITEMS[7]]), client=f"c{k}")

    async def copy():
        owner, board = Worker(url, address="127.0.0.1:1"), BOARDS[0]
        await owner.start()
        assert await owner.create_board(board, events.Created(config, items))
        copies = copies_of(owner)
        copied = await copies.need(board, 60.0)
        session = owner.find_board(board)
        for k in range(30):
            shown = list_now(copies, copied, wanted(k))
            assert len(shown.items) == len(set(shown.items)) == 4
            if kind == "rules":
                assert shown.items[1] == ITEMS[11]
                assert ITEMS[7] not in shown.items
                assert sum(item in ITEMS[:6] for item in shown.items) <= 2
            said = FeedbackIn(impression=shown.impression, clicked=shown.items[k % 4], client=f"c{k}")
            assert await answer_now(owner, session, said, lambda scope, name: None) == "learnt"
        await until(lambda: session.board.events == copied.board.events == 1 + 30 + 30)
        assert session.board.digest() == copied.board.digest()
        await copies.finish()
        await owner.stop()

    asyncio.run(copy())
    assert replayed(url, BOARDS[0])


def test_a_copy_is_kept_up_while_its_lists_wait_to_be_written(url):
    """Writes of several workers take turns at a partition; a copy that waited for its own would be too old to use."""

    async def wait():
        owner, board = Worker(url, address="127.0.0.1:1"), BOARDS[0]
        await owner.start()
        assert await owner.create_board(board, events.Created(events.Config(length=4, settle=0), ITEMS))
        copies = copies_of(owner)
        copied = await copies.need(board, 60.0)
        with psycopg.connect(url) as another:
            another.execute("SELECT * FROM heads WHERE partition = 0 FOR UPDATE")
            end = time.monotonic() + 4 * MOST_AGE
            ages = []
            while time.monotonic() < end:
                list_now(copies, copied, RankIn(client="ann"))
                await asyncio.sleep(0.02)
                ages.append(time.monotonic() - copies.copies[board].read)
            assert copied.board.events == 1  # nothing was written
        assert sorted(ages)[len(ages) // 2] < MOST_AGE
        await until(lambda: copied.board.events == 1 + len(ages))
        await copies.finish()
        await owner.stop()

    asyncio.run(wait())


def test_a_copy_to_which_lists_cannot_be_applied_ends_and_others_are_kept_up(url, monkeypatch):
    def fail(event):
        raise MemoryError("no room for lists")

    async def give():
        owner, board, other = Worker(url, address="127.0.0.1:1"), BOARDS[0], BOARDS[1]
        await owner.start()
        for name in (board, other):
            assert await owner.create_board(name, events.Created(events.Config(length=4, settle=0), ITEMS))
        copies = copies_of(owner)
        copied, kept = [await copies.need(name, 60.0) for name in (board, other)]
        monkeypatch.setattr(copied.board, "_show_together", fail)
        for name in (board, other):
            for _ in range(20):  # written as one event
                list_now(owner, owner.find_board(name), RankIn(client="ann"))
        await until(lambda: board not in copies.copies and kept.board.events == 21)
        assert (await copies.need(board, 60.0)).board.events == 21
        await copies.finish()
        await owner.stop()

    asyncio.run(give())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_lists_go_on_while_their_owner_is_dead_and_can_be_answered_later(url, tmp_path, number):
    servers = start(url, tmp_path, 2)
    board = BOARDS[0]
    servers[0].client().put_board(board, items=ITEMS, length=4, settle=0)
    owner = next(server for server in servers if server.port == owner_port(url, board))
    client = next(server for server in servers if server is not owner).client(tries=1)
    shown = [client.rank(board)]

    def listed():
        with contextlib.suppress(sr.Refused):
            shown.append(client.rank(board))
        return len(shown) > 5

    os.kill(owner.process.pid, number)
    try:
        lease(url, owner, "3600")  # however slow this machine is: nobody takes the board before the lists are there
        wait_until(listed)
        assert shares(url) == [PARTITIONS // 2] * 2
        lease(url, owner, "-3600")
        wait_until(lambda: listed() and shares(url) == [PARTITIONS])
        patient = next(server for server in servers if server is not owner).client()
        for one in shown:
            assert patient.feedback(board, one.impression, clicked=None) == "learnt"
        assert patient.board(board)["answers"] == len(shown)
    finally:
        if number == signal.SIGSTOP:
            os.kill(owner.process.pid, signal.SIGCONT)
    for server in servers:
        if server is not owner or number == signal.SIGSTOP:
            assert server.stop() == 0
    assert replayed(url, board)


class Lister:
    """Asks for lists of a board, at any worker that answers, and remembers how long there was none."""

    def __init__(self, addresses, board):
        self._clients = [Client(address, tries=1, timeout=1.0, breaker_failures=10**9) for address in addresses]
        self.board, self.longest, self.count, self._end = board, 0.0, 0, threading.Event()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _live(self):
        last = time.monotonic()
        while not self._end.is_set():
            random.shuffle(self._clients)
            for client in self._clients:
                with contextlib.suppress(sr.Refused, ConnectionError):
                    client.rank(self.board)
                    self.count += 1
                    break
            else:
                continue
            self.longest, last = max(self.longest, time.monotonic() - last), time.monotonic()
            self._end.wait(0.05)
        for client in self._clients:
            client.close()

    def end(self):
        self._end.set()
        self._thread.join()


@pytest.mark.slow
def test_three_workers_that_are_killed_again_and_again_lose_nothing_and_lists_go_on(url, database, tmp_path):
    """Half-way through the database is restarted, and a worker is paused for longer than its lease."""
    kills, chance = int(os.environ.get("STEADYRANK_KILLS", "50")), random.Random(41)
    servers = [Server(url, tmp_path / f"log{i}") for i in range(3)]
    addresses = [server.wait().address for server in servers]
    for board in BOARDS:
        servers[0].client().put_board(board, items=ITEMS, length=4, settle=0)
    crowds = [Crowd(addresses, threads=1, board=board, seed=k) for k, board in enumerate(BOARDS)]
    listers = [Lister(addresses, board) for board in BOARDS]
    try:
        for turn in range(kills):
            victim = chance.choice(servers)
            if turn == kills // 3:
                database.stop()
                time.sleep(1.0)
                database.start()
            elif turn == kills // 2:
                os.kill(victim.process.pid, signal.SIGSTOP)
                time.sleep(LEASE + 2.0)
                os.kill(victim.process.pid, signal.SIGCONT)
            victim.kill()
            time.sleep(5.0 * chance.random())
            victim.start()
            victim.wait()
            before = [len(crowd.acknowledged) for crowd in crowds]
            wait_until(lambda: all(len(c.acknowledged) > n for c, n in zip(crowds, before, strict=True)), 60.0)  # noqa: B023
    finally:
        for one in (*crowds, *listers):
            one.end()
    for crowd, board in zip(crowds, BOARDS, strict=True):
        assert {refusal.code for refusal in crowd.refused} <= {503}
        keys, client = counted(url, board), chance.choice(servers).client()
        for impression, clicked in crowd.acknowledged.items():
            assert client.feedback(board, impression, clicked=clicked) == "duplicate"
        state = client.state(board)
        assert len(crowd.acknowledged) <= state["board"]["answers"] == len(keys) <= len(crowd.sent)
        assert len({exported(server, board) for server in servers}) == 1
    assert [server.stop() for server in servers] == [0, 0, 0]
    for board in BOARDS:
        assert replayed(url, board)
    assert "divergence" not in "".join((tmp_path / f"log{i}").read_text() for i in range(3))
    assert max(lister.longest for lister in listers) < 5.0
    assert min(lister.count for lister in listers) > 10 * kills


def test_requests_for_boards_of_several_owners_are_answered_by_any_worker(url, tmp_path):
    servers = start(url, tmp_path, 2)
    clients = [server.client(tries=1) for server in servers]
    for k, board in enumerate(BOARDS):
        clients[k % 2].put_board(board, items=ITEMS, length=4, settle=0)
    assert {owner_port(url, board) for board in BOARDS} == {server.port for server in servers}
    names = sorted(BOARDS)
    for server, client in zip(servers, clients, strict=True):
        assert [board["board"] for board in client.boards()] == names
        with urllib.request.urlopen(f"{server.address}/v1/boards?limit=3") as page:
            assert page.read().decode().endswith(f'"next":"{names[2]}"}}')
        shown = {board: client.rank(board) for board in BOARDS}
        batch = [{"board": b, "impression": s.impression, "clicked": s.items[1]} for b, s in shown.items()]
        batch.insert(2, {"board": "none", "impression": "x", "clicked": None})
        answers = client.feedback_batch(batch)
        assert [row["code"] for row in answers] == [200, 200, 404, 200, 200]
        assert answers[2]["message"]
        with pytest.raises(sr.Refused, match="no board 'none'") as refusal:
            client.rank("none")
        assert refusal.value.code == 404
        straight = server.client(straight=True)
        for board in BOARDS:
            straight.rank(board)
            assert straight._owners.address(Request("GET", "", board=board)).port == owner_port(url, board)
            assert straight.feedback(board, straight.rank(board).impression, clicked=None) == "learnt"
        queries = [
            {"application": board, "query_id": f"{server.port} {board}", "query_response_hit_ids": ITEMS[:3]}
            for board in [*BOARDS, "none"]
        ]
        clicks = [
            {
                "action_name": "click",
                "query_id": f"{server.port} {BOARDS[0]}",
                "event_attributes": {"object": {"object_id": ITEMS[1]}},
            }
        ]
        about = {"object": {"object_id": ITEMS[1]}, "seconds": 5}
        watched = [
            {"action_name": "watch", "query_id": query["query_id"], "event_attributes": about}
            for query in queries[:4]
        ]
        said = client.ubi([*queries, *clicks, *watched], outcomes="watch:seconds")
        assert (said["lists"], said["clicks"], said["outcomes"], said["refused"]) == (4, 1, 4, {"404": 1})
        assert [message["row"] for message in said["messages"]] == ["row 5"]
    by_link = 'steadyrank_passed_on_total{by="link"}'
    for server, client in zip(servers, clients, strict=True):  # from here on over a connection that is there
        wait_until(lambda: [client.rank(board) for board in BOARDS] and metric(server, by_link) > 0)  # noqa: B023
    passed = sum(metric(server, by_link) for server in servers)
    for why, request in ODD.items():
        for board in BOARDS:
            told = [exchange(server.port, request.replace(b"/b/", b"/%b/" % board.encode())) for server in servers]
            assert told[0] == told[1], why
            assert told[0][0] >= 400, why
    assert sum(metric(server, by_link) for server in servers) > passed
    clients[0].delete_board(BOARDS[3])
    with pytest.raises(sr.Refused, match="no board"):
        clients[1].rank(BOARDS[3])
    clients[1].put_board(BOARDS[3], items=ITEMS, length=4, settle=0)
    assert [server.stop() for server in servers] == [0, 0]
    for board in BOARDS:
        assert replayed(url, board)


def test_batches_are_answered_by_all_owners_and_wait_for_none_that_has_stopped(url, tmp_path):
    """Answers, outcomes, messages and lists of boards; the worker that stops keeps its connections open."""
    servers = start(url, tmp_path, 2)
    for board in BOARDS:
        servers[0].client().put_board(board, items=ITEMS, length=4, settle=0, goal="value", count_unanswered=False)
    shown = {board: servers[0].client().rank(board) for board in BOARDS}
    answers = [{"board": b, "impression": one.impression, "clicked": one.items[0]} for b, one in shown.items()]
    bought = [
        {"board": b, "impression": one.impression, "item": one.items[0], "value": 5.0, "id": "order"}
        for b, one in shown.items()
    ]
    for server, outcome in zip(servers, ("learnt", "duplicate"), strict=True):
        client = server.client()
        for told in (client.feedback_batch(answers), client.outcome_batch([*bought, bought[0] | {"board": "none"}])):
            assert [row["outcome"] for row in told[:4]] == [outcome] * 4
        assert told[4]["code"] == 404
    stopped = next(server for server in servers if server.port == owner_port(url, BOARDS[0]))
    other = next(server for server in servers if server is not stopped)
    codes = [503 if owner_port(url, board) == stopped.port else 200 for board in BOARDS]
    assert sorted(codes) == [200, 200, 503, 503]
    queries = [{"application": b, "query_id": f"q {b}", "query_response_hit_ids": ITEMS[:3]} for b in BOARDS]

    def ask(method, rows):
        with contextlib.closing(Client(other.address, tries=1, timeout=60.0)) as client:
            told = getattr(client, method)(rows)
        return told["refused"] if isinstance(told, dict) else [row["code"] for row in told]

    os.kill(stopped.process.pid, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            boards = pool.submit(refusal_of, f"{other.address}/v1/boards")
            methods, rows = ("feedback_batch", "outcome_batch", "ingest", "ubi"), (answers, bought, answers, queries)
            told = [*pool.map(ask, methods, rows)]
        assert told == [codes, codes, codes, {"503": 2}]
        assert boards.result() == (503, "1")
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
    wait_for_shares(url, 2)
    patient = other.client()
    wait_until(lambda: {row["code"] for row in patient.feedback_batch(answers)} == {200}, 60.0)
    wait_until(lambda: {row["outcome"] for row in patient.outcome_batch(bought)} == {"duplicate"}, 60.0)
    assert [patient.board(board)["outcomes"] for board in BOARDS] == [1] * 4
    assert [server.stop() for server in servers] == [0, 0]
    for board in BOARDS:
        assert replayed(url, board)


def refusal_of(address):
    """Code of a refusal, and after how many seconds to ask again."""
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(address, timeout=60)
    with refusal.value as answer:
        return answer.code, answer.headers["retry-after"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_of_the_format_before_has_one_partition(database, tmp_path, kind):
    url = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else database.fresh()
    with contextlib.closing(open_store(url)) as store:  # as format 8 had it
        store._db.write("DROP TABLE heads")
        store._db.write("DROP TABLE workers")
        store._db.write("CREATE TABLE head (one BIGINT PRIMARY KEY, seq BIGINT NOT NULL, format BIGINT NOT NULL)")
        store._db.write("INSERT INTO head VALUES (1, 0, 8)")
        store._db.write("UPDATE meta SET value = '8' WHERE name = 'format'")
    with contextlib.closing(open_store(url)) as store:
        assert (store.partitions, store.head()) == (1, 0)
        number = store.create_board("b", CREATED, 1.0)
        assert store.append([NewEntry(number, SETTLED)], 2.0)[0] == [number + 1]
        assert rebuild(store, number, "b", store.head()).events == 2
        assert store._db.read("SELECT format FROM head") == [(9,)]  # workers of that format stop


def test_a_worker_says_where_others_reach_it():
    assert announced("sqlite:///x.db", "127.0.0.1", 80) == "127.0.0.1:80"
    assert announced("postgresql://u@db/x", "10.0.0.7", 80) == "10.0.0.7:80"
    assert announced("postgresql://u@db/x", "::1", 80) == "[::1]:80"
    assert announced("postgresql://u@127.0.0.1/x", "0.0.0.0", 80) == "127.0.0.1:80"
    assert announced("postgresql:///x?host=/run/db", "0.0.0.0", 80) == "127.0.0.1:80"
