"""Play a learner and its slow version side by side on the same draws."""

import numpy as np

import steadyrank as sr
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update

K, D, T = 30, 4, 1200
ATTRACTION = np.random.default_rng(4).uniform(0.0, 0.7, K)


def feedback(ranking, world, t):
    """Cascade feedback; every ninth round the bits of all positions, which no cascade user produces."""
    bits = world.random(len(ranking)) < ATTRACTION[ranking]
    if t % 9 == 0:
        return bits, len(ranking)
    examined = int(np.argmax(bits)) + 1 if bits.any() else len(ranking)
    bits[examined:] = False
    return bits, examined


def duel(name, slow, rounds=T, **settings):
    """Every ranking must be the same, and so must the number of draws; returns the learner and its slow version."""
    learner = make(sr.learners()[name], Problem(K, D, T, 40, ATTRACTION, 1), settings=settings)
    if hasattr(slow, "meet"):
        slow.meet(learner)
    mind, mirror, world = (np.random.default_rng(s) for s in (1, 1, 2))
    rank = update = None  # compiled functions, looked up once
    for t in range(1, rounds + 1):
        allowed = np.ones(K, np.bool_) if t % 10 else world.random(K) < 0.7
        allowed[:D] = True
        ranking, note = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
        rank = rank or call_rank.bind(learner, Visit(t), allowed, ranking, note, mind)
        rank(learner, Visit(t), allowed, ranking, note, mind)
        assert ranking.tolist() == slow.rank(t, allowed.tolist(), D, mirror), f"round {t}"
        clicks, examined = feedback(ranking, world, t)
        update = update or call_update.bind(learner, Visit(t), ranking, note, clicks, examined)
        update(learner, Visit(t), ranking, note, clicks, examined)
        slow.update(ranking.tolist(), clicks.tolist(), examined)
    assert mind.bit_generator.state == mirror.bit_generator.state
    return learner, slow


def mean_value(name, attraction, length, rounds, seed):
    """Mean chance of a click on the lists that a learner shows to cascade users."""
    features = np.column_stack([attraction, 1.0 - attraction])
    problem = Problem(attraction.size, length, rounds, seed=seed, features=features)
    learner = make(sr.learners()[name], problem, settings={})
    mind, world = (np.random.default_rng(s) for s in (seed, seed + 1000))
    allowed, ranking = np.ones(attraction.size, np.bool_), np.zeros(length, np.int64)
    note, clicks = np.zeros(length + NOTE_EXTRA), np.zeros(length, np.bool_)
    rank = call_rank.bind(learner, Visit(1), allowed, ranking, note, mind)
    update = call_update.bind(learner, Visit(1), ranking, note, clicks, length)
    total = 0.0
    for t in range(1, rounds + 1):
        note[:] = 0.0
        rank(learner, Visit(t), allowed, ranking, note, mind)
        total += 1 - np.prod(1 - attraction[ranking])
        np.less(world.random(length), attraction[ranking], out=clicks)
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else length
        clicks[examined:] = False
        update(learner, Visit(t), ranking, note, clicks, examined)
    return total / rounds
