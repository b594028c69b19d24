import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.contract import Problem, make
from steadyrank.schedules import SCHEDULES, active_rounds

ADVERSARIES = sr.adversaries()


def test_prefix_flip_by_hand():
    """Seen 0,0,1: becomes 1,1,0 with the same three positions examined; the fourth was never seen."""
    foe = make(ADVERSARIES["PrefixFlip"], Problem(9, 4, 10), None, 2, settings={})
    clicks = np.array([False, False, True, True])
    assert foe.corrupt(1, np.arange(4), clicks, 3, None) == (1.0, 3)
    assert clicks[:3].tolist() == [True, True, False]
    none = np.zeros(4, np.bool_)
    assert foe.corrupt(2, np.arange(4), none, 4, None) == (1.0, 4)
    assert none.all()
    assert foe.corrupt(3, np.arange(4), none, 4, None) == (0.0, 4)  # spent
    assert none.all()


def test_attraction_flip_by_hand():
    """Would-be bits 0,0,1,1 become 1,1,0,0: the user now clicks at once. 1,1,0,1 become 0,0,1,0: the third."""
    foe = make(ADVERSARIES["AttractionFlip"], Problem(9, 4, 10), None, 2, settings={})
    clicks = np.array([False, False, True, True])
    assert foe.corrupt(1, np.arange(4), clicks, 3, None) == (1.0, 1)
    assert clicks[0]
    clicks = np.array([True, True, False, True])
    assert foe.corrupt(2, np.arange(4), clicks, 1, None) == (1.0, 3)
    assert clicks[:3].tolist() == [False, False, True]


def test_honest_spends_nothing():
    foe = make(ADVERSARIES["Honest"], Problem(9, 4, 10), None, 10, settings={})
    clicks = np.array([False, True])
    assert foe.corrupt(1, np.arange(2), clicks, 2, None) == (0.0, 2)
    assert clicks.tolist() == [False, True]


horizons = st.integers(1, 400)


@given(st.sampled_from(SCHEDULES), horizons, st.data(), st.integers(0, 50))
def test_schedules_name_exactly_the_budget(schedule, horizon, data, seed):
    budget = data.draw(st.integers(0, horizon))
    bursts = data.draw(st.integers(1, horizon))
    active = active_rounds(schedule, horizon, budget, seed, n_bursts=bursts)
    assert active.size == horizon + 1
    assert not active[0]
    assert active.sum() == (budget if schedule != "front" else horizon * (budget > 0))
    assert np.array_equal(active, active_rounds(schedule, horizon, budget, seed, n_bursts=bursts))


def rounds(schedule, horizon, budget, **settings):
    return np.flatnonzero(active_rounds(schedule, horizon, budget, 0, **settings)).tolist()


def test_schedules_by_hand():
    assert rounds("late", 20, 4) == [11, 12, 13, 14]
    assert rounds("late", 20, 15) == list(range(6, 21))
    assert rounds("bursts", 20, 4, n_bursts=2) == [1, 2, 11, 12]
    assert rounds("bursts", 40, 6, n_bursts=4) == [1, 2, 11, 12, 21, 31]


def test_spread_is_even_and_ramp_comes_early():
    """10,000 rounds, 1,000 corrupted: halves of `spread` within 4 standard deviations, `ramp` crowds the start."""
    spread, ramp = (np.array(rounds(s, 10_000, 1000)) for s in ("spread", "ramp"))
    assert (spread <= 5000).sum() == pytest.approx(500, abs=4 * np.sqrt(1000 * 0.25))
    assert (ramp <= 2000).sum() > 550
    early, late = (ramp <= 1000).sum(), (ramp > 9000).sum()
    assert early > 10 * late


@given(
    st.sampled_from(sorted(ADVERSARIES)), st.sampled_from(SCHEDULES), st.integers(1, 60), st.data(),
    st.integers(0, 1000),
)  # fmt: skip
def test_budgets_are_exact(name, schedule, horizon, data, seed):
    """What is spent is what was changed, never more than the budget; these adversaries use all of it."""
    budget = data.draw(st.integers(0, horizon))
    foe = make(ADVERSARIES[name], Problem(8, 3, horizon, seed=seed), None, budget, settings={"schedule": schedule})
    rng = np.random.default_rng(seed)
    spent = 0.0
    for t in range(1, horizon + 1):
        bits = rng.random(3) < 0.4
        examined = int(np.argmax(bits)) + 1 if bits.any() else 3
        before = bits[:examined].tolist()
        paid, seen = foe.corrupt(t, np.arange(3), bits, examined, rng)
        assert paid == float(bits[:seen].tolist() != before)
        spent += paid
    assert spent == (0 if name == "Honest" else budget)


@pytest.mark.parametrize("name", sorted(set(ADVERSARIES) - {"Honest"}))
def test_unknown_schedule_and_too_many_bursts(name):
    for settings, message in [
        ({"schedule": "weekly"}, "schedule must be one of 'front', 'spread', 'late', 'bursts', 'ramp', not 'weekly'"),
        ({"schedule": "bursts", "n_bursts": 0}, "n_bursts must be a whole number of at least 1, not 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(ADVERSARIES[name], Problem(9, 4, 10), None, 2, settings=settings)
