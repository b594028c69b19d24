"""The contract of learners."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.contract import ANSWER, ANYONE, KIND, NOTE_EXTRA, SILENCE, VOUCHED, Visit
from ..core.discovery import find_class, make
from ..core.dispatch import call_count_answer, call_end_window, call_forget, call_rank, call_update
from ..core.rounds import offers
from ..core.views import View
from ..learners.oracle import Oracle
from .samples import D, Event, F, K, T, check_fields, feedback, sample_attraction, sample_problem, state


def check_learner(cls: type, **settings: Any) -> None:
    """Check a learner class with these settings against every rule of the contract. Takes a few seconds."""
    find_class("learner", cls, {})
    check_fields(cls, lambda n: make(cls, sample_problem(n), settings=settings))
    learner = make(cls, sample_problem(K), settings=settings)
    log = _live_through(learner, call_rank, call_update)
    plain = make(cls, sample_problem(K), settings=settings)
    plain_log = _live_through(plain, call_rank.plain, call_update.plain)
    for event, other in zip(log, plain_log, strict=True):
        same = np.array_equal(event.ranking, other.ranking) and np.array_equal(event.note, other.note)
        assert same, f"{cls.__name__}: compiled and interpreted `rank` differ in round {event.visit.t}"
    assert state(learner) == state(plain), f"{cls.__name__}: compiled and interpreted `update` differ"
    if offers(learner, "count_answer"):
        parted = make(cls, sample_problem(K), settings=settings)
        _live_through(parted, call_rank.plain, _update_in_two)
        assert state(parted) == state(plain), f"{cls.__name__}: `update` does what its two parts do (rule 18)"
    _check_replay(cls, settings, learner, log)
    _check_ties(cls, settings)
    if callable(getattr(cls, "view", None)):
        assert isinstance(learner.view(), View), f"{cls.__name__}: `view` returns a View (rule 12)"
        assert state(learner) == state(plain), f"{cls.__name__}: `view` only reads (rule 12)"
    if offers(learner, "forget"):
        _check_forget(learner, plain)
    if getattr(cls, "live", False):
        try:
            endless = make(cls, sample_problem(K)._replace(horizon=0), settings=settings)
        except ValueError as error:
            assert settings, f"{cls.__name__}: a live learner takes an unknown horizon (rule 8): {error}"
            assert "horizon" in str(error), f"{cls.__name__}: {error}"
            return  # a setting may need the horizon
        _live_through(endless, call_rank, call_update)


def _live_through(learner: Any, rank: Callable[..., Any], update: Callable[..., Any]) -> list[Event]:
    """Play rounds with changing items, list sizes and late answers; check each ranking."""
    name = type(learner).__name__
    mind, world = np.random.default_rng(1), np.random.default_rng(2)
    log: list[Event] = []
    waiting: list[Event] = []
    for t in range(1, T + 1):
        steady = t % 5 != 0
        allowed = np.ones(K, np.bool_) if steady else world.random(K) < 0.5
        size = D if steady else int(world.integers(1, D + 1))
        allowed[world.permutation(K)[:size]] = True
        ranking, note = np.full(size, -1, np.int64), np.zeros(D + NOTE_EXTRA)
        before, mirror, may = state(learner), copy.deepcopy(mind), allowed.copy()
        visit = Visit(t, t % 5 - 1, np.zeros(F))
        rank(learner, visit, allowed, ranking, note, mind)
        assert state(learner) == before, f"{name}: `rank` reads, only `update` writes (rule 1)"
        assert np.array_equal(allowed, may), f"{name}: `rank` writes `allowed`, which others read (rule 8)"
        assert len(set(ranking.tolist())) == size, f"{name}: items repeat in {ranking} (round {t})"
        in_range = ranking.min() >= 0 and ranking.max() < K
        assert in_range, f"{name}: {ranking} is not among {K} items (round {t})"
        assert allowed[ranking].all(), f"{name}: {ranking} holds an item that is not allowed (rule 8, round {t})"
        assert note[KIND] == 0.0, f"{name}: the note's last place belongs to the live side (rule 2)"
        once_more, second = np.full(size, -1, np.int64), np.zeros(D + NOTE_EXTRA)
        rank(learner, visit, allowed, once_more, second, mirror)
        assert np.array_equal(ranking, once_more), f"{name}: chance must come from `rng` alone (rule 3)"
        clicks, examined = feedback(t, size, world)
        waiting.append(Event(visit, ranking, note, clicks, examined))
        for event in _due(waiting, t):
            kept = event.note.copy(), event.ranking.copy(), event.clicks.copy()
            update(learner, *event)
            for was, now in zip(kept, (event.note, event.ranking, event.clicks), strict=True):
                assert np.array_equal(was, now), f"{name}: `update` writes only its own memory"
            log.append(event)
    return log


def _update_in_two(learner: Any, visit: Visit, *answer: Any) -> None:
    if call_count_answer.plain(learner, visit, *answer):
        call_end_window.plain(learner, visit)


def _due(waiting: list[Event], t: int) -> Iterator[Event]:
    """Deliver answers at once, except that every thirtieth round the last ones come together, newest first."""
    if t % 30 < 26:
        while waiting:
            yield waiting.pop()


def _check_replay(cls: type, settings: dict[str, Any], learner: Any, log: list[Event]) -> None:
    # a problem with other attractions, which only `Oracle` may read
    problem = (
        sample_problem(K)
        if cls is Oracle
        else sample_problem(K)._replace(attraction=sample_attraction(K)[::-1].copy())
    )
    again = make(cls, problem, settings=settings)
    for event in log:
        call_update(again, *event)
    allowed, note = np.ones(K, np.bool_), np.zeros(D + NOTE_EXTRA)
    lists = np.zeros((2, D), np.int64)
    for record, ranking in zip((learner, again), lists, strict=True):
        call_rank(record, Visit(T, ANYONE, np.zeros(F)), allowed, ranking, note, np.random.default_rng(4))
    assert np.array_equal(*lists), f"{cls.__name__}: only Oracle may read the true attractions"
    assert state(again) == state(learner), f"{cls.__name__}: replaying the log gives other memory (rule 3)"


def _check_ties(cls: type, settings: dict[str, Any]) -> None:
    """Without any feedback, and with identical items, the first one must not depend on its number (rule 7)."""
    alike = sample_problem(K)._replace(attraction=np.full(K, 0.3), features=np.ones((K, F)))
    learner = make(cls, alike, settings=settings)
    ranking, note, allowed = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA), np.ones(K, np.bool_)
    leaders = set()
    for seed in range(60):
        call_rank(learner, Visit(1), allowed, ranking, note, np.random.default_rng(seed))
        leaders.add(int(ranking[0]))
    assert len(leaders) > 10, f"{cls.__name__}: ties must be broken at random (rule 7); first items {sorted(leaders)}"


def _check_forget(learner: Any, plain: Any) -> None:
    """`forget` undoes what an update added; an update may occasionally do more than that (rule 15)."""
    name, world, same = type(learner).__name__, np.random.default_rng(6), 0
    allowed, note = np.ones(K, np.bool_), np.zeros(D + NOTE_EXTRA)
    shown = np.zeros((2, D), np.int64)
    for t in range(T + 1, T + 81, 2):
        visit = Visit(t, 0, np.zeros(F))
        call_rank(learner, visit, allowed, shown[0], note, np.random.default_rng(t))
        stays, goes = (Event(visit, shown[0].copy(), note.copy(), *feedback(t, D, world)) for _ in range(2))
        for record in (learner, plain):
            call_update(record, *stays)
        visit = Visit(t + 1, 0, np.zeros(F))
        call_rank(learner, visit, allowed, shown[0], note, np.random.default_rng(t))
        goes = goes._replace(visit=visit, ranking=shown[0].copy(), note=note.copy())
        goes.note[KIND] = (ANSWER, VOUCHED, SILENCE)[t % 3]
        for record, forget in ((learner, call_forget), (plain, call_forget.plain)):
            call_update(record, *goes)
            kept = goes.note.copy(), goes.ranking.copy(), goes.clicks.copy()
            forget(record, *goes)
            for was, now in zip(kept, (goes.note, goes.ranking, goes.clicks), strict=True):
                assert np.array_equal(was, now), f"{name}: `forget` writes only its own memory (rule 15)"
        assert state(learner) == state(plain), f"{name}: compiled and interpreted `forget` differ (rule 15)"
        call_rank(learner, visit, allowed, shown[1], note, np.random.default_rng(t))
        same += np.array_equal(*shown)
    assert same >= 20, f"{name}: after `update` and `forget`, {40 - same} of 40 lists differ (rule 15)"
