"""Who came, as a number of the board: the same one for a client until it is forgotten, and nobody's after that."""

import asyncio
import contextlib
import json
import pathlib

import pytest

from service_tools import Server, logged_events, replayed, serving, sql, wait_until
from steadyrank.core.contract import ANYONE
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.storage import NewEntry, Sender, open_store
from steadyrank.service.worker import impression_ids
from steadyrank.service.worker.board_session import BoardSession
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def logged(url, name="b"):
    """The client of each list and answer in the log."""
    with contextlib.closing(open_store(url)) as store:
        number = next(n for n, (called, _) in store.boards().items() if called == name)
        found = logged_events(store, number)
    return [event.client for event in found if isinstance(event, events.ListShown | events.Answered)]


def told(local, name="b"):
    """Grows by the client of each visit whose feedback the learner is told of."""
    impressions, clients = local.worker.boards[name].board.impressions, []
    learn = impressions.learn

    def note(visit, *rest):
        clients.append(visit.client)
        return learn(visit, *rest)

    impressions.learn = note
    return clients


async def test_the_learner_is_told_who_came(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await local.board("other", settle=0)
        clients = told(local)
        for name in ("ann", "bob", None, "ann", "eve"):
            shown = await local.rank(client=name)
            await local.answer(shown, clicked=None)
        assert clients == [0, 1, ANYONE, 0, 2]
        await local.rank("other", client="eve")
        await local.quiet()
        assert logged(url) == [0, 0, 1, 1, ANYONE, ANYONE, 0, 0, 2, 2]
        assert logged(url, "other") == [0]
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        assert local.digest() == digest
        for name in ("new", "bob"):
            await local.rank(client=name)
        await local.quiet()
        assert logged(url)[-2:] == [3, 1]


async def test_lists_are_ranked_for_a_client_that_is_known(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        state, visits = local.worker.boards["b"].board.learner_state, []
        real = state.rank
        monkeypatch.setattr(state, "rank", lambda visit, *rest: visits.append(visit.client) or real(visit, *rest))
        for name in ("ann", "bob", "ann"):
            await local.rank(client=name)
            await local.quiet()
        await local.ask("DELETE", "boards/b/clients/ann")
        for name in ("bob", "ann"):
            await local.rank(client=name)
            await local.quiet()
        await local.rank(client="ann")
        assert visits == [ANYONE, ANYONE, 0, 1, ANYONE, 2]  # the first list is given out before there is a number


async def test_a_client_that_was_forgotten_gets_a_new_number_at_every_worker(url):
    async with serving(url) as local, serving(url, seed=5) as other:
        await local.board(settle=0)
        await other.quiet()
        for local_ in (local, other, local):
            await local_.rank(client="ann")
            await local_.quiet()
        await local.rank(client="bob")
        open_one = await local.rank(client="ann")
        assert (await local.ask("DELETE", "boards/b/clients/ann"))["impressions"] == 4
        assert (await local.ask("DELETE", "boards/b/clients/ann"))["impressions"] == 0
        assert [row[2] for row in sql(url, "SELECT * FROM clients")] == [1]
        await local.answer(open_one, clicked=None)
        assert [row[2] for row in sql(url, "SELECT * FROM clients")] == [1]  # an answer brings nobody back
        await other.quiet()  # what a worker gives out before it has read of it is nobody's
        for local_ in (other, local):
            await local_.rank(client="ann")
            await local_.rank(client="bob")
            await local_.quiet()
        assert logged(url) == [0, 0, 0, 1, 0, 0, 2, 1, 2, 1]
        await other.quiet()
        assert local.digest() == other.digest() == replayed(url)


async def test_nothing_of_the_log_leads_to_a_client_once_it_is_forgotten(url, tmp_path):
    async with serving(url) as local:
        await local.board(settle=0)
        for _ in range(3):
            await local.answer(await local.rank(client="ann"), clicked=None)
        await local.quiet()
        hashed = local.worker.boards["b"].hash_client("ann")
        assert sql(url, "SELECT hash FROM clients") == [(hashed,)]
        await local.ask("DELETE", "boards/b/clients/ann")
        assert sql(url, "SELECT * FROM clients") == []
        kept = [body for (body,) in sql(url, "SELECT body FROM events UNION ALL SELECT body FROM snapshots")]
    kept += [body for (body,) in sql(url, "SELECT body FROM snapshots")]
    with contextlib.closing(open_store(url)) as store:
        export(store, "b", tmp_path / "b.jsonl", True, lambda count: None)
    kept.append((tmp_path / "b.jsonl").read_bytes())
    kept.append(pathlib.Path(url.removeprefix("sqlite:///")).read_bytes())  # space that is free again included
    for body in kept:
        for order in ("little", "big"):
            assert hashed.to_bytes(8, order) not in body
        assert str(hashed).encode() not in body


async def test_an_answer_whose_list_was_never_logged_says_who_sent_it_unless_it_was_forgotten(url):
    async with serving(url) as local:
        await local.board(settle=0, lifetime=100)
        session = local.worker.boards["b"]

        def lost(key):
            """The id of a list that its worker gave out just before it died."""
            generation, expires = session.board.generation, local.clocks.wall + 100
            given = impression_ids.ImpressionId(key, 1, 0, generation, expires, session.hash_client("ann"), [3], [])
            given = given._replace(seen=local.worker.log_writer.seen[0])
            return {"impression": impression_ids.seal(given, session.signer)}

        first, second = lost(71), lost(72)
        await local.answer(first, clicked=None)
        local.clocks.pass_time(1)
        await local.ask("DELETE", "boards/b/clients/ann")
        await local.answer(second, clicked=None)
        assert logged(url) == [0, ANYONE]
        assert sql(url, "SELECT * FROM clients") == []
        local.clocks.pass_time(1)
        await local.answer(lost(73), clicked=None)
        assert logged(url) == [0, ANYONE, 1]


async def test_clients_are_forgotten_after_some_days(url, monkeypatch):
    monkeypatch.setattr("steadyrank.service.storage.sql_store._CLIENTS_AT_ONCE", 2)
    async with serving(url) as local:
        await local.board(settle=0, client_days=2, lifetime=60)
        for name in ("ann", "bob", "cid", "dan", "eve"):
            await local.rank(client=name)
        await local.quiet()
        local.clocks.pass_time(86_400)
        await local.rank(client="bob")
        await local.quiet()
        local.clocks.pass_time(1.5 * 86_400)
        await local.worker._chores(600)
        await local.quiet()
        assert sql(url, "SELECT number, visits FROM clients") == [(1, 2)]
        forgotten = [event for event in written(url) if isinstance(event, events.Forgotten)]
        assert sorted(n for event in forgotten for n in event.clients) == [0, 2, 3, 4]
        assert max(len(event.clients) for event in forgotten) == 2
        for name in ("ann", "bob"):
            await local.rank(client=name)
        await local.quiet()
        assert logged(url)[-2:] == [5, 1]
        digest = local.digest()
    assert replayed(url) == digest


async def test_clients_leave_with_the_last_of_their_events(url):
    async with serving(url) as local:
        await local.board(settle=0, client_days=900)
        await local.rank(client="ann")
        await local.quiet()
        local.clocks.pass_time(100)
        for name in ("bob", "cid", "bob"):
            await local.answer(await local.rank(client=name), clicked=None)
        await local.quiet()
        assert len(sql(url, "SELECT * FROM clients")) == 3
        digest = local.digest()
    with contextlib.closing(open_store(url)) as store:
        assert compact(store, 0.0, 6) == {"b": 2}
        assert sql(url, "SELECT number FROM clients ORDER BY number") == [(1,), (2,)]
        assert [event.clients for event in written(url) if isinstance(event, events.Forgotten)] == [[0]]
        compact(store, 0.0, 7)
    assert len([event for event in written(url) if isinstance(event, events.Forgotten)]) == 1
    async with serving(url, local.clocks, seed=1) as local:
        assert local.digest() != digest  # by the event that says who was forgotten
        await local.rank(client="ann")
        await local.quiet()
        assert logged(url)[-1] == 3


@pytest.mark.parametrize("name", ["a\nb", "a\r", "\x00", "a\x7f", "\x85", ".", "..", "", "x" * 201])
async def test_names_that_could_not_be_deleted_again_are_refused(url, name):
    async with serving(url) as local:
        await local.board(settle=0)
        refusal = await local.ask("POST", "boards/b/rank", {"client": name}, 422)
        assert "no control characters" in refusal["message"]


@pytest.mark.always
def test_a_client_with_any_name_that_was_ever_stored_is_deleted(url, tmp_path):
    """Earlier versions took names with ends of lines."""
    names = ["plain", "a/b", "ünï \u2028 漢字", "%2e", "a?b#c", " ", "'; --", "x" * 200]
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=["x", "y"], length=2)
    for name in names:
        client.rank("b", client=name)
    for name in names:
        wait_until(lambda name=name: client.forget_client("b", name) == 1)
    assert server.stop() == 0
    old = ["a\nb", "\n", "a\r\nx: y", "\x00", "tail\n"]
    with contextlib.closing(open_store(url)) as store:
        ((number, (_, secret)),) = store.boards().items()
        session = BoardSession(number, "b", secret, Board.create(Config(length=2), ["x", "y"]))
        rows = [
            NewEntry(number, events.encode(events.Settled(0)), [Sender(session.hash_client(name), store.head())])
            for name in old
        ]
        store.append(rows, 9e9)
    server.start()
    client = server.wait().client()
    assert [client.forget_client("b", name) for name in old] == [1] * len(old)
    assert sql(url, "SELECT * FROM clients") == []
    assert server.stop() == 0


def written(url):
    with contextlib.closing(open_store(url)) as store:
        return logged_events(store)


async def test_workers_at_once_give_a_new_client_one_number(url):
    async with serving(url) as one, serving(url, seed=5) as other:
        await one.board(settle=0)
        await other.quiet()
        names = [f"client {k % 7}" for k in range(42)]
        await asyncio.gather(*((one, other)[k % 2].rank(client=name) for k, name in enumerate(names)))
        for local in (one, other, one):
            await local.quiet()
        assert one.digest() == other.digest() == replayed(url)
        rows = sql(url, "SELECT hash, number, visits FROM clients ORDER BY number")
        assert [row[1:] for row in rows] == [(k, 6) for k in range(7)]
        assert sorted(logged(url)) == sorted(list(range(7)) * 6)


@pytest.mark.parametrize("shortened", [False, True])
async def test_a_board_is_moved_with_its_numbers_and_without_its_clients(url, tmp_path, shortened):
    async with serving(url) as local:
        await local.board(settle=0)
        for k in range(30):
            await local.rank(client=f"client {k % 3}")
            await local.quiet()  # an event each
        await local.ask("DELETE", "boards/b/clients/client%202")
        await local.quiet()
        digest = local.digest()
    place, other = tmp_path / "b.jsonl", f"sqlite:///{tmp_path}/other.db"
    with contextlib.closing(open_store(url)) as store:
        if shortened:
            assert compact(store, 0.0, 10)["b"] > 0
        export(store, "b", place, True, lambda count: None)
    assert json.loads(place.read_text().splitlines()[0])["clients"] == 3
    with contextlib.closing(open_store(other)) as store:
        bring_in(store, read_board(place), None)
    assert sql(other, "SELECT * FROM clients") == []
    async with serving(other, seed=1) as local:
        assert local.digest() == digest
        for name in ("client 0", "new"):
            await local.rank(client=name)
        await local.quiet()
        assert logged(other)[-2:] == [3, 4]  # nobody gets a number that another one had


def test_a_file_that_does_not_say_how_many_clients_there_were_is_refused(url, tmp_path):
    for clients in (None, -1, "many"):
        header = {"steadyrank": "board", "format": 9, "board": "b", "clients": clients}
        (tmp_path / "b.jsonl").write_text(json.dumps(header) + '\n{"digest": ""}\n')
        with contextlib.closing(open_store(url)) as store, pytest.raises(ValueError, match=r"its clients must be"):
            bring_in(store, read_board(tmp_path / "b.jsonl"), None)


def text(numbers):
    return " ".join(f"{number}" for some in numbers for number in some or ("",)).encode()


def test_many_clients_in_one_write_and_one_of_a_board_that_is_gone(url):
    with contextlib.closing(open_store(url)) as store:
        board = store.create_board("b", b"\x91", 1.0)
        rows = [NewEntry(board, text, [Sender(k % 1_300 + 1, board)]) for k in range(2_600)]
        rows += [NewEntry(999, text, [Sender(1, board)]), NewEntry(board, b"plain")]
        rows += [NewEntry(board, text, [Sender(7, board), None, Sender(8, board)])]
        (first, *_), numbers = store.append(rows, 6.0)
        assert numbers == [*([(n,)] for n in (*range(1_300), *range(1_300), ANYONE)), [], [(6,), (), (7,)]]
        bodies = [entry.body for entry in store.entries(first - 1, store.head())]
        assert bodies == [*(b"%d" % n[0] for n in numbers[:-2]), b"plain", b"6  7"]
        assert store.clients(board) == 1_300
        store.delete_board(board, b"\x91", 7.0)
        assert store.append(rows[:2], 8.0)[1] == [[(ANYONE,)], [(ANYONE,)]]


def test_what_was_not_written_when_its_client_was_forgotten_is_nobodys(url):
    """Another worker had put it into its queue; it is no reason to know the client again."""

    def after(seq, client=9):
        return NewEntry(board, text, [Sender(client, seq)])

    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(url)) as other:
        board = store.create_board("b", b"\x91", 1.0)
        assert store.append([after(board), after(board, client=8)], 5.0)[1] == [[(0,)], [(1,)]]
        assert store.forget_client(board, 9, 10.0, lambda numbers: b"gone %s" % bytes(numbers)) == 1
        gone = store.head()
        assert other.append([after(gone - 2), after(gone - 1)], 11.0)[1] == [[(ANYONE,)], [(ANYONE,)]]
        assert sql(url, "SELECT hash FROM clients") == [(8,)]
        rows = [after(gone), after(gone + 2), after(gone - 1), after(gone, client=8)]
        assert other.append(rows, 11.0)[1] == [[(2,)], [(2,)], [(ANYONE,)], [(1,)]]
        assert store.forget_client(board, 7, 12.0, lambda numbers: b"gone %s" % bytes(numbers)) == 0
        assert other.append([after(gone + 6, client=7), after(store.head(), client=7)], 1.0)[1] == [
            [(ANYONE,)],
            [(3,)],
        ]
        bodies = [entry.body for entry in store.entries(board, store.head())]
        assert bodies[:9] == [b"0", b"1", b"gone \0", b"-1", b"-1", b"2", b"2", b"-1", b"1"]
        assert bodies[9:] == [b"gone ", b"-1", b"3"], "it had no number, but what was not written may be its own"


async def test_with_bind_client_a_list_is_answered_by_its_own_client(url):
    async with serving(url) as local:
        assert not (await local.board(settle=0))["bind_client"]
        free = await local.rank(client="ann")
        await local.answer(free, clicked=None, client="bob")  # it means nothing without the setting
        await local.ask("PUT", "boards/b", {"bind_client": True})
        shown, other = await local.rank(client="ann"), await local.rank(client="bob")
        for wrong in ({}, {"client": "bob"}, {"client": ""}, {"client": None}):
            refused = await local.answer(shown, code=403, clicked=shown["items"][0], **wrong)
            assert "another client" in refused["message"]
        rows = [
            {"board": "b", "impression": shown["impression"], "clicked": None, "client": "ann"},
            {"board": "b", "impression": other["impression"], "clicked": None, "client": "ann"},
        ]
        batch = await local.ask("POST", "feedback", {"feedback": rows})
        assert [row["code"] for row in batch["feedback"]] == [200, 403]
        assert (await local.answer(shown, clicked=None, client="ann"))["outcome"] == "duplicate"
        assert (await local.answer(other, clicked=None, client="bob"))["outcome"] == "learnt"
        unnamed = await local.rank()
        assert (await local.answer(unnamed, clicked=None))["outcome"] == "learnt"
        assert (await local.ask("GET", "boards/b"))["answers"] == 4
