"""Click logs with a known truth: simulated users, a learner that shows the lists, and an attack in one interval."""

from typing import Any

import numpy as np

from ..._jit import borrowed
from ...adversaries import ALL as ADVERSARIES
from ...arrays import Floats
from ...contract import Dispatcher, Problem, make
from ...learners import ALL as LEARNERS
from ...simulate import RoundBuffers
from ...users import ALL as USERS
from ..impressions import Impressions


@Dispatcher
def record(learner, users, adversary, buffers, world, foe, mind, item, click, first):
    """Play one round an impression and write down what was looked at and clicked; `first`, int64[n + 1]."""
    learner, users, adversary = borrowed(learner), borrowed(users), borrowed(adversary)
    world, foe, mind = borrowed(world), borrowed(foe), borrowed(mind)
    allowed, ranking, _, clicks, _, note = borrowed(buffers)
    n = 0
    for t in range(1, first.size):
        note[:] = 0.0
        learner.rank(t, allowed, ranking, note, mind)
        examined = users.click(t, ranking, clicks, world)
        _, examined = adversary.corrupt(t, ranking, clicks, examined, foe)
        clicks[examined:] = False
        learner.update(t, ranking, note, clicks, examined)
        for p in range(examined):
            item[n] = ranking[p]
            click[n] = clicks[p]
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
    """A log of n impressions whose lists `learner` shows, attacked from impression `start` to before `end`."""
    problem = Problem(attraction.size, length, n, n, attraction, seed)
    crowd = make(USERS[users], attraction, length, settings=users_settings or {})
    attacker = make(ADVERSARIES[adversary], problem, crowd, end - start, settings={})
    if adversary != "Honest":
        attacker.purse.active[:] = False
        attacker.purse.active[start + 1 : end + 1] = True
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    item, click = np.zeros(n * length, np.int32), np.zeros(n * length, np.bool_)
    first = np.zeros(n + 1, np.int64)
    mind = make(LEARNERS[learner], problem, settings={})
    record(mind, crowd, attacker, RoundBuffers.create(attraction.size, length), *streams, item, click, first)
    total = int(first[-1])
    return Impressions(item[:total].copy(), click[:total].copy(), first, attraction.size)
