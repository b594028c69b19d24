"""One round, the same in the simulator and in simulated logs."""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .arrays import Bools, Floats, Ints
from .compiling.jit import inlined, no_refcount
from .contract import NOTE_EXTRA, Visit

FIRST_BOT = 1 << 40  # first number of identities that an adversary owns, above all honest clients
MAJORITY, MINORITY, FALSE = range(3)  # kinds of visits: honest, honest of the second taste, corrupted
MADE, REFUSED, RETRACTED = range(3)  # counters of each kind


class RoundBuffers(NamedTuple):
    """Arrays that a round writes to, allocated outside of the loop, which borrows them."""

    allowed: Bools  # [K] all True
    ranking: Ints  # [length]
    clicks: Bools  # [length] as reported
    truth: Bools  # [length] as the user did, whatever is reported
    note: Floats  # [length + NOTE_EXTRA]
    features: Floats  # [F] of the visit
    back: "TakenBack"
    visits: Ints  # [3, 3] made, refused and retracted, of each kind

    @classmethod
    def create(cls, n_items: int, length: int, n_features: int = 0) -> "RoundBuffers":
        """Empty buffers."""
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
    """An earlier visit that a guard retracts, as the guard remembers it."""

    ranking: Ints  # [length]
    clicks: Bools  # [length]
    note: Floats  # [length + NOTE_EXTRA]
    features: Floats  # [F] zeros: guards do not remember them

    @classmethod
    def create(cls, length: int, n_features: int = 0) -> "TakenBack":
        """Room for one visit."""
        return cls(
            np.zeros(length, np.int64),
            np.zeros(length, np.bool_),
            np.zeros(length + NOTE_EXTRA),
            np.zeros(n_features),
        )


class Ledger(NamedTuple):
    """The outcomes of a run's clicks, and which of them are known by now: at most N outcomes.

    Memory is committed only where it is written.
    """

    first: Ints  # [horizon + 1] number, from 1, of the first outcome that becomes known in a round; 0: none
    next: Ints  # [N + 1] number of the next one of the same round
    round: Ints  # [N + 1] round in which the list was shown
    place: Ints  # [N + 1]
    item: Ints  # [N + 1]
    worth: Floats  # [N + 1]
    learnt: Bools  # [horizon + 1] whether the learner learnt from the visit
    told: Floats  # [horizon + 1, length] worth of the click at each place, as known by now
    values: Floats  # [length] values of this round's outcomes
    delays: Floats  # [length] rounds until they are known
    tally: Ints  # [2] outcomes so far, and those that became known

    @classmethod
    def create(cls, horizon: int, length: int) -> "Ledger":
        """No outcomes yet."""
        n = horizon * length + 1
        outcomes = (np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))
        visits = np.zeros(horizon + 1, np.bool_), np.zeros((horizon + 1, length))
        now = np.zeros(length), np.zeros(length)
        return cls(np.zeros(horizon + 1, np.int64), *outcomes, np.zeros(n), *visits, *now, np.zeros(2, np.int64))


class Streams(NamedTuple):
    """Random generators of a run: users' clicks, the adversary, the learner, arrivals, outcomes."""

    world: np.random.Generator
    foe: np.random.Generator
    mind: np.random.Generator
    door: np.random.Generator
    till: np.random.Generator

    @classmethod
    def create(cls, seed: int) -> "Streams":
        """Independent generators that depend only on `seed`. Append new ones, so that the others stay the same."""
        return cls(*(np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(cls._fields))))


def offers(record: Any, method: str) -> bool:
    """Whether a record has an optional method of the contract; also works for numba types of records."""
    return callable(getattr(getattr(record, "instance_class", type(record)), method, None))


def take_back(learner, guard, users, ledger, back, visits):
    """Make the learner forget the visits that the guard retracts; returns their number. `visits` counts them by kind.

    Compiles to nothing if the guard cannot retract or the learner cannot forget.
    """
    return _take_back(learner, guard, users, ledger, back, visits) if _both(learner, guard) else 0


def tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till):
    """Draw the outcomes of a round's clicks, and tell guard and learner the outcomes that become known in it.

    `clicks` as reported, up to `reach`; `learnt`: whether the learner learnt from them, and so is told their
    outcomes, as the guard is in any case; `false`: no user made them, so they have no outcomes. Compiles to
    nothing if there is no ledger, because users have no outcomes.
    """
    if ledger is not None:
        _tell_outcomes(learner, guard, users, ledger, visit, ranking, clicks, reach, learnt, false, till)


def tell(record, item, shown, t, before, after):
    """Tell a learner or a guard about an outcome, if it has a method for it."""
    if offers(record, "outcome"):
        record.outcome(item, shown, t, before, after)


def group_of(users, client):
    """The honest group of a client: 0 if users have only one."""
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
    """Cancel the outcomes of a visit's clicks, known and future ones, before it is forgotten."""
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
    # drawn in any case, so that later visits have the same random numbers
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
    """Record an outcome of the click on an item at place p of this round, known some rounds later."""
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
    """The kind of a visit: of an honest client of the first taste or of another one, or corrupted."""
    if false:
        return FALSE
    return MINORITY if group_of(users, client) > 0 else MAJORITY


@inlined
def answer_list(learner, users, adversary, guard, ledger, visit, ranking, buffers, omniscient, world, foe, till):
    """The part of `play_round` after a list is shown; `buffers` hold its note.

    Returns what the adversary spent, and how far the feedback reaches.
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
    """Play one round: a user reacts to a list, an adversary rewrites the report, guard and learner see it.

    The learner learns if the guard admits the visit. With a `ledger`, outcomes that are known by now are reported
    afterwards. The buffers' `truth` is what the user did, `clicks` what is reported; bits beyond its reach are
    cleared. With `omniscient`, corrupted rounds are hidden from guard and learner. Returns the true visit, what the
    adversary spent, and how far the feedback reaches. Inlined as one piece, because passing records to a function
    takes time.
    """
    visit = Visit(t, users.arrive(t, buffers.features, door), buffers.features)
    buffers.note[:] = 0.0
    learner.rank(visit, buffers.allowed, buffers.ranking, buffers.note, mind)
    paid, examined = answer_list(
        learner, users, adversary, guard, ledger, visit, buffers.ranking, buffers, omniscient, world, foe, till
    )
    return visit, paid, examined
