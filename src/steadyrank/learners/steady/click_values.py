"""The worth of a click on an item: the chance of an outcome times the outcome's value. Ours.

**Chance.** Some of the clicks on an item lead to an outcome. Outcomes come late: a click of a rounds ago counts as
complete with the chance F(a) that its outcome would be known by now (Chapelle 2014, for exponential
delays; here a share of the outcomes is known at once). Outcomes are few compared with clicks, so the chance has the
Gamma posterior of a Poisson rate, with the item's outcomes and complete clicks, and a prior fitted across items.

**Value.** Values of outcomes are heavy-tailed, and one false outcome must not make an item. So values are capped
so that only a share of the outcomes, plus a few, exceed the cap, as in the trimmed mean (Lugosi and Mendelson 2021,
where both have constants for the worst case); several large outcomes of an item can raise its own cap. The
mean is shrunk towards the value expected of the item with the credibility of Bühlmann 1967: as if the item had a
number of further outcomes of that value. Values are counted in logarithmic bins, with their sums, so that they can be
retracted.

Chances and values belong to items, whatever the regime: clicks can be bought, prices cannot. Clicks are counted from
the first reported outcome on: of earlier clicks it is unknown how many led to something. Their outcomes count for
the value of an outcome, but not for chances and delays.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.kernels import largest, psi
from ..shared.thompson import group_of, miss_of, posterior_of

BINS, RATIO, FIRST = 24, 4.0, 4.0**-8  # bins of values: powers of 4 from 1.5e-5 on
DELAYS = 40  # bins of delays: powers of 2 from 1 round on; [0]: known at once
BEYOND = 0.02  # share of the outcomes that may exceed the cap,
BEYOND_ALL, BEYOND_OWN = 1, 2  # plus so many: of all outcomes, or of an item's own
FEW = 10  # least number of outcomes, or of items with any, to fit laws to
LEAST = 1e-6  # least attraction of an item
CHANCE = 0.02  # initial chance of an outcome per click
VARIATION = 1.0, 0.05, 25.0  # squared relative variation of values around an item's mean: initial, least, most
WEIGHTS = 4.0, 0.2, 10_000.0  # outcomes that the expectation of an item counts for: initial, least, most
STEPS = 20  # iterations of a fit
DOUBT = 2.0  # items that the initial variance of items counts for
STEEPEST, GENTLE = 2.0, 4.0  # largest slope; prior weight of the slope 0
GROWN = 16  # laws are refitted when there are a 16th more outcomes or clicks
LONGEST = 1.0  # longest mean delay, in multiples of the rounds so far
HALVINGS = 30  # bisection steps of its fit
LISTED, EACH = 16, 4  # candidates of lists: LISTED, plus EACH per place
FEW_ALLOWED = 2  # if fewer are allowed than so many times the places, candidates are chosen for this list alone
DRAWN_BY = 0.5  # most deviations of a draw: the better of 0.5 and 1 in bench/outcomes.py
HOPE = 1.5  # standard deviations above the mean at which candidates are chosen
REFRESHED = 64  # candidates are chosen again after items / 64 rounds
MEAN, WEIGHT, SLOPE, CENTRE = range(4)  # indices in ClickValues.chance and ClickValues.law
VARIES, CAP = range(4, 6)  # further ones in ClickValues.law
LATE, AT_ONCE = range(2)  # indices in ClickValues.delay
CLICKS, OUTCOMES, NEXT_FIT, NEXT_LIST, SIZE, BEGUN = range(6)  # indices in ClickValues.tally


class ClickValues(NamedTuple):
    """Clicks and their outcomes, by item; K items."""

    clicks: Counts  # [K]
    bought: Counts  # [K] of these, clicks with an outcome
    waiting: Floats  # [K] clicks weighted by the chance that a late outcome is still to come, as of `since`
    since: Ints  # [K] round
    counts: Counts  # [K, BINS] outcomes by bin of their value
    sums: Floats  # [K, BINS] sums of these values
    total: Floats  # [K] sum of the values, each up to the item's cap
    outcomes: Counts  # [K] number of outcomes in `total`
    chance: Floats  # [4] expectation of chances: mean, outcomes that it counts for, slope, centre
    law: Floats  # [6] expectation of values: the same, squared variation, cap
    delay: Floats  # [2] mean delay of late outcomes in rounds, share of those known at once
    late: Floats  # [DELAYS, 2] outcomes by bin of their delay, and sums of delays
    drawn: Counts  # [M] candidates of lists
    list_worth: Floats  # [1] value of the best list of these
    tally: Ints  # [6] clicks, outcomes; rounds of the next fit and choice; number of candidates; first round counted

    @classmethod
    def create(cls, n_items: int, length: int) -> "ClickValues":
        """No outcomes yet."""
        counts = np.zeros(n_items, np.int32), np.zeros(n_items, np.int32)
        times = np.zeros(n_items), np.zeros(n_items, np.int64)
        values = np.zeros((n_items, BINS), np.int32), np.zeros((n_items, BINS))
        believed = np.zeros(n_items), np.zeros(n_items, np.int32)
        prior = np.array([CHANCE, WEIGHTS[0], 0.0, 1.0])
        law = np.array([1.0, WEIGHTS[0], 0.0, 1.0, VARIATION[0], np.inf])
        delay = np.array([0.0, 1.0]), np.zeros((DELAYS, 2))
        drawn = np.zeros(LISTED + EACH * length, np.int32)
        tally = np.zeros(6, np.int64)
        return cls(*counts, *times, *values, *believed, prior, law, *delay, drawn, np.zeros(1), tally)


@no_refcount
def waiting_at(values, k, t):
    """Clicks on item k whose late outcomes are still to come in round t, as an expectation."""
    if values.waiting[k] <= 0.0 or values.delay[LATE] <= 0.0:
        return 0.0
    return values.waiting[k] * math.exp(-max(t - values.since[k], 0) / values.delay[LATE])


@no_refcount
def ripe_clicks(values, k, t):
    """Clicks on item k that count as complete, with no outcome still to come."""
    waiting = (1.0 - values.delay[AT_ONCE]) * waiting_at(values, k, t)
    return max(values.clicks[k] - waiting, float(values.bought[k]))


@no_refcount
def expected_of(prior, attraction):
    """Expectation for an item with this attraction: the mean, times a power of the attraction."""
    return prior[MEAN] * (max(attraction, LEAST) / prior[CENTRE]) ** prior[SLOPE]


@no_refcount
def worth_of(values, k, t, attraction):
    """Worth of a click on item k, given its attraction, and its squared relative standard deviation.

    The chance of an outcome has a Gamma posterior, like the rate of a Poisson distribution: outcomes are few
    compared with clicks. To first order the squared relative deviations of two factors add up.
    """
    chance, law = values.chance, values.law
    outcomes, weight = chance[WEIGHT] + values.bought[k], law[WEIGHT] + values.outcomes[k]
    rate = outcomes / (chance[WEIGHT] / expected_of(chance, attraction) + ripe_clicks(values, k, t))
    value = (law[WEIGHT] * expected_of(law, attraction) + values.total[k]) / weight
    return min(rate, 1.0) * value, 1.0 / outcomes + law[VARIES] / weight


@kernel
def worth_of_items(values, posteriors):
    """`worth_of` for all items as of the latest click, float64[2, K]."""
    found, t = np.empty((2, values.clicks.size)), values.tally[BEGUN]
    for k in range(values.clicks.size):
        t = max(t, values.since[k])
    for k in range(values.clicks.size):
        found[0, k], found[1, k] = worth_of(values, k, t, 1.0 - miss_of(posteriors, k))
    return found


@no_refcount
def still_to_learn(values, k, t, attraction):
    """Value of what can still be learnt about item k, in standard deviations of its worth (`psi`).

    Assumes as many rounds to come as there were: in these a good place brings this many outcomes.
    """
    ahead = t * attraction * expected_of(values.chance, attraction)
    return psi(ahead / (values.chance[WEIGHT] + values.bought[k]))


@no_refcount
def hoped_worth(values, k, t, attraction):
    """Worth of a click on item k for choosing candidates: its estimate plus the value of learning more about it."""
    worth, varies = worth_of(values, k, t, attraction)
    return worth * (1.0 + math.sqrt(varies) * still_to_learn(values, k, t, attraction))


@no_refcount
def drawn_worth(values, k, t, attraction, rng):
    """A draw of the worth of a click on item k: Gamma, with the mean of `worth_of`.

    Its deviation is smaller if little can still be learnt: outcomes are rare, and drawing with the full deviation
    costs more than it teaches.
    """
    worth, varies = worth_of(values, k, t, attraction)
    varies *= (DRAWN_BY * min(still_to_learn(values, k, t, attraction), 1.0)) ** 2
    if varies <= 0.0:
        return worth
    return worth * varies * rng.standard_gamma(1.0 / varies)


@no_refcount
def add_click(values, k, t):
    """Count a click on item k in round t; ignored if before the first reported outcome."""
    if values.tally[BEGUN] == 0 or t < values.tally[BEGUN]:
        return
    values.clicks[k] += 1
    values.tally[CLICKS] += 1
    if t >= values.since[k]:
        values.waiting[k] = waiting_at(values, k, t) + 1.0
        values.since[k] = t
    else:
        values.waiting[k] += still_waiting(values, values.since[k] - t)


@no_refcount
def take_click(values, k, t):
    """Remove a click on item k in round t."""
    if values.clicks[k] > 0 and t >= values.tally[BEGUN]:
        values.clicks[k] -= 1
        values.tally[CLICKS] -= 1
        now = max(values.since[k], t)
        values.waiting[k] = max(waiting_at(values, k, now) - still_waiting(values, now - t), 0.0)
        values.since[k] = now


@no_refcount
def still_waiting(values, rounds):
    """The chance that a late outcome is not known after so many rounds."""
    if values.delay[LATE] > 0.0:
        return math.exp(-rounds / values.delay[LATE])
    return 1.0 if rounds == 0 else 0.0


@no_refcount
def bin_of(value):
    """The bin of a value."""
    return min(max(int(math.log(max(value / FIRST, 1.0)) / math.log(RATIO)), 0), BINS - 1)


@no_refcount
def top_of(b):
    """Upper end of a bin; the last bin has none."""
    return FIRST * RATIO ** (b + 1.0)


@no_refcount
def count_value(values, k, value, sign):
    """Count an outcome of this value (sign 1), or remove it (-1)."""
    b = bin_of(value)
    if sign < 0 and values.counts[k, b] == 0:
        return
    values.counts[k, b] += sign
    values.sums[k, b] = values.sums[k, b] + sign * value if values.counts[k, b] > 0 else 0.0


@no_refcount
def count_delay(values, rounds, sign):
    """Count the delay of an outcome."""
    place = 0
    while place < DELAYS - 1 and rounds >= 1 << place:
        place += 1
    if values.late[place, 0] + sign >= 0.0:
        values.late[place, 0] += sign
        values.late[place, 1] = values.late[place, 1] + sign * rounds if values.late[place, 0] > 0.0 else 0.0


@no_refcount
def add_outcome(values, k, shown, t, before, after):
    """Change the worth of a click on item k in round `shown` from `before` to `after`, as known in round t.

    Retracting an outcome does not remove its delay, which is unknown by then.
    """
    if values.tally[BEGUN] == 0:
        values.tally[BEGUN] = max(t, 1)
    if before > 0.0:
        count_value(values, k, before, -1)
    if after > 0.0:
        count_value(values, k, after, 1)
    counted = shown >= values.tally[BEGUN]  # its click was counted
    if counted and before <= 0.0 < after:
        values.bought[k] += 1
        values.tally[OUTCOMES] += 1
        count_delay(values, max(t - shown, 0), 1)
    elif counted and after <= 0.0 < before and values.bought[k] > 0:
        values.bought[k] -= 1
        values.tally[OUTCOMES] -= 1
    learn_value(values, k)


@no_refcount
def capped(values, k, b, cap):
    """Sum of item k's values in bin b, each at most `cap`."""
    if top_of(b) <= cap and b < BINS - 1:
        return values.sums[k, b]
    return min(values.sums[k, b], values.counts[k, b] * cap) if values.counts[k, b] > 0 else 0.0


@no_refcount
def cap_of(values, k):
    """Cap of item k's values: the common cap, or its own if several of its outcomes are as large."""
    above, n = 0, 0
    for b in range(BINS):
        n += values.counts[k, b]
    for b in range(BINS - 1, -1, -1):
        above += values.counts[k, b]
        if above > BEYOND * n + BEYOND_OWN:
            return max(values.law[CAP], values.sums[k, b] / values.counts[k, b])
    return values.law[CAP]


@no_refcount
def learn_value(values, k):
    """Recompute the sum of item k's values, each up to its cap."""
    cap, total, n = cap_of(values, k), 0.0, 0
    for b in range(BINS):
        total += capped(values, k, b, cap)
        n += values.counts[k, b]
    values.outcomes[k] = n
    values.total[k] = total


@no_refcount
def known_share(mean, t):
    """Share of the late outcomes of t rounds that are known by now, for exponential delays with this mean."""
    return 1.0 + mean / t * math.expm1(-t / mean)


@no_refcount
def known_delay(mean, t):
    """Mean delay of the outcomes that are known by now, truncated as in `known_share`."""
    missed = math.exp(-t / mean)
    once = mean - missed * (t + mean)
    twice = 2.0 * mean * mean - missed * (t * t + 2.0 * t * mean + 2.0 * mean * mean)
    return (once - twice / t) / known_share(mean, t)


@no_refcount
def learn_delay(values, t):
    """Fit the delays of outcomes, after t rounds.

    Outcomes that come d rounds late are known only for the rounds before t - d. The likeliest mean of an exponential
    law is the one for which the known ones would be as late as they are on average; at most LONGEST times the rounds.
    """
    at_once, later, rounds = values.late[0, 0], 0.0, 0.0
    for place in range(1, DELAYS):
        later += values.late[place, 0]
        rounds += values.late[place, 1]
    values.delay[LATE] = 0.0
    if later > 0.0:
        span = max(t - values.tally[BEGUN], 1.0)
        low, high = 0.0, LONGEST * span
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if known_delay(middle, span) < rounds / later:
                low = middle
            else:
                high = middle
        values.delay[LATE] = high
        later /= known_share(high, span)
    values.delay[AT_ONCE] = at_once / (at_once + later) if at_once + later > 0.0 else 1.0


@no_refcount
def learn_cap(values, counts):
    """Set the common cap: at most a share BEYOND plus BEYOND_ALL of the outcomes exceed it. O(K)."""
    for b in range(BINS):
        counts[b] = 0
    n = 0
    for k in range(values.clicks.size):
        if values.outcomes[k] > 0:
            n += values.outcomes[k]
            for b in range(BINS):
                counts[b] += values.counts[k, b]
    above = 0
    for b in range(BINS - 1, -1, -1):
        above += counts[b]
        if above > BEYOND * n + BEYOND_ALL:
            values.law[CAP] = top_of(b)
            return
    values.law[CAP] = np.inf


@no_refcount
def learn_variation(values):
    """Fit the squared relative variation of outcomes around their item's mean, over all items. O(K)."""
    squares, n = 0.0, 0
    for k in range(values.clicks.size):
        if values.outcomes[k] > 1:
            cap, mean = cap_of(values, k), values.total[k] / values.outcomes[k]
            for b in range(BINS):
                count = values.counts[k, b]
                if count > 0:
                    off = capped(values, k, b, cap) / count / mean - 1.0
                    squares += count * off * off
            n += values.outcomes[k] - 1
    if n >= FEW:
        values.law[VARIES] = min(max(squares / n, VARIATION[1]), VARIATION[2])


@no_refcount
def fit_expected(prior, logs, seen, won, by_rate, varies):
    """Fit the expectation of items: its mean, the outcomes that it counts for, and its slope in log attraction.

    `logs`, `seen`, `won`, [n]: the logarithm of each item's attraction; clicks and outcomes, `by_rate`; or outcomes
    and the sum of their values, with the squared variation `varies` of one. An item's observed rate is a multiple of
    its expectation, with mean 1 and the variance of so many outcomes plus that of the items. Mean and slope follow by
    weighted least squares, the variance of the items by Fisher scoring for normal multiples, with the initial
    variance counting for DOUBT items: likelihoods are valid although lists choose what is observed. O(n) a step.
    """
    n, centre = logs.size, 0.0
    for i in range(n):
        centre += logs[i] / n
    prior[MEAN] *= (math.exp(centre) / prior[CENTRE]) ** prior[SLOPE]
    prior[CENTRE] = math.exp(centre)
    for _ in range(STEPS):
        of_items, first = varies / prior[WEIGHT], varies / WEIGHTS[0]
        one, off_1, off_2, rest, rest_off = 0.0, 0.0, GENTLE, 0.0, -GENTLE * prior[SLOPE]
        squares, weights = DOUBT / first, DOUBT / (first * first)
        for i in range(n):
            off = logs[i] - centre
            expected = prior[MEAN] * math.exp(prior[SLOPE] * off)
            looks = seen[i] * expected if by_rate else seen[i]
            beyond = won[i] / (looks if by_rate else expected * looks) - 1.0
            of_luck = varies / looks
            weight = 1.0 / (of_luck + of_items)
            one += weight
            off_1 += weight * off
            off_2 += weight * off * off
            rest += weight * beyond
            rest_off += weight * beyond * off
            squares += weight * weight * (beyond * beyond - of_luck)
            weights += weight * weight
        below = one * off_2 - off_1 * off_1
        steeper = (one * rest_off - off_1 * rest) / below
        higher = (off_2 * rest - off_1 * rest_off) / below
        prior[MEAN] *= math.exp(min(max(higher, -1.0), 1.0))
        prior[SLOPE] = min(max(prior[SLOPE] + min(max(steeper, -0.5), 0.5), 0.0), STEEPEST)
        variance = max(squares / weights, varies / WEIGHTS[2])
        prior[WEIGHT] = min(max(varies / variance, WEIGHTS[1]), WEIGHTS[2])


@kernel
def learn_expected(values, posteriors, t):
    """Fit the expectations of chances and values to the items with clicks, and with outcomes. O(K)."""
    n_items, n, some = values.clicks.size, 0, 0
    logs, seen, won = np.empty((2, n_items)), np.empty((2, n_items)), np.empty((2, n_items))
    for k in range(n_items):
        ripe = ripe_clicks(values, k, t) if values.clicks[k] > 0 else 0.0
        if ripe > 0.0:
            logs[0, n] = math.log(max(1.0 - miss_of(posteriors, k), LEAST))
            seen[0, n] = ripe
            won[0, n] = values.bought[k]
            n += 1
        if values.outcomes[k] > 0:
            logs[1, some] = math.log(max(1.0 - miss_of(posteriors, k), LEAST))
            seen[1, some] = values.outcomes[k]
            won[1, some] = values.total[k]
            some += 1
    if values.tally[OUTCOMES] >= FEW and some >= FEW:
        fit_expected(values.chance, logs[0, :n], seen[0, :n], won[0, :n], True, 1.0)
        fit_expected(values.law, logs[1, :some], seen[1, :some], won[1, :some], False, values.law[VARIES])
    elif some > 0:
        values.chance[MEAN] = (1.0 + won[0, :n].sum()) / (1.0 / CHANCE + seen[0, :n].sum())
        values.law[MEAN] = won[1, :some].sum() / seen[1, :some].sum()


@kernel
def learn_laws(values, posteriors, t):
    """Fit the laws that items share, in round t, if there is a 16th more data. O(K)."""
    known = values.tally[CLICKS] + 64 * values.tally[OUTCOMES]
    if known < values.tally[NEXT_FIT]:
        return
    values.tally[NEXT_FIT] = known + max(known // GROWN, 1)
    learn_delay(values, t)
    if values.tally[OUTCOMES] > 0:
        learn_cap(values, np.empty(BINS, np.int64))
        for k in range(values.clicks.size):
            if values.outcomes[k] > 0:
                learn_value(values, k)
        learn_variation(values)
    learn_expected(values, posteriors, t)


@no_refcount
def hoped_for(values, posteriors, k, t, rest):
    """Possible gain from a look at item k over the `rest` of a list: HOPE deviations above its estimate."""
    alpha, beta = posterior_of(posteriors, group_of(posteriors.groups, k))
    total = alpha + beta
    mean = alpha / total
    attracts = min(mean + HOPE * math.sqrt(mean * (1.0 - mean) / (total + 1.0)), 1.0)
    return attracts * (hoped_worth(values, k, t, mean) - rest)


@kernel
def choose(values, posteriors, t, allowed, chosen):
    """Fill `chosen` with the allowed items that may be worth most in a list; returns their number. O(K).

    Half of them are chosen by the possible worth of a look, and half by its excess over the best list: a high place
    in a list takes from everything after it. Items without looks are not among them: their
    attraction is drawn first.
    """
    n_items, groups, some = allowed.size, posteriors.groups, 0
    index = np.full(n_items, -np.inf)
    for k in range(n_items):
        if allowed[k] and groups.looks[group_of(groups, k)] > 0:
            index[k] = hoped_for(values, posteriors, k, t, 0.0)
            some += 1
    n = min(chosen.size, some)
    if n == 0:
        return 0
    half = np.empty((n + 1) // 2, np.int64)
    largest(index, half)
    for i in range(half.size):
        chosen[i] = half[i]
        index[half[i]] = -np.inf
    for k in range(n_items):
        if index[k] > -np.inf:
            index[k] = hoped_for(values, posteriors, k, t, values.list_worth[0])
    rest = np.empty(n - half.size, np.int64)
    if rest.size > 0:
        largest(index, rest)
    for i in range(rest.size):
        chosen[half.size + i] = rest[i]
    return n


@kernel
def choose_drawn(values, posteriors, t, window):
    """Choose the candidates of lists until the next time. O(K)."""
    n_items = values.clicks.size
    values.tally[NEXT_LIST] = t + max(window, n_items // REFRESHED)
    values.tally[SIZE] = choose(values, posteriors, t, np.ones(n_items, np.bool_), values.drawn)
