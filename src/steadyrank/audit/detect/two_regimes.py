"""Separate two regimes: rates of items in each, the regime of each impression, and how sudden the change was."""

import math

import numpy as np

from ...core.compiling.jit import kernel, no_refcount
from ...core.item_evidence import MOST
from .bayes_factors import (
    CLICKS,
    EDGE,
    EXPECTED,
    GROUP_COLUMNS,
    GROUPED,
    GROUPS,
    HOLD,
    LOOKS,
    REF_CLICKS,
    REF_EXPECTED,
    REF_LOOKS,
    collect,
    group_novelty,
    log_odds,
    novelty,
    shifted,
)

CLEAR = 2.0  # nats required to treat a group as different
SHARES = (0.1, 0.3)  # bounds on the share of items that differ
ONE, TWO = range(2)  # columns of a table of shifts: the regimes
WAVE = 0.0  # in place of a width: half a sine wave, like the time of day


@no_refcount
def group_shifts(group, grouped, shifts):
    """Write the shift of a group's log-odds from usual in two regimes; the same for both unless they differ clearly.

    `group`: a row of the table of groups, with the first regime as the stretch and the second as its reference.
    """
    shifts[ONE] = log_odds(group[CLICKS], group[LOOKS]) - log_odds(group[EXPECTED], group[LOOKS])
    shifts[TWO] = log_odds(group[REF_CLICKS], group[REF_LOOKS]) - log_odds(group[REF_EXPECTED], group[REF_LOOKS])
    if group[REF_LOOKS] < group[LOOKS]:  # test the regime with fewer looks
        for c in range(REF_CLICKS):
            group[c], group[REF_CLICKS + c] = group[REF_CLICKS + c], group[c]
    if grouped and group_novelty(group, 0.0) > CLEAR:
        return
    both = log_odds(group[CLICKS] + group[REF_CLICKS], group[LOOKS] + group[REF_LOOKS])
    both -= log_odds(group[EXPECTED] + group[REF_EXPECTED], group[LOOKS] + group[REF_LOOKS])
    shifts[ONE] = both
    shifts[TWO] = both


@no_refcount
def joint_rates(looks, clicks, other_looks, other_clicks, base, other_base, gap):
    """An item's rates in two regimes whose log-odds differ by `gap`, estimated from the looks in both."""
    one = (HOLD * base + clicks) / (HOLD + looks)
    two = (HOLD * other_base + other_clicks) / (HOLD + other_looks)
    here = math.log(one / (1.0 - one))
    there = math.log(two / (1.0 - two)) - gap
    odds = ((HOLD + looks) * here + (HOLD + other_looks) * there) / (2.0 * HOLD + looks + other_looks)
    return 1.0 / (1.0 + math.exp(-odds)), 1.0 / (1.0 + math.exp(-odds - gap))


@no_refcount
def apart(looks, clicks, other_looks, other_clicks, base, other_base, gap, share):
    """Whether an item changes unlike its group between regimes; tests the regime with fewer looks."""
    if other_looks <= looks:
        rate = shifted((HOLD * base + clicks) / (HOLD + looks), gap)
        evidence = novelty(other_clicks, other_looks, rate, min(HOLD + looks, MOST))
    else:
        rate = shifted((HOLD * other_base + other_clicks) / (HOLD + other_looks), -gap)
        evidence = novelty(clicks, looks, rate, min(HOLD + other_looks, MOST))
    return evidence > math.log((1.0 - share) / share)


@kernel
def rates_of(looks, clicks, other_looks, other_clicks, bands, usual, share, one, two):
    """Write each item's rate in two regimes to `one` and `two`, float64[K]: equal unless they differ clearly.

    `share`: of items that differ, from `weigh`. Items differ with their group, or alone.
    """
    grouped = share == GROUPED
    share = min(max(share, SHARES[0]), SHARES[1])
    groups = np.zeros((GROUPS, GROUP_COLUMNS))
    for k in range(looks.size):
        if looks[k] > 0 and other_looks[k] > 0:
            collect(groups, bands[k], clicks[k], looks[k], usual[k], other_clicks[k], other_looks[k])
    shifts = np.zeros((GROUPS, 2))
    for j in range(GROUPS):
        if groups[j, LOOKS] > 0.0:
            group_shifts(groups[j], grouped, shifts[j])
    for k in range(looks.size):
        j = bands[k]
        base = shifted(usual[k], shifts[j, ONE])
        other = shifted(usual[k], shifts[j, TWO])
        gap = shifts[j, TWO] - shifts[j, ONE]
        x, y = looks[k], other_looks[k]
        if gap == 0.0:
            p = q = (HOLD * base + clicks[k] + other_clicks[k]) / (HOLD + x + y)
        else:
            p, q = joint_rates(x, clicks[k], y, other_clicks[k], base, other, gap)
        if x > 0 and y > 0 and apart(x, clicks[k], y, other_clicks[k], base, other, gap, share):
            p = (base + clicks[k]) / (1.0 + x)
            q = (other + other_clicks[k]) / (1.0 + y)
        one[k] = min(max(p, EDGE), 1.0 - EDGE)
        two[k] = min(max(q, EDGE), 1.0 - EDGE)


@kernel
def gains(item, looks, clicks, first, start, one, two, out):
    """Write the log likelihood ratio of each part from `start` on, rates `two` against `one`, in nats."""
    nats = np.empty((one.size, 2))
    for k in range(one.size):
        nats[k, 0] = math.log((1.0 - two[k]) / (1.0 - one[k]))
        nats[k, 1] = math.log(two[k] / one[k])
    for i in range(out.size):
        total = 0.0
        for q in range(first[start + i], first[start + i + 1]):
            k = item[q]
            total += (looks[q] - clicks[q]) * nats[k, 0] + clicks[q] * nats[k, 1]
        out[i] = total


@kernel
def two_states(gain, penalty, outside_price, path):
    """Write the most likely regime of each part to path, int8[n]: 1 for the second (Viterbi 1967).

    Each change costs `penalty` nats, each part of the second regime `outside_price`.
    """
    n = gain.size
    switched = np.zeros((n, 2), np.bool_)
    one = 0.0
    two = -outside_price + gain[0]
    for t in range(1, n):
        from_two = two - penalty > one
        from_one = one - penalty > two
        switched[t, 0] = from_two
        switched[t, 1] = from_one
        best = two - penalty if from_two else one
        two = (one - penalty if from_one else two) + gain[t] - outside_price
        one = best
    state = 1 if two > one else 0
    for t in range(n - 1, -1, -1):
        path[t] = state
        if switched[t, state]:
            state = 1 - state


@kernel
def suddenness(item, looks, clicks, first, where, at, size, one, two, width):
    """Log likelihood ratio of a step at part `at` against a gradual change, over `size` parts on each side.

    `one` and `two`: rates before and after. The gradual change is linear over the middle `width` of the parts, or
    half a sine wave (WAVE), with the same means on both sides. `where`: int64[n], index in the log; a gap gives a
    gradual change more time.
    """
    total = 0.0
    low = where[at - size]
    high = where[at + size - 1] + 1
    middle = 0.5 * (where[at - 1] + where[at] + 1)
    reach = 0.5 / (1.0 - 0.5 * width)
    for t in range(at - size, at + size):
        before = t < at
        u = (where[t] + 0.5 - middle) / (middle - low if before else high - middle)
        line = min(max(u / max(width, EDGE), -1.0), 1.0) * reach
        u = math.sin(math.pi * u) * math.pi / 4.0 if width == WAVE else line
        for q in range(first[t], first[t + 1]):
            k = item[q]
            if one[k] == two[k]:
                continue
            step = one[k] if before else two[k]
            slow = min(max(0.5 * (one[k] + two[k]) + (two[k] - one[k]) * u, EDGE), 1.0 - EDGE)
            if clicks[q] > 0:
                total += clicks[q] * math.log(step / slow)
            if looks[q] > clicks[q]:
                total += (looks[q] - clicks[q]) * math.log((1.0 - step) / (1.0 - slow))
    return total
