"""Lists of one busy board are written as one event, which means the same as one for each."""

import asyncio
import contextlib
import functools
import threading
from unittest import mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from service_tools import logged_events, replayed, serving
from steadyrank.core.contract import ANYONE, NOTE_EXTRA
from steadyrank.service.board import events
from steadyrank.service.board.board import Board, Work
from steadyrank.service.board.config import Config
from steadyrank.service.http.rank_routes import RankIn, list_now
from steadyrank.service.storage import LogEntry, Sender, open_store
from steadyrank.service.worker import log_writer
from steadyrank.service.worker.board_session import BoardSession
from steadyrank.service.worker.log_rows import Unreadable, read_events
from steadyrank.service.worker.log_writer import Inbox, Line, Pending, together

ITEMS = ["a", "b", "c", "d"]
MOST = 12  # open lists

LISTS = st.builds(
    events.ListShown,
    key=st.integers(1, 40),
    round=st.integers(1, 300),
    base=st.integers(0, 20),
    generation=st.just(0) | st.just(0) | st.just(1),
    ranking=st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True) | st.just([3, 1, 0]),
    note=st.just([]) | st.just([(0, 0.5), (NOTE_EXTRA + 1, 2.0)]),
    time=st.floats(0, 10),
    client=st.just(ANYONE) | st.integers(0, 3),
    cohorts=st.just({}) | st.just({"network": 2}),
    mixed=st.none() | st.none() | st.just(events.Mixed([0, 1], [0, 1], [1, 0])),
    features=st.just({}) | st.just({"segment": "south"}),
    placed=st.just([]) | st.just([]) | st.just([1, 0]),
)


def new_board(with_segments):
    settings = (
        {"learner": "SteadyRankSegments", "segments": ["north", "south"]}
        if with_segments
        else {"learner": "CascadeTS"}
    )
    return Board.create(Config(length=2, settle=0, most_open=MOST).changed(settings), ITEMS)


def content(board):
    header, arrays = board.keep()
    return header, {name: array.tolist() for name, array in arrays.items()}, board.impressions.numbers


def logged(batch, fewest=2):
    """What the log has of lists that were put one after another."""
    with mock.patch.object(log_writer, "_FEWEST", fewest):
        return [
            events.decode(one.entry().body) for one in together([Pending(1, event, None, None) for event in batch])
        ]


def singly(event):
    return list(event.each()) if isinstance(event, events.ListsShown) else [event]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LISTS, min_size=1, max_size=6), max_size=6), st.booleans(), st.data())
def test_lists_in_one_event_are_those_in_an_event_each(batches, with_segments, data):
    joined, alone = new_board(with_segments), new_board(with_segments)
    for batch in batches:
        for event in logged(batch):
            joined.take(event)
        for event in batch:
            alone.take(event)
        assert content(joined) == content(alone)
        over = events.Expired(data.draw(st.integers(0, alone.impressions.last)))
        joined.take(over)
        alone.take(over)


@given(st.lists(LISTS, min_size=1, max_size=12))
def test_lists_in_one_event_are_all_there_in_their_order_and_nothing_of_them_is_lost(batch):
    assert [one for event in logged(batch) for one in singly(event)] == batch


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["answered", "withheld", "", "", "", "", ""]), min_size=30, max_size=60),
    st.floats(0.0, 30.0),
    st.integers(0, 40),
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
)
def test_lists_that_end_together_are_those_that_end_one_by_one(kinds, credit, answers_before, parts):
    """Whether they count as not clicked or not, and whether so many without an answer are alarming or not."""
    boards = []
    for steps in ([1] * len(kinds), parts):
        board = Board.create(Config(length=2, settle=0, most_open=200), ITEMS)
        silence = board.impressions.silence
        silence.usual, silence.credit, silence.blocks = 0.1, credit, [2] * 10
        for _ in range(answers_before):
            silence.add_answered()
        silence.credit = credit
        for key, kind in enumerate(kinds, 1):
            board.apply(usual(key))
            if kind == "answered":
                board.apply(events.Answered(key, key, key - 1, 0, [0, 1], [], [0], 2))
            if kind == "withheld":
                board.impressions.withhold(key)
        for step in steps:
            board.impressions.expire(board.impressions.over + step)
        board.impressions.expire(len(kinds))
        boards.append(content(board))
    assert boards[0] == boards[1]


def usual(key, client=ANYONE):
    return events.ListShown(key, key, key - 1, 0, [0, 1], [], float(key), client)


def test_many_lists_of_a_board_are_one_event_and_few_or_unusual_ones_are_not():
    def put(event, board=1, **more):
        return Pending(board, event, **{"waiting": None, "sender": None, **more})

    def parts(some):
        return [(one.board, [part.event for part in one.parts]) for one in together(some)]

    lists = [usual(key) for key in range(1, 9)]
    assert parts(map(put, lists)) == [(1, lists)]
    assert parts(map(put, lists[:7])) == [(1, [one]) for one in lists[:7]]
    other = put(usual(9), 2)  # of other boards nothing is between
    assert parts([*map(put, lists[:4]), other, *map(put, lists[4:])]) == [(1, lists), (2, [usual(9)])]
    alone = [
        put(events.Settled(1)),
        put(usual(9), waiting=mock.sentinel.somebody),
        put(usual(9), trace=mock.sentinel.trace),
        put(msgspec.structs.replace(usual(9), mixed=events.Mixed([0, 1], [0, 1], [1, 0]))),
        put(msgspec.structs.replace(usual(9), ranking=[])),
        put(msgspec.structs.replace(usual(9), placed=[1, 0])),
    ]
    for one in alone:
        assert parts([*map(put, lists), one, *map(put, lists)]) == [(1, lists), (1, [one.event]), (1, lists)]
        assert len(parts([*map(put, lists[:4]), one, *map(put, lists[4:])])) == 9  # nothing comes before it was put
    for change in ({"ranking": [0]}, {"generation": 1}):
        more = [msgspec.structs.replace(one, **change) for one in lists]
        assert parts(map(put, [*lists, *more])) == [(1, lists), (1, more)]
    many = [usual(key) for key in range(1, 2 * log_writer._MOST_JOINED + 9)]
    assert [len(some) for _, some in parts(map(put, many))] == [log_writer._MOST_JOINED] * 2 + [8]


def test_lists_that_are_refused_leave_the_others_of_their_event():
    board = new_board(False)
    board.take(events.join([usual(1), usual(2, client=1)]))
    not_there = msgspec.structs.replace(usual(4), ranking=[0, 4])
    board.take(events.join([usual(3), usual(2), not_there, usual(5), usual(5)]))  # known, no item here, there twice
    assert board.impressions.numbers == {1: 1, 2: 2, 3: 3, 5: 4}
    assert board.events == 1 + 2 + 5
    board.take(events.join([usual(key) for key in range(6, MOST + 6)]))
    assert board.impressions.forgotten == board.impressions.over == 4  # they made room
    late = msgspec.structs.replace(usual(50), base=3)
    board.take(events.join([late, usual(51)]))
    assert 51 in board.impressions.numbers
    assert 50 not in board.impressions.numbers


@pytest.mark.parametrize(
    "change",
    [
        {"key": b""}, {"key": b"7 bytes"}, {"round": b""}, {"time": bytes(24)}, {"ranking": bytes(12)}, {"size": 0},
        {"size": 3}, {"client": bytes(8)}, {"cohorts": [{}]}, {"features": [{}] * 3}, {"note": [(2, 0, 1.0)]},
        {"note": [(0, -1, 1.0)]},
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_together_are_no_event(change):
    event = events.join([usual(1), usual(2, client=1)])
    assert events.decode(events.encode(event)) == event
    fields = {name: getattr(event, name) for name in event.__struct_fields__} | change
    with pytest.raises(ValueError, match="columns do not fit together"):
        events.decode(events.encode(["lists", *fields.values()]))


async def test_work_of_an_event_is_done_in_a_thread_and_nothing_follows_meanwhile():
    go_on, applied = threading.Event(), []

    def work(seq):
        assert go_on.wait(60)
        if seq == 2:
            raise MemoryError
        return seq

    def one(line, made):
        yield (step := Work(functools.partial(work, line.seq)))
        applied.append(step.result())
        return "done"

    async def look():
        async with inbox.hold_events():
            return list(applied)

    inbox = Inbox(one)
    inbox.deliver([Line(seq, 1, events.Expired(1), None) for seq in (1, 2, 3)], {})
    looking = asyncio.create_task(look())
    await asyncio.sleep(0.02)
    assert applied == []
    assert not looking.done()
    go_on.set()
    assert await looking == [1]  # in between
    while inbox:
        await asyncio.sleep(0)
    assert applied == [1, 3]  # who fails is told of, and others go on
    assert inbox.applied == {0: 3}


async def test_what_another_worker_applies_by_now_does_not_wait_for_work_that_was_begun():
    go_on, applied = threading.Event(), []

    def one(line, made):
        if line.seq == 1:
            yield Work(lambda: go_on.wait(60))
        applied.append(line.seq)
        return "done"

    inbox = Inbox(one)
    inbox.reset({0: 0, 1: -1}, 2)
    inbox.deliver([Line(seq, 1, events.Expired(1), None) for seq in (1, 2)], {})
    inbox.drop([1])
    inbox.deliver([Line(4, 1, events.Expired(1), None)], {})
    for _ in range(10):
        await asyncio.sleep(0)
    assert applied == [2, 4]
    go_on.set()
    await asyncio.sleep(0.02)
    assert applied == [2, 4]


def test_rows_read_together_say_which_one_is_damaged():
    whole = LogEntry(1, 1, 0.0, events.encode(usual(1)))
    damaged = LogEntry(2, 1, 0.0, b"", "its checksum is not that of its content")
    newer = LogEntry(3, 1, 0.0, b"\x91\xa5newer")
    assert read_events([whole, whole]) == [usual(1), usual(1)]
    first, second, third = read_events([whole, damaged, newer])
    assert first == usual(1)
    assert isinstance(second, Unreadable)
    assert "event 2 is damaged" in str(second)
    assert isinstance(third, Unreadable)
    assert "event 3 cannot be decoded" in str(third)


def test_clients_of_lists_in_one_event_get_their_numbers_and_count_against_what_they_may_ask_for():
    """`ann` was given lists by this worker, which counted them then, or by another one."""
    session = BoardSession(1, "b", b"secret" * 6, Board.create(Config(length=2, client_lists=10), ITEMS))
    ann, sender = session.hash_client("ann"), Sender(session.hash_client("ann"), 0, cohorts=(8,))
    puts = [
        Pending(1, msgspec.structs.replace(usual(key), cohorts={"network": ANYONE} if sent else {}), None, sent)
        for key, sent in zip(range(1, 9), [sender, None] * 4, strict=True)
    ]
    (writing,) = together(puts)
    entry = writing.entry()
    assert entry.senders == [sender, None] * 4
    event = events.decode(entry.body([(5, 6), ()] * 4))
    assert event.clients() == [5, ANYONE] * 4
    assert [one.cohorts for one in event.each()] == [{"network": 6}, {}] * 4
    line = writing.line(3)
    assert (line.event, line.clients) == (event, [ann, 0] * 4)
    session.learn_clients(line)
    assert session.client_number(ann) == 5
    session.note(line, "", True, 0.0)
    assert all(session.may_look(ann, 0.0) for _ in range(6))
    session.note(line, "", False, 0.0)
    assert not session.may_look(ann, 0.0)


async def test_a_busy_board_is_the_same_after_a_restart(tmp_path, monkeypatch):
    """From a snapshot in the middle of its lists, and from its log, with the numbers of its clients."""
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 20)
    url = f"sqlite:///{tmp_path}/store.db"
    async with serving(url) as local:
        await local.board(settle=0)
        for k in range(50):  # without a pause: the writer takes many at a time
            list_now(local.worker, local.worker.boards["b"], RankIn(client=f"client {k % 7}" if k % 3 else None))
        await local.quiet()
        digest, clients = local.digest(), local.worker.boards["b"].board.impressions.client[1:51].tolist()
    with contextlib.closing(open_store(url)) as store:
        (number,) = store.boards()
        assert any(isinstance(events.decode(x.body), events.ListsShown) for x in store.entries(0, store.head()))
        assert [one.client for one in logged_events(store)[1:]] == clients
        assert store.snapshots(number)
    assert [clients[k] == ANYONE for k in range(50)] == [k % 3 == 0 for k in range(50)]
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        assert local.digest() == digest
