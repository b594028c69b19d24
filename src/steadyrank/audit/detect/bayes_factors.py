"""Whether two stretches of impressions show the same click behaviour: Bayes factors by item and by group of items.

Ours, no paper's; why each part is there: docs/audit-method.md. A stretch is held as counts by item: looks and clicks.
`bands` groups items by their usual attraction, `usual`: an attack on all good items, or an inversion of everything,
shows in groups long before any single item says so; one on a few items shows in these alone. What a single item says
is judged as in SteadyRank; where not, `core.item_evidence` says so.
"""

import math

import numpy as np

from ...core.compiling.intrinsics import stack_floats
from ...core.compiling.jit import kernel, no_refcount
from ...core.item_evidence import FEW, KNOWN, MOST, SHARE_CHANGED, at_least_half, changed_with, log_beta

GROUPS = 8  # of items by usual attraction: what no item shows alone, items of a kind may show together
HIGH = 1e100  # more than that is as good as certain: products stay within floats
LOG_PI = math.log(math.pi)
REFERENCE = 4  # the reference is this many times as long as the stretch that is weighed against it
BEYOND = math.log(3.0)  # a common shift of all log-odds beyond this is no honest one, whatever items say
DISPERSED = 2.0  # how much more clicks of lists vary than independent ones: nats of all clicks together count half
LEVEL = 0.3  # a common shift of all log-odds up to this is the time of day, not an attack
CHANGED = (0.5, SHARE_CHANGED, 0.02)  # share of items that an attack changes: the one that fits best, of these
GROUP_CHANGED = 0.3  # chance that an attack changes a group: one that promotes or demotes changes few kinds of items
CHOICE = math.log(3.0)  # nats: items, groups, or all together
HOLD = 10.0  # looks that an item's usual attraction is worth in a short stretch
BURSTS = 8.0  # times as many looks at an item as blocks of the log that show it: they come in bursts
GROUPED = 0.0  # in place of a share of items: the evidence comes from groups
EDGE = 1e-3  # least distance of a rate from 0 and 1

# columns of a table of groups, a row each: what was clicked, looked at and expected in a stretch and in its reference
CLICKS, LOOKS, EXPECTED, REF_CLICKS, REF_LOOKS, REF_EXPECTED = range(6)
GROUP_COLUMNS = 6
# places in `weigh`'s sums, each of a product and then of its logarithm: three shares of items, then groups
MANY_ITEMS, SOME_ITEMS, FEW_ITEMS, ITEM_GROUPS = range(0, 8, 2)
SUMS = 8


@no_refcount
def log_odds(clicks, looks):
    """Log-odds of a rate, kept finite by half a look of either kind."""
    return math.log((clicks + 0.5) / (looks - clicks + 0.5))


@no_refcount
def shifted(rate, shift):
    """A rate whose log-odds are moved."""
    factor = math.exp(shift)
    return factor * rate / (1.0 - rate + factor * rate)


@no_refcount
def novelty(clicks, looks, rate, strength):
    """Log Bayes factor of a rate of its own, Beta(1/2, 1/2), against one that `strength` looks put at `rate`."""
    a = at_least_half(rate * strength)
    b = at_least_half((1.0 - rate) * strength)
    missed = looks - clicks
    anew = log_beta(0.5 + clicks, 0.5 + missed) - LOG_PI  # B(1/2, 1/2) = pi
    return anew - log_beta(a + clicks, b + missed) + log_beta(a, b)


@no_refcount
def factor(clicks, looks, rate, strength):
    """e^novelty, at most HIGH; for few looks as a product, which is faster than Beta functions."""
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
    """Log Bayes factor that a group's rate is not where the reference and a common shift of log-odds put it.

    `group`: a row of the table of groups.
    """
    shift = log_odds(group[REF_CLICKS], group[REF_LOOKS]) - log_odds(group[REF_EXPECTED], group[REF_LOOKS]) + level
    rate = shifted((group[EXPECTED] + 0.5) / (group[LOOKS] + 1.0), shift)
    return novelty(group[CLICKS], group[LOOKS], rate, min(group[REF_LOOKS] + 1.0, MOST))


@no_refcount
def collect(groups, j, clicks, looks, usual, ref_clicks, ref_looks):
    """Add an item to its group."""
    groups[j, CLICKS] += clicks
    groups[j, LOOKS] += looks
    groups[j, EXPECTED] += looks * usual
    groups[j, REF_CLICKS] += ref_clicks
    groups[j, REF_LOOKS] += ref_looks
    groups[j, REF_EXPECTED] += ref_looks * usual


@no_refcount
def mix(sums, i, share, ratio):
    """Multiply into sums[i] the factor of something that changed with chance `share`.

    sums[i + 1] takes the logarithm whenever the product leaves the range of floats.
    """
    product = sums[i] * changed_with(share, ratio)
    if product > HIGH or product < 1.0 / HIGH:
        sums[i + 1] += math.log(product)
        product = 1.0
    sums[i] = product


@no_refcount
def logarithm(sums, i):
    """The logarithm of everything that `mix` multiplied into sums[i]."""
    return math.log(sums[i]) + sums[i + 1]


@no_refcount
def reference_rate(looks, clicks, usual):
    """An item's rate in the reference.

    What is usual for the item counts no more than the looks do: an item unlike the others is no change.
    """
    weight = min(HOLD, looks)
    return (usual * weight + clicks) / (weight + looks)


@no_refcount
def beyond(got, total, expected, shift):
    """Nats that all clicks together shifted by more than BEYOND: a Poisson likelihood ratio, less a rate's price."""
    if abs(shift) <= BEYOND or total <= 0.0:
        return 0.0
    rate = shifted((expected + 0.5) / (total + 1.0), BEYOND if shift > 0.0 else -BEYOND)
    due = total * rate
    nats = due - got + (got * math.log(got / due) if got > 0.0 else 0.0)
    return nats / DISPERSED - 0.5 * math.log(1.0 + total)


@no_refcount
def common_level(there, n, looks, clicks, ref_looks, ref_clicks, usual, rates):
    """The shift of all log-odds together from the reference to the stretch, and evidence that it is beyond BEYOND.

    `usual`, float64[K]: rates that join what the reference says. rates[i] becomes the rate of item there[i] in the
    reference, as far as it is known.
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
    """Write what is known of the items of a stretch without it: `known`, looks and clicks, and `own`, rates.

    That is what the reference says; of an item that it has fewer than KNOWN looks at, what the log says `far` from
    the stretch, if that `speaks` of the reference: where items are many, the neighbourhood of a stretch hardly has
    those that an attack is for. Of items whose looks come in bursts there, too, each block of the log has one vote.
    `reference`, `far`: [2, K], looks and clicks by item; `votes`: float64[2, K]. `prior`: pseudo-counts of clicks and
    of looks that items have in common. A short attack may have most of an item's looks, so rates are without it.
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
    """Nats of evidence that a stretch does not behave as its reference, and which share of items says so.

    `there`, int64[K]: the first n are the items of the stretch. `here` and `reference`: int64[2, K], looks and clicks
    by item; `known` and `own` are of `what_is_known`. `rates`, float64[K], and `groups`,
    float64[GROUPS, GROUP_COLUMNS], are scratch. Single items are judged by what is known of them, groups by the
    reference alone and by usual rates that both have a part in: where most items are seen a few times, such rates fit
    what they were learnt from.
    The evidence is the best of three shares of changed items, of groups, and of all clicks together; the share is
    GROUPED for the latter two.
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
    """`weigh` for whole counts, [2, K] each: looks and clicks by item."""
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
    """Write the log Bayes factor that each item's rate is its own, not the one that `strength` looks tell of."""
    for k in range(looks.size):
        out[k] = 0.0
        if looks[k] > 0 and strength[k] >= KNOWN:
            out[k] = novelty(clicks[k], looks[k], rates[k], min(strength[k], MOST))
