"""One round, the same wherever it is played: in the simulator and in simulated logs."""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .arrays import Bools, Floats, Ints
from .compiling.jit import inlined, no_refcount
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


class Ledger(NamedTuple):
    """What came of the clicks of a run, and what of it is known by now: N outcomes at most.

    Memory is taken only where it is written.
    """

    first: Ints  # [horizon + 1] number of the outcome that becomes known in a round, from 1; 0: none
    next: Ints  # [N + 1] of the next one of the same round
    round: Ints  # [N + 1] in which the list was shown
    place: Ints  # [N + 1]
    item: Ints  # [N + 1]
    worth: Floats  # [N + 1]
    learnt: Bools  # [horizon + 1] whether the learner knows the visit
    told: Floats  # [horizon + 1, length] what is known by now to have come of the click at each place
    values: Floats  # [length] of this round
    delays: Floats  # [length] rounds until they are known
    tally: Ints  # [2] outcomes, and those that became known

    @classmethod
    def create(cls, horizon: int, length: int) -> "Ledger":
        """Nothing came of anything yet."""
        n = horizon * length + 1
        outcomes = (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))
        visits = np.zeros(horizon + 1, np.bool_), np.zeros((horizon + 1, length))
        now = np.zeros(length), np.zeros(length)
        return cls(np.zeros(horizon + 1, np.int64), *outcomes, np.zeros(n), *visits, *now, np.zeros(2, np.int64))


class Streams(NamedTuple):
    """Generators of a run: clicks of the users, the adversary, the learner, arrivals, what comes of clicks."""

    world: np.random.Generator
    foe: np.random.Generator
    mind: np.random.Generator
    door: np.random.Generator
    till: np.random.Generator

    @classmethod
    def create(cls, seed: int) -> "Streams":
        """Independent ones, decided by `seed` alone. A further stream goes last: the others stay as they are."""
        return cls(*(np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(cls._fields))))


def offers(record: Any, method: str) -> bool:
    """Whether a record has an optional method of the contract, or, of a compiled record's type, its class has it."""
    return callable(getattr(getattr(record, "instance_class", type(record)), method, None))


def take_back(learner, guard, users, ledger, back, visits):
    """Let the learner forget what the guard takes back; returns how many visits. `visits` counts them, by sort.

    Compiled, nothing is left of it where the guard takes nothing back or the learner cannot forget.
    """
    return _take_back(learner, guard, users, ledger, back, visits) if _both(learner, guard) else 0


def tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till):
    """Note what comes of the clicks of a round, and tell the guard and the learner what becomes known in it.

    `clicks` as reported, `reach` of them; `learnt`: whether the learner was told of them, and so is told what comes
    of them, as the guard is in any case; `false`: nothing comes of them, for no user made them. Compiled, nothing is
    left of it where users buy nothing and so there is no ledger.
    """
    if ledger is not None:
        _tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till)


def tell(record, item, shown, t, before, after):
    """Tell a learner or a guard what came of a click, if it has a method for it."""
    if offers(record, "outcome"):
        record.outcome(item, shown, t, before, after)


def group_of(users, client):
    """Which of the honest groups a client belongs to: 0 where users know of one alone."""
    return users.group(client) if offers(users, "group") else 0


def _both(learner: Any, guard: Any) -> bool:
    return offers(learner, "forget") and offers(guard, "retract")


def _take_back(learner, guard, users, ledger, back, visits):
    n = 0
    while True:
        t, client, size, examined = guard.retract(back.ranking, back.note, back.clicks)
        if size == 0:
            return n
        visit = Visit(t, client, back.features)
        take_outcomes_back(learner, ledger, t, back.ranking[:size])
        learner.forget(visit, back.ranking[:size], back.note, back.clicks[:size], examined)
        visits[RETRACTED, sort_of(users, client, client >= FIRST_BOT)] += 1
        n += 1


@overload(take_back)
def _compiled_take_back(learner, guard, users, ledger, back, visits):
    if _both(learner, guard):
        return _take_back
    return lambda learner, guard, users, ledger, back, visits: 0


def take_outcomes_back(learner, ledger, t, ranking):
    """Before a visit is forgotten: as if nothing had come of its clicks, now or later."""
    if ledger is not None:
        _take_outcomes_back(learner, ledger, t, ranking)


def _take_outcomes_back(learner, ledger, t, ranking):
    for p in range(ranking.size if ledger.learnt[t] else 0):
        if ledger.told[t, p] > 0.0:
            tell(learner, ranking[p], t, t, ledger.told[t, p], 0.0)
    ledger.learnt[t] = False


@overload(take_outcomes_back)
def _compiled_take_outcomes_back(learner, ledger, t, ranking):
    if isinstance(ledger, types.NoneType):
        return lambda learner, ledger, t, ranking: None
    return _take_outcomes_back


@overload(tell)
def _compiled_tell(record, item, shown, t, before, after):
    if offers(record, "outcome"):
        return lambda record, item, shown, t, before, after: record.outcome(item, shown, t, before, after)
    return lambda record, item, shown, t, before, after: None


def _tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till):
    t = visit.t
    ledger.learnt[t] = learnt
    # drawn in any case, so that later visits meet the same luck
    users.buy(visit, ranking, clicks, reach, ledger.values, ledger.delays, till)
    for p in range(0 if false else reach):
        if clicks[p] and ledger.values[p] > 0.0 and t + ledger.delays[p] < ledger.first.size:
            _note_outcome(ledger, t, ranking[p], p)
    number = ledger.first[t]
    while number > 0:
        shown, p = ledger.round[number], ledger.place[number]
        before = ledger.told[shown, p]
        ledger.told[shown, p] = before + ledger.worth[number]
        tell(guard, ledger.item[number], shown, t, before, ledger.told[shown, p])
        if ledger.learnt[shown]:
            tell(learner, ledger.item[number], shown, t, before, ledger.told[shown, p])
        ledger.tally[1] += 1
        number = ledger.next[number]


@no_refcount
def _note_outcome(ledger, t, item, p):
    """Something comes of the click on an item at place p of this round, and is known some rounds later."""
    ledger.tally[0] += 1
    number, known = ledger.tally[0], t + int(ledger.delays[p])
    ledger.round[number] = t
    ledger.place[number] = p
    ledger.item[number] = item
    ledger.worth[number] = ledger.values[p]
    ledger.next[number] = ledger.first[known]
    ledger.first[known] = number


@overload(tell_outcomes)
def _compiled_tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till):
    if isinstance(ledger, types.NoneType):
        return lambda learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till: None
    return _tell_outcomes


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
def answer_list(learner, users, adversary, guard, ledger, visit, ranking, buffers, omniscient, world, foe, till):
    """The part of `play_round` that comes after a list is shown; `buffers` hold its note.

    Returns what the adversary spent, how far the feedback reaches.
    """
    clicks, truth, note, back, visits = buffers.clicks, buffers.truth, buffers.note, buffers.back, buffers.visits
    examined = users.click(visit, ranking, clicks, world)
    for p in range(ranking.size):
        truth[p] = clicks[p]
    paid, examined, client = adversary.corrupt(visit, ranking, clicks, examined, foe)
    clicks[examined:] = False
    sort = sort_of(users, visit.client, paid > 0.0)
    visits[MADE, sort] += 1
    reported, admitted = Visit(visit.t, client, visit.features), False
    if not (omniscient and paid > 0.0):
        admitted = guard.admit(reported, ranking, note, clicks, examined)
        take_back(learner, guard, users, ledger, back, visits)
        if admitted:
            learner.update(reported, ranking, note, clicks, examined)
        else:
            visits[REFUSED, sort] += 1
    tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, examined, admitted, paid > 0.0, till)
    return paid, examined


@inlined
def play_round(learner, users, adversary, guard, ledger, t, buffers, omniscient, world, foe, mind, door, till):
    """Somebody arrives, is shown a list and reacts, an adversary rewrites what is reported, the learner is told if a
    guard lets it in. Then it is told what is known by now to have come of clicks, if there is a `ledger`.

    `truth` of the buffers has what the user did, `clicks` what is reported; bits beyond its reach are cleared. With
    `omniscient` neither guard nor learner is told of a corrupted round. Returns the true visit, what the adversary
    spent, how far the feedback reaches. All in one piece: numba hands the records over to what is inlined into it.
    """
    visit = Visit(t, users.arrive(t, buffers.features, door), buffers.features)
    buffers.note[:] = 0.0
    learner.rank(visit, buffers.allowed, buffers.ranking, buffers.note, mind)
    paid, examined = answer_list(
        learner, users, adversary, guard, ledger, visit, buffers.ranking, buffers, omniscient, world, foe, till
    )
    return visit, paid, examined
