"""Which regime recent feedback belongs to: a Bayes factor over all items at once. Ours, no paper's.

The feedback of each span is predicted from the rounds of the current regime before it, from each stored regime, and
from a new one that may differ in any item. Nothing here reads what is counted apart. What a single item says is
judged as in the audit of click logs; where not, `item_evidence` says so.
"""

import math
from typing import NamedTuple

from .._intrinsics import stack_floats
from .._jit import uncounted
from ..item_evidence import KNOWN, MOST, SHARE_CHANGED, changed_with, inversion, log_beta, log_predictive
from .regime_posteriors import fit_priors
from .regimes import CHANGES, CURRENT, LOG, MOST_REGIMES, NOTICED, STORED, Regimes, move, room
from .spans import SPAN_FACTOR, SPANS, clear_span

CALM = 16  # windows in which three changes are too many


class Rule(NamedTuple):
    """When recent feedback is taken for another regime. Defaults and what they decide: docs/steadyrank.md."""

    known: int = KNOWN  # looks at an item before it can testify
    most: float = MOST  # looks at an item that count at most: smaller moves than their error are no change
    changed: float = SHARE_CHANGED  # of the items in a new regime
    back: float = 10.0  # nats of evidence before a stored regime is taken up again
    open: float = 15.0  # nats of evidence before a new one is opened


@uncounted
def predict(regimes, r, looks, clicks, before, won, most):
    """Log chance of `clicks` in `looks` looks at an item of regime r, after `won` in `before`.

    The prior counts no more than the looks before: an item unlike the others is no change.
    """
    a = regimes.test_prior[r, 0]
    b = regimes.test_prior[r, 1]
    weight = min(1.0, before / (a + b))
    return log_predictive(clicks, looks, a * weight + won, b * weight + before - won, most)


@uncounted
def blend(x, y, share):
    """log(share e^x + (1 - share) e^y)."""
    most = max(x, y)
    return most + math.log(share * math.exp(x - most) + (1.0 - share) * math.exp(y - most))


@uncounted
def restless(regimes, window, t):
    """Whether the last three changes came within `CALM` windows: regimes that take turns have missed another one."""
    changes = regimes.tally[CHANGES]
    return changes >= 3 and t - regimes.log[(changes - 3) % LOG, NOTICED] <= CALM * window


@uncounted
def novelty(same, looks, clicks, changed):
    """Evidence of an item for a new regime: it keeps its attraction, or with chance `changed` draws it uniformly.

    `same` is the log chance of its feedback in the current regime. An item that did not change costs little.
    """
    anew = log_beta(1.0 + clicks, 1.0 + looks - clicks) - same
    if anew > 50.0:
        return anew + math.log(changed)  # the item kept adds nothing that a float holds
    return math.log(changed_with(changed, math.exp(anew)))


@uncounted
def weigh(regimes, rule, j, evidence):
    """Write the evidence of span `j` for each stored regime, and last for a new one, against the current one.

    In nats, summed over items. Only items that the current regime knows testify; one that a stored regime does not
    know counts for it as for a new one.
    """
    current = regimes.tally[CURRENT]
    stored = regimes.tally[STORED]
    for r in range(stored + 1):
        evidence[r] = 0.0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        looks = regimes.span_looks[j, k]
        before = regimes.looks[current, k] - looks
        if looks == 0 or before < rule.known:
            continue
        clicks = regimes.span_clicks[j, k]
        same = predict(regimes, current, looks, clicks, before, regimes.clicks[current, k] - clicks, rule.most)
        unknown = novelty(same, looks, clicks, rule.changed)
        evidence[stored] += unknown
        for r in range(stored):
            if r == current:
                continue
            if regimes.looks[r, k] >= rule.known:
                then = predict(regimes, r, looks, clicks, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
                evidence[r] += then - same
            else:
                evidence[r] += unknown


@uncounted
def distinct_evidence(regimes, rule, j, r):
    """The evidence of span `j` for stored regime `r` without what items say that behave in it as in the current one.

    They are the same in both, and whichever regime knows them longer predicts them better.
    """
    current = regimes.tally[CURRENT]
    total = 0.0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        looks = regimes.span_looks[j, k]
        before = regimes.looks[current, k] - looks
        if looks == 0 or before < rule.known:
            continue
        clicks = regimes.span_clicks[j, k]
        won = regimes.clicks[current, k] - clicks
        same = predict(regimes, current, looks, clicks, before, won, rule.most)
        if regimes.looks[r, k] < rule.known:
            total += novelty(same, looks, clicks, rule.changed)
            continue
        then = predict(regimes, r, looks, clicks, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
        alike = predict(regimes, r, before, won, regimes.looks[r, k], regimes.clicks[r, k], rule.most)
        alike -= log_beta(1.0 + won, 1.0 + before - won)
        share = 1.0 / (1.0 + math.exp(-min(max(alike, -30.0), 30.0)))  # never certain
        total += then - blend(then, same, share)
    return total


@uncounted
def due(regimes, j, quarter):
    """Whether span `j` is to be weighed: it grew by a `quarter` in this window, and no shorter one is the same."""
    rounds = regimes.span_rounds[j]
    grown = rounds // quarter > (rounds - regimes.span_rounds[0]) // quarter
    return grown and (j == 0 or rounds != regimes.span_rounds[j - 1])


@uncounted
def judge(regimes, rule, window, t):
    """The regime that the recent feedback belongs to and the span it came in with; -1 and 0 for the current one.

    `tally[STORED]` stands for a new one. A span is weighed whenever it has grown by a quarter of its full size, the
    shortest one when it is full. O(items of the span) a span and regime, with Beta functions.
    """
    evidence = stack_floats(MOST_REGIMES + 1)
    stored = regimes.tally[STORED]
    turns = restless(regimes, window, t)
    to = -1
    span = 0
    excess = 0.0
    quarter = window
    for j in range(SPANS):
        if j > 1:
            quarter *= SPAN_FACTOR
        if not due(regimes, j, quarter):
            continue
        weigh(regimes, rule, j, evidence)
        for r in range(stored + 1):
            if r == regimes.tally[CURRENT] or (turns and r < stored):
                continue
            bar = rule.back if r < stored else rule.open
            over = evidence[r] - bar
            if over > excess and (r == stored or distinct_evidence(regimes, rule, j, r) > bar):
                to = r
                span = j
                excess = over
    return to, span


@uncounted
def close_window(regimes, rule, window, t):
    """Test the recent feedback after a window, and change the regime if it says so; returns whether it was changed.

    The current one's priors are fitted afterwards, by `learn_priors`.
    """
    to, span = judge(regimes, rule, window, t)
    if to == regimes.tally[STORED]:
        to = room(regimes)
    if to >= 0:
        left = regimes.tally[CURRENT]
        move(regimes, to, span, t)
        fit_priors(regimes, left)
    full = window
    for j in range(SPANS):
        if regimes.span_rounds[j] >= full:
            clear_span(regimes, j)
        full *= SPAN_FACTOR
    return to >= 0


def inversion_between(regimes: Regimes, rule: Rule, before: int, after: int) -> float:
    """Nats by which the regime numbered `before`, inverted, predicts the feedback of `after` better than as learnt.

    Items that `before` knows testify; 0 if one of the two is forgotten. O(K).
    """
    places = {int(n): place for place, n in enumerate(regimes.number[: regimes.tally[STORED]])}
    if before not in places or after not in places:
        return 0.0
    old, new = places[before], places[after]
    known = regimes.looks[old] >= rule.known
    a, b = regimes.test_prior[old]
    rate = (a + regimes.clicks[old, known]) / (a + b + regimes.looks[old, known])
    return inversion(regimes.looks[new, known], regimes.clicks[new, known], rate)
