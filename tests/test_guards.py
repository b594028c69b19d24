"""Guards: who is heard, what is counted of it, and that a learner forgets what a guard takes back."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from interpreted import mostly
from slow_draws import members
from steadyrank.core.contract import ANSWER, KIND, NOTE_EXTRA, SILENCE, VOUCHED, Problem, Visit, memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_forget, call_rank, call_update
from steadyrank.core.rounds import FALSE, FIRST_BOT, MAJORITY, MINORITY
from steadyrank.evaluation.lab.cells import Cell, identity
from steadyrank.evaluation.lab.runner import run_cell
from steadyrank.learners.shared.thompson import derive_all
from steadyrank.live import snapshot
from test_contract import Watchful

pytestmark = pytest.mark.pure

K, D = 12, 3
PLAUSIBLE, QUOTA, LIMIT = (sr.guards()[name] for name in ("Plausible", "Quota", "ClickLimit"))
FORGETFUL = ["CascadeKLUCB", "CascadeTS", "CascadeUCB1", "CascadeUCBV", "SteadyRank", "TSCascade"]
WORLD = {"length": 5, "horizon": 2_000, "seeds": [1, 2]}
ATTRACTION = np.linspace(0.05, 0.6, 40)


def ask(guard, t, client, bits, examined, size=D, kind=ANSWER):
    clicks, note = np.array(bits, np.bool_), np.zeros(size + NOTE_EXTRA)
    note[KIND] = kind
    return bool(guard.admit(Visit(t, client), np.arange(size), note, clicks, examined))


@pytest.mark.parametrize(
    ("bits", "examined", "cascade", "whole"),
    [
        ((0, 0, 0), 3, True, True),
        ((0, 1, 0), 2, True, False),
        ((0, 0, 1), 3, True, True),
        ((1, 1, 0), 2, False, False),
        ((1, 0, 1), 3, False, True),
        ((0, 0, 0), 2, False, False),  # left early without a click
        ((0, 0, 0), 0, True, True),  # says nothing
    ],
)
def test_plausible_by_hand(bits, examined, cascade, whole):
    for model, answer in (("cascade", cascade), ("whole", whole)):
        guard = make(PLAUSIBLE, Problem(K, D), settings={"model": model})
        assert ask(guard, 1, 7, bits, examined) is answer
        assert guard.view().refused == (not answer)


def test_quota_by_hand():
    """Two visits in rounds 1 to 10, two in 11 to 20; anonymous visits are nobody's."""
    guard = make(QUOTA, Problem(K, D), settings={"visits": 2, "period": 10})
    said = [ask(guard, t, 4, (0, 0, 0), 3) for t in (1, 5, 10, 11, 20, 20, 21)]
    assert said == [True, True, False, True, True, False, True]
    assert all(ask(guard, 30, -1, (0, 0, 0), 3) for _ in range(9))
    assert [ask(guard, 30, 5, (0, 0, 0), 3) for _ in range(3)] == [True, True, False]
    assert guard.view().refused == 3
    (spent,) = guard.view().suspects
    assert (spent.client, spent.visits, spent.why) == (5, 2, "it had its 2 visits of the rounds up to 30")


def test_quota_hears_no_silence_of_whoever_has_used_it_up():
    """Silence is no visit; who has visits left is silent as one may be."""
    guard = make(QUOTA, Problem(K, D), settings={"visits": 2, "period": 10})
    kinds = (SILENCE, ANSWER, SILENCE, SILENCE, VOUCHED, SILENCE, ANSWER)
    said = [ask(guard, t, 4, (0, 0, 0), 3, kind=kind) for t, kind in enumerate(kinds, 1)]
    assert said == [True, True, True, True, True, False, False]
    assert ask(guard, 11, 4, (0, 0, 0), 3, kind=SILENCE)
    assert guard.view().refused == 1


def test_quota_forgets_who_came_least_recently():
    """Room for four, and five come: the first is new again, the last is not."""
    guard = make(QUOTA, Problem(K, D), settings={"visits": 1, "period": 1_000, "remembered": 4})
    assert all(ask(guard, t, client, (0, 0, 0), 3) for t, client in enumerate((3, 1, 4, 15, 9), 1))
    assert not ask(guard, 7, 9, (0, 0, 0), 3)
    assert ask(guard, 8, 3, (0, 0, 0), 3)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=60), st.integers(1, 4), st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_quota_equals_counting(visits, most, period):
    guard = make(QUOTA, Problem(K, D), settings={"visits": most, "period": period})
    t, counts = 1, {}
    for client, later in visits:
        t += later
        key = client, (t - 1) // period
        counts[key] = counts.get(key, 0) + 1
        assert ask(guard, t, client, (0, 0, 0), 3) == (counts[key] <= most)


def clicks_of(n, size=5):
    return [1] * n + [0] * (size - n)


def test_click_limit_learns_how_many_clicks_are_usual():
    """At first one; with visits of up to three clicks, four; a fifth of the visits do not raise it."""
    guard = make(LIMIT, Problem(K, 5), settings={})
    assert [ask(guard, 1, -1, clicks_of(n), n or 5, size=5) for n in (0, 1, 2)] == [True, True, False]
    for t in range(200):
        n = 5 if t % 6 == 0 else t % 2
        ask(guard, t, t, clicks_of(n), n or 5, size=5)
    assert not ask(guard, 1, -1, clicks_of(2), 2, size=5)
    for t in range(400):
        ask(guard, t, t, clicks_of(t % 4), 5, size=5)
    assert [ask(guard, 1, -1, clicks_of(n), 5, size=5) for n in (4, 5)] == [True, False]
    refused = guard.view().refused
    assert ask(guard, 1, -1, clicks_of(5), 0, size=5)  # says nothing
    assert guard.view().refused == refused


def test_click_limit_leaves_room_where_feedback_goes_on_after_a_click():
    """Pages that tell of whole lists: one click is usual, and somebody may have two."""
    guard = make(LIMIT, Problem(K, 5), settings={})
    for t in range(100):
        ask(guard, t, t, clicks_of(t % 2), 5, size=5)
    assert [ask(guard, 1, -1, clicks_of(n), 5, size=5) for n in (2, 3)] == [True, False]


def test_click_limit_counts_silence_as_no_click_and_forgets():
    """Where clicks alone are reported, most lists have no answer: forged answers are few beside them."""
    guard = make(LIMIT, Problem(K, 5), settings={"remembered": 100})
    for t in range(600):
        ask(guard, t, t, clicks_of(5 if t % 10 == 0 else 0), 5, size=5, kind=ANSWER if t % 5 == 0 else SILENCE)
    assert not ask(guard, 1, 1, clicks_of(2), 5, size=5)
    assert guard.counts.sum() < 100
    for t in range(200):
        ask(guard, t, t, clicks_of(3), 5, size=5)
    assert ask(guard, 1, 1, clicks_of(4), 5, size=5)
    fixed = make(LIMIT, Problem(K, 5), settings={"clicks": 2})
    assert [ask(fixed, 1, 1, clicks_of(n), 5, size=5) for n in (2, 3)] * 3 == [True, False] * 3
    assert fixed.view().refused == 1


def test_a_ranker_with_several_guards(tmp_path):
    """What all admit is learnt; each shows what it refused, and all of it is saved."""
    names = [f"item {k}" for k in range(6)]
    guards = ["ClickLimit", ("Quota", {"visits": 2}), "ClientTrust"]
    ranker = sr.Ranker(names, 3, "CascadeTS", guard=guards)
    for client, clicks in ((7, [1, 1, 1]), (7, [0, 1, 0]), (7, [0, 0, 1]), (7, [1, 0, 0]), (8, [1, 0, 0])):
        ranker.feedback(ranker.rank(client=client).id, clicks=clicks)
    ranker.save(tmp_path / "it")
    for one in (ranker, sr.Ranker.load(tmp_path / "it")):
        assert {name: view.refused for name, view in one.guard_views().items()} == {
            "Quota": 1,
            "ClickLimit": 1,
            "ClientTrust": 0,
        }
        assert one.guard_view().refused == 2
        assert one.standings() == ranker.standings()
    for wrong, words in (
        ({"guard": guards, "guard_settings": {"visits": 2}}, "of several, each has its own"),
        ({"guard": []}, "guards must name at least one guard"),
        ({"guard": ["Quota", "Quota"]}, "Quota is among them twice"),
        ({"guard": ["Quota", "Anyone"]}, "Anyone admits every visit"),
        ({"guard": [("Quota", 2)]}, "a pair of that and its settings, not"),
    ):
        with pytest.raises(ValueError, match=words):
            sr.Ranker(names, 3, "CascadeTS", **wrong)


@pytest.mark.parametrize(("learner", "goal"), [("SteadyRank", "value"), ("CascadeTS", "click")])
def test_guards_of_a_ranker_hear_what_came_of_clicks(learner, goal):
    """At once, before the answer, and of returns; of what a guard before them refused there is nothing to hear."""
    guards, learnt = [("Quota", {"visits": 2}), "ClientTrust"], goal == "value"
    ranker = sr.Ranker([f"item {k}" for k in range(6)], 3, learner, goal=goal, guard=guards)

    def heard():
        return ranker._learner_state.gate.posts[1].guards[""].visits.outcomes.tolist()[:3]

    shown = [ranker.rank(client=7) for _ in range(3)]
    items = [one.items[0] for one in shown]
    ranker.feedback(shown[0].id, clicked=items[0])
    became = "learnt" if learnt else "counted"
    assert ranker.outcome(shown[0].id, items[0], 5.0, id="a") == became
    assert ranker.outcome(shown[0].id, items[0], 2.0, id="b") == became
    assert heard() == [1, 0, 0]
    assert ranker.outcome(shown[1].id, items[1], 5.0, id="a") == "waiting"
    assert heard() == [1, 0, 0]
    ranker.feedback(shown[1].id, clicked=items[1])
    assert heard() == [1, 1, 0]
    ranker.feedback(shown[2].id, clicked=items[2])
    assert ranker.outcome(shown[2].id, items[2], 5.0, id="a") == ("ignored" if learnt else "counted")
    assert ranker.outcome(shown[0].id, items[0], 7.0, id="c", kind="return") == became
    assert heard() == [0, 1, 0]


def test_guards_refuse_what_cannot_be_set():
    for cls, change, words in [
        (PLAUSIBLE, {"model": "tree"}, "model must be one of 'cascade', 'whole', not 'tree'"),
        (QUOTA, {"visits": 0}, "visits must be a whole number of at least 1, not 0"),
        (QUOTA, {"period": 0.5}, "period must be a whole number of at least 1, not 0.5"),
        (QUOTA, {"remembered": 3}, "remembered must be a whole number from 4 to 4194304, not 3"),
    ]:
        with pytest.raises(ValueError, match=words):
            make(cls, Problem(K, D), settings=change)


def test_refused_visits_are_counted_by_sort():
    """Feedback that is inverted is impossible, nearly always; what users do never is."""
    attack = {"adversary": "PrefixFlip", "budget": 300, "schedule": "spread"}
    run = sr.simulate("Random", ATTRACTION, guard="Plausible", **attack, **WORLD)
    assert run.visits.tolist() == [[1_700, 0, 300]] * 2
    assert run.refused[:, [MAJORITY, MINORITY]].sum() == run.retracted.sum() == 0
    assert [view.refused for view in run.guard_views] == run.refused[:, FALSE].tolist()
    assert run.false_refused == run.refused.sum() / 600 > 0.8
    assert run.honest_refused == 0.0
    assert np.isnan(run.minority_refused)
    told = sr.simulate("Random", ATTRACTION, guard="Plausible", omniscient=True, **attack, **WORLD)
    assert (told.visits[0, FALSE], told.refused.sum()) == (300, 0)  # neither guard nor learner hears of them


@pytest.mark.interpreted
def test_whoever_is_admitted_changes_nothing():
    plain = sr.simulate("CascadeTS", ATTRACTION, **WORLD)
    assert np.array_equal(sr.simulate("CascadeTS", ATTRACTION, guard="Quota", **WORLD).regret, plain.regret)


@pytest.mark.parametrize("name", mostly(FORGETFUL))
def test_what_is_forgotten_was_never_learnt(name):
    """After rounds of which some are forgotten, counts and lists are those of a learner told of the others alone.

    Of each kind of feedback some; with so few items, all are drawn, wherever the bar was in between.
    """
    forgetful, other = (make(sr.learners()[name], Problem(K, D), settings={}) for _ in range(2))
    rng, allowed, told_of = np.random.default_rng(3), np.ones(K, np.bool_), []
    for t in range(1, 46):  # no window of SteadyRank ends
        ranking, note = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
        call_rank(other, Visit(t), allowed, ranking, note, rng)
        examined = int(rng.integers(1, D + 1))
        note[KIND] = (ANSWER, ANSWER, VOUCHED, SILENCE, ANSWER)[t % 5]
        event = Visit(t), ranking, note, rng.random(D) < 0.4, examined
        call_update(forgetful, *event)
        if t % 3:
            call_update(other, *event)
        else:
            told_of.append(event)
    for event in told_of[::-1]:
        call_forget(forgetful, *event)
    left, right = (dict(memory(record)) for record in (forgetful, other))
    for field in left:
        name = field.split(".")[-1]
        counts = "looks" in name or "clicks" in name or "rounds" in name
        if field.startswith(("attention.", "posteriors.")):
            continue  # how far people look is not taken back
        if counts or name == "tally":
            assert np.array_equal(left[field], right[field]), field
    if hasattr(other, "posteriors"):  # equal items may lie in another order, which is as good
        assert members(forgetful.posteriors) == members(other.posteriors)
        for field in ("order", "place"):
            left[f"posteriors.groups.{field}"][:] = right[f"posteriors.groups.{field}"]
    lists = np.zeros((2, D), np.int64)
    for seed in range(20):
        for record, ranking in zip((forgetful, other), lists, strict=True):
            call_rank(record, Visit(46), allowed, ranking, np.zeros(D + NOTE_EXTRA), np.random.default_rng(seed))
        assert np.array_equal(*lists)


@pytest.mark.parametrize("name", ["CascadeTS", "SteadyRank"])
def test_what_draws_need_follows_what_is_forgotten(name):
    """Of 60 items most have a length on the line: it is that of their posterior, after each step."""
    learner, rng = make(sr.learners()[name], Problem(60, D), settings={}), np.random.default_rng(5)
    for t in range(1, 46):
        ranking = rng.permutation(60)[:D]
        event = Visit(t), ranking, np.zeros(D + NOTE_EXTRA), rng.random(D) < 0.4, D
        before = members(learner.posteriors)
        call_update(learner, *event)
        if t % 2:
            call_forget(learner, *event)
            assert members(learner.posteriors) == before
        anew, n = deepcopy(learner.posteriors), int(learner.posteriors.groups.size[0])
        derive_all(anew)
        assert (anew.groups.length[:n] > 0).any()
        assert np.array_equal(learner.posteriors.groups.length[:n], anew.groups.length[:n])
        assert np.array_equal(learner.posteriors.groups.miss[:n], anew.groups.miss[:n])


def test_a_late_answer_is_forgotten_as_well():
    """It was counted where it came, after rounds that followed its own: counts are as they were before it."""
    learner, rng = make(sr.learners()["SteadyRank"], Problem(K, D), settings={"window": 10}), np.random.default_rng(7)

    def tell(t, call=call_update, ranking=None):
        ranking = rng.permutation(K)[:D] if ranking is None else ranking
        call(learner, Visit(t), ranking, np.zeros(D + NOTE_EXTRA), np.array([False, True, False]), 2)

    for t in [*range(1, 5), *range(6, 36)]:
        tell(t)
    regimes, known = learner.regimes, members(learner.posteriors)
    fields = regimes.looks, regimes.clicks, regimes.rounds, regimes.tally
    before = [array.copy() for array in fields]
    tell(5, ranking=np.arange(D))
    assert regimes.rounds[0] == 35
    tell(5, call_forget, np.arange(D))
    assert all(np.array_equal(a, b) for a, b in zip(before, fields, strict=True))
    assert members(learner.posteriors) == known


def test_what_was_never_learnt_is_not_forgotten():
    """Counts never fall below what they can hold: a guard that takes back too much does no harm."""
    for name in FORGETFUL:
        learner = make(sr.learners()[name], Problem(K, D), settings={})
        before = [array.copy() for _, array in memory(learner)]
        call_forget(learner, Visit(1), np.arange(D), np.zeros(D + NOTE_EXTRA), np.zeros(D, np.bool_), D)
        assert all(np.array_equal(a, b) for a, (field, b) in zip(before, memory(learner), strict=True)
                   if "bounds" not in field)  # fmt: skip


@pytest.mark.interpreted
def test_a_learner_that_cannot_forget_keeps_what_it_learnt():
    forgets, keeps = (sr.simulate(name, ATTRACTION, guard=Watchful, **WORLD) for name in ("CascadeTS", "Random"))
    assert forgets.retracted.sum() == 2 * 100
    assert keeps.retracted.sum() == 0
    assert forgets.refused.sum() == keeps.refused.sum() == 2_000


ITEMS = [f"item {i}" for i in range(8)]


def use(ranker, rounds, start=0):
    lists = []
    for i in range(start, start + rounds):
        shown = ranker.rank(client=i % 3)
        ranker.feedback(shown.id, clicks=[1, 0, 1] if i % 5 == 0 else [0, 0, int(i % 2)])
        lists.append(shown.items)
    return lists


@pytest.mark.parametrize("guard", ["Plausible", "Quota", Watchful])
def test_a_saved_guard_goes_on_bit_for_bit(guard, tmp_path):
    options = {"guard_settings": {"visits": 10, "period": 40}} if guard == "Quota" else {}
    ranker = sr.Ranker(ITEMS, 3, guard=guard, **options)
    use(ranker, 60)
    ranker.add("a new one")
    ranker.save(tmp_path / "a")
    again = sr.Ranker.load(tmp_path / "a", guard=guard if guard is Watchful else None)
    again.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert use(ranker, 60, 60) == use(again, 60, 60)
    for one in (ranker, again):
        one.save(tmp_path / ("a" if one is ranker else "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    refused = {"Plausible": 24, "Quota": 30, Watchful: 60}[guard]  # of Quota: 40 rounds, three clients, ten each
    assert ranker.view().rejected == refused
    assert guard is Watchful or ranker.guard_view().refused == refused


def test_a_ranker_saved_before_there_were_guards_is_refused_by_name(tmp_path):
    ranker = sr.Ranker(ITEMS, 3)
    ranker.save(tmp_path / "new")
    header, arrays = snapshot.unpack((tmp_path / "new").read_bytes(), "new")
    (tmp_path / "old").write_bytes(snapshot.pack(header | {"format": 3}, arrays))
    with pytest.raises(snapshot.UnreadableSnapshot, match="old has format 3, this version reads 6: load it"):
        sr.Ranker.load(tmp_path / "old")


def test_silence_of_a_client_who_is_not_heard_is_not_learnt():
    """Client 0 has used up what Quota admits: its silence counts in plain rates alone, that of client 1 is learnt."""
    clock = [0.0]
    options = {"lifetime": 10.0, "count_unanswered": True, "clock": lambda: clock[0]}
    ranker = sr.Ranker(ITEMS, 3, guard="Quota", guard_settings={"visits": 1}, **options)
    for client, answered in ((0, True), (0, False), (1, False), (0, True)):
        shown = ranker.rank(client=client)
        if answered:
            ranker.feedback(shown.id, clicks=[0, 1, 0])
    clock[0] = 20.0
    ranker.rank()
    view, regimes = ranker.view(), ranker._learner_state.learner.regimes
    assert (view.rounds, view.rejected, ranker.guard_view().refused) == (1, 1, 1)
    assert (regimes.looks.sum(), regimes.untested_looks.sum()) == (3, 3)
    assert sum(item.looks for item in ranker.standings()) == 4 * 3


@pytest.mark.interpreted
def test_cells_without_a_guard_are_named_as_before():
    plain, guarded = Cell("CascadeTS", "synthetic-low"), Cell("CascadeTS", "synthetic-low", guard="Plausible")
    assert not {"guard", "guard_settings"} & set(identity(plain))
    assert identity(guarded)["guard"] == "Plausible"
    assert (plain.who, guarded.who) == ("CascadeTS", "CascadeTS (Plausible)")
    small = {"length": 3, "horizon": 300, "seeds": 1, "marks": 1, "rate": 0.2, "n_items": 20}
    cell = Cell("CascadeTS", "synthetic-low", guard="Quota", guard_settings={"visits": 5}, **small)
    assert cell.who == "CascadeTS (Quota (visits=5))"
    assert run_cell(cell).refused.sum() == 0  # everybody is anonymous


def test_identities_of_an_adversary_are_nobody_elses():
    senders = {"users_settings": {"clients": 50}, "guard": "Quota", "guard_settings": {"visits": 10, "period": 2_000}}
    attack = {"adversary": "FakeUser", "budget": 400, "schedule": "spread"}
    few, fresh = (
        sr.simulate("Random", ATTRACTION, adversary_settings={"bots": bots}, **senders, **attack, **WORLD)
        for bots in (4, 0)
    )
    assert few.visits[:, FALSE].tolist() == few.spent[:, -1].tolist() == [400, 400]
    assert few.refused[:, FALSE].tolist() == [360, 360]  # ten of each of four
    assert fresh.refused[:, FALSE].tolist() == [0, 0]
    assert few.refused[:, MAJORITY].tolist() == fresh.refused[:, MAJORITY].tolist()
    assert FIRST_BOT > 10_000_000
