import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.adversaries import insider
from steadyrank.adversaries.insider import OPEN
from steadyrank.adversaries.schedules import SCHEDULES, active_rounds, flickering_rounds, rising_rounds
from steadyrank.adversaries.targets import choose_targets
from steadyrank.adversaries.tastes import attractions_of, visitors_of
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.item_evidence import log_beta
from steadyrank.learners.steady import regimes
from steadyrank.learners.steady.evidence import Rule

pytestmark = pytest.mark.interpreted

ADVERSARIES = sr.adversaries()
ATTRACTION = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])  # item 0 is best, 8 is worst
USERS = sr.users()["Cascade"].create(ATTRACTION, 4)


def interpreted(script):
    """The words that a script prints in a process that compiles nothing."""
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split()


def foe_of(name, budget=2, **settings):
    return make(ADVERSARIES[name], Problem(9, 4, 10, attraction=ATTRACTION), USERS, budget, settings=settings)


def visit(foe, t, ranking, bits):
    """One corrupted visit: what was spent, and the bits that the learner sees."""
    clicks = np.array(bits, np.bool_)
    examined = int(np.argmax(clicks)) + 1 if clicks.any() else len(bits)
    spent, reach, _client = foe.corrupt(Visit(t), np.array(ranking), clicks, examined, None)
    return spent, clicks[:reach].astype(int).tolist()


def test_prefix_flip_by_hand():
    """Seen 0,0,1: becomes 1,1,0 with the same three positions examined; the fourth was never seen."""
    foe = foe_of("PrefixFlip")
    assert visit(foe, 1, [0, 1, 2, 3], [0, 0, 1, 1]) == (1.0, [1, 1, 0])
    assert visit(foe, 2, [0, 1, 2, 3], [0, 0, 0, 0]) == (1.0, [1, 1, 1, 1])
    assert visit(foe, 3, [0, 1, 2, 3], [0, 0, 0, 0]) == (0.0, [0, 0, 0, 0])  # spent


def test_attraction_flip_by_hand():
    """Would-be bits 0,0,1,1 become 1,1,0,0: the user now clicks at once. 1,1,0,1 become 0,0,1,0: the third."""
    foe = foe_of("AttractionFlip")
    assert visit(foe, 1, [0, 1, 2, 3], [0, 0, 1, 1]) == (1.0, [1])
    assert visit(foe, 2, [0, 1, 2, 3], [1, 1, 0, 1]) == (1.0, [0, 0, 1])


def test_honest_spends_nothing():
    assert visit(foe_of("Honest", 10), 1, [0, 1], [0, 1]) == (0.0, [0, 1])


def test_promote_by_hand():
    """Targets are the lower half, items 5 to 8 (4.5 rounds to 4). A target must be looked at to get a click."""
    foe = foe_of("Promote")
    assert visit(foe, 1, [0, 7, 1, 8], [0, 0, 1, 0]) == (1.0, [0, 1])
    assert visit(foe, 2, [0, 1, 7, 8], [1, 0, 0, 0]) == (0.0, [1])  # gone before the target
    assert visit(foe, 3, [0, 7, 1, 2], [0, 1, 0, 0]) == (0.0, [0, 1])  # clicked anyway
    assert visit(foe, 4, [0, 1, 2, 3], [0, 0, 0, 0]) == (0.0, [0, 0, 0, 0])  # no target shown
    assert visit(foe, 5, [8, 1, 2, 3], [0, 0, 0, 0]) == (1.0, [1])


class Everywhere(NamedTuple):
    """Users who look at every place and may click several."""

    length: int

    def reach(self, clicks, size):
        return size


@pytest.mark.parametrize(
    ("name", "ranking", "bits", "reported"),
    [
        ("Demote", [5, 0, 6, 1], [1, 1, 0, 1], [1, 0, 0, 0]),  # targets 0 to 3: both clicks go, the other stays
        ("Demote", [5, 0, 6, 1], [1, 0, 0, 0], [1, 0, 0, 0]),
        ("Promote", [0, 7, 1, 8], [1, 0, 1, 0], [1, 1, 1, 0]),  # targets 5 to 8: the first one not clicked
        ("Promote", [0, 7, 1, 8], [1, 1, 1, 1], [1, 1, 1, 1]),
        ("JunAttack", [5, 8, 6, 1], [1, 1, 0, 1], [0, 1, 0, 0]),  # the target, 8, keeps its click
        ("CascadeAttack", [5, 0, 8, 1], [1, 1, 0, 1], [0, 0, 1, 0]),
        ("PrefixFlip", [5, 0, 8, 1], [1, 1, 0, 1], [0, 0, 1, 0]),
        ("AttractionFlip", [5, 0, 8, 1], [1, 1, 0, 1], [0, 0, 1, 0]),
    ],
)
def test_users_who_click_several_places_by_hand(name, ranking, bits, reported):
    """The whole list is reported before and after; a unit is spent where a bit differs."""
    foe = make(ADVERSARIES[name], Problem(9, 4, 10, attraction=ATTRACTION), Everywhere(4), 2, settings={})
    clicks = np.array(bits, np.bool_)
    spent, reach, client = foe.corrupt(Visit(1, 7), np.array(ranking), clicks, 4, None)
    assert (clicks.astype(int).tolist(), reach, client) == (reported, 4, 7)
    assert spent == float(reported != bits)
    assert foe.budget.left[0] == 2 - spent


def test_a_fake_visitor_is_somebody_else():
    """Whose visit is replaced by another's is not its sender any more; where nothing changes, it still is."""
    foe = foe_of("FakeUser", targets=[1])
    for bits, sender in (([0, 0, 1, 0], -1), ([0, 1, 0, 0], 7)):
        clicks = np.array(bits, np.bool_)
        examined = bits.index(1) + 1
        _, reach, client = foe.corrupt(Visit(1, 7), np.array([0, 1, 2, 3]), clicks, examined, None)
        assert (clicks[:reach].astype(int).tolist(), client) == ([0, 1], sender)


def test_demote_by_hand():
    """Targets are the best list, items 0 to 3. A hidden click lets the user look on to a later one."""
    foe = foe_of("Demote", 3)
    assert visit(foe, 1, [5, 0, 6, 7], [0, 1, 0, 1]) == (1.0, [0, 0, 0, 1])
    assert visit(foe, 2, [5, 0, 1, 7], [0, 1, 1, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 3, [5, 0, 1, 7], [1, 1, 0, 0]) == (0.0, [1])  # not a target's click
    assert visit(foe, 4, [5, 0, 1, 7], [0, 0, 0, 0]) == (0.0, [0, 0, 0, 0])


def test_swap_by_hand():
    """Clicks on items 0 to 3 are withheld, the first of 5 to 8 is clicked."""
    foe = foe_of("Swap", 4)
    assert visit(foe, 1, [0, 7, 4, 8], [1, 0, 0, 0]) == (1.0, [0, 1])
    assert visit(foe, 2, [4, 0, 7, 8], [1, 1, 0, 0]) == (0.0, [1])  # item 4 is neither: the visit stands
    assert visit(foe, 3, [0, 1, 2, 4], [0, 1, 1, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 4, [0, 7, 1, 2], [0, 1, 0, 0]) == (0.0, [0, 1])  # clicked anyway


def test_fake_user_by_hand():
    foe = foe_of("FakeUser", 4)
    assert visit(foe, 1, [0, 7, 8, 1], [1, 0, 0, 0]) == (1.0, [0, 1])
    assert visit(foe, 2, [0, 1, 2, 3], [0, 1, 0, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 3, [0, 1, 2, 3], [0, 0, 0, 0]) == (0.0, [0, 0, 0, 0])  # as a real one would
    assert visit(foe, 4, [0, 7, 1, 2], [0, 1, 0, 0]) == (0.0, [0, 1])


def test_tastes_by_hand():
    """Reversed, item 8 has what item 0 had, and so on; permuted, the same attractions stand elsewhere."""
    problem = Problem(9, 4, 10, attraction=ATTRACTION, seed=3)
    assert attractions_of("reversed", problem).tolist() == ATTRACTION[::-1].tolist()
    mixed = Problem(4, 2, 10, attraction=np.array([0.2, 0.9, 0.2, 0.5]))
    assert attractions_of("reversed", mixed).tolist() == [0.5, 0.2, 0.9, 0.2]  # the first of two equals is the better
    permuted = attractions_of("permuted", problem)
    assert sorted(permuted) == sorted(ATTRACTION)
    assert permuted.tolist() != ATTRACTION.tolist()
    assert np.array_equal(permuted, attractions_of("permuted", problem))
    assert not np.array_equal(permuted, attractions_of("permuted", problem._replace(seed=4)))
    for name in ("OtherTaste", "SlowRamp", "Flicker", "Insider"):
        with pytest.raises(ValueError, match="taste must be one of 'reversed', 'permuted', not 'mixed'"):
            foe_of(name, taste="mixed")


def test_other_taste_by_hand():
    """Users always click items 0 to 3 and no other; reversed, always items 5 to 8 and no other."""
    certain = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    users = sr.users()["Cascade"].create(certain, 4)
    foe = make(ADVERSARIES["OtherTaste"], Problem(9, 4, 10, attraction=certain), users, 2, settings={})
    rng = np.random.default_rng(0)
    clicks = np.array([1, 0, 0, 0], np.bool_)
    assert foe.corrupt(Visit(1, 7), np.array([0, 4, 8, 6]), clicks, 1, rng) == (1.0, 3, -1)
    assert clicks[:3].tolist() == [False, False, True]
    same = np.zeros(4, np.bool_)  # as the user did: it costs nothing, and is still the user's
    assert foe.corrupt(Visit(2, 7), np.array([4, 1, 0, 2]), same, 4, rng) == (0.0, 4, 7)
    assert foe.budget.left[0] == 1


def test_flicker_by_hand():
    def on(budget, turn, late):
        return np.flatnonzero(flickering_rounds(20, budget, turn, late=late)).tolist()

    assert on(5, 2, False) == [1, 2, 5, 6, 9]
    assert on(4, 3, True) == [11, 12, 13, 17]
    assert on(20, 3, True) == [11, 12, 13, 17, 18, 19]  # there is room for six
    assert on(3, 30, False) == [1, 2, 3]
    assert foe_of("Flicker", 3, turn=1).budget.active.nonzero()[0].tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match="schedule of Flicker must be 'front' or 'late', not 'spread'"):
        foe_of("Flicker", schedule="spread")
    with pytest.raises(ValueError, match="turn must be a whole number of at least 1, not 0"):
        foe_of("Flicker", turn=0)


def nats_for_a_change(told, start, prior):
    """The test of SteadyRank, from the record of what it was told: visits from number `start` on against others.

    An item with five looks before them keeps its attraction, or with chance 0.1 has another one, drawn uniformly.
    """
    before, since, total = np.zeros((2, 9)), np.zeros((2, 9)), 0.0
    for i, (ranking, bits) in enumerate(told):
        for k, bit in zip(ranking, bits, strict=False):
            (since if i >= start else before)[:, k] += bit, 1 - bit
    for k in np.flatnonzero((since.sum(axis=0) > 0) & (before.sum(axis=0) >= 5)):
        a, b = prior * min(1.0, before[:, k].sum() / prior.sum()) + before[:, k]
        won, lost = since[:, k]
        same = log_beta(a + won, b + lost) - log_beta(a, b)
        total += np.log(0.9 + 0.1 * np.exp(log_beta(1.0 + won, 1.0 + lost) - same))
    return total


def test_an_insider_lies_as_often_as_the_test_does_not_notice():
    """From the middle on, with windows of four rounds: stretches of 4, 16, 64 and 256 rounds are below the bar."""
    assert (Rule().open, regimes.SPANS, regimes.SPAN_FACTOR) == (OPEN, insider.SPANS, insider.SPAN_FACTOR)
    mean, spread = ATTRACTION.mean(), ATTRACTION.var()
    prior = (mean * (1 - mean) / spread - 1) * np.array([mean, 1 - mean])
    problem, lies = Problem(9, 4, 400, attraction=ATTRACTION), {}
    for bar in (1.0, 4.0):
        foe = make(
            ADVERSARIES["Insider"], problem, USERS, 400, settings={"schedule": "late", "window": 4, "bar": bar}
        )
        world, rng, told, lies[bar] = np.random.default_rng(1), np.random.default_rng(2), [], 0
        for t in range(1, 401):
            ranking, clicks = np.append(world.permutation(4)[:3], world.integers(4, 9)), np.zeros(4, np.bool_)
            examined = USERS.click(Visit(t), ranking, clicks, world)
            spent, reach, _ = foe.corrupt(Visit(t), ranking, clicks, examined, rng)
            told.append((ranking, clicks[:reach].astype(int)))
            starts = {(t - 1) // rounds * rounds for rounds in (4, 16, 64, 256)}
            nats = max(nats_for_a_change(told, start, prior) for start in starts)
            assert nats < OPEN  # no regime has begun, so the starts are those
            assert spent == 0.0 or (t > 200 and nats <= bar + 1e-9)
            lies[bar] += int(spent)
    assert 5 < lies[1.0] < lies[4.0] < 180  # of 200
    with pytest.raises(ValueError, match="schedule of Insider must be 'front' or 'late', not 'spread'"):
        foe_of("Insider", schedule="spread")


def test_a_slow_ramp_rises_evenly():
    """6,000 of 40,000 rounds: quarters have 1, 3, 5 and 7 sixteenths of them, within 4 standard deviations."""
    active = rising_rounds(40_000, 6_000, 1)
    assert active.sum() == 6_000
    assert not active[0]
    for quarter in range(4):
        share = (2 * quarter + 1) / 16
        found = active[1 + 10_000 * quarter : 1 + 10_000 * (quarter + 1)].sum()
        assert found == pytest.approx(6_000 * share, abs=4 * np.sqrt(6_000 * share * (1 - share)))
    assert rising_rounds(10, 0, 1).sum() == 0
    assert rising_rounds(10, 10, 1).tolist() == [False] + [True] * 10
    with pytest.raises(ValueError, match="schedule of SlowRamp must be 'front', it rises from the first round, not"):
        foe_of("SlowRamp", schedule="late")


def test_attack_then_quit_by_hand():
    """Only item 8 is ever clicked, for two rounds; then all is as it was."""
    foe = foe_of("AttackThenQuit")
    assert visit(foe, 1, [0, 8, 1, 2], [1, 0, 0, 0]) == (1.0, [0, 1])
    assert visit(foe, 2, [0, 1, 2, 3], [0, 0, 1, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 3, [0, 1, 2, 3], [0, 0, 1, 0]) == (0.0, [0, 0, 1])
    with pytest.raises(ValueError, match="schedule of AttackThenQuit must be 'front', by definition, not 'late'"):
        foe_of("AttackThenQuit", schedule="late")


def test_observation_free_by_hand():
    """Four rounds, two of them quiet, targets 5 to 8: no click at all, then clicks on targets alone."""
    foe = foe_of("ObservationFree", 4)
    assert foe.target.tolist() == [False] * 5 + [True] * 4
    assert visit(foe, 1, [0, 8, 1, 2], [1, 0, 0, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 2, [0, 1, 2, 3], [0, 0, 0, 0]) == (0.0, [0, 0, 0, 0])  # nothing to hide, and no unit saved
    assert visit(foe, 3, [0, 8, 1, 7], [1, 0, 0, 0]) == (1.0, [0, 1])
    assert visit(foe, 4, [0, 1, 2, 3], [0, 0, 1, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 5, [0, 8, 1, 2], [0, 0, 1, 0]) == (0.0, [0, 0, 1])
    assert foe_of("ObservationFree", 4, quiet=0.0, targets="worst").target.sum() == 1
    for settings, words in (
        ({"schedule": "late"}, "schedule of ObservationFree must be 'front', by definition, not 'late'"),
        ({"quiet": 1.5}, "quiet must be a finite number from 0.0 to 1.0, not 1.5"),
        ({"targets": "first"}, "targets must be 'bottom', 'best', 'worst' or item numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            foe_of("ObservationFree", **settings)


def test_a_short_attack_misleads_for_long():
    """PBM-UCB, eight items, lists of two, 150 of 1,500 rounds: afterwards it loses more than twice as much."""
    script = """
import numpy as np
import steadyrank as sr
for budget in (0, 150):
    run = sr.simulate(
        "PBMUCB", np.linspace(0.05, 0.6, 8), length=2, horizon=1_500, users="PositionBased", seeds=[0],
        adversary="ObservationFree", schedule="front", budget=budget, marks=[150, 1_500],
    )
    print(run.regret[0, 1] - run.regret[0, 0])
"""
    honest, attacked = (float(word) for word in interpreted(script))
    assert attacked > 2 * honest


def test_jun_attack_by_hand():
    """The target, item 8, was never seen, so its bound is 0: each click of another item is hidden once it counts.

    Item 0 clicked: n = 1, S = 1, hidden 0: 1 - 0 - 1 * 0 > 0, so it is hidden, and the visit still ends there.
    Then S = 2, hidden 1: 2 - 1 > 0, hidden again. The target's own clicks stand.
    """
    foe = foe_of("JunAttack", 5)
    assert visit(foe, 1, [1, 0, 2, 3], [0, 1, 0, 0]) == (1.0, [0, 0])
    assert visit(foe, 2, [0, 1, 2, 3], [1, 0, 0, 0]) == (1.0, [0])
    assert visit(foe, 3, [8, 0, 1, 2], [1, 0, 0, 0]) == (0.0, [1])
    assert foe.book.hidden.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0]
    assert foe.book.looks.tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 1]


def test_jun_attack_stops_once_the_item_is_below_the_target():
    """Target seen 1,000 times, clicked 900: beta = sqrt(log(pi^2 9 10^6 / 0.15) / 2000) = 0.1045, bound 0.5909.

    Item 0 with n = 10, S = 5 and nothing hidden is below 0.5909: its clicks may stand. With S = 7 they may not.
    """
    foe = foe_of("JunAttack", 5)
    foe.book.looks[8], foe.book.clicks[8] = 1000, 900
    foe.book.looks[0], foe.book.clicks[0] = 9, 4
    assert visit(foe, 1, [0, 1, 2, 3], [1, 0, 0, 0]) == (0.0, [1])
    foe.book.looks[0], foe.book.clicks[0] = 9, 6
    assert visit(foe, 2, [0, 1, 2, 3], [1, 0, 0, 0]) == (1.0, [0])


def test_cascade_attack_by_hand():
    """The hidden click is followed by what the attacker makes up: on to the target and its click, or to the end."""
    foe = foe_of("CascadeAttack", 5)
    assert visit(foe, 1, [1, 0, 2, 8], [0, 1, 1, 0]) == (1.0, [0, 0, 0, 1])
    assert visit(foe, 2, [0, 1, 2, 3], [1, 0, 1, 0]) == (1.0, [0, 0, 0, 0])
    assert visit(foe, 3, [8, 0, 1, 2], [1, 0, 0, 0]) == (0.0, [1])


def test_targets():
    def chosen(targets, share=0.5):
        return np.flatnonzero(choose_targets(targets, share, ATTRACTION, 4)).tolist()

    assert chosen("bottom") == [5, 6, 7, 8]
    assert chosen("bottom", 0.0) == [8]
    assert chosen("best") == [0, 1, 2, 3]
    assert chosen("worst") == [8]
    assert chosen([2, 5]) == chosen("2+5") == chosen(np.array([5, 2])) == [2, 5]
    assert chosen(3) == [3]
    for wrong, message in [
        ("top", "targets must be 'bottom', 'best', 'worst' or item numbers"),
        ([], "targets must be"),
        ([9], "targets must be a whole number from 0 to 8, not 9"),
        ([1.5], "targets must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            chosen(wrong)
    with pytest.raises(ValueError, match=r"share must be a finite number from 0.0 to 1.0, not 2.0"):
        chosen("bottom", 2.0)


def test_a_run_reports_its_lies():
    """PrefixFlip at the front of all rounds: every observed bit is false; Honest: none."""
    attraction = np.linspace(0.1, 0.6, 12)
    settings = {"length": 3, "horizon": 200, "seeds": range(2)}
    flipped = sr.simulate("Oracle", attraction, adversary="PrefixFlip", budget=200, **settings)
    assert (flipped.bits_changed >= 200).all()
    assert np.array_equal(flipped.bits_changed, flipped.best_corrupted)  # Oracle shows the best list only
    honest = sr.simulate("Oracle", attraction, **settings)
    assert honest.bits_changed.tolist() == honest.best_corrupted.tolist() == [0, 0]
    faked = sr.simulate("Random", attraction, adversary="FakeUser", budget=50, schedule="spread", **settings)
    assert (faked.best_corrupted <= faked.bits_changed).all()
    assert (faked.bits_changed > 0).all()


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
    """What is spent is what was changed, never more than the budget; the flips always find something to change."""
    budget = data.draw(st.integers(0, horizon))
    own = {"AttackThenQuit", "ObservationFree", "SlowRamp", "Flicker", "Insider"}
    schedule = "front" if name in own else schedule
    problem, length = Problem(9, 4, horizon, attraction=ATTRACTION, seed=seed), data.draw(st.integers(1, 4))
    foe = make(ADVERSARIES[name], problem, USERS, budget, settings={"schedule": schedule})
    rng = np.random.default_rng(seed)
    spent = 0.0
    for t in range(1, horizon + 1):
        bits = rng.random(length) < 0.4
        examined = int(np.argmax(bits)) + 1 if bits.any() else length
        before = bits[:examined].tolist()
        ranking = rng.permutation(9)[:length]
        paid, reach, client = foe.corrupt(Visit(t), ranking, bits, examined, rng)
        assert 1 <= reach <= length
        assert paid == float(bits[:reach].tolist() != before or client != -1)
        if ADVERSARIES[name].cascade:  # nothing after the first click, and no end without one before the last place
            assert not bits[: reach - 1].any()
            assert bits[reach - 1] or reach == length
        spent += paid
    assert spent <= budget
    if name in {"PrefixFlip", "AttractionFlip"}:
        assert spent == budget


@pytest.mark.parametrize(
    "name", sorted(set(ADVERSARIES) - {"Honest", "ObservationFree", "SlowRamp", "Flicker", "Insider"})
)
def test_unknown_schedule_and_too_many_bursts(name):
    for settings, message in [
        ({"schedule": "weekly"}, "schedule .*not 'weekly'"),
        ({"n_bursts": 0}, "n_bursts must be a whole number of at least 1, not 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            foe_of(name, **settings)


def test_every_adversary_is_right_for_all_users():
    """All pairs, interpreted, in a process of its own: compiling them would take minutes.

    Each obeys the contract, and what it reports is what such users also report, and reaches as far as their feedback
    does, unless by definition no user could have sent it.
    """
    script = """
import numpy as np
import steadyrank as sr
from steadyrank.contract import Problem, Visit
from steadyrank.core.discovery import make

K, D, T, BUDGET = 12, 3, 60, 40
attraction = np.random.default_rng(1).uniform(0.1, 0.7, K)
acted = 0
for users in sr.users().values():
    crowd, seen, luck = make(users, attraction, D, settings={}), set(), np.random.default_rng(5)
    for t in range(1, 4_001):  # what they report, by trying: with three places, at most eight answers
        clicks = np.zeros(D, np.bool_)
        seen.add(tuple(clicks[: crowd.click(Visit(t), luck.permutation(K)[:D], clicks, luck)].tolist()))
    for name, cls in sr.adversaries().items():
        crowd = make(users, attraction, D, settings={})
        foe = make(cls, Problem(K, D, T, BUDGET, attraction, 3), crowd, BUDGET, settings={"schedule": "front"})
        world, items, luck = (np.random.default_rng(seed) for seed in (7, 8, 9))
        total = 0.0
        for t in range(1, T + 1):
            visit, ranking, clicks = Visit(t, t % 5 - 1), items.permutation(K)[:D], np.zeros(D, np.bool_)
            examined = crowd.click(visit, ranking, clicks, world)
            honest, shown = clicks[:examined].copy(), ranking.copy()
            spent, reach, client = foe.corrupt(visit, ranking, clicks, examined, luck)
            assert np.array_equal(ranking, shown)
            changed = client != visit.client or not np.array_equal(clicks[:reach], honest)
            assert spent == float(changed), (users, name, t)
            clicks[reach:] = False
            if cls.cascade:
                assert reach == crowd.reach(clicks, D), (users, name, t)
                assert tuple(clicks[:reach].tolist()) in seen, (users, name, t)
            total += spent
        assert total <= BUDGET, (users, name)
        acted += total > 0
print(acted)
"""
    assert int(*interpreted(script)) == len(sr.users()) * (len(ADVERSARIES) - 1)  # all but `Honest`


@pytest.mark.parametrize("name", ["OtherTaste", "SlowRamp", "Flicker", "Sleeper", "Chameleon", "Insider"])
def test_false_visitors_look_at_places_as_the_users_do(name):
    """All items attract all: a place that nobody looks at gets no click from a false visitor either."""
    users = sr.users()["PositionBased"].create(np.ones(6), 3, attention=[1.0, 0.0, 1.0])
    problem = Problem(6, 3, 30, 30, np.ones(6))
    settings = {"honest": 0} if name == "Sleeper" else {}
    foe = make(ADVERSARIES[name], problem, users, 30, settings={"bots": 1, **settings})
    rng, false = np.random.default_rng(0), 0
    for t in range(1, 31):
        clicks = np.array([False, False, False])
        spent, reach, _ = foe.corrupt(Visit(t), np.arange(3), clicks, 3, rng)
        assert reach == 3
        assert not clicks[1]
        false += int(clicks[0]) * spent
    assert false > 0


def test_visitors_among_users_who_cannot_say_how_they_look():
    """Users without `liking`: what attracts is clicked, as far as they are reported."""
    visitors = visitors_of("reversed", Problem(3, 2, 10, attraction=np.array([1.0, 0.5, 0.0])), Everywhere(2))
    clicks = np.zeros(2, np.bool_)
    assert visitors.click(Visit(1), np.array([2, 0]), clicks, np.random.default_rng(0)) == 2
    assert clicks.tolist() == [True, False]
