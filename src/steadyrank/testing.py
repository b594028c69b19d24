"""Public checks of the contract: call them on a class of your own, as this project's tests do on all of its own.

Each raises an `AssertionError` that names the rule (docs/contract.md) and what was seen.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np

from .adversaries.schedules import SCHEDULES
from .contract import (
    ANYONE,
    KIND,
    NOTE_EXTRA,
    Bools,
    Floats,
    Ints,
    Problem,
    Visit,
    call_arrive,
    call_best,
    call_click,
    call_corrupt,
    call_rank,
    call_reach,
    call_update,
    call_value,
    find,
    make,
    memory,
)
from .learners.oracle import Oracle
from .users.cascade import Cascade
from .views import View

__all__ = ["check_adversary", "check_learner", "check_users"]

_K, _D, _F, _T, _BUDGET = 30, 4, 3, 240, 40


class _Event(NamedTuple):
    visit: Visit
    ranking: Ints
    note: Floats
    clicks: Bools
    examined: int


def check_learner(cls: type, **settings: Any) -> None:
    """Check a learner class with the given settings against every rule of the contract. A few seconds."""
    find("learner", cls, {})
    _check_fields(cls, lambda n: make(cls, _problem(n), settings=settings))
    learner = make(cls, _problem(_K), settings=settings)
    log = _live_through(learner, call_rank, call_update)
    plain = make(cls, _problem(_K), settings=settings)
    plain_log = _live_through(plain, call_rank.plain, call_update.plain)
    for event, other in zip(log, plain_log, strict=True):
        same = np.array_equal(event.ranking, other.ranking) and np.array_equal(event.note, other.note)
        assert same, f"{cls.__name__}: compiled and interpreted `rank` differ in round {event.visit.t}"
    assert _bytes(learner) == _bytes(plain), f"{cls.__name__}: compiled and interpreted `update` differ"
    _check_replay(cls, settings, learner, log)
    _check_ties(cls, settings)
    if callable(getattr(cls, "view", None)):
        assert isinstance(learner.view(), View), f"{cls.__name__}: `view` returns a View (rule 12)"
        assert _bytes(learner) == _bytes(plain), f"{cls.__name__}: `view` only reads (rule 12)"
    if getattr(cls, "live", False):
        try:
            endless = make(cls, _problem(_K)._replace(horizon=0), settings=settings)
        except ValueError as error:
            assert settings, f"{cls.__name__}: a live learner takes an unknown horizon (rule 8): {error}"
            assert "horizon" in str(error), f"{cls.__name__}: {error}"
            return  # a setting may need the horizon
        _live_through(endless, call_rank, call_update)


def check_users(cls: type, **settings: Any) -> None:
    """Check a click model with the given settings against the contract."""
    find("users", cls, {})
    attraction = _attraction(_K)
    _check_fields(cls, lambda n: make(cls, _attraction(n), _D, settings=settings))
    crowd = make(cls, attraction, _D, settings=settings)
    before = _bytes(crowd)
    used, mirror, counted, door, second = (np.random.default_rng(5) for _ in range(5))
    items = np.random.default_rng(6)
    for t in range(1, _T + 1):
        visit = _check_arrival(cls, crowd, t, door, second)
        size = 1 + t % _D
        ranking = items.permutation(_K)[:size]
        clicks, other = np.ones(size, np.bool_), np.zeros(size, np.bool_)
        examined = call_click(crowd, visit, ranking, clicks, used)
        again = call_click.plain(crowd, visit, ranking, other, mirror)
        assert examined == again, f"{cls.__name__}: compiled and interpreted `click` differ in round {t}"
        assert np.array_equal(clicks, other), f"{cls.__name__}: `click` must write the bit of every position"
        counted.random(_D)
        assert used.bit_generator.state == counted.bit_generator.state, (
            f"{cls.__name__}: `click` must draw exactly `length` uniforms a round (rule 3)"
        )
        _check_reach(cls, crowd, clicks, examined)
        _check_value(cls, crowd, visit, items.permutation(_K)[:_D])
    assert _bytes(crowd) == before, f"{cls.__name__}: users keep no memory"


def _check_arrival(cls: type, crowd: Any, t: int, door: np.random.Generator, second: np.random.Generator) -> Visit:
    features, other = np.full(_F, np.nan), np.full(_F, np.nan)
    client = call_arrive(crowd, t, features, door)
    assert client == call_arrive.plain(crowd, t, other, second), f"{cls.__name__}: `arrive` differs interpreted"
    assert np.array_equal(features, other, equal_nan=True), f"{cls.__name__}: `arrive` differs interpreted"
    assert door.bit_generator.state == second.bit_generator.state, f"{cls.__name__}: `arrive` differs interpreted"
    assert client >= ANYONE, f"{cls.__name__}: a client is a number from 0 on, or -1 for anyone, not {client}"
    written = np.isfinite(features)
    assert written.all() or np.isnan(features).all(), f"{cls.__name__}: `arrive` writes all features or none"
    return Visit(t, client, np.where(written, features, 0.0))


def _check_reach(cls: type, crowd: Any, clicks: Bools, examined: int) -> None:
    """How far feedback reaches follows from its bits, and from none behind its end (rule 4)."""
    size = clicks.size
    assert 1 <= examined <= size, f"{cls.__name__}: examined {examined} of {size} positions"
    bits = clicks.copy()
    reach = call_reach(crowd, bits, size)
    assert np.array_equal(bits, clicks), f"{cls.__name__}: `reach` only reads"
    assert reach == call_reach.plain(crowd, bits, size), f"{cls.__name__}: `reach` differs interpreted"
    assert reach == examined, f"{cls.__name__}: `click` says {examined} of {clicks}, `reach` {reach} (rule 4)"
    bits[examined:] = ~bits[examined:]
    assert call_reach(crowd, bits, size) == examined, f"{cls.__name__}: `reach` looks behind where it ends (rule 4)"


def _check_value(cls: type, crowd: Any, visit: Visit, shown: Ints) -> None:
    best = np.zeros(_D, np.int64)
    call_best(crowd, visit, best)
    assert len(set(best.tolist())) == _D, f"{cls.__name__}: `best` repeats items: {best}"
    value, most = call_value(crowd, visit, shown), call_value(crowd, visit, best)
    plain = crowd.value(visit, shown)
    assert value == plain, f"{cls.__name__}: compiled and interpreted `value` differ in round {visit.t}"
    # a value is the chance of a click, or the expected number of clicks
    assert 0.0 <= value <= most + 1e-12 <= _D + 2e-12, f"{cls.__name__}: value {value}, that of `best` {most}"


def check_adversary(cls: type, *, users: type = Cascade, **settings: Any) -> None:
    """Check an adversary with the given settings against the contract, under every schedule, for these users."""
    find("adversary", cls, {})
    _check_fields(cls, lambda n: _adversary(cls, users, n, "front", settings))
    for schedule in SCHEDULES:
        try:
            foe, plain = (_adversary(cls, users, _K, schedule, settings) for _ in range(2))
        except ValueError as error:
            assert schedule != "front", f"{cls.__name__}: every adversary can act at the front: {error}"
            assert "schedule" in str(error), f"{cls.__name__}: {error}"
            continue  # a schedule may make no sense for it
        _check_rewriting(cls, make(users, _attraction(_K), _D, settings={}), foe, plain, schedule)


def _check_rewriting(cls: type, crowd: Any, foe: Any, plain: Any, schedule: str) -> None:
    world, items = np.random.default_rng(7), np.random.default_rng(8)
    used, mirror = np.random.default_rng(9), np.random.default_rng(9)
    total = 0.0
    for t in range(1, _T + 1):
        visit = Visit(t, t % 7 - 1)
        ranking = items.permutation(_K)[:_D]
        clicks = np.zeros(_D, np.bool_)
        examined = crowd.click(visit, ranking, clicks, world)
        honest, shown, other = clicks[:examined].copy(), ranking.copy(), clicks.copy()
        answer = spent, reach, client = call_corrupt(foe, visit, ranking, clicks, examined, used)
        again = call_corrupt.plain(plain, visit, ranking, other, examined, mirror)
        assert answer == again, f"{cls.__name__}: compiled and interpreted `corrupt` differ in round {t}"
        assert np.array_equal(clicks, other), f"{cls.__name__}: compiled and interpreted bits differ"
        assert np.array_equal(ranking, shown), f"{cls.__name__}: an adversary touches only the feedback (rule 6)"
        assert 1 <= reach <= _D, f"{cls.__name__}: examined {reach} of {_D} positions"
        assert client >= ANYONE, f"{cls.__name__}: a client is a number from 0 on, or -1 for anyone, not {client}"
        changed = client != visit.client or not np.array_equal(clicks[:reach], honest)
        assert spent == float(changed), f"{cls.__name__}: spent {spent} in a round with change={changed} (rule 6)"
        total += spent
        early = schedule == "late" and t <= _T // 2
        assert not (early and changed), f"{cls.__name__}: acted in round {t} under the schedule `late` (rule 6)"
    assert total <= _BUDGET, f"{cls.__name__}: spent {total} of {_BUDGET} (rule 6)"


def _problem(n_items: int) -> Problem:
    features = np.random.default_rng(2).normal(size=(n_items, _F))
    return Problem(n_items, _D, _T, _BUDGET, _attraction(n_items), 3, features)


def _attraction(n_items: int) -> Floats:
    return np.random.default_rng(1).uniform(0.0, 0.6, n_items)


def _adversary(cls: type, users: type, n_items: int, schedule: str, settings: dict[str, Any]) -> Any:
    crowd = make(users, _attraction(n_items), _D, settings={})
    return make(cls, _problem(n_items), crowd, _BUDGET, settings={"schedule": schedule, **settings})


def _bytes(record: Any) -> bytes:
    return b"".join(array.tobytes() for _, array in memory(record))


def _check_fields(cls: type, create: Callable[[int], Any]) -> None:
    """Every field is an array or a plain number, and its type depends on nothing but the class (rule 5)."""
    a, b = create(_K), create(_K + 1)
    assert isinstance(a, tuple), f"{cls.__name__}: a record is a NamedTuple"
    assert numba.typeof(a) == numba.typeof(b), (
        f"{cls.__name__}: field types depend on the number of items:\n{numba.typeof(a)}\n{numba.typeof(b)}"
    )
    for name, array in memory(a):
        assert array.flags.c_contiguous, f"{cls.__name__}.{name} must be contiguous (rule 5)"
        assert array.flags.writeable, f"{cls.__name__}.{name} must be writeable (rule 5)"


def _feedback(t: int, size: int, rng: np.random.Generator) -> tuple[Bools, int]:
    """Cascade feedback, and every seventh round what no cascade user produces."""
    clicks = rng.random(size) < 0.3
    if t % 7 == 0:
        return clicks, size
    examined = int(np.argmax(clicks)) + 1 if clicks.any() else size
    clicks[examined:] = False
    return clicks, examined


def _live_through(learner: Any, rank: Callable[..., Any], update: Callable[..., Any]) -> list[_Event]:
    """Rounds with changing items, list sizes and late answers; checks each ranking on the way."""
    name = type(learner).__name__
    mind, world = np.random.default_rng(1), np.random.default_rng(2)
    log: list[_Event] = []
    waiting: list[_Event] = []
    for t in range(1, _T + 1):
        steady = t % 5 != 0
        allowed = np.ones(_K, np.bool_) if steady else world.random(_K) < 0.5
        size = _D if steady else int(world.integers(1, _D + 1))
        allowed[world.permutation(_K)[:size]] = True
        ranking, note = np.full(size, -1, np.int64), np.zeros(_D + NOTE_EXTRA)
        before, mirror = _bytes(learner), copy.deepcopy(mind)
        visit = Visit(t, t % 5 - 1, np.zeros(_F))
        rank(learner, visit, allowed, ranking, note, mind)
        assert _bytes(learner) == before, f"{name}: `rank` reads, only `update` writes (rule 1)"
        assert len(set(ranking.tolist())) == size, f"{name}: items repeat in {ranking} (round {t})"
        in_range = ranking.min() >= 0 and ranking.max() < _K
        assert in_range, f"{name}: {ranking} is not among {_K} items (round {t})"
        assert allowed[ranking].all(), f"{name}: {ranking} holds an item that is not allowed (rule 8, round {t})"
        assert note[KIND] == 0.0, f"{name}: the note's last place belongs to the live side (rule 2)"
        once_more, second = np.full(size, -1, np.int64), np.zeros(_D + NOTE_EXTRA)
        rank(learner, visit, allowed, once_more, second, mirror)
        assert np.array_equal(ranking, once_more), f"{name}: chance must come from `rng` alone (rule 3)"
        clicks, examined = _feedback(t, size, world)
        waiting.append(_Event(visit, ranking, note, clicks, examined))
        for event in _due(waiting, t):
            kept = event.note.copy(), event.ranking.copy(), event.clicks.copy()
            update(learner, *event)
            for was, now in zip(kept, (event.note, event.ranking, event.clicks), strict=True):
                assert np.array_equal(was, now), f"{name}: `update` writes only its own memory"
            log.append(event)
    return log


def _due(waiting: list[_Event], t: int) -> Iterator[_Event]:
    """Answers arrive at once, except that every thirtieth round the last ones come together, newest first."""
    if t % 30 < 26:
        while waiting:
            yield waiting.pop()


def _check_replay(cls: type, settings: dict[str, Any], learner: Any, log: list[_Event]) -> None:
    # told other attractions, which only `Oracle` may read
    told = _problem(_K) if cls is Oracle else _problem(_K)._replace(attraction=_attraction(_K)[::-1].copy())
    again = make(cls, told, settings=settings)
    for event in log:
        call_update(again, *event)
    allowed, note = np.ones(_K, np.bool_), np.zeros(_D + NOTE_EXTRA)
    lists = np.zeros((2, _D), np.int64)
    for record, ranking in zip((learner, again), lists, strict=True):
        call_rank(record, Visit(_T, ANYONE, np.zeros(_F)), allowed, ranking, note, np.random.default_rng(4))
    assert np.array_equal(*lists), f"{cls.__name__}: only Oracle may read the true attractions"
    assert _bytes(again) == _bytes(learner), f"{cls.__name__}: replaying the log gives other memory (rule 3)"


def _check_ties(cls: type, settings: dict[str, Any]) -> None:
    """With nothing learnt and equal attractions, the first item must not depend on its number (rule 7)."""
    learner = make(cls, _problem(_K)._replace(attraction=np.full(_K, 0.3)), settings=settings)
    ranking, note, allowed = np.zeros(_D, np.int64), np.zeros(_D + NOTE_EXTRA), np.ones(_K, np.bool_)
    leaders = set()
    for seed in range(60):
        call_rank(learner, Visit(1), allowed, ranking, note, np.random.default_rng(seed))
        leaders.add(int(ranking[0]))
    assert len(leaders) > 10, f"{cls.__name__}: ties must be broken at random (rule 7); first items {sorted(leaders)}"
