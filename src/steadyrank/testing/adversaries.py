"""The contract of adversaries."""

from typing import Any

import numpy as np

from ..adversaries.schedules import SCHEDULES
from ..core.contract import ANYONE, Visit
from ..core.discovery import find_class, make
from ..core.dispatch import call_corrupt
from ..users.cascade import Cascade
from .samples import BUDGET, D, K, T, check_fields, sample_attraction, sample_problem


def check_adversary(cls: type, *, users: type = Cascade, **settings: Any) -> None:
    """Check an adversary with these settings against the contract, under every schedule, with these users."""
    find_class("adversary", cls, {})
    check_fields(cls, lambda n: _adversary(cls, users, n, "front", settings))
    for schedule in SCHEDULES:
        try:
            foe, plain = (_adversary(cls, users, K, schedule, settings) for _ in range(2))
        except ValueError as error:
            assert schedule != "front", f"{cls.__name__}: every adversary can act at the front: {error}"
            assert "schedule" in str(error), f"{cls.__name__}: {error}"
            continue  # it may refuse a schedule
        _check_rewriting(cls, make(users, sample_attraction(K), D, settings={}), foe, plain, schedule)


def _check_rewriting(cls: type, crowd: Any, foe: Any, plain: Any, schedule: str) -> None:
    world, items = np.random.default_rng(7), np.random.default_rng(8)
    used, mirror = np.random.default_rng(9), np.random.default_rng(9)
    total = 0.0
    for t in range(1, T + 1):
        visit = Visit(t, t % 7 - 1)
        ranking = items.permutation(K)[:D]
        clicks = np.zeros(D, np.bool_)
        examined = crowd.click(visit, ranking, clicks, world)
        honest, shown, other = clicks[:examined].copy(), ranking.copy(), clicks.copy()
        answer = spent, reach, client = call_corrupt(foe, visit, ranking, clicks, examined, used)
        again = call_corrupt.plain(plain, visit, ranking, other, examined, mirror)
        assert answer == again, f"{cls.__name__}: compiled and interpreted `corrupt` differ in round {t}"
        assert np.array_equal(clicks, other), f"{cls.__name__}: compiled and interpreted bits differ"
        assert np.array_equal(ranking, shown), f"{cls.__name__}: an adversary touches only the feedback (rule 6)"
        assert 1 <= reach <= D, f"{cls.__name__}: examined {reach} of {D} positions"
        assert client >= ANYONE, f"{cls.__name__}: a client is a number from 0 on, or -1 for anyone, not {client}"
        changed = client != visit.client or not np.array_equal(clicks[:reach], honest)
        assert spent == float(changed), f"{cls.__name__}: spent {spent} in a round with change={changed} (rule 6)"
        total += spent
        early = schedule == "late" and t <= T // 2
        assert not (early and changed), f"{cls.__name__}: acted in round {t} under the schedule `late` (rule 6)"
    assert total <= BUDGET, f"{cls.__name__}: spent {total} of {BUDGET} (rule 6)"


def _adversary(cls: type, users: type, n_items: int, schedule: str, settings: dict[str, Any]) -> Any:
    crowd = make(users, sample_attraction(n_items), D, settings={})
    return make(cls, sample_problem(n_items), crowd, BUDGET, settings={"schedule": schedule, **settings})
