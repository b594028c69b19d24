"""One round, the same wherever it is played: in the simulator and in simulated logs."""

from typing import NamedTuple

import numpy as np

from ._jit import inlined
from .contract import NOTE_EXTRA, Bools, Floats, Ints, Visit


class RoundBuffers(NamedTuple):
    """What a round is written on; made outside of the loop, which only borrows."""

    allowed: Bools  # [K] all
    ranking: Ints  # [length]
    clicks: Bools  # [length] what is reported
    truth: Bools  # [length] what the user did, whatever is reported
    note: Floats  # [length + NOTE_EXTRA]
    features: Floats  # [F] of the visit

    @classmethod
    def create(cls, n_items: int, length: int, n_features: int = 0) -> "RoundBuffers":
        """Empty ones."""
        return cls(
            np.ones(n_items, np.bool_),
            np.zeros(length, np.int64),
            np.zeros(length, np.bool_),
            np.zeros(length, np.bool_),
            np.zeros(length + NOTE_EXTRA),
            np.zeros(n_features),
        )


class Streams(NamedTuple):
    """Generators of a run: clicks of the users, the adversary, the learner, arrivals."""

    world: np.random.Generator
    foe: np.random.Generator
    mind: np.random.Generator
    door: np.random.Generator

    @classmethod
    def create(cls, seed: int) -> "Streams":
        """Independent ones, decided by `seed` alone. A further stream goes last: the others stay as they are."""
        return cls(*(np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)))


@inlined
def play_round(learner, users, adversary, t, buffers, omniscient, world, foe, mind, door):
    """Somebody arrives, is shown a list and reacts, an adversary rewrites what is reported, the learner is told.

    `truth` of the buffers has what the user did, `clicks` what is reported; bits beyond its reach are cleared. With
    `omniscient` the learner is not told of a corrupted round. Returns the true visit, what the adversary spent, and
    how far the feedback reaches. All in one piece: numba hands the records over to what is inlined into it.
    """
    allowed, ranking, clicks, truth, note, features = buffers
    visit = Visit(t, users.arrive(t, features, door), features)
    note[:] = 0.0
    learner.rank(visit, allowed, ranking, note, mind)
    examined = users.click(visit, ranking, clicks, world)
    for p in range(ranking.size):
        truth[p] = clicks[p]
    paid, examined, client = adversary.corrupt(visit, ranking, clicks, examined, foe)
    clicks[examined:] = False
    if not (omniscient and paid > 0.0):
        learner.update(Visit(t, client, features), ranking, note, clicks, examined)
    return visit, paid, examined
