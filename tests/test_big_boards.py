"""What costs a board as much as it has items: snapshots and pages of its state."""

import numpy as np
import pytest

from steadyrank.live import snapshot
from steadyrank.service.board.savings import _best

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("share", [0.0, 0.01, 0.9])
@pytest.mark.parametrize("shape", [(3, 50_000), (100_001,)])
def test_a_snapshot_holds_what_is_not_zero(share, shape):
    rng = np.random.default_rng(0)
    array = np.zeros(shape, np.int32)
    touched = rng.random(array.size // 1024 + 1) < share
    flat = array.reshape(-1)
    flat[:] = np.repeat(touched, 1024)[: flat.size] * rng.integers(0, 9, flat.size)
    flat[-1] = 7  # in a block that is not full
    kept = {"a": array, "b": np.arange(3.0)}
    content = snapshot.pack({"x": 1}, {name: snapshot.copied(each) for name, each in kept.items()})
    assert (len(content) < array.nbytes // 4) == (share < 0.5)
    assert content == snapshot.pack({"x": 1}, kept)
    header, found = snapshot.unpack(content, "it")
    assert header == {"format": snapshot.FORMAT, "x": 1}
    assert {name: (each.dtype, each.tolist()) for name, each in found.items()} == {
        name: (each.dtype, each.tolist()) for name, each in kept.items()
    }
    assert snapshot.digest({}, found) == snapshot.digest({}, kept)


@pytest.mark.parametrize("values", [1, 3, 40, 100_000])
def test_the_best_of_many_are_those_of_a_stable_sort(values):
    rng = np.random.default_rng(values)
    rates = rng.integers(0, values, 30_000) / values
    slots = np.flatnonzero(rng.random(rates.size) < 0.9)
    for length in (1, 10, 200):
        assert _best(rates, slots, length) == slots[np.argsort(-rates[slots], kind="stable")[:length]].tolist()
