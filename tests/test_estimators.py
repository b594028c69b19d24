import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import references
from steadyrank import kernel
from steadyrank.core import philox
from steadyrank.core.contract import Problem, memory
from steadyrank.learners.median import calibration, means, partitions
from steadyrank.learners.median.means import (
    Medians,
    TimeMedians,
    median_in_time,
    observe,
    observe_in_time,
    observe_list,
)
from steadyrank.learners.median.mucbv import MUCBV

pytestmark = pytest.mark.pure

PLAIN = {
    "preset": "paper-exp", "reading": None, "partition": "random", "block": None, "alpha": None, "least_blocks": None,
    "calibration": "exact", "eta": None, "edge": "literal",
}  # fmt: skip


def medians(n_items=1, horizon=40_000, **settings):
    return Medians.create((n_items,), horizon, **{**PLAIN, **settings})


@kernel
def observe_all(book, bits, draws):
    for bit in bits:
        observe(book, 0, bit, draws)


def feed(book, bits, seed=0):
    observe_all(book, np.array(bits, np.int64), philox.start(seed))
    return book


def tallies(bits, runs, **settings):
    """How often each number of majority blocks comes up in `runs` independent random partitions."""
    counts: dict[int, int] = {}
    for seed in range(runs):
        book = feed(medians(**settings), bits, seed)
        counts[int(book.tally[0])] = counts.get(int(book.tally[0]), 0) + 1
    return counts


def stored_tallies(bits, b, runs):
    """The same from the bits themselves, shuffled by Python's generator."""
    rng = random.Random(5)
    m = len(bits) // b
    counts: dict[int, int] = {}
    for _ in range(runs):
        tally = round(m * references.share_of_shuffled(bits, b, rng))
        counts[tally] = counts.get(tally, 0) + 1
    return counts


def same_law(one, other):
    """p-value of the chi-square test of homogeneity, sparse cells pooled."""
    keys = sorted(set(one) | set(other))
    table = np.array([[c.get(k, 0) for k in keys] for c in (one, other)], float)
    rare = table.sum(axis=0) < 20
    if rare.any():
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return 1.0 if table.shape[1] < 2 else stats.chi2_contingency(table).pvalue


FRONT = [1] * 40 + [0] * 67
SPREAD = [1 if (i * 40) // 107 != ((i - 1) * 40) // 107 else 0 for i in range(107)]


@pytest.mark.parametrize(
    ("settings", "b"),
    [
        ({"block": 5}, 5),
        ({"block": 21}, 21),
        ({"block": 5, "partition": "fresh"}, 5),
        ({"block": 5, "partition": "every-round"}, 5),
        pytest.param({"reading": "A1", "partition": "every-round"}, 11, marks=pytest.mark.slow),
        pytest.param({"reading": "A1"}, 11, marks=pytest.mark.slow),
        ({"reading": "A2"}, 11),
    ],
)
def test_random_partition_without_history_has_the_law_of_shuffled_bits(settings, b):
    """Fast partition against 4,000 real partitions of 107 stored bits with 40 ones, chi-square p above 0.001."""
    bits = [1, 0, 0] * 33 + [1] * 7 + [0]
    assert (len(bits), sum(bits)) == (107, 40)
    assert references.size_of_blocks(settings.get("reading", "A3"), 107, b, 2.0) == b
    assert same_law(tallies(bits, 4000, **settings), stored_tallies(bits, b, 4000)) > 0.001


@kernel
def redraw_often(book, b, draws, found):
    partitions.expect_rare(book, 0, b)
    for i in range(found.size):
        found[i] = partitions.redraw_tally(book, 0, b, draws)


def law_of_tally(n, ones, b):
    """The chance of each number of majority blocks, block after block, in whole numbers of partitions."""
    ways = {(0, 0): 1}
    for i in range(n // b):
        left, now = n - i * b, {}
        for (used, tally), count in ways.items():
            rest = ones - used
            for x in range(max(0, b - left + rest), min(b, rest) + 1):
                key = used + x, tally + (2 * x > b)
                now[key] = now.get(key, 0) + count * math.comb(rest, x) * math.comb(left - rest, b - x)
        ways = now
    chances = np.zeros(n // b + 1)
    for (_, tally), count in ways.items():
        chances[tally] += count
    return chances / chances.sum()


@pytest.mark.parametrize(
    ("n", "ones", "b"), [(107, 40, 5), (107, 12, 5), (107, 95, 5), (40, 6, 3), (64, 27, 21), (64, 36, 21)]
)
def test_redrawn_tallies_have_the_exact_law(n, ones, b):
    """60,000 draws, from 0.09 to 5.7 rare blocks expected: chi-square p above 0.001, cells of at least ten."""
    book = medians(block=b, partition="every-round")
    book.looks[0], book.clicks[0], book.blocks[0] = n, ones, n // b
    found = np.zeros(60_000, np.int64)
    redraw_often(book, b, philox.start(8), found)
    expected = law_of_tally(n, ones, b) * found.size
    often = expected >= 10
    counts = np.bincount(found, minlength=expected.size)
    table = [[*x[often], x[~often].sum() + 1e-9] for x in (counts, expected)]
    assert stats.chisquare(*table).pvalue > 0.001
    rare = np.arange(expected.size) if 2 * ones < n else np.arange(expected.size)[::-1]
    assert book.chain[0, 0] == pytest.approx((rare * expected).sum() / found.size, rel=1e-9)


@pytest.mark.parametrize("settings", [{"block": 5}, {"reading": "A2"}])
def test_proposition_1_only_the_number_of_ones_matters(settings):
    """Front-loaded and scattered ones: same law of the tally, 4,000 partitions each, p above 0.001."""
    assert sum(FRONT) == sum(SPREAD) == 40
    assert same_law(tallies(FRONT, 4000, **settings), tallies(SPREAD, 4000, **settings)) > 0.001


def test_the_histogram_counts_blocks_exactly():
    rng = np.random.default_rng(2)
    book, draws, ones = medians(block=5), philox.start(3), 0
    for n, bit in enumerate((rng.random(500) < 0.4).astype(int).tolist(), start=1):
        observe(book, 0, bit, draws)
        ones += bit
        histogram = book.histogram[0]
        assert histogram.sum() == book.blocks[0] == n // 5
        assert book.tally[0] == histogram[3:].sum()
        assert (histogram * np.arange(6)).sum() + book.open_wins[0] == ones
        assert book.open_seen[0] == n % 5


def test_proposition_2_mean_and_variance_of_the_share():
    """n = 107, S = 40, b = 5, 6,000 partitions: mean within 4 standard errors, variance within 8 %."""
    n, ones, b, m, runs = 107, 40, 5, 21, 6000
    counts = tallies(FRONT, runs, block=b)
    shares = np.repeat([k / m for k in counts], list(counts.values()))
    q = calibration.block_majority(n, ones, b)
    both = sum(
        stats.hypergeom.pmf(x, n, ones, b) * stats.hypergeom.sf(2, n - b, ones - x, b) for x in range(3, b + 1)
    )
    variance = q * (1 - q) / m + (1 - 1 / m) * (both - q * q)
    assert shares.mean() == pytest.approx(q, abs=4 * np.sqrt(variance / runs))
    assert shares.var() == pytest.approx(variance, rel=0.08)


@pytest.mark.parametrize(("b", "p"), [(5, 0.3), (21, 0.4)])
def test_proposition_2_averaging_over_clean_bits_gives_the_majority_map(b, p):
    n = 10 * b
    ones = np.arange(n + 1)
    q = [calibration.block_majority(n, int(s), b) for s in ones]
    assert np.dot(stats.binom.pmf(ones, n, p), q) == pytest.approx(calibration.majority(b, p), abs=1e-10)


@pytest.mark.parametrize(("m", "worst"), [(10, 0.025), (40, 0.006)])
def test_proposition_3_calibration_undoes_the_medians(m, worst):
    """b = 21: g_b(Q) is S/n up to 0.1/m in the bulk and up to the stated worst wherever Q is not negligible."""
    b, n = 21, 21 * m
    last = -1.0
    for ones in range(n + 1):
        q = calibration.block_majority(n, ones, b)
        assert q > last or q == 0.0 or q > 1 - 1e-9
        last = q
        if 1e-9 < q < 1 - 1e-9:
            shift = calibration.calibrate(b, q) - ones / n
            assert abs(shift) < worst
            p = ones / n
            if 0.3 < p < 0.7:
                assert shift == pytest.approx(2 * (p - 0.5) * p * (1 - p) / m, abs=0.02 / m)


def test_proposition_5_dead_zone():
    """The lowest positive value of the estimate, and the chance of the value 0 (b = 21, n = 1000)."""
    assert calibration.calibrate(21, 1 / 10) == pytest.approx(0.36, abs=0.005)
    assert calibration.calibrate(21, 1 / 47) == pytest.approx(0.29, abs=0.005)
    assert calibration.calibrate(105, 1 / 9) == pytest.approx(0.44, abs=0.005)
    for p, zero in [(0.1, 1.000), (0.2, 0.955), (0.3, 0.285)]:
        assert (1 - calibration.majority(21, p)) ** 47 == pytest.approx(zero, abs=0.001)
        rng = np.random.default_rng(0)
        estimates = [feed(medians(block=21), rng.random(1000) < p, seed).estimate[0] for seed in range(300)]
        share = np.mean(np.array(estimates) == 0.0)
        assert share == pytest.approx(zero, abs=4 * np.sqrt(zero * (1 - zero) / 300) + 1e-9)


def test_it_follows_the_mean_near_one_half_and_votes_elsewhere():
    """Blocks of 21 out of 420 bits, a tenth inverted: the mean over the law of 20 medians, bits put back once drawn.

    At 0.4 the mean moves by 0.02, at 0.1 by 0.08.
    """

    def estimate(p):
        q = calibration.majority(21, p)
        return sum(stats.binom.pmf(j, 20, q) * calibration.calibrate(21, j / 20) for j in range(21))

    assert estimate(0.42) - estimate(0.4) == pytest.approx(0.026, abs=5e-4)
    assert 0.002 < estimate(0.18) - estimate(0.1) < 0.003
    assert estimate(0.1) < 1e-4
    bits, rng, moved = np.zeros(420, np.bool_), np.random.default_rng(7), []
    for _ in range(4_000):  # the same with random blocks of bits
        bits[:] = rng.random(420) < 0.1
        bits[:42] ^= True
        ones = rng.permutation(bits).reshape(20, 21).sum(axis=1)
        moved.append(calibration.calibrate(21, (ones > 10).mean()))
    assert 0.0012 < np.mean(moved) < 0.0038  # 0.0025 give or take four standard errors


def test_a1_tends_to_0_or_1_away_from_one_half():
    """Reading A1 is inconsistent: its blocks grow with n, so 5,000 bits of 0.4 give 0 and of 0.6 give 1."""
    rng = np.random.default_rng(1)
    for p, limit in [(0.35, 0.0), (0.65, 1.0)]:
        assert feed(medians(reading="A1"), rng.random(5000) < p).estimate[0] == limit


@given(
    st.sampled_from(["A1", "A2", "A3", "A4"]), st.sampled_from([3, 5, 21]), st.integers(1, 4),
    st.lists(st.integers(0, 1), min_size=1, max_size=200),
)  # fmt: skip
def test_consecutive_blocks_equal_the_stored_bits(reading, b, least, bits):
    block = {"block": b} if reading == "A3" else {}
    book = medians(reading=reading, partition="consecutive", least_blocks=least, **block)
    b = book.block if reading == "A4" else b
    draws = philox.start(0)
    for n, bit in enumerate(bits, start=1):
        observe(book, 0, bit, draws)
        slow = references.estimate_consecutive(bits[:n], reading, b, 2.0, least)
        assert book.estimate[0] == pytest.approx(slow, abs=1e-9)


@given(st.sampled_from(["A1", "A2", "A3"]), st.lists(st.integers(0, 1), min_size=1, max_size=200))
def test_averaged_partition_is_the_calibrated_hypergeometric_tail(reading, bits):
    book = medians(reading=reading, partition="averaged", **({"block": 5} if reading == "A3" else {}))
    draws = philox.start(0)
    for n, bit in enumerate(bits, start=1):
        observe(book, 0, bit, draws)
        b, ones = references.size_of_blocks(reading, n, 5, 2.0), sum(bits[:n])
        if b == 1 or n < b:
            assert book.estimate[0] == ones / n
        else:
            q = stats.hypergeom.sf((b - 1) // 2, n, ones, b)
            assert book.estimate[0] == pytest.approx(references.calibrate(b, q), abs=1e-6)
    assert draws[1] == 0  # no chance involved


@given(st.integers(1, 6), st.lists(st.integers(0, 1), min_size=1, max_size=300))
def test_time_blocks_equal_the_stored_bits(n_blocks, bits):
    book = TimeMedians.create(1, n_blocks)
    for n, bit in enumerate(bits, start=1):
        observe_in_time(book, 0, bit)
        assert median_in_time(book, 0) == references.time_median(bits[:n], n_blocks)
        assert min(n, n_blocks) <= book.full[0] < 2 * n_blocks


def test_edges_by_hand():
    """b = 3 and nine zeros: share 0 of 3 blocks; clip gives g(1/6), add-half g(0.5/4)."""
    for edge, y in [("literal", 0.0), ("clip", 1 / 6), ("add-half", 0.125)]:
        book = feed(medians(block=3, edge=edge), [0] * 9)
        assert book.estimate[0] == pytest.approx(references.calibrate(3, y), abs=1e-12)


@pytest.mark.parametrize("partition", ["random", "averaged", "consecutive", "fresh", "every-round"])
def test_bisection_flag_reproduces_the_artefact(partition):
    assert feed(medians(block=21, calibration="bisection", partition=partition), [0] * 42).estimate[0] == 0.0625


def test_in_time_order_a_front_of_flips_is_amplified():
    """420 bits of 0.1, the first tenth inverted, b = 21, 200 runs: mean estimate 0.36, where S/n is 0.18."""
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(200):
        bits = rng.random(420) < 0.1
        bits[:42] = ~bits[:42]
        estimates.append(feed(medians(block=21, partition="consecutive"), bits).estimate[0])
    assert np.mean(estimates) == pytest.approx(0.364, abs=0.01)


def test_mean_of_medians_by_hand():
    """Blocks 110 | 001 | 111 in order of arrival: two of three have a majority; 3 p^2 - 2 p^3 = 2/3 at p = 0.6130."""
    book = feed(medians(block=3, partition="consecutive"), [1, 1, 0, 0, 0, 1, 1, 1, 1])
    assert (book.blocks[0], book.tally[0]) == (3, 2)
    p = book.estimate[0]
    assert 3 * p**2 - 2 * p**3 == pytest.approx(2 / 3, abs=1e-12)
    assert p == pytest.approx(0.6130, abs=1e-4)
    plain = feed(medians(block=3, partition="consecutive", calibration="none"), [1, 1, 0, 0, 0, 1, 1, 1, 1])
    assert plain.estimate[0] == 2 / 3


def test_without_calibration_the_averaged_share_is_the_hypergeometric_tail():
    """40 ones of 107, b = 5: 0.2693 by scipy, where S/n is 0.3738."""
    share = feed(medians(block=5, partition="averaged", calibration="none"), FRONT).estimate[0]
    assert share == pytest.approx(stats.hypergeom.sf(2, 107, 40, 5), abs=1e-12)
    assert share == pytest.approx(0.2693, abs=1e-4)


def test_presets_and_block_sizes():
    assert medians().block == 21  # ceil(2 log 40,000) = 22, made odd
    assert medians(horizon=0).block == 21
    assert medians(preset="small-block").block == 5
    assert medians(preset="small-block").least_blocks == 8
    assert medians(preset="paper-app").alpha == 15.7
    assert [partitions.block_size(partitions.A2, n, 0, 15.0) for n in (100, 1000, 10_000)] == [71, 105, 139]
    assert partitions.block_size(partitions.A1, 44, 0, 2.0) == 5
    groups = medians(reading="A4", alpha=1.0).block  # ceil(log 40,000)
    assert groups == 11
    assert [partitions.block_size(partitions.A4, n, groups, 1.0) for n in (21, 22, 43, 44, 1000)] == [1, 3, 3, 5, 91]
    assert medians(reading="A4", horizon=100).block == 10  # ceil(2 log 100)
    assert [partitions.odd_below(n) for n in (3, 4, 5, 22)] == [3, 3, 5, 21]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block": 20}, "block must be odd from 1 to 9999, not 20"),
        ({"block": 0}, "block must be a whole number from 1 to 9999, not 0"),
        ({"reading": "A5"}, "reading must be one of 'mean', 'A1', 'A2', 'A3', 'A4', not 'A5'"),
        ({"reading": "A4", "block": 5}, "block=5 has no effect under reading 'A4'"),
        ({"calibration": "none", "eta": 0.1}, "eta=0.1 has no effect under calibration='none'"),
        ({"calibration": "newton"}, "calibration must be one of 'exact', 'bisection', 'none', not 'newton'"),
        ({"preset": "paper"}, "preset must be one of"),
        ({"alpha": -1.0}, "alpha must be a finite number from 0.01 to 1000.0, not -1.0"),
        ({"least_blocks": 0}, "least_blocks must be a whole number from 1"),
        ({"eta": float("nan"), "calibration": "bisection"}, "eta must be a finite number"),
        ({"edge": "soft"}, "edge must be one of"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        medians(**settings)


def test_memory_of_an_item():
    """At most 200 bytes an item in every reading, none of which stores bits."""
    for preset, partition in itertools.product(
        means.PRESETS, ("random", "consecutive", "averaged", "fresh", "every-round")
    ):
        book = medians(1000, preset=preset, partition=partition)
        assert sum(array.nbytes for _, array in memory(book)) / 1000 <= 184  # 16 more for the index


def test_estimates_frozen_between_powers_of_two_are_those_of_the_last_one():
    """`doubling` changes an item's index at its 1st, 2nd, 4th, 8th ... bit, to what `always` has then."""
    names = ("always", "doubling")
    problem = Problem(2, 1, 1000, 0, np.full(2, 0.5), 0)
    books = {name: MUCBV.create(problem, corruption=0, refresh=name) for name in names}
    bits = np.random.default_rng(5).random(100) < 0.6
    ranking = np.array([1])
    for n, bit in enumerate(bits, 1):
        for name in names:
            learner = books[name]
            observe_list(
                learner.book, learner.root, learner.linear, learner.width, ranking, np.array([bit]), 1, learner.chance
            )
        kept = books["doubling"]
        assert kept.book.looks[1] == n
        if n & (n - 1) == 0:
            assert kept.book.estimate[1] == books["always"].book.estimate[1]
            last = kept.book.estimate[1], kept.root[1], kept.linear[1]
        assert (kept.book.estimate[1], kept.root[1], kept.linear[1]) == last
