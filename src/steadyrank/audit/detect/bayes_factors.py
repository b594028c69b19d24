"""Bayes factors for a difference in click behaviour between two stretches, by item and by group of items.

Our own method; docs/audit-method.md gives the reason for each part. A stretch is represented by looks and clicks per
item. `bands` groups items by their usual attraction, `usual`: an attack on all good items, or an inversion of
everything, shows in groups long before it shows in single items; one on a few items shows only in these. The evidence
of a single item is computed as in SteadyRank; `core.item_evidence` states the exceptions.
"""

import math

import numpy as np

from ...core.compiling.intrinsics import stack_floats
from ...core.compiling.jit import kernel, no_refcount
from ...core.item_evidence import FEW, KNOWN, MOST, SHARE_CHANGED, at_least_half, changed_with, log_beta

GROUPS = 8  # groups of items by usual attraction: a change too weak in single items may show in a group
HIGH = 1e100  # cap on Bayes factors: as good as certain, and products stay within floats
LOG_PI = math.log(math.pi)
REFERENCE = 4  # length of the reference, in lengths of the stretch compared with it
BEYOND = math.log(3.0)  # a common shift of all log-odds beyond this is suspect, whatever single items show
DISPERSED = 2.0  # overdispersion of the clicks of lists: nats of all clicks together count half
LEVEL = 0.3  # a common shift of all log-odds up to this is attributed to the time of day
CHANGED = (0.5, SHARE_CHANGED, 0.02)  # candidates for the share of items that an attack changes; the best counts
GROUP_CHANGED = 0.3  # probability that an attack changes a group: promotion and demotion change few groups
CHOICE = math.log(3.0)  # nats, the price of the choice between items, groups, and all together
HOLD = 10.0  # weight of an item's usual attraction in a short stretch, in looks
BURSTS = 8.0  # looks at an item per block of the log that shows it, above which looks come in bursts
GROUPED = 0.0  # in place of a share of items: the evidence comes from groups
EDGE = 1e-3  # least distance of a rate from 0 and 1

# columns of a table of groups, a row each: clicks, looks and expected clicks in a stretch and in its reference
CLICKS, LOOKS, EXPECTED, REF_CLICKS, REF_LOOKS, REF_EXPECTED = range(6)
GROUP_COLUMNS = 6
# indices into `sums` of `weigh`, each a product followed by the logarithm split off it: shares of items, then groups
MANY_ITEMS, SOME_ITEMS, FEW_ITEMS, ITEM_GROUPS = range(0, 8, 2)
SUMS = 8


@no_refcount
def log_odds(clicks, looks):
    """Log-odds of a rate, with half a pseudo-look clicked and half not, to stay finite."""
    return math.log((clicks + 0.5) / (looks - clicks + 0.5))


@no_refcount
def shifted(rate, shift):
    """A rate with its log-odds shifted."""
    factor = math.exp(shift)
    return factor * rate / (1.0 - rate + factor * rate)


@no_refcount
def novelty(clicks, looks, rate, strength):
    """Log Bayes factor of a new rate, Beta(1/2, 1/2), against the old one, Beta with mean `rate` and `strength`."""
    a = at_least_half(rate * strength)
    b = at_least_half((1.0 - rate) * strength)
    missed = looks - clicks
    anew = log_beta(0.5 + clicks, 0.5 + missed) - LOG_PI  # B(1/2, 1/2) = pi
    return anew - log_beta(a + clicks, b + missed) + log_beta(a, b)


@no_refcount
def factor(clicks, looks, rate, strength):
    """e^novelty, at most HIGH; for few looks computed as a product, which is faster than Beta functions."""
    if looks > FEW:
        return min(math.exp(min(novelty(clicks, looks, rate, strength), 300.0)), HIGH)
    a = at_least_half(rate * strength)
    b = at_least_half((1.0 - rate) * strength)
    over = 1.0
    under = 1.0
    for i in range(clicks):
        over *= (0.5 + i) * (a + b + i)
        under *= (1.0 + i) * (a + i)
    for i in range(looks - clicks):
        over *= (0.5 + i) * (a + b + clicks + i)
        under *= (1.0 + clicks + i) * (b + i)
    return over / under


@no_refcount
def group_novelty(group, level):
    """Log Bayes factor that a group's rate differs from the reference shifted by `level`, in log-odds.

    `group`: a row of the table of groups.
    """
    shift = log_odds(group[REF_CLICKS], group[REF_LOOKS]) - log_odds(group[REF_EXPECTED], group[REF_LOOKS]) + level
    rate = shifted((group[EXPECTED] + 0.5) / (group[LOOKS] + 1.0), shift)
    return novelty(group[CLICKS], group[LOOKS], rate, min(group[REF_LOOKS] + 1.0, MOST))


@no_refcount
def collect(groups, j, clicks, looks, usual, ref_clicks, ref_looks):
    """Add the counts of an item to its group."""
    groups[j, CLICKS] += clicks
    groups[j, LOOKS] += looks
    groups[j, EXPECTED] += looks * usual
    groups[j, REF_CLICKS] += ref_clicks
    groups[j, REF_LOOKS] += ref_looks
    groups[j, REF_EXPECTED] += ref_looks * usual


@no_refcount
def mix(sums, i, share, ratio):
    """Multiply sums[i] by the Bayes factor of an item or group that changed with probability `share`.

    Before the product leaves the range of floats, its logarithm moves to sums[i + 1].
    """
    product = sums[i] * changed_with(share, ratio)
    if product > HIGH or product < 1.0 / HIGH:
        sums[i + 1] += math.log(product)
        product = 1.0
    sums[i] = product


@no_refcount
def logarithm(sums, i):
    """The logarithm of the product that `mix` accumulated in sums[i]."""
    return math.log(sums[i]) + sums[i + 1]


@no_refcount
def reference_rate(looks, clicks, usual):
    """An item's rate in the reference, shrunk to its usual rate.

    The usual rate weighs at most as much as the looks: an item unlike the others is not a change.
    """
    weight = min(HOLD, looks)
    return (usual * weight + clicks) / (weight + looks)


@no_refcount
def beyond(got, total, expected, shift):
    """Nats of evidence that all clicks shifted by more than BEYOND: a Poisson likelihood ratio with a BIC penalty."""
    if abs(shift) <= BEYOND or total <= 0.0:
        return 0.0
    rate = shifted((expected + 0.5) / (total + 1.0), BEYOND if shift > 0.0 else -BEYOND)
    due = total * rate
    nats = due - got + (got * math.log(got / due) if got > 0.0 else 0.0)
    return nats / DISPERSED - 0.5 * math.log(1.0 + total)


@no_refcount
def common_level(there, n, looks, clicks, ref_looks, ref_clicks, usual, rates):
    """Return the common shift of log-odds from the reference to the stretch, and evidence that it exceeds BEYOND.

    `usual`, float64[K]: rates to shrink to. Writes to rates[i] the rate of item there[i] in the reference, if that
    has enough looks at it.
    """
    expected = 0.0
    got = 0.0
    total = 0.0
    for i in range(n):
        k = there[i]
        if ref_looks[k] >= KNOWN:
            rates[i] = reference_rate(ref_looks[k], ref_clicks[k], usual[k])
            expected += looks[k] * rates[i]
            got += clicks[k]
            total += looks[k]
    shift = log_odds(got, total) - log_odds(expected, total)
    return min(max(shift, -LEVEL), LEVEL), beyond(got, total, expected, shift)


@no_refcount
def what_is_known(there, n, reference, far, speaks, votes, prior, known, own):
    """Write what is known of a stretch's items from outside it: `known`, looks and clicks, and `own`, rates.

    Counts are those of the reference. For an item with fewer than KNOWN looks there, they are those `far` from the
    stretch, if `speaks`: where items are many, the neighbourhood of a stretch has hardly any looks at those that an
    attack targets. If looks at an item come in bursts, each block of the log has one vote instead. `reference`,
    `far`: [2, K], looks and clicks by item; `votes`: float64[2, K]. `speaks`: whether `far` may stand in for the
    reference. `prior`: common pseudo-counts of clicks and looks. The stretch itself is excluded from the rates, since
    a short attack may have most of an item's looks.
    """
    for i in range(n):
        k = there[i]
        looks, clicks = float(far[0, k]), float(far[1, k])
        if looks > BURSTS * votes[0, k]:
            looks, clicks = votes[0, k], votes[1, k]
        from_far = speaks and reference[0, k] < KNOWN <= looks
        known[0, k] = looks if from_far else reference[0, k]
        known[1, k] = clicks if from_far else reference[1, k]
        if looks < KNOWN:
            looks += reference[0, k]
            clicks += reference[1, k]
        own[k] = (prior[0] + clicks) / (prior[1] + looks)


@no_refcount
def weigh(there, n, here, reference, known, own, bands, usual, rates, groups):
    """Return the evidence in nats that a stretch differs from its reference, and the share of items that changed.

    `there`, int64[K]: the first n are the items of the stretch. `here` and `reference`: int64[2, K], looks and clicks
    by item; `known` and `own` come from `what_is_known`. `rates`, float64[K], and `groups`,
    float64[GROUPS, GROUP_COLUMNS], are scratch. Single items are compared with `known`; groups with the reference
    alone, and by `usual` rates, which both contribute to: where most items have few looks, such rates overfit.
    The evidence is the maximum over three shares of changed items, groups, and all clicks together; for the latter
    two the share is GROUPED.
    """
    looks, clicks = here[0], here[1]
    level, together = common_level(there, n, looks, clicks, known[0], known[1], own, rates)
    moved = math.exp(level)
    sums = stack_floats(SUMS)
    for i in range(0, SUMS, 2):
        sums[i] = 1.0
        sums[i + 1] = 0.0
    for j in range(GROUPS):
        for c in range(GROUP_COLUMNS):
            groups[j, c] = 0.0
    for i in range(n):
        k = there[i]
        if reference[0, k] > 0:
            collect(groups, bands[k], clicks[k], looks[k], usual[k], reference[1, k], reference[0, k])
        if known[0, k] >= KNOWN:
            rate = moved * rates[i] / (1.0 - rates[i] + moved * rates[i])  # `shifted` by the level
            strength = min(min(HOLD, known[0, k]) + known[0, k], MOST)
            ratio = factor(clicks[k], looks[k], rate, strength)
            mix(sums, MANY_ITEMS, CHANGED[0], ratio)
            mix(sums, SOME_ITEMS, CHANGED[1], ratio)
            mix(sums, FEW_ITEMS, CHANGED[2], ratio)
    for j in range(GROUPS):
        if groups[j, LOOKS] > 0.0:
            ratio = math.exp(min(group_novelty(groups[j], level), 230.0))
            mix(sums, ITEM_GROUPS, GROUP_CHANGED, ratio)
    many = logarithm(sums, MANY_ITEMS)
    some = logarithm(sums, SOME_ITEMS)
    few = logarithm(sums, FEW_ITEMS)
    grouped = max(logarithm(sums, ITEM_GROUPS), together)
    best = max(many, some, few)
    if grouped > best:
        return grouped - CHOICE, GROUPED
    if best == many:
        return best - CHOICE, CHANGED[0]
    return best - CHOICE, CHANGED[1] if best == some else CHANGED[2]


@kernel
def weigh_counts(here, reference, far, speaks, votes, prior, bands, usual):
    """Apply `weigh` to whole counts, [2, K] each: looks and clicks by item."""
    n_items = bands.size
    there = np.empty(n_items, np.int64)
    n = 0
    for k in range(n_items):
        if here[0, k] > 0:
            there[n] = k
            n += 1
    known = np.zeros((2, n_items))
    own, rates = np.empty(n_items), np.empty(n_items)
    what_is_known(there, n, reference, far, speaks, votes, prior, known, own)
    groups = np.empty((GROUPS, GROUP_COLUMNS))
    return weigh(there, n, here, reference, known, own, bands, usual, rates, groups)


@kernel
def evidence_by_item(looks, clicks, rates, strength, out):
    """Write the log Bayes factor of a new rate for each item, against `rates` with the weight of `strength` looks."""
    for k in range(looks.size):
        out[k] = 0.0
        if looks[k] > 0 and strength[k] >= KNOWN:
            out[k] = novelty(clicks[k], looks[k], rates[k], min(strength[k], MOST))
