import itertools
import math
import pickle

import audit_power
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyrank import profile
from steadyrank.audit.detect import bayes_factors, scales, two_regimes
from steadyrank.audit.detect.changed_stretches import intervals, regimes, runs
from steadyrank.audit.detect.clients import stand_out
from steadyrank.audit.detect.findings import BoardTask, analyse
from steadyrank.audit.detect.scales import of_impressions, prepare_units
from steadyrank.audit.detect.stretches import Stretch
from steadyrank.click_logs.looks import Impressions
from steadyrank.core.workers import Interrupted
from steadyrank.simulator.simulated_logs import simulated_log

pytestmark = pytest.mark.pure


def impressions_of(lists, n_items):
    """Impressions from lists of (item, click)."""
    first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    flat = [pair for one in lists for pair in one]
    item = np.array([k for k, _ in flat], np.int32)
    return Impressions(item, np.array([c for _, c in flat], np.bool_), first, n_items)


def beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def slow_novelty(x, n, rate, strength):
    a, b = max(rate * strength, 0.5), max((1 - rate) * strength, 0.5)
    return beta(0.5 + x, 0.5 + n - x) - beta(0.5, 0.5) - (beta(a + x, b + n - x) - beta(a, b))


def slow_known(here, reference, far, speaks, votes, prior):
    """By item of a stretch: looks and clicks that tell of it without the stretch, and its own rate."""
    told = {}
    for k in np.flatnonzero(here[0]):
        rest = far[:, k] if far[0, k] <= 8 * votes[0, k] else votes[:, k]
        lacking = reference[0, k] < 5
        own = rest if rest[0] >= 5 else rest + reference[:, k]
        looks, clicks = rest if speaks and lacking and rest[0] >= 5 else reference[:, k]
        told[k] = looks, clicks, (prior[0] + own[1]) / (prior[1] + own[0])
    return told


def slow_weigh(here, reference, far, speaks, votes, prior, bands, usual):
    """Evidence as the docs say it, item by item and group by group."""
    (looks, clicks), (ref_looks, ref_clicks) = here, reference
    told = slow_known(here, reference, far, speaks, votes, prior)

    def odds(x, n):
        return math.log((x + 0.5) / (n - x + 0.5))

    def shifted(p, z):
        return 1 / (1 + (1 - p) / p * math.exp(-z))

    def rate_of(k):
        weight = min(10, told[k][0])
        return (weight * told[k][2] + told[k][1]) / (weight + told[k][0]), weight + told[k][0]

    known = [k for k in told if told[k][0] >= 5]
    total, got = sum(looks[k] for k in known), sum(clicks[k] for k in known)
    due = sum(looks[k] * rate_of(k)[0] for k in known)
    level = odds(got, total) - odds(due, total)
    together = 0.0
    if abs(level) > math.log(3) and total > 0:
        most = total * shifted((due + 0.5) / (total + 1), math.copysign(math.log(3), level))
        together = (most - got + (got * math.log(got / most) if got else 0.0)) / 2 - 0.5 * math.log(1 + total)
    level = min(max(level, -bayes_factors.LEVEL), bayes_factors.LEVEL)
    alone = {}
    for k in known:
        rate, strength = rate_of(k)
        alone[k] = slow_novelty(clicks[k], looks[k], shifted(rate, level), min(strength, 400))
    found = {s: sum(math.log(1 - s + s * math.exp(e)) for e in alone.values()) for s in bayes_factors.CHANGED}
    grouped = 0.0
    for j in range(bayes_factors.GROUPS):
        k = [k for k in range(len(looks)) if looks[k] and ref_looks[k] and bands[k] == j]
        if k:
            x, n, m = sum(clicks[k]), sum(looks[k]), sum(looks[k] * usual[k])
            rx, rn, rm = sum(ref_clicks[k]), sum(ref_looks[k]), sum(ref_looks[k] * usual[k])
            rate = shifted((m + 0.5) / (n + 1), odds(rx, rn) - odds(rm, rn) + level)
            grouped += math.log(0.7 + 0.3 * math.exp(slow_novelty(x, n, rate, min(rn + 1, 400))))
    share, best = max(found.items(), key=lambda pair: pair[1])
    grouped = max(grouped, together)
    return (grouped - math.log(3), 0.0) if grouped > best else (best - math.log(3), share)


@given(st.integers(0, 2**32 - 1))
def test_evidence_equals_its_slow_version(seed):
    rng = np.random.default_rng(seed)
    n = 12

    def drawn(looks):
        return np.stack([looks, rng.binomial(looks, rng.random(n))])

    here = drawn(rng.integers(0, 40, n))
    reference, far = (drawn(rng.integers(0, 300, n) * (rng.random(n) < 0.7)) for _ in range(2))
    votes = np.minimum(far, 12.0)
    rest = bool(rng.random() < 0.7), votes, np.array([1.0, 5.0])
    bands, usual = rng.integers(0, bayes_factors.GROUPS, n), rng.uniform(0.01, 0.99, n)
    fast = bayes_factors.weigh_counts(here, reference, far.astype(float), *rest, bands, usual)
    slow = slow_weigh(here, reference, far, *rest, bands, usual)
    assert fast[0] == pytest.approx(slow[0], rel=1e-9, abs=1e-9)
    assert fast[1] == slow[1]


def test_the_evidence_of_one_item_by_hand():
    """10 clicks of 10 looks against a rate of 1/2 that 400 looks tell: B(10.5, 0.5) / pi over a rising factorial."""
    expected = beta(10.5, 0.5) - math.log(math.pi)
    expected -= sum(math.log((200 + i) / (400 + i)) for i in range(10))
    assert bayes_factors.novelty(10, 10, 0.5, 400.0) == pytest.approx(expected)
    assert expected == pytest.approx(5.09, abs=0.01)
    few = math.exp(slow_novelty(3, 7, 0.2, 50.0))
    assert bayes_factors.factor(3, 7, 0.2, 50.0) == pytest.approx(few)


def usual_alone(usual):
    """What makes `weigh_counts` take usual rates: clicks elsewhere that put each item where it usually is."""
    far = np.stack([np.full(usual.size, 1e9), 1e9 * usual])
    return far, False, far, np.zeros(2)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=200),
    st.sampled_from([4, 6, 10]),
    st.booleans(),
    st.booleans(),
)
def test_a_scan_weighs_what_it_says(pairs, size, backward, sparse):
    impressions = impressions_of([[pair] for pair in pairs], 6)
    log = Stretch(of_impressions(impressions), np.arange(impressions.n))
    of_items = log.bands, log.usual
    rest = scales.ScanContext(*of_items, sparse, log.elsewhere.counts, log.elsewhere.votes, log.prior)
    single = scales.of_impressions(impressions)
    out, at = scales.evidence(single, size, backward, rest)
    assert at.tolist() == [impressions.n - i * (size // 2) if backward else i * (size // 2) for i in range(out.size)]
    if not backward or impressions.n % (size // 2) == 0:  # counted from the end, a part that is not full comes first
        put = scales.coarser(single, size // 2)
        found, places = scales.evidence(put, size, backward, rest)
        assert found == pytest.approx(out, abs=1e-9)
        assert places.tolist() == at.tolist()
        assert put.looks.sum() == impressions.item.size
        assert put.clicks.sum() == impressions.bits.sum()
    turned = impressions_of([[pair] for pair in pairs[::-1]], 6) if backward else impressions
    plain = Stretch(of_impressions(turned), log.where)
    for i, evidence in enumerate(out):
        start, end = i * (size // 2), min(i * (size // 2) + size, impressions.n)
        low = max(0, start - bayes_factors.REFERENCE * size)
        if start - low < size // 2 or end - start < size // 2:
            assert evidence == -np.inf
        else:
            reach = min(end + bayes_factors.REFERENCE * size, impressions.n)
            here, before, after = (np.stack(plain.between(*of)) for of in ((start, end), (low, start), (end, reach)))
            far = log.elsewhere.far(here, before, after)
            counts = here, before, far, True, log.elsewhere.votes, log.prior
            if not sparse:  # what is usual takes the place of what is known of the item elsewhere
                counts = here, before, *usual_alone(log.usual)
            assert evidence == pytest.approx(bayes_factors.weigh_counts(*counts, *of_items)[0], abs=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9), st.floats(0, 4), st.floats(-0.5, 0.5))
def test_the_path_is_the_best_of_all(gain, penalty, toll):
    gain = np.array(gain)
    path = np.zeros(gain.size, np.int8)
    two_regimes.two_states(gain, penalty, toll, path)

    def score(states):
        changes = sum(x != y for x, y in itertools.pairwise(states))
        return sum((g - toll) for g, s in zip(gain, states, strict=True) if s) - penalty * changes

    every = ([(code >> i) & 1 for i in range(gain.size)] for code in range(2**gain.size))
    assert score(path.tolist()) == pytest.approx(max(map(score, every)), abs=1e-9)


def test_a_step_is_sudden_and_a_slope_is_not():
    rng = np.random.default_rng(0)
    n = 2000
    one, two = np.array([0.2]), np.array([0.6])
    where = np.arange(n)

    def judge(rate):
        impressions = impressions_of([[(0, bit)] for bit in rng.random(n) < rate], 1)
        args = *of_impressions(impressions)[:4], where, n // 2, n // 2, one, two
        return min(two_regimes.suddenness(*args, width) for width in (1.0, 0.5, 0.25, two_regimes.WAVE))

    u = np.linspace(-1, 1, n)
    assert judge(np.where(u < 0, 0.2, 0.6)) > 5
    assert judge(0.4 + 0.4 * u) < -5
    assert judge(0.4 + np.pi / 10 * np.sin(np.pi * u)) < -5


def test_a_gap_in_the_log_gives_a_slow_change_time():
    """The step lies in a gap as long as the rest: a line through it explains as much as a step does."""
    rng = np.random.default_rng(0)
    impressions = impressions_of([[(0, bit)] for bit in rng.random(400) < np.repeat([0.2, 0.6], 200)], 1)
    args = of_impressions(impressions)[:4]
    rest = 200, 200, np.array([0.2]), np.array([0.6]), 0.25
    apart = np.where(np.arange(400) < 200, np.arange(400), np.arange(400) + 4000)
    assert two_regimes.suddenness(*args, np.arange(400), *rest) > 3 > two_regimes.suddenness(*args, apart, *rest) >= 0


def test_runs():
    assert runs(np.array([1, 1, 0, 1, 0, 0, 1], bool)) == [(0, 2), (3, 4), (6, 7)]
    assert runs(np.zeros(0, bool)) == runs(np.zeros(3, bool)) == []


def test_several_clicks_are_a_behaviour_of_their_own():
    impressions = impressions_of([[(0, 1), (1, 1)], [(0, 0)], [(1, 1)]], 2)
    told = prepare_units(impressions)
    assert told.n_items == 3
    assert told.item.tolist() == [0, 1, 2, 0, 2, 1, 2]
    assert told.clicks.tolist() == [1, 1, 1, 0, 0, 1, 0]
    single = impressions_of([[(0, 1)], [(0, 0), (1, 1)]], 2)
    assert prepare_units(single).item is single.item


def test_too_short_a_log_says_nothing():
    assert intervals(prepare_units(impressions_of([], 0))) == []
    assert intervals(prepare_units(impressions_of([[(0, 1)]], 1))) == []


@pytest.mark.parametrize(
    "adversary",
    ["Promote", "Demote", pytest.param("AttractionFlip", marks=pytest.mark.slow), "PrefixFlip"],
)
@pytest.mark.parametrize("world", list(audit_power.WORLDS))
def test_a_burst_is_cut_out_exactly(world, adversary):
    """A tenth of 10,000 lists; each edge is found within a twentieth of the interval."""
    impressions = simulated_log(
        audit_power.attraction_of(world),
        10_000,
        10,
        learner="Random",
        adversary=adversary,
        start=6000,
        end=7000,
        seed=2_000,
    )
    (found,) = intervals(prepare_units(impressions))
    assert abs(found.start - 6000) <= 50
    assert abs(found.end - 7000) <= 50


PROMOTED = {"learner": "Random", "adversary": "Promote"}


@pytest.mark.always
def test_findings_do_not_depend_on_threads():
    attraction = audit_power.attraction_of("low attraction")
    impressions = simulated_log(attraction, 5_000, 10, **PROMOTED, start=1000, end=2000, seed=1)
    assert intervals(prepare_units(impressions), 1) == intervals(prepare_units(impressions), 3) != []


@pytest.mark.always
@pytest.mark.parametrize("threads", [1, 2])
def test_an_audit_ends_soon_after_it_is_told_to(threads):
    """Whichever step it is in."""
    attraction = audit_power.attraction_of("low attraction")
    impressions = simulated_log(attraction, 2_000, 10, **PROMOTED, start=1000, end=1300, seed=1)
    calls = []
    intervals(prepare_units(impressions), threads, lambda *step: calls.append(step))
    assert len(calls) > 20

    def stop(*step):
        left.pop() if len(left) > 1 else None
        if len(left) == 1:
            raise Interrupted

    for n_calls in (1, 2, 5, 12, 20):
        left = [None] * (n_calls + 1)
        with pytest.raises(Interrupted):
            intervals(prepare_units(impressions), threads, stop)


def test_two_attacks_that_differ_are_both_found():
    attraction = audit_power.attraction_of("low attraction")
    one = simulated_log(attraction, 8_000, 10, adversary="Demote", start=2000, end=3000, learner="Random", seed=7)
    two = simulated_log(attraction, 8_000, 10, adversary="Promote", start=4000, end=5000, learner="Random", seed=8)
    sizes = np.diff(two.first)
    both = Impressions(
        np.concatenate([one.item, two.item]), np.concatenate([one.bits, two.bits]),
        np.concatenate([one.first, one.first[-1] + np.cumsum(sizes)]), one.n_items,
    )  # fmt: skip
    assert len(np.unique(regimes(of_impressions(both)))) >= 3
    found = intervals(prepare_units(both))
    assert [(round(part.start, -2), round(part.end, -2)) for part in found] == [(2000, 3000), (12000, 13000)]


@pytest.mark.slow
def test_planted_attacks_are_found():
    """A seed that chose nothing. Of 24 attacks at least 20 are found, nine tenths of the interval at least."""
    chosen = [case for case in audit_power.cases(1, 5_000) if case.share == 0.25]
    hits = [audit_power.play(case, lambda: None).overlap >= 0.9 for case in chosen]
    assert len(hits) == 24
    assert sum(hits) >= 20


@pytest.mark.parametrize(("adversary", "inverted"), [("PrefixFlip", True), ("Promote", True), ("Demote", False)])
def test_an_inversion_of_clicks_is_told_from_other_attacks(adversary, inverted):
    attraction = profile("synthetic-low").attraction[:60]
    log = simulated_log(attraction, 8_000, 10, learner="Random", adversary=adversary, start=3000, end=4000, seed=2)
    found = analyse(BoardTask(0, log, None, []), lambda: None)
    assert [part.inverted for part in found.intervals] == [inverted]


@pytest.mark.slow
def test_honest_logs_are_not_blamed():
    """60 logs: steady users, slow drift and daily cycles; at most one false alarm."""
    honest = [case for case in audit_power.cases(5, 6_000) if not case.share]
    wrong, total = audit_power.alarms([audit_power.play(case, lambda: None) for case in honest])
    assert total == 60
    assert wrong <= 1


def test_clients_that_click_otherwise_or_as_the_attack_does_stand_out():
    rng = np.random.default_rng(3)
    n = 4000
    client = rng.integers(0, 40, n).astype(np.int32)
    bits = rng.random(n) < 0.3
    suspect = np.zeros(n, bool)
    suspect[1000:1200] = True
    names = list(range(44))

    def named():
        log = impressions_of([[(i % 5, b)] for i, b in enumerate(bits)], 5)
        return stand_out(log, client, names, None, suspect, [(1000, 1200)])

    assert named().named.size == 0
    client[::50] = 41  # clicks whatever it sees
    bits[::50] = True
    client[7::50] = 43  # never clicks
    bits[7::50] = False
    client[1000:1100:2] = 42  # comes with the attack only, and clicks as it does
    bits[1000:1200] = np.arange(200) % 5 == 0
    found = named().listed
    assert {(one.client, one.why) for one in found} == {(41, "clicks"), (42, "time"), (43, "clicks")}
    bot = next(one for one in found if one.client == 41)
    assert bot.clicks == bot.impressions > 2 * bot.expected_clicks
    assert bot.effect > 2
    assert bot.reason.startswith("clicks in 78 of 78 lists, where others click in 2")
    silent = next(one for one in found if one.client == 43)
    assert silent.reason.startswith("never clicks: none of 80 lists, where others click in 2")
    assert silent.effect == 0.0
    assert all(one.score > 5 and one.certainty > 0.95 for one in found)


def test_a_finding_says_what_gained_and_what_the_ranking_is_without_it():
    attraction = np.linspace(0.4, 0.02, 20)
    impressions = simulated_log(
        attraction, 6_000, 5, learner="Random", adversary="FakeUser", start=2000, end=3000, seed=5
    )
    finding = analyse(BoardTask(0, impressions, None, []), lambda: None)
    (part,) = finding.intervals
    assert abs(part.start - 2000) < 60 > abs(part.end - 3000)
    assert part.starts[0] <= part.start <= part.starts[1]
    low, high = finding.suspect
    assert low <= part.end - part.start <= high <= 6_000
    gained = [change.item for change in part.changes if change.clicks > change.expected_clicks]
    lost = [change.item for change in part.changes if change.clicks < change.expected_clicks]
    assert min(gained) > max(lost)  # targets are the less attractive half
    errors = [np.abs(rate - attraction).sum() for rate in (finding.rate, finding.clean_rate)]
    assert errors[1] < errors[0] / 2
    assert finding.points[:, 0].sum() == 6_000
    assert finding.points[:, 1].sum() == finding.clicks == impressions.bits.sum()


def test_jobs_and_findings_can_be_sent_to_other_machines():
    impressions = simulated_log(
        np.linspace(0.4, 0.02, 20), 3_000, 5, learner="Random", adversary="Demote", start=1000, end=2000
    )
    finding = analyse(pickle.loads(pickle.dumps(BoardTask(0, impressions, None, []))), lambda: None)
    assert pickle.loads(pickle.dumps(finding)).intervals == finding.intervals != []


def test_the_share_of_an_honest_log_is_an_interval_too():
    log = profile("movielens", "moderate").attraction[:40]
    impressions = simulated_log(log, 4_000, 5, adversary="Demote", seed=9)  # in none of the rounds
    finding = analyse(BoardTask(0, impressions, None, []), lambda: None)
    assert finding.intervals == []
    assert finding.suspect[0] == 0 < finding.suspect[1] == finding.unseen < 800
    assert finding.ranking.tolist() == finding.clean_ranking.tolist()
