"""Lists of one busy board are applied together where that is the same as one by one."""

import asyncio
import functools
import threading

import hypothesis.strategies as st
from hypothesis import given, settings

from steadyrank.core.contract import ANYONE, NOTE_EXTRA
from steadyrank.service.board import events
from steadyrank.service.board.board import Board, Work
from steadyrank.service.board.config import Config
from steadyrank.service.storage import LogEntry
from steadyrank.service.worker.board_session import BoardSession
from steadyrank.service.worker.log_rows import Unreadable, read_events
from steadyrank.service.worker.log_writer import Inbox, Line

ITEMS = ["a", "b", "c", "d"]
MOST = 12  # open lists

LISTS = st.builds(
    events.ListShown,
    key=st.integers(1, 40),
    round=st.integers(1, 300),
    base=st.integers(0, 20),
    generation=st.just(0),
    ranking=st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True) | st.just([3, 1, 0]),
    note=st.just([]) | st.just([(0, 0.5), (NOTE_EXTRA + 1, 2.0)]),
    time=st.floats(0, 10),
    client=st.just(ANYONE) | st.integers(0, 3),
    cohorts=st.just({}) | st.just({"network": 2}),
    mixed=st.none() | st.none() | st.just(events.Mixed([0, 1], [0, 1], [1, 0])),
    features=st.just({}) | st.just({"segment": "south"}),
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LISTS, min_size=1, max_size=6), max_size=6), st.booleans(), st.data())
def test_lists_applied_together_are_those_applied_one_by_one(batches, with_segments, data):
    together, alone = new_board(with_segments), new_board(with_segments)
    for batch in batches:
        if not together.show_lists(batch):
            for event in batch:
                together.take(event)
        for event in batch:
            alone.take(event)
        assert content(together) == content(alone)
        over = events.Expired(data.draw(st.integers(0, alone.impressions.last)))
        together.take(over)
        alone.take(over)


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


def test_usual_lists_are_applied_together_and_unusual_ones_are_not():
    board = new_board(False)
    assert board.show_lists([usual(1), usual(2, client=1)])
    before = content(board)
    assert not board.show_lists([usual(3), usual(2)])  # known
    assert not board.show_lists([usual(3), usual(3)])  # there twice
    assert not board.show_lists([usual(3), events.ListShown(4, 4, 0, 0, [0], [])])  # shorter
    assert not board.show_lists([usual(3), events.ListShown(4, 4, 0, 0, [0, 4], [])])  # not an item of this board
    assert content(board) == before
    assert board.show_lists([usual(key) for key in range(3, MOST + 3)])
    assert board.impressions.forgotten == board.impressions.over == 2  # they made room


async def test_lists_in_the_inbox_are_applied_together_in_order_and_others_alone():
    applied = []

    def one(line, made):
        applied.append(line.seq)
        return "done"
        yield

    def alike(lines):
        seqs = [line.seq for line in lines]
        if len(seqs) < 3:
            return len(seqs), False
        applied.append(seqs)
        return len(seqs), True

    inbox = Inbox(one, alike)
    over = events.Expired(1)
    inbox.deliver([Line(1, 1, over, None), Line(2, 1, usual(2), None), Line(3, 1, usual(3), None)], {})
    inbox.deliver([Line(seq, 1, usual(seq), None) for seq in range(4, 8)], {})
    while inbox:
        await asyncio.sleep(0)
    assert applied == [1, 2, 3, [4, 5, 6, 7]]
    assert inbox.applied == {0: 7}


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


def test_a_session_counts_lists_applied_together_against_the_clients_that_others_gave_them_to():
    session = BoardSession(1, "b", b"secret" * 6, Board.create(Config(length=2, client_lists=3), ITEMS))
    line = [Line(key, 1, usual(key, client=0), None, session.hash_client("ann")) for key in range(1, 4)]
    assert session.show_lists(line, lambda event: event.key == 1, 0.0)
    assert session.applied == 3
    assert session.may_look(session.hash_client("ann"), 0.0)  # the third: what this worker gave was counted then
    assert not session.may_look(session.hash_client("ann"), 0.0)
