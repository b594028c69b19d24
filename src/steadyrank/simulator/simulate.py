"""Simulations, replicated over seeds."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np

from ..adversaries import ALL as ADVERSARIES
from ..adversaries.schedules import SCHEDULES, Schedule
from ..core.arrays import Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.contract import Problem, view_of
from ..core.discovery import find_class, make, settings_of
from ..core.rounds import MADE, REFUSED, RETRACTED, Ledger, RoundBuffers, Streams, offers
from ..core.settings import choice, flag, whole
from ..core.views import GuardView, View
from ..guards import ALL as GUARDS
from ..learners import ALL as LEARNERS
from ..live.features import NO_FEATURES, check_suited
from ..live.rules import Rules
from ..users import ALL as USERS
from .loop import BITS, ON_BEST, play
from .ruled import RuledWorld, play_by_rules
from .runs import Run


def simulate(
    learner: str | type,
    attraction: Sequence[float] | Floats,
    *,
    length: int,
    horizon: int,
    adversary: str | type = "Honest",
    schedule: Schedule = "front",
    budget: int | None = None,
    seeds: Iterable[int] = range(10),
    settings: dict[str, Any] | None = None,
    adversary_settings: dict[str, Any] | None = None,
    users: str | type = "Cascade",
    users_settings: dict[str, Any] | None = None,
    marks: int | Sequence[int] | Ints = 50,
    threads: int | None = None,
    omniscient: bool = False,
    guard: str | type = "Anyone",
    guard_settings: dict[str, Any] | None = None,
    features: Sequence[Sequence[float]] | Floats | None = None,
    visitors: Sequence[Sequence[float]] | Floats | None = None,
    progress: Callable[[], None] | None = None,
    rules: Rules | Mapping[str, Any] | None = None,
) -> Run:
    """Simulate a learner with users and an adversary, once per seed, and return its regret curves.

    `attraction`: click probability of each item, in [0, 1]. `budget`: number of rounds that the adversary may
    corrupt, at most `horizon`; required by every adversary but `Honest`. `marks`: how many evenly spaced rounds to
    record, or which. `threads`: default one per core; results do not depend on it. `omniscient`: hide the feedback of
    corrupted rounds from guard and learner. `guard` decides whose feedback reaches the learner. `features`: features
    of the items for learners, one row of numbers each; users with features use them too. `visitors`: for such users,
    the visitors who may come, one row each with a number for each of the last features. `progress` is called after
    each seed. `rules`: what each list must keep (`Rules`), for items "0", "1", ...; regret is then measured against
    the best list that keeps them, in which boosts multiply the value of items. With the same seed, learners meet the
    same users.
    """
    learner_class = find_class("learner", learner, LEARNERS)
    adversary_class = find_class("adversary", adversary, ADVERSARIES)
    users_class = find_class("users", users, USERS)
    guard_class = find_class("guard", guard, GUARDS)
    attraction = _check_attraction(attraction)
    item_features = _check_features(features, attraction.size)
    length = whole("length", length, 1, attraction.size)
    horizon = whole("horizon", horizon, 1)
    if budget is None and adversary_class.__name__ != "Honest":
        raise ValueError(
            f"{adversary_class.__name__} can do nothing without a budget: "
            f"the rounds it may corrupt, from 0 to {horizon}"
        )
    budget = whole("budget", budget or 0, 0, horizon)
    rounds = _check_marks(marks, horizon)
    chosen = _check_seeds(seeds)
    workers = min(whole("threads", (os.cpu_count() or 1) if threads is None else threads, 1), len(chosen))
    flag("omniscient", omniscient)
    choice("schedule", schedule, SCHEDULES)
    for value in (settings, adversary_settings, users_settings, guard_settings):
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"settings must be a dictionary of names and values, not {value!r}")
    if "schedule" in (adversary_settings or {}):
        raise ValueError("schedule is an argument of its own, not one of the adversary_settings")
    for name in ("features", "visitors"):
        if name in (users_settings or {}):
            raise ValueError(f"{name} is an argument of its own, not one of the users_settings")
    people = settings_of(users_class)
    about_users = {
        name: value for name, value in (("features", item_features), ("visitors", visitors)) if name in people
    }
    n_features = max(item_features.shape[1], getattr(users_class, "visit_features", 0))

    def parts(seed: int) -> tuple[Any, Any, Any, Any]:
        problem = Problem(attraction.size, length, horizon, budget, attraction, seed, item_features)
        crowd = make(users_class, attraction, length, settings={**(users_settings or {}), **about_users})
        foe = {"schedule": schedule, **(adversary_settings or {})}
        return (
            make(learner_class, problem, settings=settings or {}),
            crowd,
            make(adversary_class, problem, crowd, budget, settings=foe),
            make(guard_class, problem, settings=guard_settings or {}),
        )

    halt = np.zeros(1, np.bool_)
    kept = Rules.of(rules)
    ruled = None
    if kept is not None:
        check_suited(learner_class, settings or {}, NO_FEATURES)
        ruled = RuledWorld(kept, users_class, {**(users_settings or {}), **about_users}, attraction, length)

    def one(seed: int) -> tuple[Floats, Floats, Ints, Ints, float, View | None, GuardView | None]:
        regret, spent, extremes = np.zeros(rounds.size), np.zeros(rounds.size), np.zeros(2)
        lies: Ints = np.zeros(2, np.int64)
        buffers, best = RoundBuffers.create(attraction.size, length, n_features), np.zeros(length, np.int64)
        mind, crowd, foe, gate = parts(seed)
        ledger = Ledger.create(horizon, length) if offers(crowd, "buy") else None
        rest = (omniscient, halt, Streams.create(seed), regret, spent, lies, extremes)
        if ruled is None:
            play(mind, crowd, foe, gate, ledger, buffers, best, rounds, *rest)
        else:
            lists = ruled.lists_by(mind, settings or {}, attraction.size)
            play_by_rules(ruled, lists, mind, crowd, foe, gate, ledger, buffers, rounds, *rest)
            ruled.note_better(-float(extremes[0]))
            extremes[0] = 0.0
        _check_losses(users_class.__name__, regret, float(extremes[0]))
        view: View | None = view_of(mind)
        if view is not None:
            view = view.with_refused(int(buffers.visits[REFUSED].sum()))
        return regret, spent, lies, buffers.visits, float(extremes[1]), view, view_of(gate)

    parts(chosen[0])  # checks every setting before anything is compiled
    told = (
        announcing(f"{learner_class.__name__} for this simulation") if progress is None else contextlib.nullcontext()
    )
    with told, ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(one, seed) for seed in chosen]
        try:
            for job in as_completed(jobs):
                job.result()
                if progress is not None:
                    progress()
        except BaseException:
            halt[0] = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    *curves, views, guard_views = zip(*(job.result() for job in jobs), strict=True)
    regret, spent, lies, visits, most = (np.array(part) for part in curves)
    if ruled is not None:  # against the best list that any seed has shown
        regret, most = regret + ruled.beyond * rounds, most + ruled.beyond * horizon
    return Run(
        learner_class.__name__,
        chosen,
        rounds,
        regret,
        spent,
        lies[:, BITS],
        lies[:, ON_BEST],
        visits[:, MADE],
        visits[:, REFUSED],
        visits[:, RETRACTED],
        views,
        guard_views,
        most,
    )


def _check_attraction(attraction: Sequence[float] | Floats) -> Floats:
    try:
        values = np.array(attraction, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"attraction must be one number per item, not {attraction!r}") from None
    if values.ndim != 1 or values.size < 1:
        raise ValueError(f"attraction must be one number per item, at least one; its shape is {values.shape}")
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if wrong.size:
        raise ValueError(f"attraction must lie in [0, 1]; that of item {wrong[0]} is {values[wrong[0]]}")
    return values


def _check_features(features: Any, n_items: int) -> Floats:
    if features is None:
        return np.zeros((n_items, 0))
    try:
        values = np.array(features, np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise ValueError(f"features must be one row of numbers per item, not {features!r:.80}") from None
    if values.ndim != 2 or values.shape[0] != n_items:
        raise ValueError(f"features must have one row for each of {n_items} items; their shape is {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(
            f"features must be finite; those of item {np.flatnonzero(~np.isfinite(values).all(1))[0]} are not"
        )
    return values


def _check_losses(users: str, regret: Floats, least: float) -> None:
    """Refuse impossible values of a click model: not a number, or a list worth more than the best one."""
    if not np.isfinite(regret).all():
        raise ValueError(f"users {users}: `value` is not finite in some round, so regret is undefined")
    if least < -1e-9:
        raise ValueError(
            f"users {users}: a list was worth {-least:.3g} more than the one that `best` gave; regret would be wrong"
        )


def _check_marks(marks: int | Iterable[int], horizon: int) -> Ints:
    if isinstance(marks, Iterable) and np.ndim(marks) > 0:  # type: ignore[arg-type]
        rounds = [whole("marks", m, 1, horizon) for m in marks]
        if rounds != sorted(set(rounds)):
            raise ValueError(f"marks must rise strictly, not {rounds}")
        return np.array(rounds if rounds and rounds[-1] == horizon else [*rounds, horizon], np.int64)
    count = min(whole("marks", marks, 1), horizon)
    return np.array([horizon * (i + 1) // count for i in range(count)], np.int64)


def _check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    if not isinstance(seeds, Iterable):
        raise ValueError(f"seeds must be whole numbers, for instance range(10), not {seeds!r}")
    chosen = tuple(whole("seeds", seed, 0) for seed in seeds)
    if not chosen:
        raise ValueError("seeds must hold at least one seed, for instance range(10); it is empty")
    return chosen
