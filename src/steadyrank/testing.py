"""Public checks of the contract: call them on a class of your own, as this project's tests do on all of its own.

Each raises an `AssertionError` that names the rule (docs/contract.md) and what was seen.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np

from .contract import (
    NOTE_EXTRA,
    Bools,
    Floats,
    Ints,
    Problem,
    call_best,
    call_click,
    call_corrupt,
    call_rank,
    call_update,
    call_value,
    make,
    memory,
)
from .learners.oracle import Oracle
from .schedules import SCHEDULES
from .users.cascade import Cascade
from .views import View

__all__ = ["check_adversary", "check_learner", "check_users"]

_K, _D, _T, _BUDGET = 30, 4, 240, 40


class _Event(NamedTuple):
    t: int
    ranking: Ints
    note: Floats
    clicks: Bools
    examined: int


def check_learner(cls: type, **settings: Any) -> None:
    """Check a learner class with the given settings against every rule of the contract. A few seconds."""
    _check_fields(cls, lambda n: make(cls, _problem(n), settings=settings))
    learner = make(cls, _problem(_K), settings=settings)
    log = _live_through(learner, call_rank, call_update)
    plain = make(cls, _problem(_K), settings=settings)
    plain_log = _live_through(plain, call_rank.plain, call_update.plain)
    for event, other in zip(log, plain_log, strict=True):
        same = np.array_equal(event.ranking, other.ranking) and np.array_equal(event.note, other.note)
        assert same, f"{cls.__name__}: compiled and interpreted `rank` differ in round {event.t}"
    assert _bytes(learner) == _bytes(plain), f"{cls.__name__}: compiled and interpreted `update` differ"
    _check_replay(cls, settings, learner, log)
    _check_ties(cls, settings)
    if callable(getattr(cls, "view", None)):
        assert isinstance(learner.view(), View), f"{cls.__name__}: `view` returns a View (rule 10)"
        assert _bytes(learner) == _bytes(plain), f"{cls.__name__}: `view` only reads (rule 10)"
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
    attraction = _attraction(_K)
    _check_fields(cls, lambda n: make(cls, _attraction(n), _D, settings=settings))
    crowd = make(cls, attraction, _D, settings=settings)
    before = _bytes(crowd)
    used, mirror, counted = (np.random.default_rng(5) for _ in range(3))
    items = np.random.default_rng(6)
    best = np.zeros(_D, np.int64)
    for t in range(1, _T + 1):
        size = 1 + t % _D
        ranking = items.permutation(_K)[:size]
        clicks, other = np.ones(size, np.bool_), np.zeros(size, np.bool_)
        examined = call_click(crowd, t, ranking, clicks, used)
        again = call_click.plain(crowd, t, ranking, other, mirror)
        assert 1 <= examined <= size, f"{cls.__name__}: examined {examined} of {size} positions"
        assert examined == again, f"{cls.__name__}: compiled and interpreted `click` differ in round {t}"
        assert np.array_equal(clicks, other), f"{cls.__name__}: `click` must write the bit of every position"
        counted.random(_D)
        assert used.bit_generator.state == counted.bit_generator.state, (
            f"{cls.__name__}: `click` must draw exactly `length` uniforms a round (rule 3)"
        )
        call_best(crowd, t, best)
        assert len(set(best.tolist())) == _D, f"{cls.__name__}: `best` repeats items: {best}"
        shown = items.permutation(_K)[:_D]
        value, most = call_value(crowd, t, shown), call_value(crowd, t, best)
        assert value == crowd.value(t, shown), f"{cls.__name__}: compiled and interpreted `value` differ in round {t}"
        assert 0.0 <= value <= most + 1e-12 <= 1.0 + 2e-12, f"{cls.__name__}: value {value}, that of `best` {most}"
    assert _bytes(crowd) == before, f"{cls.__name__}: users keep no memory"


def check_adversary(cls: type, **settings: Any) -> None:
    """Check an adversary with the given settings against the contract, under every schedule."""
    _check_fields(cls, lambda n: _adversary(cls, n, "front", settings))
    for schedule in SCHEDULES:
        try:
            foe, plain = (_adversary(cls, _K, schedule, settings) for _ in range(2))
        except ValueError as error:
            assert schedule != "front", f"{cls.__name__}: every adversary can act at the front: {error}"
            assert "schedule" in str(error), f"{cls.__name__}: {error}"
            continue  # a schedule may make no sense for it
        crowd = Cascade.create(_attraction(_K), _D)
        world, items = np.random.default_rng(7), np.random.default_rng(8)
        used, mirror = np.random.default_rng(9), np.random.default_rng(9)
        total = 0.0
        for t in range(1, _T + 1):
            ranking = items.permutation(_K)[:_D]
            clicks = np.zeros(_D, np.bool_)
            examined = crowd.click(t, ranking, clicks, world)
            honest, shown, other = clicks[:examined].copy(), ranking.copy(), clicks.copy()
            spent, seen = call_corrupt(foe, t, ranking, clicks, examined, used)
            again = call_corrupt.plain(plain, t, ranking, other, examined, mirror)
            assert (spent, seen) == again, f"{cls.__name__}: compiled and interpreted `corrupt` differ in round {t}"
            assert np.array_equal(clicks, other), f"{cls.__name__}: compiled and interpreted bits differ"
            assert np.array_equal(ranking, shown), f"{cls.__name__}: an adversary touches only the feedback (rule 6)"
            assert 1 <= seen <= _D, f"{cls.__name__}: examined {seen} of {_D} positions"
            changed = not np.array_equal(clicks[:seen], honest)
            assert spent == float(changed), f"{cls.__name__}: spent {spent} in a round with change={changed} (rule 6)"
            total += spent
            early = schedule == "late" and t <= _T // 2
            assert not (early and changed), f"{cls.__name__}: acted in round {t} under the schedule `late` (rule 6)"
        assert total <= _BUDGET, f"{cls.__name__}: spent {total} of {_BUDGET} (rule 6)"


def _problem(n_items: int) -> Problem:
    return Problem(n_items, _D, _T, _BUDGET, _attraction(n_items), 3)


def _attraction(n_items: int) -> Floats:
    return np.random.default_rng(1).uniform(0.0, 0.6, n_items)


def _adversary(cls: type, n_items: int, schedule: str, settings: dict[str, Any]) -> Any:
    crowd = Cascade.create(_attraction(n_items), _D)
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
        rank(learner, t, allowed, ranking, note, mind)
        assert _bytes(learner) == before, f"{name}: `rank` reads, only `update` writes (rule 1)"
        assert len(set(ranking.tolist())) == size, f"{name}: items repeat in {ranking} (round {t})"
        in_range = ranking.min() >= 0 and ranking.max() < _K
        assert in_range, f"{name}: {ranking} is not among {_K} items (round {t})"
        assert allowed[ranking].all(), f"{name}: {ranking} holds an item that is not allowed (rule 8, round {t})"
        assert note[-1] == 0.0, f"{name}: the note's last place belongs to the live side (rule 2)"
        once_more, second = np.full(size, -1, np.int64), np.zeros(_D + NOTE_EXTRA)
        rank(learner, t, allowed, once_more, second, mirror)
        assert np.array_equal(ranking, once_more), f"{name}: chance must come from `rng` alone (rule 3)"
        clicks, examined = _feedback(t, size, world)
        waiting.append(_Event(t, ranking, note, clicks, examined))
        for event in _due(waiting, t):
            kept = event.note.copy(), event.ranking.copy(), event.clicks.copy()
            update(learner, event.t, event.ranking, event.note, event.clicks, event.examined)
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
        call_rank(record, _T, allowed, ranking, note, np.random.default_rng(4))
    assert np.array_equal(*lists), f"{cls.__name__}: only Oracle may read the true attractions"
    assert _bytes(again) == _bytes(learner), f"{cls.__name__}: replaying the log gives other memory (rule 3)"


def _check_ties(cls: type, settings: dict[str, Any]) -> None:
    """With nothing learnt and equal attractions, the first item must not depend on its number (rule 7)."""
    learner = make(cls, _problem(_K)._replace(attraction=np.full(_K, 0.3)), settings=settings)
    ranking, note, allowed = np.zeros(_D, np.int64), np.zeros(_D + NOTE_EXTRA), np.ones(_K, np.bool_)
    leaders = set()
    for seed in range(60):
        call_rank(learner, 1, allowed, ranking, note, np.random.default_rng(seed))
        leaders.add(int(ranking[0]))
    assert len(leaders) > 10, f"{cls.__name__}: ties must be broken at random (rule 7); first items {sorted(leaders)}"
