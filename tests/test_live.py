"""The live ranker: answers of every kind, items that come and go, files, clocks and threads."""

import hashlib
import threading

import numpy as np
import pytest
from numba.core import event

import steadyrank as sr
from memories import digest_of
from steadyrank.core.contract import ANSWER, ANYONE, NOTE_EXTRA, SILENCE, Problem, Visit, memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.live import snapshot
from steadyrank.live.learner_state import LearnerState
from steadyrank.live.snapshot import UnreadableSnapshot

pytestmark = pytest.mark.pure

USUAL = ("CascadeTS", "CascadeUCBV", "Random", "SteadyRank")  # the others need compiling for this alone
LIVE = [
    name if name in USUAL else pytest.param(name, marks=pytest.mark.slow)
    for name, cls in sorted(sr.learners().items())
    if cls.live
]
ITEMS = [f"item {k}" for k in range(12)]
ATTRACTION = dict(zip(ITEMS, np.linspace(0.05, 0.8, 12), strict=True))


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def visit(ranker, world, rounds, attraction=ATTRACTION):
    """Cascade users; returns the lists."""
    lists = []
    for _ in range(rounds):
        shown = ranker.rank()
        lists.append(shown.items)
        liked = [item for item in shown.items if world.random() < attraction.get(item, 0.3)]
        ranker.feedback(shown.id, clicked=liked[0] if liked else None)
    return lists


@pytest.mark.parametrize("name", LIVE)
def test_lists_are_those_of_the_learner(name):
    ranker, learner = (
        sr.Ranker(ITEMS, 4, name, seed=3),
        make(sr.learners()[name], Problem(12, 4, seed=3), settings={}),
    )
    rng, world, allowed = np.random.default_rng(3), np.random.default_rng(5), np.ones(12, np.bool_)
    for t in range(1, 200):
        shown, ranking, note = ranker.rank(), np.zeros(4, np.int64), np.zeros(4 + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, rng)
        assert shown.items == tuple(ITEMS[k] for k in ranking)
        bits = world.random(4) < 0.2
        ranker.feedback(shown.id, clicks=bits.tolist(), examined=4)
        call_update(learner, Visit(t), ranking, note, bits, 4)


def test_steadyrank_is_the_default_and_shows_its_view():
    ranker = sr.Ranker(ITEMS, 4)
    visit(ranker, np.random.default_rng(0), 600)
    assert ranker.view().current == 1
    assert ranker.view().rounds == 600
    best = sorted(ranker.standings(), key=lambda s: s.estimate)[-1]
    assert best.item in ITEMS[-3:]
    assert best.rate == best.clicks / best.looks
    assert sr.Ranker(ITEMS, 4, "CascadeTS").view() is None


@pytest.mark.always
def test_lists_are_made_and_answered_while_a_thread_compiles_ahead(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(LearnerState, "compile", lambda state: begun.set() or go_on.wait(60))
    ranker = sr.Ranker(["a", "b"], 1, "CascadeTS")
    for _ in range(9):
        ranker.rank()
    assert not begun.is_set()
    ranker.rank()
    assert begun.wait(60)
    shown = ranker.rank()
    assert ranker.feedback(shown.id, clicked=None) == "learnt"
    go_on.set()


def test_nothing_is_left_to_compile_after_compile():
    ranker = sr.Ranker(ITEMS, 4)
    visit(ranker, np.random.default_rng(0), 2)
    ranker.compile()
    with event.install_recorder("numba:compile") as log:
        visit(ranker, np.random.default_rng(1), 120)
    assert len(log.buffer) == 0


def test_answers_say_the_same_in_every_form():
    rankers = [sr.Ranker(ITEMS, 4, "CascadeTS", seed=1) for _ in range(3)]
    for _ in range(50):
        shown = [ranker.rank() for ranker in rankers]
        assert len({s.items for s in shown}) == 1
        rankers[0].feedback(shown[0].id, clicked=shown[0].items[2])
        rankers[1].feedback(shown[1].id, position=3)
        rankers[2].feedback(shown[2].id, clicks=[0, 0, 1, 0], examined=3)
    assert len({digest_of(ranker._learner_state) for ranker in rankers}) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "one of clicked=ITEM"),
        ({"clicked": None, "position": 1}, "one of clicked=ITEM"),
        ({"clicked": "nothing"}, "item 'nothing' was not shown"),
        ({"clicked": ["item 1"]}, "clicked must be the name of an item"),
        ({"position": 0}, "position must be a whole number from 1 to 4, not 0"),
        ({"position": 5}, "position must be a whole number from 1 to 4, not 5"),
        ({"position": True}, "position must be"),
        ({"clicked": None, "examined": 2}, "examined=2 goes with clicks"),
        ({"clicks": [0, 2]}, "clicks must be 0 or 1 for each place, at most 4 of them"),
        ({"clicks": 5}, "clicks must be 0 or 1 for each place, at most 4 of them, not 5"),
        ({"clicks": np.ones((2, 2))}, "clicks must be 0 or 1 for each place, at most 4 of them"),
        ({"position": 1.5}, "position must be a whole number from 1 to 4, not 1.5"),
        ({"clicks": [0] * 5}, "clicks must be 0 or 1 for each place, at most 4 of them"),
        ({"clicks": [0, 1], "examined": 3}, "examined must be a whole number from 0 to 2, not 3"),
        ({"clicks": [0, 1], "examined": 1}, "a click at position 2, but examined is 1"),
    ],
)
def test_malformed_answers_change_nothing(answer, message):
    ranker = sr.Ranker(ITEMS, 4)
    shown, before = ranker.rank(), digest_of(ranker._learner_state)
    with pytest.raises(sr.Refused, match=message) as refusal:
        ranker.feedback(shown.id, **answer)
    assert refusal.value.code == 422
    assert digest_of(ranker._learner_state) == before
    assert ranker.feedback(shown.id, clicked=None) == "learnt"  # the impression is still open


def test_an_impression_is_answered_once():
    ranker = sr.Ranker(ITEMS, 4, most_open=10)
    shown = ranker.rank()
    assert ranker.feedback(shown.id, position=2) == "learnt"
    after = digest_of(ranker._learner_state)
    assert ranker.feedback(shown.id, clicked=shown.items[1]) == "duplicate"
    for code, answer in ((409, {"position": 1}), (409, {"clicked": None})):
        with pytest.raises(sr.Refused, match="answered otherwise") as refusal:
            ranker.feedback(shown.id, **answer)
        assert refusal.value.code == code
    with pytest.raises(sr.Refused, match="impression 77 was never shown") as refusal:
        ranker.feedback(77, clicked=None)
    assert refusal.value.code == 403
    with pytest.raises(sr.Refused, match="id is a whole number, not '1'"):
        ranker.feedback("1", clicked=None)
    assert digest_of(ranker._learner_state) == after
    first = ranker.rank()
    for _ in range(10):
        ranker.rank()
    with pytest.raises(sr.Refused, match="expired") as refusal:  # more than ten were open
        ranker.feedback(first.id, clicked=None)
    assert refusal.value.code == 410


def test_answers_enter_in_impression_order_once_settled():
    """Clicks come at once and non-clicks never: the learner must be told of each list in turn."""
    clock = Clock()
    live = sr.Ranker(ITEMS, 4, "SteadyRank", seed=2, lifetime=60.0, clock=clock)
    told = []
    live._impressions.learn = lambda visit, *rest: told.append((visit.t, rest[4])) or True
    shown = [live.rank() for _ in range(4)]
    assert live.feedback(shown[2].id, position=1) == "waiting"
    assert live.feedback(shown[0].id, position=1) == "waiting"
    assert live.feedback(shown[2].id, position=1) == "duplicate"
    assert told == []
    clock.now += 61.0
    live.rank()
    assert told == [(1, ANSWER), (2, SILENCE), (3, ANSWER), (4, SILENCE)]
    with pytest.raises(sr.Refused, match="expired"):
        live.feedback(shown[1].id, position=1)


def test_answers_after_settling_are_late_and_unanswered_lists_can_be_ignored():
    clock = Clock()
    live = sr.Ranker(ITEMS, 4, lifetime=60.0, settle=10.0, count_unanswered=False, clock=clock)
    told = []
    live._impressions.learn = lambda visit, *rest: told.append((visit.t, rest[4])) or True
    shown = [live.rank() for _ in range(3)]
    live.feedback(shown[1].id, position=1)
    clock.now += 11.0
    assert live.feedback(shown[0].id, position=2) == "late"
    assert told == [(2, ANSWER), (1, ANSWER)]
    clock.now += 50.0
    live.rank()
    assert told == [(2, ANSWER), (1, ANSWER)]  # the third one is gone
    with pytest.raises(sr.Refused, match="expired"):
        live.feedback(shown[2].id, position=1)


def test_a_clock_set_back_expires_nothing():
    clock = Clock()
    live = sr.Ranker(ITEMS, 4, lifetime=60.0, clock=clock)
    shown = live.rank()
    clock.now -= 1_000.0
    assert live.feedback(shown.id, position=1) == "waiting"


@pytest.mark.parametrize("name", LIVE)
def test_memory_grows_and_nothing_is_forgotten(name):
    """Items are added one by one through two doublings: counts stay, and the new ones are shown."""
    ranker, world = sr.Ranker(ITEMS, 4, name), np.random.default_rng(0)
    visit(ranker, world, 300)
    before = {s.item: s for s in ranker.standings()}
    arrays = {key: array.copy() for key, array in memory(ranker._learner_state.learner) if key in ("looks", "clicks")}
    for k in range(40):
        ranker.add(f"more {k}")
    for standing in ranker.standings()[:12]:
        assert standing == before[standing.item]
    for key, array in arrays.items():
        now = dict(memory(ranker._learner_state.learner))[key]
        assert now[:12].tolist() == array.tolist()
        assert not now[12:].any()
    visit(ranker, world, 4_000)
    assert all(s.looks >= 20 for s in ranker.standings() if s.item.startswith("more"))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_new_items_are_shown_but_never_take_more_than_their_share(share):
    ranker, world = sr.Ranker(ITEMS, 10, "CascadeUCBV", new_share=share), np.random.default_rng(0)
    visit(ranker, world, 500)
    for k in range(30):
        ranker.add(f"more {k}")
    for items in visit(ranker, world, 100):
        assert 1 <= sum(item.startswith("more") for item in items) <= max(1, int(10 * share))


def test_many_new_items_fill_a_list_that_known_ones_cannot():
    ranker = sr.Ranker(["a"], 4)
    for k in range(6):
        ranker.add(f"more {k}")
    assert len(ranker.rank().items) == 4


def test_retired_items_are_not_shown_until_they_are_reinstated():
    ranker = sr.Ranker(ITEMS, 4, "CascadeTS")
    for item in ITEMS[2:]:
        ranker.retire(item)
    shown = ranker.rank()
    assert sorted(shown.items) == ITEMS[:2]
    ranker.feedback(shown.id, clicked=shown.items[1])
    ranker.reinstate(ITEMS[5])
    assert sorted(ranker.rank().items) == [*ITEMS[:2], ITEMS[5]]
    for item in (*ITEMS[:2], ITEMS[5]):
        ranker.retire(item)
    with pytest.raises(sr.Refused, match="no item may be shown"):
        ranker.rank()
    with pytest.raises(sr.Refused, match="unknown item 'nothing'"):
        ranker.retire("nothing")


def test_candidates_and_lengths():
    ranker = sr.Ranker(ITEMS, 4)
    assert sorted(ranker.rank(["item 3", "item 7"]).items) == ["item 3", "item 7"]
    assert len(ranker.rank(length=2).items) == 2
    with pytest.raises(sr.Refused, match="unknown item 'item 99'"):
        ranker.rank(["item 99"])
    with pytest.raises(sr.Refused, match="not the text 'item 3'"):
        ranker.rank("item 3")
    with pytest.raises(ValueError, match=r"length .*not 5"):
        ranker.rank(length=5)


@pytest.mark.parametrize("name", LIVE)
def test_a_saved_ranker_goes_on_bit_for_bit(name, tmp_path):
    """With open impressions, remembered answers and added items; the file can be read on its own."""
    ranker, world = sr.Ranker(ITEMS, 4, name, seed=9), np.random.default_rng(1)
    visit(ranker, world, 200)
    ranker.add("more")
    visit(ranker, world, 100)
    waiting, answered = ranker.rank(), ranker.rank()
    ranker.feedback(answered.id, position=1)
    ranker.save(tmp_path / "ranker")
    again = sr.Ranker.load(tmp_path / "ranker")
    assert digest_of(again._learner_state) == digest_of(ranker._learner_state)
    for one in (ranker, again):
        assert one.feedback(answered.id, position=1) == "duplicate"
        one.feedback(waiting.id, position=2)
    assert visit(ranker, np.random.default_rng(2), 100) == visit(again, np.random.default_rng(2), 100)
    assert digest_of(again._learner_state) == digest_of(ranker._learner_state)
    ranker.save(tmp_path / "one")
    again.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_saved_waiting_answers_enter_after_loading(tmp_path):
    clock = Clock()
    ranker = sr.Ranker(ITEMS, 4, lifetime=60.0, clock=clock)
    first, second = ranker.rank(), ranker.rank()
    ranker.feedback(second.id, position=1)
    clock.now += 40.0
    ranker.save(tmp_path / "ranker")
    later = Clock()
    later.now = 7.0
    again = sr.Ranker.load(tmp_path / "ranker", clock=later)
    assert again.feedback(second.id, position=1) == "duplicate"
    later.now += 21.0
    again.rank()
    assert sum(s.looks for s in again.standings()) == 4 + 1
    with pytest.raises(sr.Refused, match="expired"):
        again.feedback(first.id, position=1)


def test_a_snapshot_is_the_same_bytes_with_every_python(monkeypatch):
    """Written down with 3.11.2, 3.11.7, 3.12.1 and 3.13.0, in format 1: zipfile has changed in between."""
    monkeypatch.setattr(snapshot, "FORMAT", 1)
    content = snapshot.pack({"a": 1}, {"x": np.arange(3, dtype=np.int64), "y": np.zeros((0, 2))})
    assert hashlib.sha256(content).hexdigest()[:16] == "e35207be892f8b87"
    header, arrays = snapshot.unpack(content, "kept")
    assert (header, arrays["x"].tolist(), arrays["y"].shape) == ({"a": 1, "format": 1}, [0, 1, 2], (0, 2))
    assert snapshot.digest({"a": 1}, arrays) != snapshot.digest({"a": 1}, arrays | {"x": arrays["x"][::-1]})


def ranker_of_another_format(content):
    header, arrays = snapshot.unpack(content, "a ranker")
    return header | {"format": 5}, arrays


def test_damaged_and_foreign_files_are_refused(tmp_path):
    ranker = sr.Ranker(ITEMS, 4)
    path = tmp_path / "ranker"
    ranker.save(path)
    content = path.read_bytes()
    for wrong, message in [
        (b"", "is no snapshot"), (b"x" * 500, "is no snapshot"), (content[:-1], "is damaged"),
        (content[:200] + b"!" + content[201:], "is damaged"),
    ]:  # fmt: skip
        path.write_bytes(wrong)
        with pytest.raises(UnreadableSnapshot, match=message):
            sr.Ranker.load(path)
    path.write_bytes(snapshot.pack(*ranker_of_another_format(content)))
    with pytest.raises(UnreadableSnapshot, match="format 5"):
        sr.Ranker.load(path)
    path.write_bytes(content)
    versions = (sr.learners()[name].VERSION for name in ("SteadyRank", "CascadeTS"))
    with pytest.raises(
        UnreadableSnapshot, match="holds SteadyRank version {}, not CascadeTS version {}".format(*versions)
    ):
        sr.Ranker.load(path, learner=sr.learners()["CascadeTS"])
    with pytest.raises(FileNotFoundError):
        ranker.save(tmp_path / "nowhere" / "ranker")


def test_past_clicks_are_learnt_from():
    rng = np.random.default_rng(0)
    log = []
    for _ in range(400):
        items = [ITEMS[k] for k in rng.permutation(12)[:4]]
        liked = [item for item in items if rng.random() < ATTRACTION[item]]
        log.append((items, liked[0] if liked else None))
    ranker = sr.Ranker(["item 0"], 4)
    assert ranker.learn(log) == 400
    assert len(ranker.standings()) == 12
    assert len(set(ranker.rank().items) & set(ITEMS[-6:])) >= 3
    bits = sr.Ranker(["item 0"], 4)
    bits.learn((items, [item == clicked for item in items]) for items, clicked in log)
    assert bits.view().rounds == 400
    with pytest.raises(ValueError, match="1 to 4 different items"):
        ranker.learn([(["item 1", "item 1"], None)])
    before = digest_of(ranker._learner_state)
    with pytest.raises(sr.Refused, match="item 'item 9' was not shown"):
        ranker.learn([(["item 1", "unheard of"], "item 9")])
    assert digest_of(ranker._learner_state) == before  # the unknown item was not added
    rankers = sr.replay(log, ["CascadeTS", "SteadyRank"], length=4)
    assert rankers["SteadyRank"].view().rounds == 400
    assert rankers["CascadeTS"].standings()[0].looks == rankers["SteadyRank"].standings()[0].looks


@pytest.mark.always
def test_threads_share_a_ranker():
    """Eight threads, 200 rounds each: every answer is counted once."""
    ranker = sr.Ranker(ITEMS, 4, "CascadeTS")
    errors = []

    def work(seed):
        try:
            world = np.random.default_rng(seed)
            for _ in range(200):
                shown = ranker.rank()
                ranker.feedback(shown.id, position=1 + int(world.integers(4)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(s.clicks for s in ranker.standings()) == 1600


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"items": []}, ValueError, "at least one item"),
        ({"items": "abc"}, ValueError, "items must be several names, not the text 'abc'"),
        ({"items": ["a", "a"]}, ValueError, "item 'a' is there already"),
        ({"items": [1]}, ValueError, "named by text of 1 to 500 characters, not 1"),
        ({"length": 0}, ValueError, "length must be"),
        ({"learner": "FTRL"}, ValueError, "FTRL is not live: .*; these can: .*, SteadyRank, "),
        ({"learner": "SteadRank"}, KeyError, "did you mean 'SteadyRank'"),
        ({"settings": {"caution": 2}}, ValueError, "caution must be"),
        ({"settle": 5.0}, ValueError, "settle=5.0 needs a lifetime"),
        ({"lifetime": 5.0, "settle": 6.0}, ValueError, "settle must be a finite number from 0.0 to 5.0, not 6.0"),
        ({"new_share": 2.0}, ValueError, "new_share must be"),
    ],
)
def test_bad_input_is_named(change, error, message):
    with pytest.raises(error, match=message):
        sr.Ranker(**{"items": ITEMS, "length": 4, **change})


def test_a_learner_state_is_told_apart_by_its_digest():
    one, two = (LearnerState(ITEMS, 4, "CascadeTS", {}, 0, 0.2) for _ in range(2))
    assert digest_of(one) == digest_of(two)
    two.learn(Visit(1), np.array([1]), np.zeros(8), np.array([True]), 1, ANSWER)
    assert digest_of(one) != digest_of(two)


def test_memory_of_impressions_grows_to_its_limit_and_the_oldest_expire():
    ranker = sr.Ranker(ITEMS, 4, most_open=3_000)
    ids = [ranker.rank().id for _ in range(3_000)]
    assert ranker.feedback(ids[0], clicked=None) == "learnt"
    size = ranker._impressions.state.size
    assert size == 3_000
    more = [ranker.rank().id for _ in range(10)]
    assert ranker._impressions.state.size == size
    for gone in (ids[0], ids[9]):
        with pytest.raises(sr.Refused, match="expired") as refusal:
            ranker.feedback(gone, clicked=None)
        assert refusal.value.code == 410
    assert ranker.feedback(ids[10], clicked=None) == ranker.feedback(more[-1], position=2) == "learnt"
    assert ranker._impressions.expired == 9  # counted as looked at without a click, but for the one answered
    assert sum(s.looks for s in ranker.standings()) == 10 * 4 + 4 + 2


def test_a_bad_row_of_past_clicks_is_named():
    ranker = sr.Ranker(["a", "b"], 2)
    with pytest.raises(sr.Refused, match="row 2 of the log: item 'c' was not shown"):
        ranker.learn([(["a", "b"], None), (["a", "b"], "c")])
    with pytest.raises(ValueError, match="row 1 of the log: a list has 1 to 2"):
        ranker.learn([(["a", "b", "c"], None)])
    for run in (ranker.learn, lambda log: sr.replay(log, ["CascadeTS"], length=2)):
        with pytest.raises(ValueError, match="a list is a sequence of names, not the text 'ab'"):
            run([("ab", None)])
    with pytest.raises(ValueError, match=r"row 1 of the log: .*not ''"):
        ranker.learn([(["new", ""], None)])
    assert [standing.item for standing in ranker.standings()] == ["a", "b"]


def test_numbers_of_numpy_are_numbers(tmp_path):
    ranker = sr.Ranker(["a", "b"], 2, settings={"window": np.int64(50), "caution": np.float64(0.5)})
    assert ranker.feedback(ranker.rank().id, position=np.int64(1)) == "learnt"
    assert ranker.feedback(ranker.rank().id, clicks=np.array([False, True]), examined=np.int64(2)) == "learnt"
    ranker.save(tmp_path / "kept")
    assert sr.Ranker.load(tmp_path / "kept").rank() == ranker.rank()


def test_under_constant_traffic_impressions_expire_on_time_and_little_is_remembered_of_when_they_came():
    clock = Clock()
    ranker = sr.Ranker(ITEMS, 4, lifetime=60.0, clock=clock)
    for _ in range(6_000):
        clock.now += 0.05
        ranker.rank()
    assert 1_199 <= 6_000 - ranker._impressions.over <= 1_203  # 60 s of traffic, and 0.2 % of grain
    assert len(ranker._delays.queues[1].moments) <= 1_000


def test_the_learner_is_told_who_came_also_after_a_restart(tmp_path):
    ranker, clients = sr.Ranker(ITEMS, 4, "CascadeUCB1"), []
    shown = [ranker.rank(client=client) for client in (7, None, 0)]
    ranker.save(tmp_path / "kept")
    again = sr.Ranker.load(tmp_path / "kept")
    again._impressions.learn = lambda visit, *rest: clients.append(visit.client)
    for s in shown:
        again.feedback(s.id, clicked=None)
    assert clients == [7, ANYONE, 0]
    with pytest.raises(ValueError, match=r"client .*not -2"):
        ranker.rank(client=-2)


def test_what_cannot_be_chosen_from_is_told():
    ranker = sr.Ranker(["a", "b"], 1, "CascadeTS")
    with pytest.raises(sr.Refused, match="candidates must name at least one item, or be left out") as refused:
        ranker.rank(candidates=[])
    assert refused.value.code == 422
    with pytest.raises(
        sr.Refused, match=r"segment 'phone' cannot be given: Ranker\(..., segments=\[...\]\) declares"
    ):
        ranker.rank(segment="phone")
    assert ranker.rank().id == 1  # none of it was shown


def test_clicks_may_be_those_of_the_top_alone():
    ranker = sr.Ranker(["a", "b", "c"], 3, "CascadeTS")
    shown = ranker.rank()
    assert ranker.feedback(shown.id, clicks=[1, 0]) == "learnt"
    looks = {one.item: (one.looks, one.clicks) for one in ranker.standings()}
    assert [looks[item] for item in shown.items] == [(1, 1), (1, 0), (0, 0)]
