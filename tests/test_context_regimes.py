"""Regimes with features: what is taken back and handed over, and attacks on a learner that knows its visitors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_forget, call_rank, call_update
from steadyrank.learners.shared.mixed_model import MixedModel, add_sums, observe, rebuild, unobserve
from steadyrank.learners.steady.steady_rank_linear import model_before

pytestmark = pytest.mark.pure

K, D, F = 30, 4, 3
ITEMS = np.random.default_rng(7).normal(size=(K, F))
THETA = np.array([1.0, -0.8, 0.6])
LEARNER = sr.learners()["SteadyRankLinear"]


def chances(v):
    return 1 / (1 + np.exp(2.0 - ITEMS * v @ THETA))


def new_learner(**change):
    return make(LEARNER, Problem(K, D, features=ITEMS), settings=change)


def live_through(learner, rounds, seed=1, lies=range(0), first=1):
    """Cascade visitors; in the rounds `lies` they click what they dislike. Returns the lists' worth a round."""
    mind, world = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    allowed, ranking, note, worth = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4), []
    for t in range(first, first + rounds):
        v = world.uniform(-1, 1, F) + [1, 0, 0]
        call_rank(learner, Visit(t, -1, v), allowed, ranking, note, mind)
        p = chances(v)
        worth.append((1 - np.prod(1 - p[ranking])) / (1 - np.prod(1 - np.sort(p)[-D:])))
        clicks = world.random(D) < (np.sort(p)[::-1][np.argsort(np.argsort(p))] if t in lies else p)[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        clicks[examined:] = False
        call_update(learner, Visit(t, -1, v), ranking, note, clicks, examined)
    return np.array(worth)


@settings(max_examples=20)
@given(st.integers(0, 19), st.integers(0, 2**32 - 1))
def test_an_observation_taken_back_leaves_the_others(gone, seed):
    """Of 20 observations of 5 items, one: sums and posterior are those of the other 19."""
    rng = np.random.default_rng(seed)
    model, without = MixedModel.create(ITEMS[:5]), MixedModel.create(ITEMS[:5])
    z, c, u, seen = np.zeros(F + 1), np.zeros(F + 1), np.zeros(F + 1), []
    for _ in range(20):
        k = int(rng.integers(5))
        z = np.array([*rng.normal(size=F), 1.0])
        weight, target, _ = observe(model, k, z, c, u, float(rng.random() < 0.4))
        seen.append((k, z, weight, target))
    k, z, weight, target = seen[gone]
    unobserve(model, k, z, c, u, weight, target)
    for i, (k, z, weight, target) in enumerate(seen):
        if i != gone:
            add_sums(without, k, z, weight, target)
    rebuild(without)
    assert model.shared.estimate == pytest.approx(without.shared.estimate, abs=1e-9)
    assert model.shared.inverse == pytest.approx(without.shared.inverse, abs=1e-9)
    assert model.cross == pytest.approx(without.cross, abs=1e-12)


def test_a_model_without_its_latest_visits_is_the_one_before_them():
    learner = new_learner(window=1000)
    live_through(learner, 40)
    told = int(learner.visits.first[-1])
    kept = [array.copy() for array in (learner.models.estimate[0], learner.models.pull[0], learner.models.cross[0])]
    prior = learner.models.prior.copy()
    live_through(learner, 15, seed=5, first=41)
    learner.models.prior[:] = prior  # a fit in between is no visit
    before = model_before(learner.models, learner.visits, 0, 1, told)
    for now, was in zip((before.shared.estimate, before.pull, before.cross), kept, strict=True):
        assert now == pytest.approx(was, abs=1e-9)


def test_an_attack_opens_a_regime_and_its_end_takes_up_the_first():
    """1,000 honest rounds, 400 with clicks on what is disliked, 600 honest ones; found within two windows."""
    learner = new_learner()
    worth = live_through(learner, 2000, lies=range(1001, 1401))
    view = learner.view()
    assert [(change.before, change.after) for change in view.changes] == [(1, 2), (2, 1)]
    for change, start in zip(view.changes, (1001, 1401), strict=True):
        assert abs(change.start - start) <= 50
        assert change.noticed - start <= 150
    assert view.trusted == 1
    assert worth[1450:].mean() > 0.9
    assert worth[1100:1400].mean() > 0.5  # the longer regime has its places
    assert view.regime(1).rounds + view.regime(2).rounds == 2000


def test_honest_visitors_open_no_regime_and_are_served_by_what_is_known_of_them():
    learner = new_learner()
    worth = live_through(learner, 1500)
    assert learner.view().n_changes == 0
    assert worth[1000:].mean() > 0.9
    assert np.corrcoef(learner.view().regime(1).estimate, chances(np.array([1.0, 0, 0])))[0, 1] > 0.9


@pytest.mark.parametrize("held", [True, False], ids=["in the log", "long ago"])
def test_what_a_visitor_said_is_forgotten(held):
    """30 lists on which only one bad item was clicked: forgotten, it stands where it stood, within 0.02."""
    learner = new_learner(window=1000 if held else 5)
    live_through(learner, 300)
    bad = int(np.argmin(chances(np.array([1.0, 0, 0]))))
    before = learner.view().regime(1).estimate[bad]
    shown = np.array([bad, (bad + 1) % K])
    said = [(Visit(t, 9, np.array([1.0, 0.2, 0.1])), shown, np.zeros(D + 4), np.array([True, False]), 1)
            for t in range(301, 331)]  # fmt: skip
    for event in said:
        call_update(learner, *event)
    raised = learner.view().regime(learner.view().current).estimate[bad]
    if not held:
        learner.visits.round[:] = 0  # as if others had come since
    for visit, *rest in said:
        call_forget(learner, Visit(visit.t, 9, np.zeros(F)), *rest)
    after = learner.view().regime(1).estimate[bad]
    assert raised > before + 0.2
    assert after == pytest.approx(before, abs=0.02)
