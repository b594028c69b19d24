"""What was counted in a regime is taken back. Ours, no paper's.

Nobody remembers where a visit was counted: its round says which regime and which spans it lies in. If that regime was
dropped meanwhile, so was what it knew, and nothing is left to take back. Priors follow when the next window ends.
"""

from typing import NamedTuple

from .._jit import uncounted
from ..arrays import Ints
from ..kernels import counted, uncount_bits
from .regimes import CURRENT, LEARNT, find_place, number_at
from .spans import SPANS, untouch

NOW = 1 << 62  # a round after all others: it lies in every span


class Held(NamedTuple):
    """What a regime has of one kind of feedback, and what the spans have of it."""

    looks: Ints  # [K]
    clicks: Ints  # [K]
    span_looks: Ints  # [SPANS, K]
    span_clicks: Ints  # [SPANS, K]
    span_rounds: Ints  # [SPANS]


@uncounted
def uncount(regimes, ranking, bits, examined, t):
    """Take back what `regimes.count` did with the answer to the list of round t.

    An answer that came late was counted among the rounds in which it came. It is looked for where its round is, and
    if it cannot be there, among the latest: a span may keep the looks of a late answer, the items' counts do not.
    """
    r = find_place(regimes, number_at(regimes, t))
    if r < 0:
        return
    if not take_answer(regimes, r, ranking, bits, examined, t):
        take_answer(regimes, regimes.tally[CURRENT], ranking, bits, examined, NOW)


@uncounted
def take_answer(regimes, r, ranking, bits, examined, t):
    """Take an answer back from regime r; whether it was there."""
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


@uncounted
def uncount_apart(regimes, ranking, bits, examined, t, silent):
    """Take back what `regimes.count_apart` did with the feedback of round t."""
    r = find_place(regimes, number_at(regimes, t))
    if r < 0 or regimes.apart_rounds[r] == 0 or not (silent or regimes.rounds[r] > 0):
        return
    spans = regimes.span_apart_looks, regimes.span_apart_clicks, regimes.span_apart_rounds
    held = Held(regimes.apart_looks[r], regimes.apart_clicks[r], spans[0], spans[1], spans[2])
    if not holds(regimes, r, held, ranking, bits, examined, t):
        return
    uncount_bits(held.looks, held.clicks, ranking, bits, examined)
    regimes.apart_rounds[r] -= 1
    if not silent:
        regimes.rounds[r] -= 1
        regimes.tally[LEARNT] -= 1
    for j in range(SPANS):
        if lies_in(regimes, r, held, j, t):
            uncount_bits(held.span_looks[j], held.span_clicks[j], ranking, bits, examined)
            untouch(regimes, j, ranking, examined)
            regimes.span_apart_rounds[j] -= 1
            if silent and regimes.span_silent_rounds[j] > 0:
                regimes.span_silent_rounds[j] -= 1


@uncounted
def lies_in(regimes, r, held, j, t):
    """Whether round t of regime r is one of span j, as far as there is such feedback in it."""
    return r == regimes.tally[CURRENT] and held.span_rounds[j] > 0 and t >= regimes.span_start[j]


@uncounted
def holds(regimes, r, held, ranking, bits, examined, t):
    """Whether the bits of round t can be in the counts of regime r, and in those spans alone that t lies in."""
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
