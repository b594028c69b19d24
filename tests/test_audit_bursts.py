"""The least burst that a test can find: beside the best tests of small logs, which can be worked out."""

import math

import audit_bursts as bench
import numpy as np
import pytest
from planted_logs import World

pytestmark = pytest.mark.pure

N, P = 64, 0.3  # lists of a log, and the chance that an honest one is clicked


def at_least(clicks, m, p):
    """The chance of so many clicks or more in m lists."""
    return sum(math.comb(m, k) * p**k * (1.0 - p) ** (m - k) for k in range(clicks, m + 1))


@pytest.mark.parametrize("m", [1, 2, 4, 8])
def test_a_burst_that_clicks_everything_is_found_from_the_limit_on(m):
    """Reporting each stretch that is clicked throughout always finds it: no test can do with fewer alarms."""
    alarms = N / m * P**m
    assert bench.least_burst(-math.log(P), N, 1, found=1.0, alarms=alarms * (1.0 + 1e-9)) == m
    assert bench.least_burst(-math.log(P), N, 1, found=1.0, alarms=alarms * (1.0 - 1e-9)) == m + 1


@pytest.mark.parametrize("q", [0.5, 0.8, 0.95])
def test_the_best_tests_of_bursts_that_click_more_need_what_the_limit_says(q):
    """The best test reports the stretches with most clicks (Neyman and Pearson 1933)."""
    nats = bench.binary(q, P)
    for m in (2, 4, 8, 16):
        for clicks in range(1, m + 1):
            found, wrong = at_least(clicks, m, q), at_least(clicks, m, P)
            assert m * nats >= bench.binary(found, wrong) - 1e-12
            assert bench.least_burst(nats, N, 1, found, N / m * wrong) <= m


def test_more_lists_items_and_care_need_longer_bursts():
    least = bench.least_burst(0.5, 20_000, 40)
    assert least == math.ceil(bench.binary(0.8, 0.01 * least / (20_000 * 40)) / 0.5)
    assert bench.least_burst(1.0, 20_000, 40) < least < bench.least_burst(0.5, 20_000, 80)
    assert least < bench.least_burst(0.5, 2_000_000, 40)
    assert least < bench.least_burst(0.5, 20_000, 40, alarms=1e-6)


def test_nats_of_a_bot_are_those_of_its_clicks():
    """Three items in lists of three, all looked at: the chance of a silent list is the product of three."""
    people = World(np.array([0.5, 0.2, 0.1]), length=3, attention=0.0, differ=1e9)
    rng, lists = np.random.default_rng(0), np.array([[0, 1, 2], [2, 1, 0]])
    assert bench.nats_of(people, lists, -1, rng) == pytest.approx(-math.log(0.5 * 0.8 * 0.9), rel=1e-3)
    assert bench.nats_of(people, lists, 1, rng) == pytest.approx(-math.log(0.5 * 0.2 * 0.9), rel=1e-3)
    nats = bench.nats_of(people, lists, 1, rng, changed=True)  # odds of 1 to 3, and of 1 to 27; 1 to 12 and 18 points
    assert nats == pytest.approx(-math.log(3 / 4 * (1 / 13 + 0.18) * 27 / 28), rel=1e-3)
