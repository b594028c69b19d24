"""One round, the same wherever it is played: simulator, simulated logs, demonstration."""

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
def respond(users, adversary, visit, ranking, clicks, truth, world, foe):
    """What is reported of a visit: the user's bits into `truth`, what the adversary makes of them into `clicks`.

    Returns what the adversary spent, how far the feedback reaches, and whose it is said to be. Bits beyond that
    are cleared.
    """
    examined = users.click(visit, ranking, clicks, world)
    for p in range(ranking.size):
        truth[p] = clicks[p]
    paid, examined, client = adversary.corrupt(visit, ranking, clicks, examined, foe)
    for p in range(examined, ranking.size):
        clicks[p] = False
    return paid, examined, client


@inlined
def play_round(learner, users, adversary, t, buffers, omniscient, world, foe, mind, door):
    """Somebody arrives, is shown a list and reacts, an adversary rewrites what is reported, the learner is told.

    With `omniscient` the learner is not told of a corrupted round. Returns the true visit, what the adversary spent,
    and how far the feedback reaches.
    """
    ranking, clicks, note = buffers.ranking, buffers.clicks, buffers.note
    visit = Visit(t, users.arrive(t, buffers.features, door), buffers.features)
    for i in range(note.size):
        note[i] = 0.0
    learner.rank(visit, buffers.allowed, ranking, note, mind)
    paid, examined, client = respond(users, adversary, visit, ranking, clicks, buffers.truth, world, foe)
    if not (omniscient and paid > 0.0):
        learner.update(Visit(t, client, buffers.features), ranking, note, clicks, examined)
    return visit, paid, examined
