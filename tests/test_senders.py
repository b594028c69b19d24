"""Simulated senders: who comes how often, and what each of them likes."""

import itertools

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_best, call_value
from steadyrank.core.rounds import FIRST_BOT, MAJORITY, MINORITY
from steadyrank.users import senders as senders_of
from steadyrank.users.senders import Senders, attracts, draw_client, group_of_client, liked_by, seen_as

pytestmark = pytest.mark.pure

ATTRACTION = np.linspace(0.05, 0.6, 30)


def test_clients_come_by_a_zipf_law():
    """Chances fall as 1, 2^-0.8, 3^-0.8 ...: counts of 20,000 arrivals within five standard errors."""
    senders, rng = Senders.create(5, 6, 0.8, 0.0, 1, 0.3), np.random.default_rng(1)
    counts = np.bincount([draw_client(senders, rng) for _ in range(20_000)], minlength=6)
    chance = np.arange(1, 7) ** -0.8
    chance /= chance.sum()
    assert counts.size == 6
    assert (np.abs(counts - 20_000 * chance) < 5 * np.sqrt(20_000 * chance)).all()


def test_anonymous_visits_draw_nothing():
    senders, rng = Senders.create(5, 0, 0.8, 0.0, 1, 0.3), np.random.default_rng(1)
    before = rng.bit_generator.state
    assert draw_client(senders, rng) == -1
    assert rng.bit_generator.state == before


def test_a_clients_taste_is_its_own_and_stays():
    """Logits of 4,000 clients: the crowd's plus 0.7 times a standard normal number, within four standard errors."""
    senders = Senders.create(5, 4_000, 0.8, 0.7, 1, 0.3)
    chances = np.array([[liked_by(senders, c, k, 0.3) for k in (0, 1)] for c in range(4_000)])
    shifts = (np.log(chances / (1 - chances)) - np.log(0.3 / 0.7)) / 0.7
    assert np.abs(shifts.mean(0)).max() < 4 / np.sqrt(4_000)
    assert np.abs(shifts.std(0) - 1).max() < 4 / np.sqrt(8_000)
    assert abs(np.corrcoef(shifts.T)[0, 1]) < 4 / np.sqrt(4_000)
    assert liked_by(senders, 3, 1, 0.3) == chances[3, 1]
    assert [liked_by(senders, 3, 1, chance) for chance in (0.0, 1.0)] == [0.0, 1.0]
    assert liked_by(senders, -1, 1, 0.3) == 0.3
    average = senders.average(np.array([0.0, 0.3, 1.0]))
    assert average[[0, 2]].tolist() == pytest.approx([0.0, 1.0])
    assert average[1] == pytest.approx(chances[:, 1] @ np.diff(senders.upto, prepend=0.0))


def test_more_clients_than_can_be_looked_at_are_as_good_as_their_law(monkeypatch):
    """40,000 clients, all alike in how often they come: within four standard errors of the mean over each of them."""
    senders = Senders.create(1, 40_000, 0.0, 0.7, 1, 0.3)
    exact = senders.average(np.array([0.3]))[0]
    spread = senders.chances(np.array([0.3])).std()
    monkeypatch.setattr(senders_of, "MOST_CHANCES", 1_000)
    assert senders.chances(np.array([0.3])).shape == (1, 0)
    assert senders.average(np.array([0.3]))[0] == pytest.approx(exact, abs=4 * spread / 200)


def test_a_second_taste_likes_other_items_as_much():
    senders = Senders.create(30, 500, 0.8, 0.0, 2, 0.3)
    minor = [c for c in range(500) if group_of_client(senders, c) == 1]
    assert 0.2 < len(minor) / 500 < 0.4
    assert seen_as(senders, minor[0], 7) == senders.other[7]
    assert [group_of_client(senders, client) for client in (-1, 500, FIRST_BOT)] == [0, 0, 0]
    average = senders.average(ATTRACTION)
    assert average == pytest.approx((1 - senders.weight) * ATTRACTION + senders.weight * ATTRACTION[senders.other])


def worth(name, users, chances):
    """What a list is worth to one client whom its items attract with these chances, by its definition."""
    if name == "Cascade":
        return 1 - np.prod(1 - chances)
    if name == "PositionBased":
        return (users.attention * chances).sum()
    if name == "DependentClick":
        return 1 - np.prod(1 - (1 - users.onward) * chances)
    if name == "Abandoning":
        return sum(np.prod(users.stay[: p + 1]) * np.prod(1 - chances[:p]) * chances[p] for p in range(len(chances)))
    total = 0.0
    for bits in itertools.product([0, 1], repeat=len(chances)):  # UserBrowsing: over all that may happen
        chance, last = 1.0, 0
        for p, bit in enumerate(bits):
            click = users.attention[p, p - last] * chances[p]
            chance *= click if bit else 1 - click
            last = p + 1 if bit else last
        total += chance * sum(bits)
    return total


@pytest.mark.parametrize("name", ["Cascade", "PositionBased", "DependentClick", "Abandoning", "UserBrowsing"])
def test_the_best_list_is_that_of_the_clients_there_are(name):
    """Seven items, lists of three, one to six clients: values by hand, and the best list by trying all 210."""
    moved = 0
    for seed in range(8, 16):
        rng = np.random.default_rng(seed)
        attraction = rng.uniform(0.0, 0.7, 7)
        given = {
            "clients": int(rng.integers(1, 7)),
            "taste": float(rng.choice([0.7, 2.0, 3.0])),
            "tastes": int(rng.integers(1, 3)),
            "skew": float(rng.choice([0.0, 0.8])),
        }
        users = make(sr.users()[name], attraction, 3, settings=given)
        share = np.diff(users.senders.upto, prepend=0.0)
        likes = np.array([[attracts(users.senders, attraction, c, k) for c in range(share.size)] for k in range(7)])
        lists = [np.array(one) for one in itertools.permutations(range(7), 3)]
        true = np.array(
            [sum(w * worth(name, users, x) for w, x in zip(share, likes[one].T, strict=True)) for one in lists]
        )
        visit, best = Visit(1, 0), np.zeros(3, np.int64)
        found = np.array([call_value(users, visit, one) for one in lists])
        assert found == pytest.approx(true, abs=1e-12)
        call_best(users, visit, best)
        most = call_value(users, visit, best)
        assert most == pytest.approx(true.max(), abs=1e-12)
        assert (most - found).min() >= -1e-12  # regret is never below 0
        moved += set(best.tolist()) != set(np.argsort(-users.average)[:3].tolist())
    assert moved > 0 or name == "PositionBased"  # the items that are liked most are not always the best list


def test_no_list_shown_is_worth_more_than_the_best_one():
    """Random lists, and those of a learner that finds good ones; ten clients on 30 items."""
    for learner in ("Random", "CascadeTS"):
        run = sr.simulate(
            learner,
            ATTRACTION,
            length=4,
            horizon=3_000,
            seeds=[1],
            marks=range(1, 3_001),
            users_settings={"clients": 10, "taste": 0.7},
        )
        assert np.diff(run.regret[0], prepend=0.0).min() >= -1e-12
    assert run.final[0] < 0.3 * 3_000


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["Cascade", "DriftingCascade"])
def test_senders_that_agree_change_no_number(name):
    """The same regrets as those of anonymous users: arrivals have a stream of their own."""
    world = {"length": 4, "horizon": 400, "seeds": [3], "users": name}
    plain, sent = (
        sr.simulate("CascadeTS", ATTRACTION, users_settings=given, **world) for given in ({}, {"clients": 20})
    )
    assert np.array_equal(plain.regret, sent.regret)


@pytest.mark.parametrize("name", sr.users())
def test_senders_that_agree_click_as_anonymous_users_do(name):
    """The same bits, and the same worth of each list, whoever comes."""
    crowds = [make(sr.users()[name], ATTRACTION, 4, settings=given) for given in ({}, {"clients": 20})]
    rngs, items, door = [np.random.default_rng(2) for _ in crowds], np.random.default_rng(3), np.random.default_rng(4)
    for t in range(1, 200):
        ranking, bits = items.permutation(30)[:4], np.zeros((2, 4), np.bool_)
        visits = [Visit(t, crowd.arrive(t, np.zeros(0), door)) for crowd in crowds]
        assert visits[0].client == -1 < visits[1].client < 20
        reached = [crowds[i].click(visits[i], ranking, bits[i], rngs[i]) for i in range(2)]
        assert reached[0] == reached[1]
        assert bits[0].tolist() == bits[1].tolist()
        assert crowds[0].value(visits[0], ranking) == crowds[1].value(visits[1], ranking)


def test_visits_of_a_minority_are_counted():
    run = sr.simulate(
        "Random", ATTRACTION, length=4, horizon=2_000, seeds=[1], users_settings={"clients": 300, "tastes": 2}
    )
    crowd = make(sr.users()["Cascade"], ATTRACTION, 4, settings={"clients": 300, "tastes": 2})
    share = run.visits[0, MINORITY] / run.visits[0, [MAJORITY, MINORITY]].sum()
    assert share == pytest.approx(crowd.senders.weight, abs=0.05)
    assert run.minority_refused == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clients": -1}, "clients must be a whole number from 0 to 10000000, not -1"),
        ({"clients": 5, "skew": 9}, "skew must be a finite number from 0.0 to 4.0, not 9"),
        ({"clients": 5, "tastes": 3}, "tastes must be a whole number from 1 to 2, not 3"),
        ({"clients": 5, "tastes": 2, "minority": 0.7}, "minority must be a finite number from 0.0 to 0.5, not 0.7"),
        ({"taste": 0.7}, "taste=0.7 and tastes=1 are of clients: clients must be at least 1, not 0"),
    ],
)
def test_bad_settings_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        make(sr.users()["Cascade"], ATTRACTION, 3, settings=change)


PROBLEM = Problem(4, 2, 100, 100, np.array([0.9, 0.6, 0.2, 0.1]))


def turn(name, rounds, **settings):
    """What an adversary reports of visits in which the user clicked the first place of items 0 and 1."""
    crowd = make(sr.users()["Cascade"], PROBLEM.attraction, 2, settings={})
    foe = make(sr.adversaries()[name], PROBLEM, crowd, 100, settings=settings)
    rng, told = np.random.default_rng(2), []
    for t in range(1, rounds + 1):
        clicks = np.array([True, False])
        spent, examined, client = foe.corrupt(Visit(t, 5), np.arange(2), clicks, 1, rng)
        told.append((spent, client, clicks[:examined].tolist()))
    return told


def test_a_sleeper_is_honest_for_its_first_visits():
    """One identity: ten visits as the user made them, paid for all the same; then another taste."""
    told = turn("Sleeper", 60, bots=1, honest=10)
    assert told[:10] == [(1.0, FIRST_BOT, [True])] * 10
    assert {client for _, client, _ in told} == {FIRST_BOT}
    assert sum(bits[0] for _, _, bits in told[10:]) < 15  # of 50: a click with chance 0.1


def test_a_chameleon_lies_until_its_record_speaks_against_it():
    """A visit without a click on items of 0.9 and 0.6, which the other taste gives 0.1 and 0.2, is worth
    log(0.9 / 0.1) + log(0.8 / 0.4) nats; one with a click on the first, log(0.1 / 0.9)."""
    told = turn("Chameleon", 100, bots=1)
    record, lies = 0.0, 0
    for _, client, bits in told:
        assert client == FIRST_BOT
        if record > 0.0:
            assert bits == [True]  # as the user did
        lies += bits != [True]
        record += np.log(1 / 9) if bits[0] else np.log(9) + (np.log(2) if not bits[1] else np.log(0.2 / 0.6))
        assert record < np.log(18) + 1e-9
    assert 20 < lies < 60
