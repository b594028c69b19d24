"""Regimes: stretches of rounds with one click behaviour. Ours, no paper's.

The most recent rounds of the current regime are also counted in spans, each with the items that it has looks at.
Counts can be retracted. Where a visit was counted is not stored: its round determines its regime and its spans. If
that regime was dropped meanwhile, so were its counts, and nothing is left to retract. Priors follow
when the next window ends.
"""

from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints, Small
from ...core.compiling.jit import no_refcount
from ...core.kernels import count_bits, counted, uncount_bits

SPANS = 4  # recent counts are kept for 1, 4, 16 and 64 windows
SPAN_FACTOR = 4  # ratio of consecutive span lengths


@no_refcount
def touch(regimes, j, ranking, examined):
    """Record the items that span j is about to look at for the first time."""
    some_untested = regimes.span_untested_rounds[j] > 0
    for p in range(examined):
        k = ranking[p]
        if regimes.span_looks[j, k] == 0 and not (some_untested and regimes.span_untested_looks[j, k] > 0):
            regimes.span_items[j, regimes.span_size[j]] = k
            regimes.span_size[j] += 1


@no_refcount
def untouch(regimes, j, ranking, examined):
    """Remove the items that span j has no looks at any more. O(items of the span) for each of them."""
    for p in range(examined):
        k = ranking[p]
        n = regimes.span_size[j]
        i = n if regimes.span_looks[j, k] > 0 or regimes.span_untested_looks[j, k] > 0 else 0
        while i < n and regimes.span_items[j, i] != k:
            i += 1
        if i < n:
            regimes.span_items[j, i] = regimes.span_items[j, n - 1]
            regimes.span_size[j] -= 1


@no_refcount
def copy_span(regimes, source, target):
    """Copy the counts of one span to another."""
    clear_span(regimes, target)
    regimes.span_rounds[target] = regimes.span_rounds[source]
    regimes.span_untested_rounds[target] = regimes.span_untested_rounds[source]
    regimes.span_silent_rounds[target] = regimes.span_silent_rounds[source]
    regimes.span_start[target] = regimes.span_start[source]
    regimes.span_size[target] = regimes.span_size[source]
    for i in range(regimes.span_size[source]):
        k = regimes.span_items[source, i]
        regimes.span_items[target, i] = k
        regimes.span_looks[target, k] = regimes.span_looks[source, k]
        regimes.span_clicks[target, k] = regimes.span_clicks[source, k]
        regimes.span_untested_looks[target, k] = regimes.span_untested_looks[source, k]
        regimes.span_untested_clicks[target, k] = regimes.span_untested_clicks[source, k]


@no_refcount
def clear_span(regimes, j):
    """Clear a span."""
    regimes.span_rounds[j] = 0
    regimes.span_untested_rounds[j] = 0
    regimes.span_silent_rounds[j] = 0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        regimes.span_looks[j, k] = 0
        regimes.span_clicks[j, k] = 0
        regimes.span_untested_looks[j, k] = 0
        regimes.span_untested_clicks[j, k] = 0
    regimes.span_size[j] = 0


MOST_REGIMES = 6  # stored at a time: each costs memory for all items
LOG = 64  # changes remembered, the latest ones
STARTED, NOTICED, BEFORE, AFTER = range(4)  # columns of the log of changes
MOST_SPAN_UNTESTED = 2**15 - 1  # most untested lists in a span: one look at an item each, so 16 bits suffice
MOST_UNTESTED = 2**30  # most untested looks at an item, so that the sum of two fits into 32 bits; more add nothing

CURRENT, STORED, OPENED, CHANGES, LEARNT = range(5)  # indices in Regimes.tally


class Regimes(NamedTuple):
    """Counts by regime and item, and those of the most recent rounds; K items.

    Feedback that is not an answer, or that a person labelled honest, is counted as untested: lists use all feedback,
    tests only answers. Unanswered lists do not count in a regime's length, since they need not come from anybody.
    """

    looks: Counts  # [MOST_REGIMES, K] looks in answers
    clicks: Counts  # [MOST_REGIMES, K]
    untested_looks: Counts  # [MOST_REGIMES, K]
    untested_clicks: Counts  # [MOST_REGIMES, K]
    prior: Floats  # [MOST_REGIMES, 2] of all feedback
    test_prior: Floats  # [MOST_REGIMES, 2] of answers
    rounds: Ints  # [MOST_REGIMES] without unanswered ones
    untested_rounds: Ints  # [MOST_REGIMES]
    start: Ints  # [MOST_REGIMES] first round
    number: Ints  # [MOST_REGIMES] 1, 2, ... in order of opening; indices are reused
    span_looks: Counts  # [SPANS, K] part of the current regime's counts; at most 64 windows
    span_clicks: Counts  # [SPANS, K]
    span_untested_looks: Small  # [SPANS, K] of the same rounds, moved together with them
    span_untested_clicks: Small  # [SPANS, K]
    span_rounds: Ints  # [SPANS] of answers
    span_untested_rounds: Ints  # [SPANS]
    span_silent_rounds: Ints  # [SPANS] of these, unanswered ones
    span_start: Ints  # [SPANS] first round
    span_items: Counts  # [SPANS, K] items that it has looks at, of either kind: the first `span_size`
    span_size: Ints  # [SPANS]
    tally: Ints  # [5]
    log: Ints  # [LOG, 4] changes: first round, round noticed, numbers of the regimes before and after

    @classmethod
    def create(cls, n_items: int) -> "Regimes":
        """One empty regime."""

        def zeros(*shape: int) -> Ints:
            return np.zeros(shape, np.int64)

        def small(rows: int) -> Counts:
            return np.zeros((rows, n_items), np.int32)

        r, k = MOST_REGIMES, n_items
        stored, apart, priors = (small(r), small(r)), (small(r), small(r)), (np.ones((r, 2)), np.ones((r, 2)))
        names = zeros(r), zeros(r), np.ones(r, np.int64), zeros(r)
        names[3][0] = 1
        untested_spans = np.zeros((SPANS, k), np.int16), np.zeros((SPANS, k), np.int16)
        spans, sizes = (small(SPANS), small(SPANS)), (zeros(SPANS), zeros(SPANS), zeros(SPANS))
        begun, touched = zeros(SPANS), (small(SPANS), zeros(SPANS))
        tally, log = np.array([0, 1, 1, 0, 0], np.int64), zeros(LOG, 4)
        return cls(*stored, *apart, *priors, *names, *spans, *untested_spans, *sizes, begun, *touched, tally, log)


@no_refcount
def number_at(regimes, t):
    """Number of the regime of round `t`."""
    number = regimes.number[regimes.tally[CURRENT]]
    changes = regimes.tally[CHANGES]
    for i in range(changes - 1, max(changes - LOG, 0) - 1, -1):
        if t >= regimes.log[i % LOG, STARTED]:
            break
        number = regimes.log[i % LOG, BEFORE]
    return number


@no_refcount
def find_place(regimes, number):
    """Index of the regime with this number; -1 if it was dropped."""
    for r in range(regimes.tally[STORED]):
        if regimes.number[r] == number:
            return r
    return -1


@no_refcount
def place_of(regimes, t):
    """Index of the regime of round `t`; of the current one if that was dropped."""
    place = find_place(regimes, number_at(regimes, t))
    return place if place >= 0 else regimes.tally[CURRENT]


@no_refcount
def count(regimes, ranking, clicks, examined, t):
    """Add the bits of an answer to the list of round t to the current regime and its recent spans."""
    current = regimes.tally[CURRENT]
    count_bits(regimes.looks[current], regimes.clicks[current], ranking, clicks, examined)
    for j in range(SPANS):
        touch(regimes, j, ranking, examined)
        count_bits(regimes.span_looks[j], regimes.span_clicks[j], ranking, clicks, examined)
        if regimes.span_rounds[j] == 0:
            regimes.span_start[j] = t
        regimes.span_rounds[j] += 1
    regimes.rounds[current] += 1
    regimes.tally[LEARNT] += 1


@no_refcount
def count_untested(regimes, ranking, clicks, examined, t, silent):
    """Add bits that tests ignore to the regime of round t and the spans that it lies in.

    `silent`: an unanswered list, which does not make the regime longer.
    """
    place = place_of(regimes, t)
    if not silent:
        regimes.rounds[place] += 1
        regimes.tally[LEARNT] += 1
    for p in range(examined):
        if regimes.untested_looks[place, ranking[p]] >= MOST_UNTESTED:
            return
    count_bits(regimes.untested_looks[place], regimes.untested_clicks[place], ranking, clicks, examined)
    regimes.untested_rounds[place] += 1
    if place != regimes.tally[CURRENT]:
        return
    for j in range(SPANS):
        room = regimes.span_untested_rounds[j] < MOST_SPAN_UNTESTED
        if room and regimes.span_rounds[j] > 0 and t >= regimes.span_start[j]:
            touch(regimes, j, ranking, examined)
            count_bits(regimes.span_untested_looks[j], regimes.span_untested_clicks[j], ranking, clicks, examined)
            regimes.span_untested_rounds[j] += 1
            if silent:
                regimes.span_silent_rounds[j] += 1


@no_refcount
def recount(regimes, share):
    """Keep only this share of the looks without a click so far, and clear the spans, without a change of regime."""
    if share == 1.0:
        return
    for r in range(regimes.tally[STORED]):
        for k in range(regimes.looks.shape[1]):
            won, apart = regimes.clicks[r, k], regimes.untested_clicks[r, k]
            regimes.looks[r, k] = won + round((regimes.looks[r, k] - won) * share)
            regimes.untested_looks[r, k] = apart + round((regimes.untested_looks[r, k] - apart) * share)
    for j in range(SPANS):
        clear_span(regimes, j)


@no_refcount
def room(regimes):
    """Index of an empty regime: a free one, else the shortest that is not the current one, cleared."""
    stored = regimes.tally[STORED]
    place = stored
    if stored < MOST_REGIMES:
        regimes.tally[STORED] += 1
    else:
        place = -1
        for r in range(stored):
            if r != regimes.tally[CURRENT] and (place < 0 or regimes.rounds[r] < regimes.rounds[place]):
                place = r
        for k in range(regimes.looks.shape[1]):
            regimes.looks[place, k] = 0
            regimes.clicks[place, k] = 0
            regimes.untested_looks[place, k] = 0
            regimes.untested_clicks[place, k] = 0
    regimes.rounds[place] = 0
    regimes.untested_rounds[place] = 0
    for i in range(2):
        regimes.prior[place, i] = 1.0
        regimes.test_prior[place, i] = 1.0
    regimes.tally[OPENED] += 1
    regimes.number[place] = regimes.tally[OPENED]
    return place


@no_refcount
def hand_over(counts, part, items, source, target):
    """Move part of one row of counts, for these items, to another row."""
    for k in items:
        counts[source, k] -= part[k]
        counts[target, k] += part[k]


@no_refcount
def move(regimes, to, span, t):
    """Move the rounds of a span from the current regime to another, which becomes the current one.

    Longer spans shrink to the rounds moved and continue from there: a regime that is resumed must explain them as
    well as what comes next. Otherwise two regimes could alternate forever, each explaining why the
    other's favourites fail without ever being tested on its own.
    """
    current = regimes.tally[CURRENT]
    items = regimes.span_items[span, : regimes.span_size[span]]
    hand_over(regimes.looks, regimes.span_looks[span], items, current, to)
    hand_over(regimes.clicks, regimes.span_clicks[span], items, current, to)
    hand_over(regimes.untested_looks, regimes.span_untested_looks[span], items, current, to)
    hand_over(regimes.untested_clicks, regimes.span_untested_clicks[span], items, current, to)
    first = regimes.span_start[span]
    if regimes.rounds[to] == 0:
        regimes.start[to] = first
    apart = regimes.span_untested_rounds[span]
    moved = regimes.span_rounds[span] + apart - regimes.span_silent_rounds[span]
    regimes.rounds[to] += moved
    regimes.rounds[current] -= moved
    regimes.untested_rounds[to] += apart
    regimes.untested_rounds[current] -= apart
    entry = regimes.tally[CHANGES] % LOG
    regimes.log[entry, STARTED] = first
    regimes.log[entry, NOTICED] = t
    regimes.log[entry, BEFORE] = regimes.number[current]
    regimes.log[entry, AFTER] = regimes.number[to]
    regimes.tally[CHANGES] += 1
    regimes.tally[CURRENT] = to
    for j in range(SPANS):
        if regimes.span_rounds[j] > regimes.span_rounds[span]:
            copy_span(regimes, span, j)


@no_refcount
def rival(regimes, slack):
    """Index of the longest regime, if it is longer than the current one by more than `slack` rounds; else -1."""
    current = regimes.tally[CURRENT]
    longest = -1
    for r in range(regimes.tally[STORED]):
        longer = regimes.rounds[r] > regimes.rounds[current] + slack
        if r != current and longer and (longest < 0 or regimes.rounds[r] > regimes.rounds[longest]):
            longest = r
    return longest


NOW = 1 << 62  # later than any round: it lies in every span


class Held(NamedTuple):
    """A regime's counts of one kind of feedback, and those of the spans."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    span_looks: Ints  # [SPANS, K]
    span_clicks: Ints  # [SPANS, K]
    span_rounds: Ints  # [SPANS]


@no_refcount
def uncount(regimes, ranking, bits, examined, t):
    """Retract what `regimes.count` did with the answer to the list of round t.

    A late answer was counted among the rounds in which it came. It is searched for at its round and,
    if it cannot be there, among the latest: a span may keep the looks of a late answer, the items' counts do not.
    """
    r = find_place(regimes, number_at(regimes, t))
    if r < 0:
        return
    if not take_answer(regimes, r, ranking, bits, examined, t):
        take_answer(regimes, regimes.tally[CURRENT], ranking, bits, examined, NOW)


@no_refcount
def take_answer(regimes, r, ranking, bits, examined, t):
    """Retract an answer from regime r; returns whether it was there."""
    held = Held(regimes.looks[r], regimes.clicks[r], regimes.span_looks, regimes.span_clicks, regimes.span_rounds)
    if regimes.rounds[r] == 0 or not holds(regimes, r, held, ranking, bits, examined, t):
        return False
    uncount_bits(held.looks, held.clicks, ranking, bits, examined)
    regimes.rounds[r] -= 1
    regimes.tally[LEARNT] -= 1
    for j in range(SPANS):
        if lies_in(regimes, r, held, j, t):
            uncount_bits(held.span_looks[j], held.span_clicks[j], ranking, bits, examined)
            untouch(regimes, j, ranking, examined)
            regimes.span_rounds[j] -= 1
    return True


@no_refcount
def uncount_untested(regimes, ranking, bits, examined, t, silent):
    """Retract what `regimes.count_untested` did with the feedback of round t."""
    r = find_place(regimes, number_at(regimes, t))
    if r < 0 or regimes.untested_rounds[r] == 0 or not (silent or regimes.rounds[r] > 0):
        return
    spans = regimes.span_untested_looks, regimes.span_untested_clicks, regimes.span_untested_rounds
    held = Held(regimes.untested_looks[r], regimes.untested_clicks[r], spans[0], spans[1], spans[2])
    if not holds(regimes, r, held, ranking, bits, examined, t):
        return
    uncount_bits(held.looks, held.clicks, ranking, bits, examined)
    regimes.untested_rounds[r] -= 1
    if not silent:
        regimes.rounds[r] -= 1
        regimes.tally[LEARNT] -= 1
    for j in range(SPANS):
        if lies_in(regimes, r, held, j, t):
            uncount_bits(held.span_looks[j], held.span_clicks[j], ranking, bits, examined)
            untouch(regimes, j, ranking, examined)
            regimes.span_untested_rounds[j] -= 1
            if silent and regimes.span_silent_rounds[j] > 0:
                regimes.span_silent_rounds[j] -= 1


@no_refcount
def lies_in(regimes, r, held, j, t):
    """Whether round t of regime r lies in span j, and the span holds feedback of this kind."""
    return r == regimes.tally[CURRENT] and held.span_rounds[j] > 0 and t >= regimes.span_start[j]


@no_refcount
def holds(regimes, r, held, ranking, bits, examined, t):
    """Whether the bits of round t can be in the counts of regime r and in exactly those spans that t lies in."""
    if not counted(held.looks, held.clicks, ranking, bits, examined):
        return False
    for j in range(SPANS if r == regimes.tally[CURRENT] else 0):
        inside = lies_in(regimes, r, held, j, t)
        if inside and not counted(held.span_looks[j], held.span_clicks[j], ranking, bits, examined):
            return False
        for p in range(0 if inside else examined):
            k = ranking[p]
            beside, others = held.looks[k] - held.span_looks[j, k], held.clicks[k] - held.span_clicks[j, k]
            if beside < 1 or (others < 1 if bits[p] else others >= beside):
                return False
    return True
