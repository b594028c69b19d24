"""Learners for users who look at places: each against an obvious version of itself, and numbers by hand."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import references
import steadyrank as sr
from duels import D, K, T, duel
from interpreted import SOAK
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.core.philox import start
from steadyrank.core.places import order_of_places, place_best_first
from steadyrank.learners.grab import best_assignment
from steadyrank.learners.pbm_hb import sweep
from steadyrank.learners.pbm_ts import PlacePosteriors, draw_attraction, set_pieces
from steadyrank.learners.shared.place_counts import PlaceCounts, count_places

pytestmark = pytest.mark.interpreted

ATTENTION = [0.6137, 1.0, 0.0, 0.2911]  # the second place first, the third never


@pytest.mark.parametrize("onward", [None, [0.5, 0.1, 0.9, 0.1]])
def test_dcm_klucb(onward):
    """Bits up to the last click count, all where there is none; the first index stands where clicks satisfy most."""

    class Slow(references.IndexLearner):
        def rank(self, t, allowed, size, rng):
            weight = [-x for x in onward] if onward else [0.0] * size
            return references.in_places(super().rank(t, allowed, size, rng), weight)

        def update(self, ranking, clicks, examined):
            bits = clicks[:examined]
            super().update(ranking, clicks, len(bits) - bits[::-1].index(True) if any(bits) else examined)

    duel("DCMKLUCB", Slow(K, lambda b, t: references.klucb(sum(b), len(b), t)), rounds=300, onward=onward)


def interpreted(script):
    """What a script prints in a process that compiles nothing: each pair of learner and users would take seconds."""
    answer = subprocess.run(
        [sys.executable, "-c", "import steadyrank as sr\nimport numpy as np\n" + script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split()


def test_dcm_klucb_is_cascade_klucb_on_cascades():
    """Feedback that ends with its only click: the same lists from the same draws."""
    plain, own = interpreted("""
for name in ("CascadeKLUCB", "DCMKLUCB"):
    print(sr.simulate(name, np.linspace(0.05, 0.6, 30), length=4, horizon=200, seeds=[2]).final[0])
""")
    assert plain == own


def test_learners_told_the_attention_where_their_paper_tried_them():
    """Attention 0.9, 0.6, 0.3 and attractions 0.45 to 0.05 (Lagree, Vernade, Cappe 2016, section 6), 1,000 rounds.

    A random list loses 0.35 in a round, a fifth of that is asked for. Over 20 seeds the three lose 40, 39 and 22,
    with standard errors of 1 to 4; after 10,000 rounds 107, 74 and 32, in the order of the paper. Told another
    attention, the same learner shows the items in another order, and loses more.
    """
    known = {"attention": [0.9, 0.6, 0.3]}
    other = {"attention": [0.3, 0.6, 0.9]}
    lost = interpreted(f"""
for name, settings in [("PBMUCB", {known}), ("PBMPIE", {known}), ("PBMTS", {known}), ("PBMTS", {other})]:
    run = sr.simulate(
        name, [0.05, 0.25, 0.45, 0.15, 0.35], length=3, horizon=1_000, seeds=[0], settings=settings,
        users="PositionBased", users_settings={known},
    )
    print(run.final.mean())
""")
    ucb, pie, ts, misled = (float(x) for x in lost)
    assert ts < ucb
    assert max(ucb, pie, ts) < 1_000 * 0.35 / 5
    assert misled > 2 * ts


@pytest.mark.parametrize("attention", [None, ATTENTION])
def test_pbm_ucb(attention):
    weight = attention or [p**-0.7 for p in range(1, D + 1)]

    def index(log, t):
        n, looked, s = references.place_sums(log, weight)
        delta = 1.5 * references.log_t(t)
        return round(s / looked + math.sqrt(n / looked) * math.sqrt(delta / (2 * looked)), 9)

    slow = references.PlaceLearner(K, weight, index)
    duel("PBMUCB", slow, rounds=500, epsilon=0.5, **({"attention": attention} if attention else {}))


def told(name, events, **settings):
    """A learner of two items and lists of two that has seen item 0 at these places, with these bits."""
    learner = make(sr.learners()[name], Problem(2, 2, 100), settings=settings)
    for t, (place, bit) in enumerate(events, start=1):
        ranking, clicks = np.array([0, 1] if place == 0 else [1, 0]), np.zeros(2, np.bool_)
        clicks[place] = bit
        learner.update(Visit(t), ranking, np.zeros(2 + NOTE_EXTRA), clicks, 2)
    return learner


def test_pbm_ucb_by_hand():
    """Shown 3 times at place 1, attention 1, and twice at place 2, attention 0.5; clicked twice: N~ = 4, S/N~ = 0.5.

    At t = 20, sqrt(5/4) sqrt(2.99573 / 8) = 0.68417 more.
    """
    learner = told("PBMUCB", [(0, 1), (0, 0), (0, 0), (1, 1), (1, 0)], attention=[1, 0.5])
    assert learner.level[0] == 0.5
    assert learner.looks.tolist() == [5, 5]
    assert learner.root[0] * math.sqrt(math.log(20)) == pytest.approx(0.68417, abs=1e-5)


@pytest.mark.parametrize("attention", [[1.0, 0.7149, 0.5303, 0.3187], ATTENTION])
def test_pbm_pie(attention):
    delta = math.log(T)

    class Slow(references.PlaceLearner):
        def rank(self, t, allowed, size, rng):
            best = references.top(self.indices(t, allowed), size, rng)
            coin, pick = rng.random(), rng.random()
            last = self.log[best[-1]]
            if coin < 0.5 and last:
                _, looked, s = references.place_sums(last, attention)
                others = [k for k in range(K) if allowed[k] and k not in best and s / looked <= 1]
                bounds = {k: references.place_bound(self.log[k], attention, delta) for k in others}
                found = [k for k in others if bounds[k] >= s / looked - 1e-9]  # bounds end a little below 1
                if found:
                    best[-1] = found[int(pick * len(found))]
            return references.in_places(best, attention)

    def mean(log, t):
        _, looked, s = references.place_sums(log, attention)
        return s / looked

    duel("PBMPIE", Slow(K, attention, mean), rounds=120, attention=attention)


@pytest.mark.parametrize("slot", [1, 3, 4])
def test_pie(slot):
    class Slow(references.IndexLearner):
        def rank(self, t, allowed, size, rng):
            best = references.top(self.indices(t, allowed), size, rng)
            coin, pick, last = rng.random(), rng.random(), self.bits[best[-1]]
            if coin < 0.5 and last:
                others = [k for k in range(K) if allowed[k] and k not in best]
                lt = references.log_t(t)
                level, x = lt + 4 * max(math.log(lt), 0), sum(last) / len(last)
                found = [k for k in others if references.kl_bound(self.bits[k], level) >= x - 1e-9]
                if found:
                    best = [*best[: slot - 1], found[int(pick * len(found))], *best[slot - 1 : -1]]
            return best

    duel("PIE", Slow(K, lambda bits, t: sum(bits) / len(bits)), rounds=300, slot=slot)


def counts_of(shown, clicks, attention):
    counts = PlaceCounts.create(1, np.array(attention))
    counts.shown[0], counts.clicks[0] = shown, clicks
    return counts


@pytest.mark.parametrize(
    ("shown", "clicks", "attention"),
    [
        ([0, 0], [0, 0], [1.0, 0.5]),
        ([1, 0], [0, 0], [1.0, 0.5]),
        ([0, 3], [0, 0], [1.0, 0.5]),
        ([0, 4], [0, 4], [1.0, 0.5]),
        ([5, 0], [5, 0], [1.0, 0.5]),
        ([7, 30], [2, 3], [1.0, 0.5]),
        ([0, 40], [0, 22], [0.9, 0.5]),
        ([900, 2000], [100, 160], [1.0, 0.5]),
        ([4000, 20000], [3, 5], [0.8, 0.2]),
    ],
)
def test_draws_have_the_law_of_the_posterior(shown, clicks, attention):
    """4,000 draws against the distribution function by integration: Kolmogorov's distance below its 99.99 % bound."""
    counts, posteriors, rng = counts_of(shown, clicks, attention), PlacePosteriors.create(1), np.random.default_rng(1)
    set_pieces(posteriors, counts, np.array([0]), 1)
    draws = np.sort([draw_attraction(posteriors, counts, 0, rng) for _ in range(4_000)])

    grid = np.unique(np.concatenate([np.linspace(0, 1, 20_001), draws]))
    with np.errstate(divide="ignore"):
        log = sum(clicks) * np.log(grid) if sum(clicks) else np.zeros(grid.size)
        for n, s, a in zip(shown, clicks, attention, strict=True):
            log = log + ((n - s) * np.log1p(-a * grid) if n > s else 0.0)
    density = np.exp(log - log.max())
    cdf = integrate.cumulative_simpson(density, x=grid, initial=0.0)
    at_draws = np.interp(draws, grid, cdf / cdf[-1])
    places = np.arange(1, 4_001) / 4_000
    distance = max(np.abs(at_draws - places).max(), np.abs(at_draws - places + 1 / 4_000).max())
    assert distance < stats.kstwobign.ppf(0.9999) / math.sqrt(4_000)


def test_pbm_ts():
    """Counts kept round by round give the draws that counts made anew from all lists give."""
    attention = [1.0, 0.7, 0.5, 0.3]

    class Slow(references.PlaceLearner):
        def rank(self, t, allowed, size, rng):
            counts, posteriors = PlaceCounts.create(K, np.array(attention)), PlacePosteriors.create(K)
            for k, log in enumerate(self.log):
                for p, bit in log:
                    counts.shown[k, p] += 1
                    counts.clicks[k, p] += bit
            seen = np.array([k for k in range(K) if self.log[k]], np.int64)
            set_pieces(posteriors, counts, seen, seen.size)
            drawn = [draw_attraction(posteriors, counts, k, rng) if allowed[k] else -math.inf for k in range(K)]
            return references.in_places(references.top(drawn, size, rng), attention)

    duel("PBMTS", Slow(K, attention, lambda log, t: 0.0), rounds=150, attention=attention)


def test_places_by_hand():
    """The best item to the most looked-at place, among as many places as the list has."""
    order = order_of_places(np.array([0.2, 0.9, 0.5]))
    for ranking, placed in (([7, 8, 9], [9, 7, 8]), ([7, 8], [8, 7]), ([7], [7])):
        found = np.array(ranking)
        place_best_first(order, found)
        assert found.tolist() == placed


def test_counts_by_place():
    """A place that nobody looks at says nothing; what the counts cannot hold is not taken back."""
    learner = told("PBMTS", [(0, 1), (1, 0)], attention=[1.0, 0.0])
    assert learner.counts.shown.tolist() == [[1, 0], [1, 0]]
    assert learner.counts.clicks.tolist() == [[1, 0], [0, 0]]
    before = learner.counts.shown.copy()
    learner.forget(Visit(9), np.array([1, 0]), np.zeros(2 + NOTE_EXTRA), np.array([True, False]), 2)
    assert learner.counts.shown.tolist() == before.tolist()
    learner.forget(Visit(9), np.array([0, 1]), np.zeros(2 + NOTE_EXTRA), np.array([True, False]), 2)
    assert learner.counts.shown.tolist() == [[0, 0], [1, 0]]
    counts = PlaceCounts.create(3, np.array([1.0, 0.5]))
    count_places(counts, np.array([2, 1]), np.array([True, True]), 1)
    assert counts.clicks.tolist() == [[0, 0], [0, 0], [1, 0]]


@pytest.mark.parametrize(("d", "n"), [(1, 1), (1, 7), (3, 3), (4, 9), (6, 40)])
def test_assignments_are_the_best(d, n):
    """Sums as large as scipy's, also where many entries are equal."""
    rng = np.random.default_rng(d * n)
    for digits in (0, 1, 12):
        for _ in range(30):
            worth, chosen = np.round(rng.random((d, n)), digits), np.zeros(d, np.int64)
            best_assignment(worth, chosen)
            rows, columns = optimize.linear_sum_assignment(-worth)
            assert len(set(chosen.tolist())) == d
            assert worth[range(d), chosen].sum() == pytest.approx(worth[rows, columns].sum(), abs=1e-12)


def test_grab_shows_a_best_list_or_its_best_neighbour():
    """A leader has the largest sum of click rates; each third time it is shown, else what promises most."""
    learner = make(sr.learners()["GRAB"], Problem(6, 3, 250), settings={"period": 3})
    slow, led, kinds = references.Grab(6, 3, math.log(250)), {}, set()
    mind, world, allowed = np.random.default_rng(1), np.random.default_rng(2), np.ones(6, np.bool_)
    attraction = np.array([0.1, 0.7, 0.3, 0.9, 0.2, 0.5])
    for t in range(1, 251):
        ranking, note = np.zeros(3, np.int64), np.zeros(3 + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        leader = tuple(int(k) for k in note[:3])
        assert slow.rates(leader) == pytest.approx(slow.most(), abs=1e-12)
        if led.get(leader, 0) % 3 == 0:
            assert tuple(ranking) == leader
            kinds.add("leader")
        else:
            options = slow.neighbours(leader)
            assert tuple(ranking) in options
            assert slow.promise(tuple(ranking)) == pytest.approx(max(map(slow.promise, options)), abs=1e-6)
            kinds.add("neighbour" if tuple(ranking) != leader else "leader after all")
        led[leader] = led.get(leader, 0) + 1
        bits = world.random(3) < attraction[ranking] * [0.5, 1.0, 0.7]
        call_update(learner, Visit(t), ranking, note, bits, 3)
        slow.update(ranking.tolist(), bits.tolist(), 3)
    assert kinds == {"leader", "neighbour", "leader after all"}


def test_grab_bounds_by_hand():
    """One click in two showings at place 2, T = 100: 2 kl(1/2, q) = log(1 / (4 q (1 - q))) = log 100: q = 0.99749."""
    learner = told("GRAB", [(1, 1), (1, 0)])
    assert learner.bounds[0].tolist() == pytest.approx([1.0, 0.99749], abs=1e-5)
    assert learner.led.sum() == 2


def test_unirank():
    """Every item may always be shown: one that may not be would lose duels that the slow version does not count."""
    learner, slow = make(sr.learners()["UniRank"], Problem(8, 3, 300), settings={}), references.UniRank(8, 3)
    mind, mirror, world, allowed = *(np.random.default_rng(s) for s in (1, 1, 2)), np.ones(8, np.bool_)
    attraction, parts = np.linspace(0.02, 0.9, 8)[world.permutation(8)], set()
    for t in range(1, 301):
        ranking, note = np.zeros(3, np.int64), np.zeros(3 + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        assert ranking.tolist() == slow.rank(t, allowed.tolist(), 3, mirror), f"round {t}"
        parts.add(tuple(len(part) for part in slow.sets))
        bits = world.random(3) < attraction[ranking] * [1.0, 0.6, 0.5]
        call_update(learner, Visit(t), ranking, note, bits, 3 if t % 9 else 2)
        slow.update(ranking.tolist(), bits.tolist(), 3 if t % 9 else 2)
        assert learner.part.tolist() == [
            next(c for c, part in enumerate(slow.leading()) if k in part) for k in range(8)
        ]
    assert len(parts) >= 5


def test_unirank_by_hand():
    """Items 0 and 1 of two, list of one: 0 clicked once without 1 leads, and 1 is tried while log 2 < log t + ...

    After one duel, at t = 1, the level is log 2 + 0 = 0.69315 and kl(0, 1/2) = 0.69315: 1 may not win more than half.
    At t = 3 it is 1.09861 + 3 log 1.09861 = 1.38076: 1 may.
    """
    learner = make(sr.learners()["UniRank"], Problem(2, 1, 100), settings={})
    note, rng, allowed = np.zeros(1 + NOTE_EXTRA), np.random.default_rng(1), np.ones(2, np.bool_)
    learner.update(Visit(1), np.array([0]), note, np.array([True]), 1)  # both are of set 0, and 1 was not shown
    assert learner.part.tolist() == [0, 1]
    shown = {t: set() for t in (1, 3)}
    for t, seen in shown.items():
        for _ in range(40):
            ranking = np.zeros(1, np.int64)
            learner.rank(Visit(t), allowed, ranking, note, rng)
            seen.add(int(ranking[0]))
    assert shown == {1: {0}, 3: {0, 1}}


def test_a_chain_has_the_posterior_as_its_law():
    """Two items, two places, few clicks: means over 20,000 sweeps against integration, within four standard errors;
    over 5,000 outside of `make soak`.

    The errors are those of 100 means over 200 or 50 sweeps each.
    """
    each = 200 if SOAK else 50
    counts = PlaceCounts.create(2, np.ones(2))
    counts.shown[:], counts.clicks[:] = [[6, 4], [3, 9]], [[4, 1], [1, 2]]
    for width in (0.3, 5.0):
        attraction, attention, chance = np.full(2, 0.5), np.array([1.0 - 1e-12, 0.5]), start(1)
        seen = np.zeros((100 * each, 3))
        for i in range(100 * each):
            sweep(counts, attraction, attention, width, chance)
            seen[i] = attraction[0], attraction[1], attention[1]
        batches = seen.reshape(100, each, 3).mean(1)
        errors = batches.std(0, ddof=1) / 10

        x = (np.arange(80) + 0.5) / 80
        a, b, c = np.meshgrid(x, x, x, indexing="ij")
        law = references.click_likelihood(counts.shown, counts.clicks, (a, b), (np.ones_like(c), c))
        means = [(law * z).sum() / law.sum() for z in (a, b, c)]
        assert (np.abs(seen.mean(0) - means) < 4 * errors + 1e-3).all()


def test_pb_mhb_learns_what_places_are_looked_at():
    """Attention 1, 0.3, 0.6, told to nobody: after 900 rounds the second best item mostly stands third."""
    (best,) = interpreted("""
run = sr.simulate(
    "PBMHB", [0.9, 0.1, 0.7, 0.2, 0.5], length=3, horizon=1_000, seeds=[0], users="PositionBased",
    users_settings={"attention": [1.0, 0.3, 0.6]}, marks=[900],
)
print((run.regret[0, 1] - run.regret[0, 0]) / 100)
""")
    assert float(best) < 0.1  # a random list loses 0.56 in a round; that in order of the items' worth 0.06


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("PIE", {"slot": 5}, "slot must be a whole number from 1 to 4, not 5"),
        ("GRAB", {"period": 0}, "period must be a whole number of at least 1, not 0"),
        ("PBMHB", {"c": 0}, "c must be a finite number from 1e-06 to 1000000000.0, not 0"),
        ("PBMFTRL", {"rate": 0}, "rate must be a finite number from 0.001 to 1000.0, not 0"),
        ("PBMHB", {"sweeps": 0}, "sweeps must be a whole number from 1 to 1000, not 0"),
        ("PBMUCB", {"epsilon": -1}, "epsilon must be a finite number of at least 0.0, not -1"),
        ("DCMKLUCB", {"onward": [0.1]}, "onward must be 4 numbers from 0 to 1, one per place"),
    ],
)
def test_bad_settings_are_named(name, settings, words):
    with pytest.raises(ValueError, match=words):
        make(sr.learners()[name], Problem(30, 4, 100), settings=settings)
