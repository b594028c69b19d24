"""Regimes: stretches of rounds with one click behaviour, and counts of the most recent rounds. Ours, no paper's."""

from typing import NamedTuple

import numpy as np

from ._jit import lean
from .arrays import Floats, Ints
from .populations import fit_prior

MOST_REGIMES = 6
SPANS = 4  # recent counts are kept for 1, 4, 16 and 64 windows
SPAN_FACTOR = 4
LOG = 64  # changes remembered, the latest ones

CURRENT, STORED, OPENED, CHANGES, LEARNT = range(5)  # places of Regimes.tally


class Regimes(NamedTuple):
    """Counts by regime and item, and those of the most recent rounds; K items."""

    seen: Ints  # [MOST_REGIMES, K]
    wins: Ints  # [MOST_REGIMES, K]
    prior: Floats  # [MOST_REGIMES, 2]
    rounds: Ints  # [MOST_REGIMES]
    start: Ints  # [MOST_REGIMES] first round
    number: Ints  # [MOST_REGIMES] 1, 2, ... in order of opening; a place may be used again
    span_seen: Ints  # [SPANS, K] part of the current regime's counts
    span_wins: Ints  # [SPANS, K]
    span_rounds: Ints  # [SPANS]
    span_start: Ints  # [SPANS] first round
    tally: Ints  # [5]
    log: Ints  # [LOG, 4] changes: first round, round noticed, number of the regime before and after

    @classmethod
    def create(cls, n_items: int) -> "Regimes":
        """One empty regime."""

        def zeros(*shape: int) -> Ints:
            return np.zeros(shape, np.int64)

        stored = zeros(MOST_REGIMES, n_items), zeros(MOST_REGIMES, n_items), np.ones((MOST_REGIMES, 2))
        names = zeros(MOST_REGIMES), np.ones(MOST_REGIMES, np.int64), zeros(MOST_REGIMES)
        names[2][0] = 1
        spans = zeros(SPANS, n_items), zeros(SPANS, n_items), zeros(SPANS), zeros(SPANS)
        return cls(*stored, *names, *spans, np.array([0, 1, 1, 0, 0], np.int64), zeros(LOG, 4))


@lean
def place_of(regimes, t):
    """The place of the regime that round `t` belongs to, the current one if that is forgotten."""
    number = regimes.number[regimes.tally[CURRENT]]
    changes = regimes.tally[CHANGES]
    for i in range(changes - 1, max(changes - LOG, 0) - 1, -1):
        if t >= regimes.log[i % LOG, 0]:
            break
        number = regimes.log[i % LOG, 2]
    for r in range(regimes.tally[STORED]):
        if regimes.number[r] == number:
            return r
    return regimes.tally[CURRENT]


@lean
def count(regimes, ranking, clicks, examined, t, late):
    """Add round t's bits to the current regime and to the recent ones; `late` ones to their own regime only."""
    place = place_of(regimes, t) if late else regimes.tally[CURRENT]
    for p in range(examined):
        k = ranking[p]
        win = 1 if clicks[p] else 0
        regimes.seen[place, k] += 1
        regimes.wins[place, k] += win
        if not late:
            for j in range(SPANS):
                regimes.span_seen[j, k] += 1
                regimes.span_wins[j, k] += win
    regimes.rounds[place] += 1
    regimes.tally[LEARNT] += 1
    if not late:
        for j in range(SPANS):
            if regimes.span_rounds[j] == 0:
                regimes.span_start[j] = t
            regimes.span_rounds[j] += 1


@lean
def room(regimes):
    """An empty place for a regime: a free one, else that of the shortest which is not the current one."""
    stored = regimes.tally[STORED]
    place = stored
    if stored < MOST_REGIMES:
        regimes.tally[STORED] += 1
    else:
        place = -1
        for r in range(stored):
            if r != regimes.tally[CURRENT] and (place < 0 or regimes.rounds[r] < regimes.rounds[place]):
                place = r
    for k in range(regimes.seen.shape[1]):
        regimes.seen[place, k] = 0
        regimes.wins[place, k] = 0
    regimes.rounds[place] = 0
    regimes.prior[place, 0] = 1.0
    regimes.prior[place, 1] = 1.0
    regimes.tally[OPENED] += 1
    regimes.number[place] = regimes.tally[OPENED]
    return place


@lean
def copy_span(regimes, source, target):
    """Make a span hold the rounds of another."""
    regimes.span_rounds[target] = regimes.span_rounds[source]
    regimes.span_start[target] = regimes.span_start[source]
    for k in range(regimes.seen.shape[1]):
        regimes.span_seen[target, k] = regimes.span_seen[source, k]
        regimes.span_wins[target, k] = regimes.span_wins[source, k]


@lean
def move(regimes, to, span, t):
    """Hand the rounds of a span over from the current regime to another, which becomes the current one.

    Longer spans shrink to the rounds handed over and go on from there: a regime taken up again must explain them as
    well as what comes next. Were they forgotten, two regimes could take turns forever, each explaining why the
    other's favourites fail and never blamed for its own.
    """
    current = regimes.tally[CURRENT]
    for k in range(regimes.seen.shape[1]):
        regimes.seen[to, k] += regimes.span_seen[span, k]
        regimes.wins[to, k] += regimes.span_wins[span, k]
        regimes.seen[current, k] -= regimes.span_seen[span, k]
        regimes.wins[current, k] -= regimes.span_wins[span, k]
    first = regimes.span_start[span]
    if regimes.rounds[to] == 0:
        regimes.start[to] = first
    regimes.rounds[to] += regimes.span_rounds[span]
    regimes.rounds[current] -= regimes.span_rounds[span]
    entry = regimes.tally[CHANGES] % LOG
    regimes.log[entry, 0] = first
    regimes.log[entry, 1] = t
    regimes.log[entry, 2] = regimes.number[current]
    regimes.log[entry, 3] = regimes.number[to]
    regimes.tally[CHANGES] += 1
    regimes.tally[CURRENT] = to
    for j in range(SPANS):
        if regimes.span_rounds[j] > regimes.span_rounds[span]:
            copy_span(regimes, span, j)
    fit_prior(regimes.seen[current], regimes.wins[current], regimes.prior[current])


@lean
def rival(regimes, slack):
    """The longest regime that is longer than the current one by more than `slack` rounds; -1 if there is none."""
    current = regimes.tally[CURRENT]
    found = -1
    for r in range(regimes.tally[STORED]):
        longer = regimes.rounds[r] > regimes.rounds[current] + slack
        if r != current and longer and (found < 0 or regimes.rounds[r] > regimes.rounds[found]):
            found = r
    return found
