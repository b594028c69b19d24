"""Click logs with a known truth: simulated users, a learner that shows the lists, and an attack in one interval."""

from typing import Any

import numpy as np

from ..adversaries import ALL as ADVERSARIES
from ..click_logs.looks import Impressions
from ..core.arrays import Floats
from ..core.compiling.intrinsics import borrowed
from ..core.contract import Problem
from ..core.discovery import make
from ..core.dispatch import Dispatcher
from ..core.rounds import RoundBuffers, Streams, play_round
from ..guards import ALL as GUARDS
from ..learners import ALL as LEARNERS
from ..users import ALL as USERS


@Dispatcher
def record(learner, users, adversary, guard, buffers, streams, item, bits, first):
    """Play one round per impression and record what was looked at and clicked; `first`, int64[n + 1]."""
    learner, users, adversary, buffers = borrowed(learner), borrowed(users), borrowed(adversary), borrowed(buffers)
    guard = borrowed(guard)
    world, foe, mind, door, till = borrowed(streams)
    n = 0
    for t in range(1, first.size):
        _, _, examined = play_round(
            learner, users, adversary, guard, None, t, buffers, False, world, foe, mind, door, till
        )
        for p in range(examined):
            item[n] = buffers.ranking[p]
            bits[n] = buffers.clicks[p]
            n += 1
        first[t] = n


def simulated_log(
    attraction: Floats,
    n: int,
    length: int,
    *,
    learner: str = "CascadeTS",
    adversary: str = "Honest",
    start: int = 0,
    end: int = 0,
    users: str = "Cascade",
    users_settings: dict[str, Any] | None = None,
    seed: int = 0,
) -> Impressions:
    """A log of n impressions of lists by `learner`, attacked from impression `start` to before `end`."""
    problem = Problem(attraction.size, length, n, n, attraction, seed)
    crowd = make(USERS[users], attraction, length, settings=users_settings or {})
    attacker = make(ADVERSARIES[adversary], problem, crowd, end - start, settings={})
    if adversary != "Honest":
        attacker.budget.active[:] = False
        attacker.budget.active[start + 1 : end + 1] = True
    item, bits = np.zeros(n * length, np.int32), np.zeros(n * length, np.bool_)
    first = np.zeros(n + 1, np.int64)
    mind = make(LEARNERS[learner], problem, settings={})
    buffers = RoundBuffers.create(attraction.size, length)
    guard = make(GUARDS["Anyone"], problem, settings={})
    record(mind, crowd, attacker, guard, buffers, Streams.create(seed), item, bits, first)
    total = int(first[-1])
    return Impressions(item[:total].copy(), bits[:total].copy(), first, attraction.size)
