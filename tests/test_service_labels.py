"""Labels: what is learnt with and without them, and that no restart, order or second worker changes that."""

import asyncio
import itertools
import shutil
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import steadyrank as sr
from memories import digest_of
from service_tools import ITEMS, Server, replayed, serving, sql, until, wait_until
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.labels import Label, Labels, Spans, combine
from steadyrank.service.storage import NewEntry, open_store
from steadyrank.service.storage.sql_store import SqlStore
from steadyrank.service.worker import recovery
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def answered(local, rounds, name="b", clicked=0):
    """Lists, each answered at once."""
    for i in range(rounds):
        shown = await local.rank(name)
        await local.answer(shown, name, clicked=shown["items"][(i + clicked) % len(shown["items"])])


async def label(local, start, end, word="fraud", code=200, name="b"):
    found = await local.ask("POST", f"boards/{name}/labels", {"start": start, "end": end, "label": word}, code)
    await steady(local, name)
    return found


async def unlabel(local, number, code=200, name="b"):
    found = await local.ask("DELETE", f"boards/{name}/labels/{number}", code=code)
    await steady(local, name)
    return found


async def steady(local, name="b"):
    """Until the log is folded again."""
    await until(lambda: local.worker.boards[name].refolding is None)


def memory(local, name="b"):
    """The learner and the items, byte for byte."""
    return digest_of(local.worker.boards[name].board.learner_state)


async def test_a_label_is_made_listed_and_taken_back(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 40)
        before = memory(local)
        assert await label(local, 5, 20) == {"number": 1, "start": 5, "end": 20, "label": "fraud"}
        assert await label(local, 30, 40, "honest") == {"number": 2, "start": 30, "end": 40, "label": "honest"}
        assert (await label(local, 5, 20))["number"] == 1  # sent again
        listed = await local.ask("GET", "boards/b/labels")
        assert [(x["number"], x["label"]) for x in listed["labels"]] == [(1, "fraud"), (2, "honest")]
        looks = sum(item["looks"] for item in (await local.ask("GET", "boards/b/state"))["items"])
        assert looks == sum(1 + (t - 1) % 4 for t in range(1, 41) if not 5 <= t <= 20)
        for number in (1, 2, 1):  # again: as the first time
            assert await unlabel(local, number) == {"done": True}
        assert memory(local) == before
        assert (await label(local, 5, 20))["number"] == 3
        digest = local.digest()
    assert replayed(url) == digest


async def test_what_cannot_be_labelled_is_named(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 10)
        digest = local.digest()
        for start, end, word, words in [
            (0, 3, "fraud", "start must be a round from 1 to the latest, 10, not 0"),
            (11, 11, "fraud", "start must be a round from 1 to the latest, 10, not 11"),
            (5, 4, "fraud", "end must be a round from start, 5, to the latest, 10, not 4"),
            (5, 11, "honest", "end must be a round from start, 5, to the latest, 10, not 11"),
            (5, 10**30, "honest", "end"), (5, 6, "spam", "label must be fraud or honest, not 'spam'"),
            ("5", 6, "fraud", "'5'"), (5.5, 6, "fraud", "5.5"), (None, 6, "fraud", "None"),
        ]:  # fmt: skip
            assert words in (await label(local, start, end, word, 422))["message"]
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 1}, 422)
        await local.ask("POST", "boards/none/labels", {"start": 1, "end": 1, "label": "fraud"}, 404)
        for number in (0, 1, "x", "-1", "1.0", "٣", 10**30):
            assert "no label" in (await unlabel(local, number, 404))["message"]
        assert local.digest() == digest


class Story:
    """A board told of rounds one after another, some of which another board never hears of."""

    def __init__(self, **settings):
        self.config = Config(length=4, settle=0, **settings)

    def events(self, rounds, seed=0):
        rng = np.random.default_rng(seed)
        for t in range(1, rounds + 1):
            ranking = rng.permutation(len(ITEMS))[:4].tolist()
            clicked = int(rng.integers(5))
            looked = min(clicked + 1, 4)
            clicks = [clicked] if clicked < 4 else []
            yield events.Answered(t, t, t - 1, 0, ranking, [], clicks, looked, 1e9 + t)

    def fold(self, rows, spans=()):
        board = Board.create(self.config, ITEMS)
        board.feedback.spans = Spans(spans)
        for event in rows:
            board.take(event)
        return board


@pytest.mark.parametrize("learner", ["SteadyRank", "CascadeTS", "TimeBlocks"])
def test_fraud_is_never_seen_by_the_learner(learner):
    story = Story(learner=learner)
    rows = list(story.events(300))
    labelled = story.fold(rows, [(40, 120, "fraud"), (200, 201, "fraud")])
    without = story.fold(e for e in rows if not 40 <= e.round <= 120 and e.round not in (200, 201))
    assert digest_of(labelled.learner_state) == digest_of(without.learner_state)
    assert labelled.answers == 300 != without.answers
    assert digest_of(story.fold(rows).learner_state) != digest_of(without.learner_state)


def test_an_attack_that_was_honest_after_all_is_one_regime():
    """All clicks go to the last item, then to the first: found by itself, and put right by a label."""
    rows = [
        events.Answered(t, t, t - 1, 0, [k % 12, (k + 1) % 12, (k + 2) % 12], [], [t // 1001], t // 1001 + 1)
        for t, k in ((t, t) for t in range(1, 2001))
    ]
    story = Story()
    found = story.fold(rows).learner_state.view()
    assert found.n_changes >= 1
    assert abs(found.changes[0].start - 1001) < 60
    honest = story.fold(rows, [(found.changes[0].start - 100, 2000, "honest")]).learner_state.view()
    assert (honest.n_changes, len(honest.regimes), honest.rounds, honest.corrupted) == (0, 1, 2000, 0.0)
    assert sum(honest.regimes[0].looks) == 1000 + 2000


def test_where_labels_overlap_the_later_one_counts():
    labels = Labels()
    assert labels.add(11, 1, 100, "fraud") == 1
    assert labels.add(12, 40, 60, "honest") == 2
    assert labels.add(13, 50, 120, "fraud") == 3
    assert labels.spans == Spans([(1, 39, "fraud"), (40, 49, "honest"), (50, 120, "fraud")])
    assert labels.add(12, 40, 60, "honest") == 2  # the event came twice
    assert labels.spans.spans[1] == (40, 49, "honest")
    labels.remove(2)
    assert labels.spans == Spans([(1, 120, "fraud")])
    labels.remove(2)
    assert labels.add(11, 1, 100, "fraud") == 1
    labels.remove(1)
    assert labels.add(11, 1, 100, "fraud") == 1  # came twice, long after it was taken back
    assert labels.spans == Spans([(50, 120, "fraud")])
    assert Labels(labels.keep()).keep() == labels.keep()


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9), st.sampled_from(["fraud", "honest"])), max_size=12),
    st.integers(0, 11),
)
def test_every_round_has_the_word_of_the_latest_label_that_touches_it(rows, gone):
    labels = [Label(i, start, start + size, word) for i, (start, size, word) in enumerate(rows, 1) if i != gone]
    spans = combine(labels)
    for t in range(32):
        words = [x.label for x in labels if x.start <= t <= x.end]
        assert spans.word(t) == (words[-1] if words else None)
    for (_, end, word), (start, _, after) in itertools.pairwise(spans.spans):
        assert end + 1 < start or (end + 1 == start and word != after)
    assert combine(reversed(labels)) == spans


def test_spans_differ_first_where_a_round_has_another_word():
    one = combine([Label(1, 10, 20, "fraud")])
    assert one.differs_from(one) is None
    assert one.differs_from(Spans()) == 10
    assert one.differs_from(combine([Label(1, 10, 15, "fraud"), Label(2, 16, 20, "fraud")])) is None
    assert one.differs_from(combine([Label(1, 10, 15, "fraud"), Label(2, 16, 20, "honest")])) == 16
    assert Spans().differs_from(combine([Label(1, 10, 15, "fraud")])) == 10
    assert one.differs_from(combine([Label(1, 10, 30, "fraud")])) == 21


def number_of(kept, name="b"):
    return next(n for n, (called, _) in kept.boards().items() if called == name)


@pytest.mark.parametrize("every", [7, 10**9])
async def test_labels_survive_a_restart(url, every, monkeypatch):
    """Whether snapshots were made before the labels, after them, or not at all."""
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", every)
    async with serving(url) as local:
        await local.board(lifetime=600, settle=0)
        await answered(local, 60)
        await label(local, 10, 30)
        await answered(local, 20, clicked=1)
        await label(local, 25, 70, "honest")
        await answered(local, 10)
        await unlabel(local, 1)
        before = local.digest()
    assert replayed(url) == before
    async with serving(url, seed=1) as local:
        assert local.digest() == before
        assert (await label(local, 3, 4))["number"] == 3
        await answered(local, 10)
        before = local.digest()
    assert replayed(url) == before
    kept = open_store(url)
    # the snapshots that were made with the labels of the end are lost
    for seq in kept.snapshots(number_of(kept))[:1]:
        sql(url, "DELETE FROM snapshots WHERE seq = ?", seq)
    kept.close()
    assert replayed(url) == before
    async with serving(url, seed=2) as local:
        assert local.digest() == before


async def test_a_label_holds_for_lists_that_are_open_or_settling(url):
    async with serving(url) as local:
        await local.board(lifetime=60, settle=20)
        shown = [await local.rank() for _ in range(6)]
        await local.answer(shown[0], clicked=shown[0]["items"][0])
        await local.answer(shown[3], clicked=None)
        await local.quiet()
        await label(local, 1, 2)
        await label(local, 3, 4, "honest")
        await local.answer(shown[1], clicked=None)
        local.clocks.pass_time(21)
        await local.quiet()
        assert (
            local.worker.boards["b"].board.learner_state.looks.sum() == 4
        )  # the fourth list; of the others none entered yet
        await local.answer(shown[2], clicked=shown[2]["items"][1])
        local.clocks.pass_time(60)
        await local.quiet()
        board = local.worker.boards["b"].board
        assert board.learner_state.looks.sum() == 4 + 2 + 4 + 4
        points = board.feedback.timeline.summary().points
        assert [p.fraud for p in points] == [1, 1, 0, 0, 0, 0]
        assert [p.examined for p in points] == [1, 4, 2, 4, 4, 4]
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_label_of_what_has_not_been_learnt_needs_no_fold_from_the_start(url, monkeypatch):
    """The latest snapshot will do when it holds no feedback of the rounds that were labelled, and not otherwise."""
    begun = []
    real = recovery.from_start

    def counted(*arguments):
        begun.append(arguments)
        return real(*arguments)

    monkeypatch.setattr("steadyrank.service.worker.board_cache.SNAPSHOT_AFTER", 1)
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 30)  # and a snapshot at the stop
    monkeypatch.setattr(recovery, "from_start", counted)
    async with serving(url, seed=1) as local:
        open_ones = [await local.rank() for _ in range(3)]
        await local.quiet()
        await label(local, 31, 32)
        assert not begun
        for shown in open_ones:
            await local.answer(shown, clicked=None)
        assert [p.fraud for p in local.worker.boards["b"].board.feedback.timeline.summary().points][30:] == [1, 1, 0]
        await label(local, 30, 30, "honest")
        assert len(begun) == 1
        digest = local.digest()
    assert replayed(url) == digest


async def test_lists_are_given_out_while_the_log_is_folded_again(url, monkeypatch):
    go_on = None

    async def slow(url, session):
        await go_on.wait()
        return await recovery.fold_again(url, session)

    go_on = asyncio.Event()
    monkeypatch.setattr("steadyrank.service.worker.worker.fold_again", slow)
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 20)
        before = memory(local)
        made = await local.ask("POST", "boards/b/labels", {"start": 1, "end": 20, "label": "fraud"})
        watched = await local.ask("GET", "boards/b/watch")
        assert watched["stale"]
        assert watched["labels"] == [made]
        assert memory(local) == before
        await answered(local, 5)
        await local.ask("POST", "boards/b/labels", {"start": 22, "end": 22, "label": "fraud"})
        change = asyncio.create_task(local.ask("PUT", "boards/b", {"learner": "CascadeTS"}))
        await until(lambda: local.worker.boards["b"].board.latest.learner == "CascadeTS")
        await answered(local, 5)
        go_on.set()
        await change
        await steady(local)
        watched = await local.ask("GET", "boards/b/watch")
        assert not watched["stale"]
        assert watched["board"]["learner"] == "CascadeTS"
        assert sum(p["fraud"] for p in watched["timeline"]["points"]) == 21
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_stop_while_the_log_is_folded_again_forgets_no_label(url, monkeypatch):
    async def never(url, session):
        await asyncio.sleep(60)

    with monkeypatch.context() as patched:
        patched.setattr("steadyrank.service.worker.worker.fold_again", never)
        async with serving(url) as local:
            await local.board(settle=0)
            await answered(local, 20)
            await local.ask("POST", "boards/b/labels", {"start": 1, "end": 15, "label": "fraud"})
    async with serving(url, seed=1) as local:
        assert local.worker.boards["b"].board.learner_state.looks.sum() == 4 + 1 + 2 + 3 + 4
        digest = local.digest()
    assert replayed(url) == digest


async def test_labels_of_two_workers_at_once_get_numbers_of_their_own(url):
    async with serving(url) as one, serving(url, seed=9) as other:
        await one.board(settle=0)
        await answered(one, 30)
        asked = [(one, 1, 5), (other, 4, 9), (one, 12, 20), (other, 12, 20), (other, 25, 30)]
        made = await asyncio.gather(*(
            local.ask("POST", "boards/b/labels", {"start": start, "end": end, "label": "fraud"})
            for local, start, end in asked
        ))  # fmt: skip
        numbers = [x["number"] for x in made]
        assert sorted(set(numbers)) == [1, 2, 3, 4]
        assert numbers[2] == numbers[3]  # the same, whoever said it first
        assert await other.ask("DELETE", f"boards/b/labels/{numbers[4]}") == {"done": True}
        for local in (one, other):
            await local.worker.catch_up()
            await steady(local)
        listed = [await local.ask("GET", "boards/b/labels") for local in (one, other)]
        assert listed[0] == listed[1]
        assert len(listed[0]["labels"]) == 3
        assert one.digest() == other.digest()
        assert one.worker.divergences == other.worker.divergences == 0
        digest = one.digest()
    assert replayed(url) == digest


async def test_an_event_that_comes_twice_does_no_harm(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 20)
        session = local.worker.boards["b"]
        for event, outcome in [
            (events.Labelled(7, 3, 9, "fraud"), "1"), (events.Labelled(7, 3, 9, "fraud"), "1"),
            (events.Labelled(8, 5, 6, "honest"), "2"), (events.Labelled(7, 3, 9, "fraud"), "1"),
            (events.Unlabelled(1), "done"), (events.Unlabelled(1), "done"), (events.Unlabelled(99), "done"),
            (events.Labelled(7, 3, 9, "fraud"), "1"),
        ]:  # fmt: skip
            assert await local.worker.write_event(session, event) == outcome
        for bad in (events.Labelled(9, 0, 9, "fraud"), events.Labelled(9, 5, 4, "fraud")):
            with pytest.raises(sr.Refused):
                await local.worker.write_event(session, bad)
        await steady(local)
        assert list(session.board.labels.labels.values()) == [Label(2, 5, 6, "honest")]
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_board_has_so_many_labels_and_no_more(url, monkeypatch):
    monkeypatch.setattr("steadyrank.service.board.labels.MOST", 3)
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 10)
        for t in (1, 3, 5):
            await label(local, t, t)
        assert "at most 3 labels" in (await label(local, 7, 7, code=422))["message"]
        assert (await label(local, 5, 5))["number"] == 3
        await unlabel(local, 2)
        assert (await label(local, 7, 7))["number"] == 4


async def shortened(url, keep):
    """A board of 100 answered lists whose log was shortened, and one whose log was not."""
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 50)
        await label(local, 20, 30)
        await label(local, 45, 48, "honest")
        await answered(local, 50)
        await local.quiet()
    path = url.removeprefix("sqlite:///")
    shutil.copy(path, f"{path}.whole")
    kept = open_store(url)
    assert compact(kept, 0.0, keep)["b"] > 0
    kept.close()
    return f"{url}.whole"


async def test_after_the_log_was_shortened_what_is_left_can_be_labelled(url):
    whole = await shortened(url, 61)
    ends = []
    for place in (url, whole):
        async with serving(place, seed=1) as local:
            first = (await local.ask("GET", "boards/b/watch"))["first_round"]
            if place == url:
                assert 65 <= first <= 75
                for start, end in ((1, 100), (first - 1, 100), (1, 1)):
                    said = (await label(local, start, end, code=409))["message"]
                    assert f"the first round that can be is {first}" in said
                for number in (1, 2):
                    assert f"is {first}" in (await unlabel(local, number, 409))["message"]
                from_edge = first
            else:
                assert first == 1
            assert (await label(local, from_edge, 90))["number"] == 3
            assert (await label(local, 80, 85, "honest"))["number"] == 4
            await answered(local, 20)
            await unlabel(local, 3)
            await label(local, 110, 115)
            board = local.worker.boards["b"].board
            ends.append((memory(local), board.labels.spans, board.feedback.timeline.summary().points, board.events))
            digest = local.digest()
            watched = await local.ask("GET", "boards/b/watch")
            count = sql(place, "SELECT COUNT(*), MIN(seq) FROM events")
            assert watched["events"] == count[0][0]
            assert watched["first_event"] == count[0][1]
            kept = open_store(place)
            assert rebuild(kept, number_of(kept), "b", kept.head()).digest() == digest
            kept.close()
    assert ends[0] == ends[1]


async def test_a_worker_hears_that_the_log_was_shortened(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 60)
        await local.quiet()
        kept = open_store(url)
        assert compact(kept, 0.0, 20)["b"] > 0
        kept.close()
        assert "first round that can be is 51" in (await label(local, 50, 52, code=409))["message"]  # at once
        await local.worker._chores(1)
        watched = await local.ask("GET", "boards/b/watch")
        assert (watched["first_round"], watched["events"]) == (51, 20)
        await label(local, 51, 52)
        assert [p["fraud"] for p in watched["timeline"]["points"]] == [0] * 60


@pytest.mark.parametrize("event", [events.Labelled(5, 1, 10, "fraud"), events.Configured({"learner": "CascadeTS"})])
async def test_a_log_is_not_shortened_by_what_was_changed_meanwhile(url, monkeypatch, event):
    """While the snapshot for the edge is made, rounds before it are labelled, or another learner is chosen."""
    real = recovery.rebuild

    def meanwhile(*arguments):
        other = open_store(url)
        other.append([NewEntry(number_of(other), events.encode(event))], 1.0)
        other.close()
        return real(*arguments)

    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 60)
        await local.quiet()
    kept = open_store(url)
    with monkeypatch.context() as patched:
        patched.setattr("steadyrank.service.worker.transfer.rebuild", meanwhile)
        assert compact(kept, 0.0, 20) == {"b": 0}
    assert kept.shortened(number_of(kept)) == 0
    digest = replayed(url)
    assert compact(kept, 0.0, 20)["b"] > 0
    assert rebuild(kept, number_of(kept), "b", kept.head()).digest() == digest
    kept.close()


async def test_a_label_is_not_written_when_the_log_is_shortened_at_that_moment(url, monkeypatch):
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 60)
        await local.quiet()
        other, real, head = open_store(url), SqlStore.append_if, local.worker.applied

        def meanwhile(self, *arguments):
            monkeypatch.setattr(SqlStore, "append_if", real)
            assert compact(other, 0.0, 20)["b"] > 0
            return real(self, *arguments)

        monkeypatch.setattr(SqlStore, "append_if", meanwhile)
        await label(local, 10, 20, code=409)
        assert other.head() == head
        other.close()


@pytest.mark.always
async def test_the_log_may_be_shortened_while_it_is_folded_again(url, monkeypatch):
    """The fold that has lost its next events begins again."""
    begin, real, gone, grown = recovery._begin, recovery._chunk, [], threading.Event()

    def begin_and_wait(*arguments):
        begun = begin(*arguments)
        assert grown.wait(30.0)
        return begun

    def chunk(store, after, upto, board):
        if not gone:
            other = open_store(url)
            gone.append(compact(other, 0.0, 2)["b"])
            other.close()
        return real(store, after, upto, board)

    monkeypatch.setattr(recovery, "_chunk", chunk)
    monkeypatch.setattr(recovery, "_begin", begin_and_wait)
    async with serving(url) as local:
        await local.board(settle=0)
        await answered(local, 30)
        await local.ask("POST", "boards/b/labels", {"start": 29, "end": 30, "label": "fraud"})
        await answered(local, 10)
        grown.set()
        await steady(local)
        assert gone[0] > 60
        board = local.worker.boards["b"].board
        assert (board.answers, board.learner_state.looks.sum()) == (40, 73 - 1 - 2 + 23)
        digest = local.digest()
    kept = open_store(url)
    assert rebuild(kept, number_of(kept), "b", kept.head()).digest() == digest
    kept.close()


@pytest.mark.parametrize("short", [False, True])
async def test_a_board_with_labels_moves(url, tmp_path, short):
    if short:
        await shortened(url, 61)
    async with serving(url, seed=3) as local:
        if not short:
            await local.board(settle=0)
            await answered(local, 100)
            await label(local, 20, 30)
        await label(local, 80, 90)
        await label(local, 95, 96, "honest")
        await unlabel(local, (await label(local, 99, 100))["number"])
        got = await local.http.get("/v1/boards/b/export")
        assert got.headers["content-disposition"] == 'attachment; filename="b.jsonl"'
        assert int(got.headers["content-length"]) == len(got.content)
        await local.ask("GET", "boards/none/export", code=404)
        listed, digest = await local.ask("GET", "boards/b/labels"), local.digest()
    kept = open_store(url)
    export(kept, "b", tmp_path / "b.jsonl", False, lambda count: None)
    kept.close()
    assert (tmp_path / "b.jsonl").read_bytes() == got.content
    place = f"sqlite:///{tmp_path}/other.db"
    other = open_store(place)
    bring_in(other, read_board(tmp_path / "b.jsonl"), None)
    other.close()
    async with serving(place) as local:
        assert await local.ask("GET", "boards/b/labels") == listed
        assert local.digest() == digest
        first = (await local.ask("GET", "boards/b/watch"))["first_round"]
        assert (first > 60) == short
        await label(local, 1, 2, code=409 if short else 200)


async def test_a_label_in_the_log_that_comes_too_late_does_no_harm(url):
    """No worker writes one; it holds for what is after the edge, in every fold alike."""
    await shortened(url, 61)
    kept = open_store(url)
    number = number_of(kept)
    kept.append([NewEntry(number, events.encode(events.Labelled(1, 50, 90, "fraud")))], 1.0)
    async with serving(url, seed=1) as one, serving(url, seed=2) as other:
        digest = one.digest()
        assert other.digest() == digest
        first = (await one.ask("GET", "boards/b/watch"))["first_round"]
        points = one.worker.boards["b"].board.feedback.timeline.summary().points
        assert [p.start for p in points if p.fraud] == [*range(20, 31), *range(first, 91)]
        await answered(one, 3)
        digest = one.digest()
    assert rebuild(kept, number, "b", kept.head()).digest() == digest
    kept.close()


async def test_a_file_is_whole_when_others_are_asked_for_at_once(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await local.board("c", settle=0)
        await answered(local, 10)
        got = await asyncio.gather(*(local.http.get(f"/v1/boards/{name}/export") for name in "bcbc"))
        assert [len(x.text.splitlines()) for x in got] == [1 + 21 + 1, 3, 1 + 21 + 1, 3]
        assert got[0].content == got[2].content


async def test_a_board_that_goes_while_others_are_exported_is_not_found(url):
    async with serving(url) as local:
        await local.board()
        async with local.worker.exporting:
            asked = asyncio.create_task(local.http.get("/v1/boards/b/export"))
            await asyncio.sleep(0)
            await local.ask("DELETE", "boards/b")
        assert (await asked).status_code == 404


def test_old_logs_have_no_times():
    old = events.encode(["shown", 1, 2, 3, 0, [1, 2], [[0, 0.5]]])
    assert events.decode(old) == events.ListShown(1, 2, 3, 0, [1, 2], [(0, 0.5)], 0.0)
    old = events.encode(["answered", 1, 2, 3, 0, [1, 2], [], [1], 2])
    assert events.decode(old) == events.Answered(1, 2, 3, 0, [1, 2], [], [1], 2, 0.0)
    assert events.reconfigures(events.encode(events.Labelled(1, 2, 3, "fraud")))
    assert events.reconfigures(events.encode(events.Unlabelled(1)))
    assert events.reconfigures(events.encode(events.Configured({})))
    assert not events.reconfigures(old)
    assert not events.reconfigures(events.encode(events.Settled(1)))


@pytest.mark.always
def test_a_client_labels(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(20)]
    client.feedback_batch({"board": "b", "impression": s.impression, "clicked": s.items[0]} for s in shown)
    assert client.label("b", 5, 9, "fraud") == 1
    assert client.labels("b") == [{"number": 1, "start": 5, "end": 9, "label": "fraud"}]
    wait_until(lambda: not client.watch("b")["stale"])
    assert sum(item["looks"] for item in client.state("b")["items"]) == 15
    size = client.export("b", tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").stat().st_size == size
    client.unlabel("b", 1)
    with pytest.raises(sr.Refused, match="no label 2") as refusal:
        client.unlabel("b", 2)
    assert refusal.value.code == 404
    with pytest.raises(sr.Refused, match="no board 'none'"):
        client.export("none", tmp_path / "none.jsonl")
    assert {path.name for path in tmp_path.glob("*.jsonl*")} == {"b.jsonl"}
    assert not list(tmp_path.glob(".*"))
    assert server.stop() == 0
    other = open_store(f"sqlite:///{tmp_path}/other.db")
    assert bring_in(other, read_board(tmp_path / "b.jsonl"), None)[0] == "b"
    other.close()
