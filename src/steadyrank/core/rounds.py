"""One round, the same wherever it is played: in the simulator and in simulated logs."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from .arrays import Bools, Floats, Ints
from .compiling.jit import inlined
from .contract import NOTE_EXTRA, Visit

FIRST_BOT = 1 << 40  # identities that an adversary owns have numbers from here on: no honest client has one
MAJORITY, MINORITY, FALSE = range(3)  # sorts of visits: honest, of the second honest taste, corrupted
MADE, REFUSED, RETRACTED = range(3)  # what is counted of each


class RoundBuffers(NamedTuple):
    """What a round is written on; made outside of the loop, which only borrows."""

    allowed: Bools  # [K] all
    ranking: Ints  # [length]
    clicks: Bools  # [length] what is reported
    truth: Bools  # [length] what the user did, whatever is reported
    note: Floats  # [length + NOTE_EXTRA]
    features: Floats  # [F] of the visit
    back: "TakenBack"
    visits: Ints  # [3, 3] made, refused and taken back, of each sort

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
            TakenBack.create(length, n_features),
            np.zeros((3, 3), np.int64),
        )


class TakenBack(NamedTuple):
    """An earlier visit that a guard takes back, as the guard remembers it."""

    ranking: Ints  # [length]
    clicks: Bools  # [length]
    note: Floats  # [length + NOTE_EXTRA]
    features: Floats  # [F] zeros: nobody remembers them

    @classmethod
    def create(cls, length: int, n_features: int = 0) -> "TakenBack":
        """Room for one."""
        return cls(
            np.zeros(length, np.int64),
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


def offers(record: Any, method: str) -> bool:
    """Whether a record has an optional method of the contract, or, of a compiled record's type, its class has it."""
    return callable(getattr(getattr(record, "instance_class", type(record)), method, None))


def take_back(learner, guard, users, back, visits):
    """Let the learner forget what the guard takes back; returns how many visits. `visits` counts them, by sort.

    Compiled, nothing is left of it where the guard takes nothing back or the learner cannot forget.
    """
    return _take_back(learner, guard, users, back, visits) if _both(learner, guard) else 0


def group_of(users, client):
    """Which of the honest groups a client belongs to: 0 where users know of one alone."""
    return users.group(client) if offers(users, "group") else 0


def _both(learner: Any, guard: Any) -> bool:
    return offers(learner, "forget") and offers(guard, "retract")


def _take_back(learner, guard, users, back, visits):
    n = 0
    while True:
        t, client, size, examined = guard.retract(back.ranking, back.note, back.clicks)
        if size == 0:
            return n
        visit = Visit(t, client, back.features)
        learner.forget(visit, back.ranking[:size], back.note, back.clicks[:size], examined)
        visits[RETRACTED, sort_of(users, client, client >= FIRST_BOT)] += 1
        n += 1


@overload(take_back)
def _compiled_take_back(learner, guard, users, back, visits):
    if _both(learner, guard):
        return _take_back
    return lambda learner, guard, users, back, visits: 0


@overload(group_of)
def _compiled_group_of(users, client):
    if offers(users, "group"):
        return lambda users, client: users.group(client)
    return lambda users, client: 0


@inlined
def sort_of(users, client, false):
    """Whose visit it is: of an honest client of the first taste or of another one, or a corrupted one."""
    if false:
        return FALSE
    return MINORITY if group_of(users, client) > 0 else MAJORITY


@inlined
def play_round(learner, users, adversary, guard, t, buffers, omniscient, world, foe, mind, door):
    """Somebody arrives, is shown a list and reacts, an adversary rewrites what is reported, the learner is told if a
    guard lets it in.

    `truth` of the buffers has what the user did, `clicks` what is reported; bits beyond its reach are cleared. With
    `omniscient` neither guard nor learner is told of a corrupted round. Returns the true visit, what the adversary
    spent, how far the feedback reaches. All in one piece: numba hands the records over to what is inlined into it.
    """
    allowed, ranking, clicks, truth, note, features, back, visits = buffers
    visit = Visit(t, users.arrive(t, features, door), features)
    note[:] = 0.0
    learner.rank(visit, allowed, ranking, note, mind)
    examined = users.click(visit, ranking, clicks, world)
    for p in range(ranking.size):
        truth[p] = clicks[p]
    paid, examined, client = adversary.corrupt(visit, ranking, clicks, examined, foe)
    clicks[examined:] = False
    sort = sort_of(users, visit.client, paid > 0.0)
    visits[MADE, sort] += 1
    if not (omniscient and paid > 0.0):
        reported = Visit(t, client, features)
        admitted = guard.admit(reported, ranking, note, clicks, examined)
        take_back(learner, guard, users, back, visits)
        if admitted:
            learner.update(reported, ranking, note, clicks, examined)
        else:
            visits[REFUSED, sort] += 1
    return visit, paid, examined
