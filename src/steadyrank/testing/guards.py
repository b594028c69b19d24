"""The contract of guards."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.contract import ANSWER, KIND, NOTE_EXTRA, SILENCE, VOUCHED, Visit
from ..core.discovery import find_class, make
from ..core.dispatch import call_admit, call_outcome, call_retract
from ..core.rounds import FIRST_BOT, TakenBack, offers
from ..core.views import GuardView
from .samples import D, Event, F, K, T, check_fields, feedback, sample_attraction, sample_problem, state


def check_guard(cls: type, **settings: Any) -> None:
    """Check a guard with these settings against the contract."""
    find_class("guard", cls, {})
    check_fields(cls, lambda n: make(cls, sample_problem(n), settings=settings))
    guard, plain = (make(cls, sample_problem(K), settings=settings) for _ in range(2))
    decisions = _watch(guard, call_admit, call_retract, call_outcome)
    again = _watch(plain, call_admit.plain, call_retract.plain, call_outcome.plain)
    assert decisions == again, f"{cls.__name__}: compiled and interpreted methods differ"
    assert state(guard) == state(plain), f"{cls.__name__}: compiled and interpreted memory differ"
    other = make(cls, sample_problem(K)._replace(attraction=sample_attraction(K)[::-1].copy()), settings=settings)
    assert _watch(other, call_admit, call_retract, call_outcome) == decisions, (
        f"{cls.__name__}: a guard may not read the attractions"
    )
    if callable(getattr(cls, "view", None)):
        assert isinstance(guard.view(), GuardView), f"{cls.__name__}: `view` returns a GuardView (rule 12)"
        assert state(guard) == state(plain), f"{cls.__name__}: `view` only reads (rule 12)"
    endless = make(cls, sample_problem(K)._replace(horizon=0), settings=settings)
    _watch(endless, call_admit, call_retract, call_outcome)


def _watch(
    guard: Any, admit: Callable[..., Any], retract: Callable[..., Any], outcome: Callable[..., Any]
) -> list[Any]:
    """Feed visits of heavy clients, new ones and silent ones, and impossible feedback; return the guard's decisions.

    Includes outcomes of clicks, of clicks that never were and of long past rounds, and some that are retracted.
    """
    name = type(guard).__name__
    world = np.random.default_rng(2)
    admitted: dict[int, Event] = {}  # visits admitted and not retracted, by round
    decisions: list[Any] = []
    for t in range(1, T + 1):
        size = D if t % 5 else int(world.integers(1, D + 1))
        ranking, note = world.permutation(K)[:size], world.random(D + NOTE_EXTRA)
        note[KIND] = (ANSWER, ANSWER, ANSWER, VOUCHED, SILENCE)[int(world.integers(5))]
        clicks, examined = feedback(t, size, world)
        clicks[examined:] = False
        if note[KIND] == SILENCE:
            clicks[:], examined = False, size
        client = (-1, t % 3, t % 3, 5, t, FIRST_BOT + t % 2)[int(world.integers(6))]
        event = Event(Visit(t, client, np.zeros(F)), ranking, note, clicks, examined)
        kept = event._replace(ranking=ranking.copy(), note=note.copy(), clicks=clicks.copy())
        answer = admit(guard, *event)
        assert isinstance(answer, bool | np.bool_), f"{name}: `admit` says True or False, not {answer!r} (rule 13)"
        for was, now in zip(kept[1:4], event[1:4], strict=True):
            assert np.array_equal(was, now), f"{name}: `admit` writes only its own memory (rule 13)"
        decisions.append(bool(answer))
        if offers(guard, "retract"):
            decisions.append(_take_back(name, guard, retract, admitted, t))
        if answer:
            admitted[t] = kept
        if offers(guard, "outcome"):
            shown, after = max(t - int(world.integers(40)) ** 2, 1), float(world.integers(3))
            outcome(guard, int(world.integers(K)), shown, t, 1.0 - min(after, 1.0), after)
            outcome(guard, int(ranking[0]), t, t, 0.0, after)
    return decisions


def _take_back(name: str, guard: Any, retract: Callable[..., Any], admitted: dict[int, Event], now: int) -> list[int]:
    """The rounds that the guard retracts: each as it was reported, admitted, and not retracted before (rule 14)."""
    back, rounds = TakenBack.create(D, F), list[int]()
    while True:
        t, client, size, examined = retract(guard, back.ranking, back.note, back.clicks)
        if size == 0:
            return rounds
        assert t < now, f"{name}: takes back round {t} in round {now}, before the learner was told of it (rule 14)"
        assert t in admitted, f"{name}: takes back round {t}, which was not admitted, or a second time (rule 14)"
        event = admitted.pop(t)
        same = (
            client == event.visit.client
            and size == event.ranking.size
            and examined == event.examined
            and np.array_equal(back.ranking[:size], event.ranking)
            and np.array_equal(back.clicks[:examined], event.clicks[:examined])
            and np.array_equal(back.note, event.note)
        )
        assert same, f"{name}: round {t} is taken back otherwise than it was told (rule 14)"
        rounds.append(int(t))
