"""What comes of clicks, reported to a ranker: once each, in any order, put right, taken back, saved."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import ANSWER, NOTE_EXTRA, Visit, memory
from steadyrank.core.refusals import Refused
from steadyrank.live.gate import CLIENT
from steadyrank.live.outcomes import Outcomes

pytestmark = pytest.mark.pure

ITEMS = ["apple", "banana", "cherry", "fig", "grape"]


def ranker(**more):
    return sr.Ranker(ITEMS, 3, goal="value", settings={"window": 5}, **more)


def known(one):
    """What the learner knows of values, but how late they came: that of one that was taken back stays."""
    values = memory(one._learner_state.learner.values)
    return {name: array.tolist() for name, array in values if name != "late"}


def sums(one):
    values = one._learner_state.learner.values
    slots = one._learner_state.slots
    return {name: (int(values.bought[k]), float(values.sums[k].sum())) for name, k in slots.items()}


def clicked(one, rounds=1):
    """Lists of which the first item is clicked."""
    shown = [one.rank() for _ in range(rounds)]
    for each in shown:
        one.feedback(each.id, clicked=each.items[0])
    return shown


@pytest.mark.interpreted
def test_an_outcome_counts_once_and_a_return_takes_it_off():
    one = ranker()
    (shown,) = clicked(one)
    item = shown.items[0]
    assert one.outcome(shown.id, item, 20.0, id="order 1") == "learnt"
    assert sums(one)[item] == (1, 20.0)
    assert one.outcome(shown.id, item, 20.0, id="order 1") == "duplicate"
    assert one.outcome(shown.id, item, 5, id="order 2", kind="read") == "learnt"
    assert sums(one)[item] == (1, 25.0)  # one click of which something came
    assert one.outcome(shown.id, item, 20.0, id="back 1", kind="return") == "learnt"
    assert sums(one)[item] == (1, 5.0)
    assert one.outcome(shown.id, item, 5.0, id="back 2", kind="return") == "learnt"
    assert sums(one)[item] == (0, 0.0)
    with pytest.raises(Refused, match="another value") as refused:
        one.outcome(shown.id, item, 21.0, id="order 1")
    assert refused.value.code == 409
    assert one.outcome(shown.id, item, 1.0) == one.outcome(shown.id, item, 1.0) == "learnt"  # without an id: two


@pytest.mark.interpreted
def test_a_value_may_come_with_the_answer():
    """Once, however often the answer is sent; and what is wrong with it leaves no answer behind."""
    one = ranker()
    shown = one.rank()
    item = shown.items[1]
    for wrong in (
        {"clicked": item, "value": -1.0},
        {"clicked": None, "value": 1.0},
        {"clicks": [1, 1], "value": 1.0},
    ):
        with pytest.raises(Refused) as refused:
            one.feedback(shown.id, **wrong)
        assert refused.value.code == 422
    assert one.feedback(shown.id, clicked=item, value=6.0) == "learnt"
    assert one.feedback(shown.id, position=2, value=6.0) == "duplicate"
    assert sums(one)[item] == (1, 6.0)
    with pytest.raises(Refused, match="another value"):
        one.feedback(shown.id, clicked=item, value=7.0)
    assert one.feedback(shown.id, clicked=item, value=2.0, id="order 2") == "duplicate"
    assert one.outcome(shown.id, item, 6.0, id="answer") == "duplicate"
    assert sums(one)[item] == (1, 8.0)


@pytest.mark.interpreted
def test_past_clicks_and_lists_of_others_bring_what_came_of_them():
    one = ranker()
    log = [(["fig", "kiwi"], "kiwi", 4.0), (["kiwi", "fig"], None), (["fig"], "fig"), (["kiwi"], "kiwi", 0.5)]
    assert one.learn(log) == 4
    assert sums(one)["kiwi"] == (2, 4.5)
    assert sums(one)["fig"] == (0, 0.0)
    with pytest.raises(Refused, match=r"row 1 of the log.*one click"):
        one.learn([(["fig"], None, 3.0)])
    seen = one.observe(["fig", "kiwi"], clicked="fig", value=1.0)
    assert one.outcome(seen.id, "fig", 7.0, id="a") == "learnt"
    assert sums(one)["fig"] == (1, 8.0)
    for wrong in ({}, {"clicked": None}, {"clicks": [1, 1]}):
        with pytest.raises(Refused, match="one click"):
            one.observe(["fig", "kiwi"], **wrong, value=1.0)


@pytest.mark.interpreted
def test_guards_are_told_what_came_of_past_clicks_too():
    one, told = ranker(), []
    one._learner_state.gate.outcome = lambda *of: told.append(of)
    one.learn([(["fig", "kiwi"], "kiwi", 4.0)])
    slot = one._learner_state.slots["kiwi"]
    assert [of for of in told if of[-1] > 0.0] == [(slot, 1, 1, 0.0, 4.0)]


@pytest.mark.interpreted
def test_any_order_is_the_same():
    """The answer, a purchase, its correction and its return, reported in all 24 orders: one memory."""
    kept = []
    for order in itertools.permutations(range(4)):
        one = ranker()
        shown = one.rank()
        item = shown.items[1]
        steps = [
            lambda one=one, shown=shown, item=item: one.feedback(shown.id, clicked=item),
            lambda one=one, shown=shown, item=item: one.outcome(shown.id, item, 8.0, id="a"),
            lambda one=one, shown=shown, item=item: one.outcome(shown.id, item, 0.7, id="b"),
            lambda one=one, shown=shown, item=item: one.outcome(shown.id, item, 2.0, id="c", kind="return"),
        ]
        for step in order:
            steps[step]()
        kept.append(known(one))
        assert sums(one)[item] == (1, pytest.approx(6.7))
    for other in kept[1:]:
        for name, array in kept[0].items():
            np.testing.assert_allclose(array, other[name], rtol=1e-9, err_msg=name)


@pytest.mark.interpreted
def test_outcomes_wait_for_answers_that_wait():
    """Answers enter 10 seconds after their lists; what comes of a click enters with it."""
    now = [0.0]
    one = ranker(lifetime=10.0, clock=lambda: now[0])
    shown = one.rank()
    item = shown.items[0]
    assert one.outcome(shown.id, item, 3.0, id="a") == "waiting"
    assert one.feedback(shown.id, clicked=item) == "waiting"
    assert one.outcome(shown.id, item, 4.0, id="b") == "waiting"
    assert sums(one)[item] == (0, 0.0)
    now[0] = 11.0
    one.rank()
    assert sums(one)[item] == (1, 7.0)
    assert one.outcome(shown.id, item, 1.0, id="c") == "learnt"  # after settlement, too
    assert sums(one)[item] == (1, 8.0)
    other = one.rank()
    now[0] = 30.0
    one.rank()
    with pytest.raises(Refused, match="expired") as refused:  # nobody answered
        one.outcome(other.id, other.items[0], 1.0, id="d")
    assert refused.value.code == 410


@pytest.mark.interpreted
def test_what_cannot_be_is_refused_and_changes_nothing():
    one = ranker()
    (shown,) = clicked(one)
    before, hidden = known(one), next(item for item in ITEMS if item not in shown.items)
    for item, value, code in [
        (shown.items[1], 1.0, 409),  # it was not clicked
        (hidden, 1.0, 422),
        ("pear", 1.0, 422),
    ]:
        with pytest.raises(Refused) as refused:
            one.outcome(shown.id, item, value, id="x")
        assert refused.value.code == code
    for value in (-1.0, float("nan"), "5", 1e13, True):
        with pytest.raises(ValueError, match="value"):
            one.outcome(shown.id, shown.items[0], value, id="x")
    with pytest.raises(Refused, match="never shown"):
        one.outcome(99, shown.items[0], 1.0, id="x")
    assert known(one) == before
    with pytest.raises(ValueError, match=r"SteadyRank.*CascadeTS"):
        sr.Ranker(ITEMS, 3, "CascadeTS", goal="value")
    with pytest.raises(ValueError, match="'click', 'value', not 'money'"):
        sr.Ranker(ITEMS, 3, goal="money")


@pytest.mark.interpreted
def test_a_saved_ranker_goes_on_with_what_came_of_clicks(tmp_path):
    """Duplicates are known after loading, waiting outcomes wait, and lists are the same."""
    one = ranker(seed=3)
    shown = clicked(one, 12)
    for i, each in enumerate(shown[:6]):
        one.outcome(each.id, each.items[0], 1.0 + i, id=f"order {i}")
    waits = one.rank()
    one.outcome(waits.id, waits.items[2], 9.0, id="early")
    one.save(tmp_path / "ranker")
    other = sr.Ranker.load(tmp_path / "ranker")
    assert known(one) == known(other)
    for each in (one, other):
        assert each.outcome(shown[2].id, shown[2].items[0], 3.0, id="order 2") == "duplicate"
        assert each.feedback(waits.id, clicked=waits.items[2]) == "learnt"
        assert each.outcome(shown[7].id, shown[7].items[0], 2.0, id="order 7") == "learnt"
    assert known(one) == known(other)
    assert sums(one)[waits.items[2]][1] >= 9.0
    assert [one.rank().items for _ in range(20)] == [other.rank().items for _ in range(20)]


@pytest.mark.interpreted
def test_what_a_guard_takes_back_takes_its_outcomes_along():
    """The book alone: heard, taken back, and later outcomes of it ignored; those refused at once as well."""
    told = []
    book = Outcomes(lambda *of: told.append(of))
    book.click(4, [7], True)
    book.click(5, [7], False)
    assert book.add(4, 7, 1, 3.0, True) == "learnt"
    assert book.add(5, 7, 1, 3.0, True) == "ignored"
    book.forget(4, [6, 7])
    assert book.add(4, 7, 2, 5.0, True) == "ignored"
    book.forget(4, [7])
    assert told == [(7, 4, 5, 0.0, 3.0), (7, 4, 5, 3.0, 0.0)]


@pytest.mark.interpreted
def test_two_visits_of_one_round_count_what_came_of_their_clicks_once():
    """The book alone: told once however many visits heard, until the last of them is taken back."""
    told = []
    book = Outcomes(lambda *of: told.append(of))
    book.click(4, [7], True)
    assert book.add(4, 7, 1, 3.0, True) == "learnt"
    book.click(4, [7], True)
    book.click(4, [7], False)
    assert told == [(7, 4, 4, 0.0, 3.0)]
    kept = Outcomes(lambda *of: told.append(of))
    kept.restore(book.arrays())
    kept.forget(4, [7])
    assert kept.add(4, 7, 2, 5.0, True) == "learnt"
    kept.forget(4, [7])
    assert kept.add(4, 7, 3, 5.0, True) == "ignored"
    assert told == [(7, 4, 4, 0.0, 3.0), (7, 4, 4, 3.0, 8.0), (7, 4, 4, 8.0, 0.0)]


@pytest.mark.interpreted
def test_where_clicks_are_the_goal_only_clicks_of_which_something_came_are_remembered(tmp_path):
    """Counted once by id, before and after answers, after loading, and refused once they may have been forgotten."""
    one = sr.Ranker(ITEMS, 3, "CascadeTS", most_open=3)
    book = one._learner_state.outcomes
    shown = clicked(one, 3)
    assert book.clicks == {}
    assert one.outcome(shown[0].id, shown[0].items[0], 5.0, id="a") == "counted"
    assert one.outcome(shown[0].id, shown[0].items[0], 5.0, id="a") == "duplicate"
    with pytest.raises(Refused, match="without a click") as refused:
        one.outcome(shown[0].id, shown[0].items[1], 5.0, id="a")
    assert refused.value.code == 409
    early = one.rank()
    assert one.outcome(early.id, early.items[1], 2.0, id="b") == "waiting"
    assert one.feedback(early.id, clicked=early.items[1], value=1.0) == "learnt"
    assert [click.worth for click in book.clicks.values()] == [5.0, 3.0]
    one.learn([(["fig"], "fig", 3.0)])
    assert len(book.clicks) == 3
    one.save(tmp_path / "ranker")
    other = sr.Ranker.load(tmp_path / "ranker")
    assert other.outcome(early.id, early.items[1], 2.0, id="b") == "duplicate"
    several = one.rank()
    one.feedback(several.id, clicks=[1, 1, 1])
    for item in several.items:
        assert one.outcome(several.id, item, 1.0, id="c") == "counted"
    with pytest.raises(Refused, match="most_open") as refused:  # its order may have been counted before
        one.outcome(early.id, early.items[1], 2.0, id="b")
    assert refused.value.code == 410


@pytest.mark.interpreted
@pytest.mark.parametrize("goal", ["click", "value"])
def test_guards_are_told_once_of_what_came_before_both_answers_of_a_round(goal):
    """Two workers gave out lists in one round, and both were clicked on the item; whatever the goal is."""
    told, state = [], sr.Ranker(ITEMS, 3, goal=goal)._learner_state
    state.gate.outcome = lambda *of: told.append(of)
    note, bits = np.zeros(3 + NOTE_EXTRA), np.array([False, True, False])
    assert state.add_outcome(9, 1, 1, 2.0, False) == "waiting"
    for _ in range(2):
        state.learn(Visit(9), np.array([0, 1, 2]), note.copy(), bits, 3, ANSWER)
    assert told == [(1, 9, 9, 0.0, 2.0)]
    state.add_outcome(9, 1, 2, 3.0, True)
    assert told[1:] == [(1, 9, 9, 2.0, 5.0)]


class TakesAllBack(NamedTuple):
    """Hears everybody, and takes the visit before back."""

    last: np.ndarray  # item, round
    places: np.ndarray

    live = True

    @classmethod
    def create(cls, problem):
        return cls(np.zeros(2, np.int64), np.zeros(problem.length, np.int64))

    def admit(self, visit, ranking, note, clicks, examined):
        return True

    def observe(self, t, ranking):
        self.last[0], self.last[1] = 1, t
        self.places[: ranking.size] = ranking

    def retract(self, ranking, note, clicks):
        size = int(self.last[0]) * self.places.size
        ranking[:size] = self.places[:size]
        clicks[:size] = np.arange(size) == 1
        self.last[0] = 0
        return int(self.last[1]), 0, size, size


@pytest.mark.interpreted
def test_what_is_taken_back_is_what_was_clicked():
    """A visit that showed an item without a click on it goes: another visit's click of that round stays."""
    one = ranker(guard=TakesAllBack)
    state = one._learner_state
    clicks = np.array([True, False, False]), np.array([False, True, False])
    note = np.zeros(3 + NOTE_EXTRA)
    for bits in clicks:
        state.learn(Visit(9), np.array([0, 1, 2]), note.copy(), bits, 3, ANSWER)
    for item in (0, 1):
        assert state.outcomes.add(9, item, 1, 2.0, True) == "learnt"
    state.gate.posts[0].guards[CLIENT].observe(9, np.array([0, 1, 2]))
    state.learn(Visit(10), np.array([3]), note.copy(), np.array([False]), 1, ANSWER)
    assert sums(one) == {
        "apple": (1, 2.0),
        "banana": (0, 0.0),
        "cherry": (0, 0.0),
        "fig": (0, 0.0),
        "grape": (0, 0.0),
    }


@pytest.mark.interpreted
def test_a_click_that_is_forgotten_is_not_called_unheard():
    """Users who click several places: more clicks than lists are remembered, so some go before their lists do."""
    one = ranker(most_open=2)
    shown = one.rank()
    one.feedback(shown.id, clicks=[1, 1, 1])
    with pytest.raises(Refused, match="most_open") as refused:
        one.outcome(shown.id, shown.items[0], 1.0, id="a")
    assert refused.value.code == 410
    assert one.outcome(shown.id, shown.items[2], 1.0, id="a") == "learnt"


@pytest.mark.interpreted
def test_as_many_clicks_are_remembered_as_impressions():
    one = ranker(most_open=4)
    first = clicked(one, 1)[0]
    clicked(one, 3)
    assert one.outcome(first.id, first.items[0], 1.0, id="a") == "learnt"
    clicked(one, 3)
    with pytest.raises(Refused, match="expired"):
        one.outcome(first.id, first.items[0], 1.0, id="a")
    assert len(one._learner_state.outcomes.clicks) == 4


@pytest.mark.interpreted
def test_items_that_come_later_are_learnt_of_and_retired_ones_make_room():
    """Forty items more than at first; then all but six are retired: lists are made of these."""
    one = ranker(seed=1)
    for i in range(40):
        one.add(f"new {i}")
    for each in clicked(one, 200):
        one.outcome(each.id, each.items[0], 2.0, id="a")
    for i in range(39):
        one.retire(f"new {i}")
    shown = [one.rank() for _ in range(20)]
    assert {item for each in shown for item in each.items} <= {*ITEMS, "new 39"}
    assert all(len(set(each.items)) == 3 for each in shown)


@pytest.mark.interpreted
def test_rules_hold_and_boosts_are_factors_on_what_clicks_are_worth():
    one = ranker(seed=2)
    for each in clicked(one, 30):
        one.outcome(each.id, each.items[0], 2.0, id="a")
    for _ in range(20):
        shown = one.rank(rules={"pins": {"fig": 2}, "exclude": ["apple"]}).items
        assert shown[1] == "fig"
        assert "apple" not in shown
        assert len(set(shown)) == 3
    first = {factor: sum(one.rank(rules={"boosts": {"fig": factor}}).items[0] == "fig" for _ in range(40))
             for factor in (0.1, 10.0)}  # fmt: skip
    assert first[0.1] <= 2
    assert first[10.0] >= 36
    with pytest.raises(
        Refused, match="boosts need a learner that estimates what clicks are worth, which Own does not"
    ):
        sr.Ranker(ITEMS, 3, Own, settings={"goal": "value"}).rank(rules={"boosts": {"fig": 2.0}})


class Own(NamedTuple):
    """A learner of somebody's own that takes outcomes, and does not say what it makes of them."""

    length: int

    live = True

    @classmethod
    def create(cls, problem, *, goal="click"):
        return cls(problem.length)

    def rank(self, visit, allowed, ranking, note, rng):
        ranking[:] = np.flatnonzero(allowed)[: ranking.size]

    def update(self, visit, ranking, note, clicks, examined):
        pass

    def outcome(self, item, shown, t, before, after):
        pass
