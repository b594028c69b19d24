"""Lists that nobody answers, answers that say nothing, and answers that come late."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import steadyrank as sr
from service_tools import serving
from steadyrank.core.contract import Visit
from steadyrank.live.silence import BLOCK, BLOCKS, FIRST, RISE, Silence

pytestmark = pytest.mark.pure

ITEMS, LENGTH = 100, 10


def most_usual(ratio):
    """The share of unanswered lists where the median block has `ratio` for each answer."""
    most = ratio + np.log(2) / BLOCK
    return pytest.approx(most / (1 + most))


def spoken(silence, blocks, unanswered, t=1):
    """Blocks of answers, each with some unanswered lists before it; how many of these counted."""
    counted = 0
    for _ in range(blocks):
        counted += sum(silence.add_one_unanswered(t) for _ in range(unanswered))
        for _ in range(BLOCK):
            silence.add_answered()
    return counted


def test_answers_vouch_for_as_much_silence_as_is_usual():
    """Two unanswered lists for each answer are usual: a block's credit is 40, and a flood has no more than that."""
    silence = Silence()
    assert spoken(silence, 10, 40) == 400
    assert (silence.usual, silence.credit, silence.usual_share) == (2.0, 40.0, most_usual(2.0))
    assert sum(silence.add_one_unanswered(7) for _ in range(10_000)) == 40
    silence.add_answered()
    assert [silence.add_one_unanswered(8) for _ in range(3)] == [True, True, False]


def test_before_anything_is_known_silence_counts_within_a_bound():
    silence = Silence()
    assert sum(silence.add_one_unanswered(1) for _ in range(1_000)) == FIRST
    assert (silence.usual_share, silence.alarming, silence.share) == (None, False, 1.0)


def test_a_minority_of_floods_makes_no_usual_number_and_a_majority_a_slow_one():
    silence = Silence()
    spoken(silence, BLOCKS, 10)
    assert silence.usual == 0.5
    assert spoken(silence, BLOCKS // 2, 1_000) <= (BLOCKS // 2 + 1) * 10
    assert silence.usual == 0.5
    spoken(silence, 1, 1_000)
    assert silence.usual == pytest.approx(0.5 * (1 + RISE))
    spoken(silence, 699, 100)
    assert silence.usual == pytest.approx(0.5 * np.e, rel=0.01)
    spoken(silence, BLOCKS, 4)
    assert silence.usual == 0.2


@given(st.lists(st.booleans(), max_size=400))
def test_no_more_counts_than_answers_vouch_for(events):
    silence, counted, most = Silence(), 0, FIRST
    for answered in events:
        if answered:
            most += silence.usual
            silence.add_answered()
        else:
            counted += silence.add_one_unanswered(1)
        assert counted <= most
        assert Silence.restore(silence.keep()).keep() == silence.keep()


@pytest.mark.parametrize("share", [0.03, 0.3])
def test_chance_alone_is_no_alarm(share):
    """100,000 lists of which any is left with the same chance."""
    silence, rng = Silence(), np.random.default_rng(5)
    for t, left in enumerate(rng.random(100_000) < share, 1):
        silence.add_one_unanswered(t) if left else silence.add_answered()
    assert silence.alarmed == 0
    assert silence.usual_share == pytest.approx(share, abs=0.04)


def test_the_alarm_says_when_more_is_left_unanswered_than_usual():
    """One in 21 is usual, 35 for 100 answers are not; the alarm tells which round it was."""
    silence = Silence()
    spoken(silence, 40, 1, t=1)
    assert (silence.alarming, silence.alarmed) == (False, 0)
    spoken(silence, 5, 7, t=2)
    assert silence.share == pytest.approx(35 / 135)
    assert (silence.alarming, silence.alarmed) == (True, 2)
    spoken(silence, 6, 1, t=3)
    assert (silence.alarming, silence.alarmed) == (False, 3)


class Shop:
    """A ranker and its visitors: one list a second, which can be answered for 50 seconds."""

    def __init__(self, seed, *, clicks_only, settle=None, low=30.0):
        self.now, self.world, self.clicks_only = 0.0, np.random.default_rng(seed), clicks_only
        self.attraction = self.world.beta(1, low, ITEMS)
        self.ranker = sr.Ranker(
            map(str, range(ITEMS)), LENGTH, seed=seed, lifetime=50.0, settle=settle, clock=lambda: self.now
        )
        self.target = int(np.argsort(self.attraction)[ITEMS // 2])

    def show(self):
        self.now += 1.0
        return self.ranker.rank()

    def visit(self):
        shown = self.show()
        liked = self.world.random(LENGTH) < self.attraction[[int(item) for item in shown.items]]
        if liked.any():
            self.ranker.feedback(shown.id, position=int(np.argmax(liked)) + 1)
        elif not self.clicks_only:
            self.ranker.feedback(shown.id, clicked=None)

    def lists(self, count=40):
        state, visit = self.ranker._learner_state, Visit(self.ranker._impressions.rounds + 1)
        return [state.rank(visit, None, LENGTH, np.random.default_rng(i))[0] for i in range(count)]

    def worth(self):
        """The chance of a click on a list, over that on the best one."""
        best = np.sort(self.attraction)[-LENGTH:]
        return np.mean([1 - np.prod(1 - self.attraction[ranking]) for ranking in self.lists()]) / (
            1 - np.prod(1 - best)
        )


@pytest.mark.parametrize("clicks_only", [False, True])
def test_a_client_that_never_answers_takes_no_board_over(clicks_only):
    """2,000 visits, then 2,500 lists that nobody answers: as a regime of their own, and the longest, they brought the
    list's worth down to 0.35 of the best."""
    shop = Shop(0, clicks_only=clicks_only)
    for _ in range(2_000):
        shop.visit()
    before = shop.worth()
    assert before > 0.85
    rounds = shop.ranker.view().rounds
    for _ in range(2_500):
        shop.show()
    silence, view = shop.ranker._impressions.silence, shop.ranker.view()
    assert shop.worth() >= 0.95 * before
    assert (view.n_changes, view.corrupted) == (0, 0.0)
    assert view.rounds <= rounds + 50  # the answers that were waiting
    assert silence.alarming
    assert silence.share > 0.9
    for _ in range(1_000):
        shop.visit()
    assert shop.worth() >= 0.98 * before
    assert not silence.alarming


def test_bots_that_answer_late_are_found_like_others():
    """2,000 visits, then 1,000 bots that click one item, ten seconds after answers are settled."""
    shop, waiting = Shop(1, clicks_only=False, settle=5.0, low=8.0), []
    for _ in range(2_000):
        shop.visit()
    for _ in range(1_000):
        waiting.append(shop.show())
        if len(waiting) > 10:
            shown = waiting.pop(0)
            clicked = str(shop.target) if str(shop.target) in shown.items else None
            assert shop.ranker.feedback(shown.id, clicked=clicked) == "late"
    view = shop.ranker.view()
    assert view.n_changes >= 1
    assert view.corrupted == pytest.approx(1 / 3, abs=0.03)
    assert view.trusted == 1


@pytest.mark.parametrize("word", ["nothing", "examined 0"])
def test_who_answers_nothing_but_lists_with_a_target_is_noticed(word):
    """15 % of the visitors are bots that click one item where it is shown and say nothing otherwise."""
    shop = Shop(2, clicks_only=False, low=8.0)
    for _ in range(2_000):
        shop.visit()
    silence = shop.ranker._impressions.silence
    assert silence.alarmed == 0
    for _ in range(1_000):
        if shop.world.random() >= 0.15:
            shop.visit()
            continue
        shown = shop.show()
        if str(shop.target) in shown.items:
            shop.ranker.feedback(shown.id, clicked=str(shop.target))
        elif word == "examined 0":
            shop.ranker.feedback(shown.id, clicks=[0], examined=0)
    assert silence.alarmed > 2_000


def test_an_answer_that_says_nothing_is_no_answer():
    ranker = sr.Ranker(["a", "b", "c"], 2)
    shown = ranker.rank()
    assert ranker.feedback(shown.id, clicks=[0, 0], examined=0) == "learnt"
    assert ranker.feedback(shown.id, clicks=[0, 0], examined=0) == "duplicate"
    assert ranker._impressions.expired == ranker._impressions.silence.unanswered == 1
    assert sum(standing.looks for standing in ranker.standings()) == 0


async def test_unanswered_lists_are_told_with_an_alarm(tmp_path):
    """All answered but the last 30: the board, its watch and its metrics say so, and after a restart still do."""
    url, none = f"sqlite:///{tmp_path}/store.db", most_usual(0.0)
    async with serving(url) as local:
        await local.board(settle=0, lifetime=60)
        for _ in range(100):
            await local.answer(await local.rank(), clicked=None)
        told = (await local.ask("GET", "boards/b"))["silence"]
        assert told == {"share": 0.0, "usual": none, "alarming": False, "alarmed": None}
        nothing = await local.rank()
        assert (await local.answer(nothing, clicks=[0], examined=0))["outcome"] == "learnt"
        for _ in range(29):
            await local.rank()
        await local.quiet()
        local.clocks.pass_time(61)
        await local.quiet()
        board = (await local.ask("GET", "boards/b/watch"))["board"]
        assert (board["answers"], board["unanswered"]) == (100, 30)
        assert board["silence"] == {"share": 30 / 130, "usual": none, "alarming": True, "alarmed": 130}
        page = (await local.http.get("/metrics")).text
        assert f'steadyrank_board_silence{{board="b"}} {30 / 130!r}' in page
        assert 'steadyrank_board_alarm{board="b"} 1.0' in page
        state = await local.ask("GET", "boards/b/state")
        assert sum(item["looks"] for item in state["items"]) == 400  # nobody vouches for the 30
        digest = local.digest()
    async with serving(url) as local:
        assert local.digest() == digest
        assert (await local.ask("GET", "boards/b"))["silence"] == board["silence"]
