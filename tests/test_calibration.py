import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import references
from steadyrank.learners.median import calibration as c

pytestmark = pytest.mark.pure

blocks = st.integers(0, 150).map(lambda i: 2 * i + 1)


@given(blocks, st.floats(0.0, 1.0))
def test_majority_is_the_binomial_tail(b, p):
    assert c.majority(b, p) == pytest.approx(references.majority(b, p), abs=1e-9, rel=1e-9)


def test_majority_by_hand():
    """b = 3: 3 p^2 (1 - p) + p^3 = 0.648 at p = 0.6; b = 5 at 0.5: 1/2."""
    assert c.majority(3, 0.6) == pytest.approx(0.648, abs=1e-15)
    assert c.majority(5, 0.5) == pytest.approx(0.5, abs=1e-14)


@given(blocks, st.just(0.0) | st.floats(1e-300, 1.0))
def test_calibrate_is_the_exact_inverse(b, y):
    assert c.calibrate(b, y) == pytest.approx(references.calibrate(b, y), abs=1e-9)
    z = 1.0 - y  # 1 - z has lost what y had beyond 1e-16
    assert c.calibrate(b, z) == pytest.approx(1.0 - c.calibrate(b, 1.0 - z), abs=1e-12)


@given(blocks, st.floats(0.02, 0.98))
def test_calibrate_undoes_majority_where_it_is_not_flat(b, p):
    y = c.majority(b, p)
    if 1e-12 < y < 1 - 1e-6:
        assert c.calibrate(b, y) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize("b", [1, 3, 21, 1801, 20_001])
def test_calibrate_at_the_ends_and_for_wide_blocks(b):
    assert (c.calibrate(b, 0.0), c.calibrate(b, 0.5), c.calibrate(b, 1.0)) == (0.0, 0.5, 1.0)
    for y in (1e-6, 0.3, 0.9):
        assert c.calibrate(b, y) == pytest.approx(references.calibrate(b, y), abs=1e-9)


@pytest.mark.parametrize(("eta", "p"), [(1e-2, 0.25), (1e-3, 0.125), (1e-6, 0.0625), (1e-9, 0.03125)])
def test_the_papers_bisection_stops_at_dyadic_artefacts(eta, p):
    assert c.calibrate_bisect(21, 0.0, eta, 60) == p


@given(st.floats(0.05, 0.95))
def test_the_papers_bisection_with_a_tight_tolerance_is_the_inverse(y):
    assert c.calibrate_bisect(21, y, 1e-13, 60) == pytest.approx(c.calibrate(21, y), abs=1e-9)


@given(st.integers(0, 40).map(lambda i: 2 * i + 1), st.data())
def test_block_majority_is_the_hypergeometric_tail(b, data):
    n = data.draw(st.integers(b, 800))
    ones = data.draw(st.integers(0, n))
    exact = stats.hypergeom.sf((b - 1) // 2, n, ones, b)
    assert c.block_majority(n, ones, b) == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("n", "ones", "b"), [(40_000, 36_000, 1905), (20_000, 19_000, 953), (10_000, 4_000, 1001)])
def test_block_majority_of_wide_blocks(n, ones, b):
    """Where the first term of one tail underflows the other is summed."""
    exact = stats.hypergeom.sf((b - 1) // 2, n, ones, b)
    assert c.block_majority(n, ones, b) == pytest.approx(exact, rel=1e-7, abs=1e-14)


@pytest.mark.parametrize(("b", "p", "seed"), [(21, 0.5, 0), (21, 0.2, 1), (5, 0.1, 2), (21, 0.97, 3), (41, 0.6, 4)])
def test_the_recursion_follows_the_hypergeometric_tail(b, p, seed):
    """3,000 bits: Q and f within 1e-12 of scipy at every step."""
    bits = (np.random.default_rng(seed).random(3000) < p).astype(int)
    q = f = 0.0
    worst = 0.0
    for n, bit in enumerate(bits.tolist()):
        if n + 1 < b:
            continue
        ones = int(bits[:n].sum())
        q, f = c.block_majority_step(q, f, n, ones, b, bit)
        ones += bit
        worst = max(worst, abs(q - stats.hypergeom.sf((b - 1) // 2, n + 1, ones, b)))
        worst = max(worst, abs(f - stats.hypergeom.pmf((b - 1) // 2, n + 1, ones, b - 1)))
    assert worst < 1e-12
