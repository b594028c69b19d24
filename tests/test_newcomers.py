"""Who may be shown, kept from event to event, against what the arrays say."""

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.live.newcomers import NEW_LOOKS, Newcomers

pytestmark = pytest.mark.pure

N = 9_000  # slots: some blocks


def newcomers(rng, added=0.5):
    active, new, looks = rng.random(N) < 0.8, rng.random(N) < added, rng.integers(0, 2 * NEW_LOOKS, N)
    return Newcomers(active, new, looks), active, new, looks


def test_what_is_kept_is_what_the_arrays_say_after_any_events():
    rng = np.random.default_rng(0)
    kept, active, added, looks = newcomers(rng)
    for _ in range(3_000):
        kept.switch(int(rng.integers(N)), bool(rng.random() < 0.5))
        kept.count_looks(rng.choice(N, 10, replace=False))
    new = active & added & (looks < NEW_LOOKS)
    assert (kept.active, kept.size) == (np.count_nonzero(active), np.count_nonzero(new))
    assert kept.known.tolist() == (active & ~new).tolist()
    again = Newcomers(active, added, looks)
    assert again._counts.tolist() == kept._counts.tolist()


def test_those_looked_at_least_have_their_turn_and_equals_the_same_chance():
    """Chi-square of 60 equal items over 6,000 turns: the mean is 59, and 120 lies 5.6 standard deviations above."""
    rng = np.random.default_rng(1)
    kept, active, added, looks = newcomers(rng, 0.0)
    few, many = np.arange(0, N, 150), np.arange(7, N, 100)
    active[few] = active[many] = added[few] = added[many] = True
    looks[few], looks[many] = 3, 5
    kept = Newcomers(active, added, looks)
    drawn = np.concatenate([kept.draw(2, rng) for _ in range(3_000)])
    shares = np.array([np.count_nonzero(drawn == slot) for slot in few])
    assert shares.sum() == drawn.size
    assert ((shares - 100.0) ** 2 / 100.0).sum() < 120
    every = kept.draw(few.size + 5, rng)
    assert set(every[: few.size]) == set(few.tolist())
    assert set(every[few.size :]) < set(many.tolist())
    assert len(kept.draw(N, rng)) == few.size + many.size


@pytest.mark.parametrize("looked", [False, True])
def test_items_added_before_anybody_looked_are_no_newcomers(looked):
    """A catalogue may come in parts: its later parts must not be kept back."""
    ranker = sr.Ranker([f"first {k}" for k in range(6)], 4, "CascadeTS")
    if looked:
        ranker.feedback(ranker.rank().id, clicked=None)
    for k in range(600):
        ranker.add(f"later {k}")
    items = [item for _ in range(20) for item in ranker.rank().items]
    assert (sum(item.startswith("later") for item in items) > 40) == (not looked)
