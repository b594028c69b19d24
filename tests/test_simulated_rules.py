"""Simulations under rules: the best list against all lists, and rounds that are those without rules."""

import itertools
import json

import numpy as np
import pytest

import steadyrank as sr
from steadyrank import cli
from steadyrank.core.contract import Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_value
from steadyrank.live.rules import Rules
from steadyrank.simulator.ruled import RuledWorld

pytestmark = pytest.mark.pure

K, LENGTH = 8, 4


def keeps(rules, ranking):
    """Whether a list keeps all rules, slowly and obviously."""
    names = [str(slot) for slot in ranking]
    return (
        all(names[place - 1] == item for item, place in rules.pins.items())
        and not set(names) & set(rules.exclude)
        and all(sum(name in one.items for name in names) <= one.most for one in rules.groups.values())
        and all(sum(name in one.items for name in names) >= one.least for one in rules.include.values())
    )


def best_of_all(users, rules, attraction):
    """What the best of all lists that keep the rules is worth; None if there is none."""
    lists = (np.array(one) for one in itertools.permutations(range(attraction.size), LENGTH))
    values = [call_value(users, Visit(1), one) for one in lists if keeps(rules, one.tolist())]
    return max(values, default=None)


def some_rules(rng, nested):
    """Rules of all kinds; groups and includes that cross, unless they are to be `nested`."""
    items = rng.permutation(K)
    pick = lambda n: [str(k) for k in rng.permutation(K)[:n]]  # noqa: E731
    sets = [[str(k) for k in items[:3]], [str(k) for k in items[3:6]]] if nested else [pick(4), pick(3), pick(4)]
    rules = {"groups": {"a": {"items": sets[0], "most": 1}}, "include": {"b": {"items": sets[1], "least": 1}}}
    if not nested:
        rules["groups"]["c"] = {"items": sets[2], "most": 2}
    if rng.random() < 0.5:
        rules["pins"] = {str(items[6]): int(rng.integers(1, LENGTH + 1))}
    if rng.random() < 0.5:
        rules["exclude"] = [str(items[7])]
    return Rules(**rules)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Cascade", {}),
        ("PositionBased", {"attention": [0.3, 1.0, 0.7, 0.5]}),
        ("Buyers", {}),
        ("Buyers", {"of": "PositionBased"}),
    ],
)
def test_the_best_list_is_the_best_of_all_that_keep_the_rules(name, settings):
    """Eight items, 1,680 lists: always where sets do not cross, and in ten worlds of at most eleven where they do."""
    for nested, worlds in ((True, 6), (False, 11)):
        missed = 0
        for seed in range(worlds):
            rng = np.random.default_rng(seed)
            attraction, rules = rng.uniform(0.0, 0.6, K), some_rules(rng, nested)
            users = make(sr.users()[name], attraction, LENGTH, settings=settings)
            most = best_of_all(users, rules, attraction)
            if most is not None:
                found = RuledWorld(rules, sr.users()[name], settings, attraction, LENGTH)
                assert keeps(rules, found.best.tolist())
                assert found.worth <= most + 1e-9
                missed += found.worth < most - 1e-9
        assert missed <= (not nested)


@pytest.mark.interpreted
def test_rules_that_no_list_breaks_leave_all_rounds_as_they_are():
    attraction = np.random.default_rng(0).uniform(0.0, 0.5, 20)
    buyers = {"users": "Buyers", "users_settings": {"chance": 0.3, "delay": 5.0}, "adversary": "PrefixFlip"}
    world = {"length": 4, "horizon": 120, "seeds": [3], "budget": 30, "guard": "ClientTrust", **buyers}
    free = sr.simulate("SteadyRank", attraction, **world)
    ruled = sr.simulate("SteadyRank", attraction, **world, rules={"groups": {"g": {"items": ["0"], "most": 4}}})
    assert free.final[0] > 0.0
    for name in ("spent", "visits", "refused", "bits_changed", "best_corrupted"):
        assert (getattr(free, name) == getattr(ruled, name)).all(), name
    assert ruled.regret == pytest.approx(free.regret)
    assert ruled.most == pytest.approx(free.most)


@pytest.mark.interpreted
def test_regret_is_against_the_best_list_under_the_same_rules():
    """A list that is pinned from top to bottom has no regret, whatever is in it; a boost counts in it."""
    attraction = np.array([0.8, 0.6, 0.4, 0.2, 0.1])
    pinned = {"pins": {"4": 1, "3": 2}}
    run = sr.simulate("Random", attraction, length=2, horizon=50, seeds=[0], rules=pinned)
    assert run.final[0] == pytest.approx(0.0)
    assert run.most[0] == pytest.approx(50 * (1.0 - 0.9 * 0.8))
    boosted = {"boosts": {"3": 4.0}, "exclude": ["0"]}
    run = sr.simulate("SteadyRank", attraction, length=2, horizon=300, seeds=[0], rules=boosted)
    assert run.most[0] == pytest.approx(300 * (1.0 - 0.2 * 0.4))
    assert 0.0 < run.final[0] < 0.1 * run.most[0]


@pytest.mark.parametrize(
    ("rules", "settings", "words"),
    [
        ({"pins": {"9": 1}}, {}, "unknown item '9'"),
        ({"include": {"new": {"new": True}}}, {}, "no item is new"),
        ({"exclude": ["1"]}, {"users": "DriftingCascade"}, "DriftingCascade do not"),
        ({"exclude": ["1"]}, {"learner": "Oracle"}, "Oracle is not live"),
        ({"pins": {"1": 1}, "exclude": ["1"]}, {}, "contradict"),
        ({"pin": {"1": 1}}, {}, "did you mean 'pins'"),
    ],
)
def test_what_cannot_be_simulated_is_refused(rules, settings, words):
    given = {"learner": "Random", "length": 2, "horizon": 10, "seeds": [0], **settings}
    with pytest.raises((ValueError, sr.Refused), match=words):
        sr.simulate(attraction=np.full(5, 0.3), rules=rules, **given)


def test_the_command_line_reads_rules_from_a_file(tmp_path, capsys):
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"pins": {"0": 1}, "exclude": ["1"]}))
    world = ["--profile", "synthetic-spread", "--length", "3", "--horizon", "60", "--seeds", "1"]
    assert cli.main(["simulate", "Random", *world, "--rules", str(file)]) == 0
    assert "Random" in capsys.readouterr().out
    file.write_text("[]")
    assert cli.main(["simulate", "Random", *world, "--rules", str(file)]) == 2
    assert "must hold an object" in capsys.readouterr().err
