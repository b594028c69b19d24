"""Regimes: stretches of rounds with one click behaviour, found by comparing recent feedback with what was learnt.

Ours, no paper's. The test is a Bayes factor over all items at once. Counts of the most recent rounds are kept for
several spans; the feedback of each span is predicted from the rounds of the current regime before it, from each
stored regime, and from a new one that may differ in any item.
"""

import math
from typing import NamedTuple

import numpy as np

from ._jit import lean, stack_floats
from .arrays import Floats, Ints
from .populations import fit_prior, log_beta, log_predictive

MOST_REGIMES = 6
SPANS = 4  # recent counts are kept for 1, 4, 16 and 64 windows
SPAN_FACTOR = 4
LOG = 64  # changes remembered, the latest ones
CALM = 16  # windows in which three changes are too many

CURRENT, STORED, OPENED, CHANGES, LEARNT = range(5)  # places of Regimes.tally


class Rule(NamedTuple):
    """When recent feedback is taken for another regime. Defaults and what they decide: docs/steadyrank.md."""

    known: int = 5  # looks at an item before it can testify
    most: float = 400.0  # looks at an item that count at most: smaller moves than their error are no change
    changed: float = 0.1  # share of items that a new regime changes, before anything is seen of it
    back: float = 10.0  # nats of evidence before a stored regime is taken up again
    open: float = 15.0  # nats of evidence before a new one is opened


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
def predict(regimes, r, seen, wins, before, won, most):
    """Log chance of `wins` in `seen` looks at an item of regime r, after `won` in `before`.

    The prior counts no more than the looks before: an item unlike the others is no change.
    """
    a = regimes.prior[r, 0]
    b = regimes.prior[r, 1]
    weight = min(1.0, before / (a + b))
    return log_predictive(wins, seen, a * weight + won, b * weight + before - won, most)


@lean
def blend(x, y, share):
    """log(share e^x + (1 - share) e^y)."""
    most = max(x, y)
    return most + math.log(share * math.exp(x - most) + (1.0 - share) * math.exp(y - most))


@lean
def restless(regimes, window, t):
    """Whether the last three changes came within `CALM` windows: regimes that take turns have missed another one."""
    changes = regimes.tally[CHANGES]
    return changes >= 3 and t - regimes.log[(changes - 3) % LOG, 1] <= CALM * window


@lean
def weigh(regimes, rule, j, evidence, against):
    """Write the evidence of span `j` for each stored regime, and last for a new one, against the current one.

    In nats, summed over items. Only items that the current regime knows testify. In a new regime each item keeps its
    attraction, or with chance `changed` draws it anew, uniformly: an item that did not change costs it little. So do
    items that a stored regime does not know. `against` leaves out what items say that behave in the current regime
    as in the stored one: they are the same in both, and whichever knows them longer predicts them better.
    """
    current = regimes.tally[CURRENT]
    stored = regimes.tally[STORED]
    for r in range(stored + 1):
        evidence[r] = 0.0
        against[r] = 0.0
    for k in range(regimes.seen.shape[1]):
        seen = regimes.span_seen[j, k]
        before = regimes.seen[current, k] - seen
        if seen == 0 or before < rule.known:
            continue
        wins = regimes.span_wins[j, k]
        same = predict(regimes, current, seen, wins, before, regimes.wins[current, k] - wins, rule.most)
        anew = log_beta(1.0 + wins, 1.0 + seen - wins) - same
        if anew > 50.0:
            unknown = anew + math.log(rule.changed)  # the item kept adds nothing that a float holds
        else:
            unknown = math.log(1.0 - rule.changed + rule.changed * math.exp(anew))
        evidence[stored] += unknown
        against[stored] += unknown
        for r in range(stored):
            if r == current:
                continue
            if regimes.seen[r, k] >= rule.known:
                won = regimes.wins[current, k] - wins
                then = predict(regimes, r, seen, wins, regimes.seen[r, k], regimes.wins[r, k], rule.most)
                alike = predict(regimes, r, before, won, regimes.seen[r, k], regimes.wins[r, k], rule.most)
                alike -= log_beta(1.0 + won, 1.0 + before - won)
                share = 1.0 / (1.0 + math.exp(-min(max(alike, -30.0), 30.0)))  # never certain
                evidence[r] += then - same
                against[r] += then - blend(then, same, share)
            else:
                evidence[r] += unknown
                against[r] += unknown


@lean
def judge(regimes, rule, window, t):
    """The regime that the recent feedback belongs to and the span it came in with; -1 and 0 for the current one.

    `tally[STORED]` stands for a new one. A span is weighed whenever it has grown by a quarter of its full size, the
    shortest one when it is full. O(K) a span and regime, with Beta functions.
    """
    evidence = stack_floats(MOST_REGIMES + 1)
    against = stack_floats(MOST_REGIMES + 1)
    stored = regimes.tally[STORED]
    turns = restless(regimes, window, t)
    to = -1
    span = 0
    excess = 0.0
    quarter = window
    for j in range(SPANS):
        if j > 1:
            quarter *= SPAN_FACTOR
        if regimes.span_rounds[j] % quarter > 0 or (j > 0 and regimes.span_rounds[j] == regimes.span_rounds[j - 1]):
            continue  # not yet, or the same rounds again
        weigh(regimes, rule, j, evidence, against)
        for r in range(stored + 1):
            if r == regimes.tally[CURRENT] or (turns and r < stored):
                continue
            bar = rule.back if r < stored else rule.open
            over = evidence[r] - bar
            if over > excess and against[r] > bar:
                to = r
                span = j
                excess = over
    return to, span


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
def close_window(regimes, rule, window, t):
    """Test the recent feedback after a window, change the regime if it says so, and fit the current one's prior."""
    to, span = judge(regimes, rule, window, t)
    if to == regimes.tally[STORED]:
        to = room(regimes)
    if to >= 0:
        move(regimes, to, span, t)
    full = window
    for j in range(SPANS):
        if regimes.span_rounds[j] >= full:
            regimes.span_rounds[j] = 0
            for k in range(regimes.seen.shape[1]):
                regimes.span_seen[j, k] = 0
                regimes.span_wins[j, k] = 0
        full *= SPAN_FACTOR
    current = regimes.tally[CURRENT]
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
