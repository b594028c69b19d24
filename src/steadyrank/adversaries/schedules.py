"""Which rounds an adversary may corrupt."""

from typing import Literal, TypeAlias, get_args

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.settings import choice, whole

Schedule: TypeAlias = Literal["front", "spread", "late", "bursts", "ramp", "swing"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def active_rounds(schedule: Schedule, horizon: int, budget: int, seed: int, *, n_bursts: int = 5) -> Bools:
    """Whether an adversary may act in round t, bool[horizon + 1]; index 0 is not a round.

    `front`: from round 1 until the budget is spent (the paper's schedule). `spread`: `budget` rounds drawn
    uniformly. `late`: `budget` rounds from the middle on, or the last ones if half the horizon is too short.
    `bursts`: the first rounds of each of `n_bursts` equal periods. `ramp`: rounds drawn with weights 1 / t. `swing`:
    with weights 1 - cos, which rise from 0 to a maximum in the middle of each of `n_bursts` equal periods and fall
    again. All but `front` choose exactly `budget` rounds, and a unit not used in its round lapses.
    """
    choice("schedule", schedule, SCHEDULES)
    whole("budget", budget, 0, horizon)
    whole("horizon of an adversary", horizon, 1, 10**9)  # a flag a round
    n_bursts = min(whole("n_bursts", n_bursts, 1), horizon)
    active = np.zeros(horizon + 1, np.bool_)
    if schedule == "front":
        active[1:] = budget > 0
    elif schedule == "late":
        first = min(horizon // 2, horizon - budget) + 1
        active[first : first + budget] = True
    elif schedule == "bursts":
        edges = horizon * np.arange(n_bursts + 1) // n_bursts
        sizes = np.full(n_bursts, budget // n_bursts)
        sizes[np.argsort(-np.diff(edges), kind="stable")[: budget % n_bursts]] += 1  # long periods have room
        for first, size in zip(edges[:-1], sizes, strict=True):
            active[1 + first : 1 + first + size] = True
    else:
        rng = np.random.default_rng([seed, 0x5C4ED])
        # the `budget` smallest of exponential clocks with rate w: drawing without replacement with weights w
        clocks = rng.exponential(size=horizon)
        if schedule == "ramp":
            clocks *= np.arange(1, horizon + 1)
        elif schedule == "swing":
            turns = n_bursts * (np.arange(horizon) + 0.5) / horizon
            clocks /= (
                1.0 - np.cos(2.0 * np.pi * turns) + 1e-9
            )  # no weight is 0, so that a budget of all rounds is possible
        active[1 + _smallest(clocks, budget)] = True
    return active


def rising_rounds(horizon: int, budget: int, seed: int) -> Bools:
    """`budget` active rounds whose density rises linearly from 0 to 2 budget / horizon, bool[horizon + 1].

    Takes the rounds with the smallest u / t, u uniform: round t is below a bound c with chance c t.
    """
    whole("budget", budget, 0, horizon)
    whole("horizon of an adversary", horizon, 1, 10**9)
    active = np.zeros(horizon + 1, np.bool_)
    clocks = np.random.default_rng([seed, 0x5C4ED]).random(horizon) / np.arange(1, horizon + 1)
    active[1 + _smallest(clocks, budget)] = True
    return active


def flickering_rounds(horizon: int, budget: int, turn: int, *, late: bool) -> Bools:
    """`turn` rounds on, `turn` rounds off, and so on, from round 1 or from the middle, bool[horizon + 1].

    `budget` rounds are on, or as many as fit.
    """
    whole("budget", budget, 0, horizon)
    turn = whole("turn", turn, 1)
    active = np.zeros(horizon + 1, np.bool_)
    rounds = np.arange(horizon // 2 + 1 if late else 1, horizon + 1)
    active[rounds[np.arange(rounds.size) // turn % 2 == 0][:budget]] = True
    return active


def _smallest(clocks: Floats, n: int) -> Ints:
    return np.argpartition(clocks, n - 1)[:n] if n else np.empty(0, np.int64)
