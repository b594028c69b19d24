"""Users whose clicks lead to something: hand-worked numbers, best lists against all lists, and what learners hear."""

import contextlib
import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from interpreted import check
from steadyrank import cli
from steadyrank.core.contract import Visit
from steadyrank.core.rounds import Ledger, take_outcomes_back, tell_outcomes
from steadyrank.users.buyers import by_value_of_click

pytestmark = pytest.mark.pure

BUYERS = sr.users()["Buyers"]
ABLE = ["Abandoning", "Cascade", "DependentClick", "PositionBased", "SemiBandit", "UserBrowsing"]
SHARES = st.floats(0.0, 1.0, allow_subnormal=False)


def worth_of_scan(attraction, worth, ranking):
    """To users who leave with their first click."""
    total, here = 0.0, 1.0
    for k in ranking:
        total += here * attraction[k] * worth[k]
        here *= 1.0 - attraction[k]
    return total


def lists(n_items, length):
    return [np.array(chosen) for chosen in itertools.permutations(range(n_items), length)]


def test_a_list_by_hand():
    """Attractions 0.5, 0.2, 0.8, clicks worth 1, 5 and 0.5.

    Scanned as items 0, 1, 2: 0.5 + 0.5 x 0.2 x 5 + 0.5 x 0.8 x 0.8 x 0.5 = 1.16. Best: by value a click, 1, 0, 2:
    1 + 0.8 x 0.5 + 0.4 x 0.8 x 0.5 = 1.56. The best list of two is 1, 0 with 1.4; by clicks it would be 2, 0.
    """
    settings = {"bought": [0.5, 0.5, 0.1], "price": [2.0, 10.0, 5.0]}
    crowd = BUYERS.create(np.array([0.5, 0.2, 0.8]), 3, **settings)
    assert crowd.worth.tolist() == [1.0, 5.0, 0.5]
    assert crowd.value(Visit(1), np.array([0, 1, 2])) == pytest.approx(1.16)
    best = np.zeros(3, np.int64)
    crowd.best(Visit(1), best)
    assert best.tolist() == [1, 0, 2]
    assert crowd.value(Visit(1), best) == pytest.approx(1.56)
    assert BUYERS.create(np.array([0.5, 0.2, 0.8]), 2, **settings).favourites.tolist() == [1, 0]


def test_users_of_places_want_what_a_look_is_worth():
    """Attention 1 and 0.5: items by attraction times value, 0.4, 1 and 0.5; 1 + 0.5 x 0.5 = 1.25."""
    given_places = {"of": "PositionBased", "given": {"attention": [1.0, 0.5]}}
    settings = {"bought": [1.0] * 3, "price": [0.8, 5.0, 0.625], **given_places}
    crowd = BUYERS.create(np.array([0.5, 0.2, 0.8]), 2, **settings)
    assert crowd.favourites.tolist() == [1, 2]
    assert crowd.value(Visit(1), crowd.favourites) == pytest.approx(1.25)


@given(st.lists(st.tuples(SHARES, st.floats(0.0, 100.0)), min_size=3, max_size=6), st.integers(1, 4))
def test_the_dynamic_programme_finds_the_best_of_all_lists(items, length):
    attraction, worth = (np.array(column) for column in zip(*items, strict=True))
    length = min(length, len(items))
    found = by_value_of_click(attraction, worth, length)
    most = max(worth_of_scan(attraction, worth, ranking) for ranking in lists(len(items), length))
    assert len(set(found.tolist())) == length
    assert worth_of_scan(attraction, worth, found) == pytest.approx(most, rel=1e-9, abs=1e-12)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ABLE)
def test_best_lists_are_the_best_of_all(name):
    """Twelve worlds of six items and lists of three."""
    for seed in range(12):
        attraction = np.random.default_rng(seed).uniform(0.0, 0.9, 6)
        crowd = BUYERS.create(attraction, 3, of=name, chance=0.3, spread=1.0, seed=seed)
        most = max(crowd.value(Visit(1), ranking) for ranking in lists(6, 3))
        assert crowd.value(Visit(1), crowd.favourites) == pytest.approx(most, rel=1e-12), seed


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ABLE)
def test_what_is_expected_is_what_happens(name):
    """Clicks by place in 4,000 visits against `expect`, within four standard errors."""
    attraction = np.array([0.6, 0.3, 0.8, 0.5])
    crowd = sr.users()[name].create(attraction, 3)
    ranking, chances, rng = np.array([0, 2, 1]), np.zeros(3), np.random.default_rng(1)
    crowd.expect(Visit(1), ranking, chances)
    clicks, total, n = np.zeros(3, np.bool_), np.zeros(3), 4_000
    for t in range(n):
        examined = crowd.click(Visit(t), ranking, clicks, rng)
        total[:examined] += clicks[:examined]
    assert np.abs(total / n - chances).max() < 4 * np.sqrt(0.25 / n)


@pytest.mark.interpreted
def test_what_is_bought_has_the_mean_the_delay_and_the_losses_that_were_set():
    """30,000 clicks, chance 0.4 of a value of 3 with a log-normal tail, a fifth lost, 50 rounds late on average."""
    settings = {"bought": [0.4, 0.0], "price": [3.0, 1.0], "tail": 0.5, "delay": 50.0, "lost": 0.2}
    crowd = BUYERS.create(np.array([0.5, 0.5]), 1, **settings)
    rng, values, delays, seen, late = np.random.default_rng(2), np.zeros(1), np.zeros(1), [], []
    for t in range(30_000):
        crowd.buy(Visit(t), np.array([0]), np.ones(1, np.bool_), 1, values, delays, rng)
        seen.append(values[0])
        late += [delays[0]] if values[0] > 0 else []
    seen, late = np.array(seen), np.array(late)
    assert (seen > 0).mean() == pytest.approx(0.4 * 0.8, abs=4 * np.sqrt(0.32 * 0.68 / 30_000))
    assert seen[seen > 0].mean() == pytest.approx(3.0, rel=4 * np.sqrt(np.expm1(0.25) / late.size))
    assert late.mean() == pytest.approx(50.0, rel=4 / np.sqrt(late.size))
    crowd.buy(Visit(1), np.array([0]), np.zeros(1, np.bool_), 1, values, delays, rng)
    assert values[0] == 0.0  # nothing was clicked


def test_values_go_with_attractions_as_far_as_was_asked():
    """400 items: the logarithm's standard deviation, and its rank correlation with attractions."""
    attraction = np.random.default_rng(1).uniform(0.0, 0.6, 400)
    for alike in (-0.7, 0.0, 0.7, 1.0):
        logs = np.log(BUYERS.create(attraction, 2, spread=0.8, alike=alike, chance=0.01).worth)
        ranks = np.argsort(np.argsort(attraction))
        assert logs.std() == pytest.approx(0.8, rel=0.15)
        assert np.corrcoef(ranks, logs)[0, 1] == pytest.approx(alike, abs=0.12)
    equal = BUYERS.create(attraction, 2, spread=0.0, chance=0.05)
    assert equal.worth == pytest.approx(np.full(400, 0.05))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"of": "Noisy"}, "Cascade, DependentClick"),
        ({"of": "Cascade", "given": [1]}, "dictionary"),
        ({"chance": 0.0}, "chance"),
        ({"alike": 1.5}, "-1.0 to 1.0"),
        ({"bought": [0.1, 0.2]}, "3 numbers"),
        ({"price": [1.0, -1.0, 2.0]}, "price"),
        ({"lost": 2.0}, "lost"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, named):
    with pytest.raises(ValueError, match=named):
        BUYERS.create(np.array([0.5, 0.2, 0.8]), 2, **settings)


class Heard:
    """A learner or a guard that writes down what it is told of outcomes."""

    def __init__(self):
        self.told = []

    def outcome(self, item, shown, t, before, after):
        self.told.append((item, shown, t, before, after))


class Script:
    """Users whose clicks are worth what is written for a round, and known so many rounds later."""

    def __init__(self, values):
        self.values = values

    def buy(self, visit, ranking, clicks, examined, values, delays, rng):
        for p, (value, delay) in enumerate(self.values.get(visit.t, [(0.0, 0.0)] * 2)):
            values[p], delays[p] = value, delay


@pytest.mark.interpreted
def test_outcomes_become_known_when_they_do():
    """A click of round 1 is worth 5, known in round 3; one of round 2 worth 7 at once; nothing comes of false ones.

    What the learner was not told of, the visit of round 2, it hears nothing of. When round 1 is forgotten so is what
    came of it.
    """
    users = Script({1: [(5.0, 2.9), (1.0, 0.0)], 2: [(0.0, 0.0), (7.0, 0.0)], 3: [(4.0, 0.0), (4.0, 0.0)]})
    users.values[4] = [(6.0, 0.0), (3.0, 100.0)]
    learner, guard, ledger = Heard(), Heard(), Ledger.create(5, 2)
    bits = {1: [True, False], 2: [False, True], 3: [True, True], 4: [True, True]}
    for t in range(1, 5):
        ranking, clicks = np.array([t % 4, (t + 1) % 4]), np.array(bits[t])
        tell_outcomes(learner, guard, users, ledger, Visit(t), ranking, clicks, 2, t != 2, t == 3, None)
    assert learner.told == [(1, 1, 3, 0.0, 5.0), (0, 4, 4, 0.0, 6.0)]
    assert guard.told == [(3, 2, 2, 0.0, 7.0), *learner.told]  # guards hear of visits that they refused
    assert ledger.tally.tolist() == [3, 3]
    take_outcomes_back(learner, ledger, 1, np.array([1, 2]))
    take_outcomes_back(learner, ledger, 2, np.array([2, 3]))
    assert learner.told[2:] == [(1, 1, 1, 5.0, 0.0)]


@pytest.mark.interpreted
def test_a_learner_with_outcomes_keeps_the_contract():
    check("check_learner", sr.learners()["SteadyRank"], goal="value", window=5)


@pytest.mark.interpreted
def test_the_command_says_what_lists_were_worth():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        options = ["--profile", "synthetic-mid", "--length", "3", "--horizon", "40", "--seeds", "2", "--threads", "1"]
        assert cli.main(["simulate", "Random", "--users", "Buyers:chance=0.5", *options]) == 0
        assert cli.main(["simulate", "Random", *options]) == 0
    run = sr.simulate(
        "Random",
        sr.profile("synthetic-mid").attraction,
        length=3,
        horizon=40,
        users="Buyers",
        users_settings={"chance": 0.5},
        seeds=range(2),
        threads=1,
    )
    _, titles, _, first, _, others, *_ = out.getvalue().splitlines()
    assert "worth of the best lists" in titles
    assert f"{run.worth.mean():.1%}" in first
    assert "worth" not in others
