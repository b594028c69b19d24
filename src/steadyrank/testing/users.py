"""The contract of users."""

from typing import Any

import numpy as np

from ..core.arrays import Bools, Ints
from ..core.contract import ANYONE, Visit
from ..core.discovery import find_class, make, settings_of
from ..core.dispatch import call_arrive, call_best, call_click, call_reach, call_value
from ..core.rounds import offers
from .samples import D, F, K, T, check_fields, sample_attraction, sample_features, state


def check_users(cls: type, **settings: Any) -> None:
    """Check a click model with these settings against the contract."""
    find_class("users", cls, {})
    check_fields(cls, lambda n: _users(cls, n, settings))
    crowd = _users(cls, K, settings)
    before = state(crowd)
    used, mirror, counted, door, second = (np.random.default_rng(5) for _ in range(5))
    items = np.random.default_rng(6)
    for t in range(1, T + 1):
        visit = _check_arrival(cls, crowd, t, door, second)
        size = 1 + t % D
        ranking = items.permutation(K)[:size]
        clicks, other = np.ones(size, np.bool_), np.zeros(size, np.bool_)
        examined = call_click(crowd, visit, ranking, clicks, used)
        again = call_click.plain(crowd, visit, ranking, other, mirror)
        assert examined == again, f"{cls.__name__}: compiled and interpreted `click` differ in round {t}"
        assert np.array_equal(clicks, other), f"{cls.__name__}: `click` must write the bit of every position"
        counted.random(D)
        assert used.bit_generator.state == counted.bit_generator.state, (
            f"{cls.__name__}: `click` must draw exactly `length` uniforms a round (rule 3)"
        )
        if offers(crowd, "group"):
            group = crowd.group(visit.client)
            assert group in (0, 1), f"{cls.__name__}: `group` says 0 or 1, not {group!r} (rule 16)"
        _check_reach(cls, crowd, clicks, examined)
        _check_value(cls, crowd, visit, items.permutation(K)[:D])
    assert state(crowd) == before, f"{cls.__name__}: users keep no memory"
    _check_liking(cls, crowd)


def _users(cls: type, n_items: int, settings: dict[str, Any]) -> Any:
    """Users with the items' features, if they take them."""
    given = {"features": sample_features(n_items)} if "features" in settings_of(cls) else {}
    return make(cls, sample_attraction(n_items), D, settings={**given, **settings})


def _check_arrival(cls: type, crowd: Any, t: int, door: np.random.Generator, second: np.random.Generator) -> Visit:
    features, other = np.full(F, np.nan), np.full(F, np.nan)
    client = call_arrive(crowd, t, features, door)
    assert client == call_arrive.plain(crowd, t, other, second), f"{cls.__name__}: `arrive` differs interpreted"
    assert np.array_equal(features, other, equal_nan=True), f"{cls.__name__}: `arrive` differs interpreted"
    assert door.bit_generator.state == second.bit_generator.state, f"{cls.__name__}: `arrive` differs interpreted"
    assert client >= ANYONE, f"{cls.__name__}: a client is a number from 0 on, or -1 for anyone, not {client}"
    written = np.isfinite(features)
    assert written.all() or np.isnan(features).all(), f"{cls.__name__}: `arrive` writes all features or none"
    return Visit(t, client, np.where(written, features, 0.0))


def _check_reach(cls: type, crowd: Any, clicks: Bools, examined: int) -> None:
    """The reach of feedback is a function of its bits: cleared behind its end, it reaches as far (rule 4)."""
    size = clicks.size
    assert 1 <= examined <= size, f"{cls.__name__}: examined {examined} of {size} positions"
    bits = clicks.copy()
    reach = call_reach(crowd, bits, size)
    assert np.array_equal(bits, clicks), f"{cls.__name__}: `reach` only reads"
    assert reach == call_reach.plain(crowd, bits, size), f"{cls.__name__}: `reach` differs interpreted"
    assert reach == examined, f"{cls.__name__}: `click` says {examined} of {clicks}, `reach` {reach} (rule 4)"
    bits[examined:] = False
    assert call_reach(crowd, bits, size) == examined, f"{cls.__name__}: `reach` looks behind where it ends (rule 4)"


def _check_liking(cls: type, crowd: Any) -> None:
    """Users attracted by nothing click nothing, and look at lists as these users do (rule 17)."""
    nobody = crowd.liking(np.zeros(K)) if hasattr(cls, "liking") else None
    if nobody is None:
        return
    assert isinstance(nobody, cls), f"{cls.__name__}: `liking` gives a {type(nobody).__name__} (rule 17)"
    rng, ranking, clicks = np.random.default_rng(7), np.arange(D), np.ones(D, np.bool_)
    for t in range(1, T + 1):
        call_click(nobody, Visit(t, ANYONE, np.zeros(F)), ranking, clicks, rng)
        assert not clicks.any(), f"{cls.__name__}: clicks of users whom nothing attracts (rule 17)"


def _check_value(cls: type, crowd: Any, visit: Visit, shown: Ints) -> None:
    best = np.zeros(D, np.int64)
    call_best(crowd, visit, best)
    assert len(set(best.tolist())) == D, f"{cls.__name__}: `best` repeats items: {best}"
    value, most = call_value(crowd, visit, shown), call_value(crowd, visit, best)
    plain = crowd.value(visit, shown)
    assert value == plain, f"{cls.__name__}: compiled and interpreted `value` differ in round {visit.t}"
    # a value is the chance of a click, or the expected number of clicks
    assert 0.0 <= value <= most + 1e-12 <= D + 2e-12, f"{cls.__name__}: value {value}, that of `best` {most}"
