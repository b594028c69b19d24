"""Labels: what is learnt with and without them, and that no restart, order or second worker changes that."""

import asyncio

import numpy as np
import pytest

from service_tools import ITEMS, replayed, serving
from steadyrank.service import events
from steadyrank.service.boards import Board
from steadyrank.service.labels import Label, Labels, Spans, lay


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def run(coroutine):
    return asyncio.run(coroutine)


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
    while local.host.boards[name].refolding is not None:
        await asyncio.sleep(0.005)


def memory(local, name="b"):
    """The learner and the items, byte for byte."""
    return local.host.boards[name].board.fold.digest()


def test_a_label_is_made_listed_and_taken_back(url):
    async def story():
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

    run(story())


def test_what_cannot_be_labelled_is_named(url):
    async def story():
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

    run(story())


class Story:
    """A board told of rounds one after another, some of which another board never hears of."""

    def __init__(self, **settings):
        self.config = events.Config(length=4, settle=0, **settings)

    def events(self, rounds, seed=0):
        rng = np.random.default_rng(seed)
        for t in range(1, rounds + 1):
            ranking = rng.permutation(len(ITEMS))[:4].tolist()
            clicked = int(rng.integers(5))
            looked = min(clicked + 1, 4)
            clicks = [clicked] if clicked < 4 else []
            yield events.Answered(t, t, t - 1, 0, ranking, [], clicks, looked, 1e9 + t)

    def fold(self, rows, spans=()):
        board = Board(self.config, ITEMS)
        board.learning.spans = Spans(spans)
        for event in rows:
            board.take(event)
        return board


@pytest.mark.parametrize("learner", ["SteadyRank", "CascadeTS", "TimeBlocks"])
def test_fraud_is_never_seen_by_the_learner(learner):
    story = Story(learner=learner)
    rows = list(story.events(300))
    labelled = story.fold(rows, [(40, 120, "fraud"), (200, 201, "fraud")])
    without = story.fold(e for e in rows if not 40 <= e.round <= 120 and e.round not in (200, 201))
    assert labelled.fold.digest() == without.fold.digest()
    assert labelled.answers == 300 != without.answers
    assert story.fold(rows).fold.digest() != without.fold.digest()


def test_an_attack_that_was_honest_after_all_is_one_regime():
    """All clicks go to the last item, then to the first: found by itself, and put right by a label."""
    rows = [
        events.Answered(t, t, t - 1, 0, [k % 12, (k + 1) % 12, (k + 2) % 12], [], [t // 1001], t // 1001 + 1)
        for t, k in ((t, t) for t in range(1, 2001))
    ]
    story = Story()
    found = story.fold(rows).fold.view()
    assert found.n_changes >= 1
    assert abs(found.changes[0].start - 1001) < 60
    honest = story.fold(rows, [(found.changes[0].start - 100, 2000, "honest")]).fold.view()
    assert (honest.n_changes, len(honest.regimes), honest.rounds, honest.corrupted) == (0, 1, 2000, 0.0)
    assert sum(honest.regimes[0].seen) == 1000 + 2000


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


def test_spans_differ_first_where_a_round_has_another_word():
    one = lay([Label(1, 10, 20, "fraud")])
    assert one.differs_from(one) is None
    assert one.differs_from(Spans()) == 10
    assert one.differs_from(lay([Label(1, 10, 15, "fraud"), Label(2, 16, 20, "fraud")])) is None
    assert one.differs_from(lay([Label(1, 10, 15, "fraud"), Label(2, 16, 20, "honest")])) == 16
    assert Spans().differs_from(lay([Label(1, 10, 15, "fraud")])) == 10
    assert one.differs_from(lay([Label(1, 10, 30, "fraud")])) == 21
