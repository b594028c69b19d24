import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import Visit

pytestmark = pytest.mark.pure

CASCADE, DRIFTING = sr.users()["Cascade"], sr.users()["DriftingCascade"]


def test_cascade_by_hand():
    """Attractions 1, 0, 1: shown as items 1, 2, 0 the user skips item 1 and clicks item 2, the second."""
    crowd = CASCADE.create(np.array([1.0, 0.0, 1.0]), 3)
    clicks = np.zeros(3, np.bool_)
    assert crowd.click(Visit(1), np.array([1, 2, 0]), clicks, np.random.default_rng(0)) == 2
    assert clicks.tolist() == [False, True, True]  # the would-be bit of every position
    nobody = CASCADE.create(np.zeros(3), 2)
    assert nobody.click(Visit(1), np.array([0, 1]), clicks[:2], np.random.default_rng(0)) == 2
    assert not clicks[:2].any()


def test_semi_bandit_by_hand():
    """Attractions 1, 0, 1: shown as items 1, 2, 0 both others are clicked and all three reported."""
    crowd, cascade = (sr.users()[name].create(np.array([1.0, 0.0, 1.0]), 3) for name in ("SemiBandit", "Cascade"))
    clicks, ranking = np.zeros(3, np.bool_), np.array([1, 2, 0])
    assert crowd.click(Visit(1), ranking, clicks, np.random.default_rng(0)) == 3
    assert clicks.tolist() == [False, True, True]
    assert crowd.reach(clicks, 3) == 3
    assert crowd.value(Visit(1), ranking[:1]) == cascade.value(Visit(1), ranking[:1]) == 0.0


def test_semi_bandit_users_meet_the_luck_of_cascade_users():
    """The same bits in each round, and the same worth of a list: 1 - 0.6 * 0.9 of items 0.4 and 0.1."""
    attraction, ranking = np.array([0.4, 0.1, 0.7]), np.array([0, 1])
    crowds = [sr.users()[name].create(attraction, 2) for name in ("SemiBandit", "Cascade")]
    rngs, bits = [np.random.default_rng(3) for _ in crowds], np.zeros((2, 2), np.bool_)
    for t in range(200):
        reached = [c.click(Visit(t), ranking, bits[i], rngs[i]) for i, c in enumerate(crowds)]
        assert bits[0].tolist() == bits[1].tolist()
        assert reached == [2, 1 if bits[0, 0] else 2]
    assert [c.value(Visit(1), ranking) for c in crowds] == pytest.approx([0.46, 0.46])
    best = np.zeros(2, np.int64)
    crowds[0].best(Visit(1), best)
    assert best.tolist() == [2, 0]


def test_click_rates_are_the_attractions():
    """20,000 visits to one item of attraction 0.3: within 4 standard errors."""
    crowd, rng, clicks = CASCADE.create(np.array([0.3, 0.9]), 1), np.random.default_rng(1), np.zeros(1, np.bool_)
    total = 0
    for t in range(20_000):
        crowd.click(Visit(t), np.array([0]), clicks, rng)
        total += clicks[0]
    assert total / 20_000 == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 20_000))


def test_best_list_and_value():
    crowd = CASCADE.create(np.array([0.1, 0.5, 0.4, 0.2]), 2)
    best = np.zeros(2, np.int64)
    crowd.best(Visit(1), best)
    assert best.tolist() == [1, 2]
    assert crowd.value(Visit(1), best) == pytest.approx(1 - 0.5 * 0.6)


def now(crowd, t, item):
    return crowd.value(Visit(t), np.array([item]))


def test_slow_drift_moves_each_item_by_up_to_the_amount():
    attraction = np.linspace(0.2, 0.8, 50)
    crowd = DRIFTING.create(attraction, 5, pattern="slow", amount=0.1, span=1000)
    moved = np.array([now(crowd, 1000, k) for k in range(50)]) - attraction
    assert 0.05 < np.abs(moved).max() <= 0.1
    half = np.array([now(crowd, 500, k) for k in range(50)]) - attraction
    assert half == pytest.approx(moved / 2)
    assert now(crowd, 5000, 7) == now(crowd, 1000, 7)


def test_jump_trades_the_best_items():
    attraction = np.linspace(0.1, 0.9, 30)
    crowd = DRIFTING.create(attraction, 5, pattern="jump", span=100)
    before, after = np.zeros(5, np.int64), np.zeros(5, np.int64)
    crowd.best(Visit(100), before)
    crowd.best(Visit(101), after)
    assert before.tolist() == [29, 28, 27, 26, 25]
    assert not set(before) & set(after)
    assert sorted(now(crowd, 101, k) for k in range(30)) == pytest.approx(attraction)


def test_daily_cycle_returns():
    crowd = DRIFTING.create(np.full(10, 0.5), 3, pattern="daily", amount=0.2, span=24)
    assert now(crowd, 24, 3) == pytest.approx(0.5)
    assert now(crowd, 12, 3) == pytest.approx(now(crowd, 36, 3))
    assert abs(now(crowd, 12, 3) - 0.5) > 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pattern": "weekly"}, "pattern must be one of 'slow', 'jump', 'daily', not 'weekly'"),
        ({"amount": 1.5}, "amount must be a finite number from 0.0 to 1.0, not 1.5"),
        ({"span": 0}, "span must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        DRIFTING.create(np.full(10, 0.5), 3, **settings)
