"""Prior attraction of an item by its place in the engine's order, learnt over all queries.

The attraction of an item at place p of the engine's order is taken to be Beta(c m_p, c (1 - m_p)), so that n looks at
it with w clicks have probability B(c m_p + w, c (1 - m_p) + n - w) / B(c m_p, c (1 - m_p)). Mean m_p of each place
and strength c maximise the product of these over all (query, item) pairs (empirical Bayes). Which items were looked
at again depended on earlier clicks, which are part of the product: so the selection cancels out, and a prior learnt
from lists that it has chosen itself is still right. The mean click rate of a place is not: items are looked at for
longer if they were clicked.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from .engine_scores import NO_SCORE, STEPS, USUAL

FIRST_LOOKS = 32  # looks of a pair that the prior is learnt from
START_MEAN, START_STRENGTH = 0.05, 15.0  # before the first fit
ANCHOR = 0.5  # looks that START_MEAN counts for at the first place
STIFF = 2.0  # weight of START_STRENGTH, as the precision of log c
STEP = 0.36  # variance of a logit's change from place to place, per unit of the log of the place
FIRST_FIT, GROWTH = 100, 1.25  # visits before the first fit, and their growth factor before each further one
ROUNDS = 8  # iterations of a fit
LARGEST_STEP = 0.5  # of a logit and of log c in an iteration
LEAST, MOST = 1e-4, 0.95  # bounds of a mean
CLICKS, MISSES, LOOKS = range(3)  # rows of EnginePrior.reached
EXCESS, SPREAD = range(2)  # indices in EnginePrior.score
SURE = 5.0  # prior weight of a slope of 0, in units of SPREAD: a standard deviation of 0.45
VISITS, NEXT_FIT = range(2)  # indices in EnginePrior.tally


class EnginePrior(NamedTuple):
    """Means by place, never rising from one place to the next, and one strength. P places.

    The likelihood needs only how many pairs exceeded j clicks, j misses, j looks.
    """

    reached: Ints  # [3, P, FIRST_LOOKS] pairs first seen at a place with more than j clicks, misses, looks
    mean: Floats  # [P]
    strength: Floats  # [1] looks that the mean counts for
    usual: Floats  # [2, P] first looks at items with a score, and the sum of these scores, in standard deviations
    score: Floats  # [2] sums over first looks: score times excess of clicks, score^2 times variance of a click
    tally: Ints  # [2] visits, and the number of visits at which the next fit is due

    def copied(self) -> "EnginePrior":
        """A copy for a reader while learning continues."""
        return EnginePrior._make(array.copy() for array in self)

    @classmethod
    def create(cls, places: int) -> "EnginePrior":
        """The initial prior: all places alike."""
        return cls(
            np.zeros((3, places, FIRST_LOOKS), np.int64),
            np.full(places, START_MEAN),
            np.array([START_STRENGTH]),
            np.zeros((2, places)),
            np.zeros(2),
            np.array([0, FIRST_FIT], np.int64),
        )


@no_refcount
def count_look(prior, place, looks, clicks, clicked, sign):
    """Add (sign 1) or subtract (-1) a look at a pair with so many looks and clicks without it."""
    prior.reached[LOOKS, place, looks] += sign
    if clicked:
        prior.reached[CLICKS, place, clicks] += sign
    else:
        prior.reached[MISSES, place, looks - clicks] += sign


@no_refcount
def score_at(prior, place, step):
    """Standard deviations by which a score is better than usual at its place."""
    return (step - USUAL) / STEPS - prior.usual[1, place] / (prior.usual[0, place] + 1.0)


@no_refcount
def count_score(prior, place, step, clicked, sign):
    """Add or subtract a first look at an item with this step of its score (`engine_scores`)."""
    if step != NO_SCORE:
        mean, score = prior.mean[place], score_at(prior, place, step)
        prior.score[EXCESS] += sign * ((1.0 if clicked else 0.0) - mean) * score
        prior.score[SPREAD] += sign * mean * (1.0 - mean) * score * score
        prior.usual[0, place] += sign
        prior.usual[1, place] += sign * (step - USUAL) / STEPS


@no_refcount
def slope_of_score(score):
    """Change of an item's logit per standard deviation of the engine's score: never negative."""
    return max(score[EXCESS], 0.0) / (score[SPREAD] + SURE)


@no_refcount
def mean_of(prior, place, step):
    """Prior attraction of an item by its place and score, which shifts the logit.

    The slope is one Newton step from 0 on the likelihood of first looks alone: these were not selected by clicks.
    """
    mean = prior.mean[place]
    if step == NO_SCORE or prior.score[EXCESS] <= 0.0:
        return mean
    logit = math.log(mean / (1.0 - mean)) + slope_of_score(prior.score) * score_at(prior, place, step)
    return min(max(1.0 / (1.0 + math.exp(-logit)), LEAST), MOST)


@kernel
def means_of(prior, places, steps):
    """`mean_of` for items at these places, from 0, with these steps of scores."""
    means = np.empty(places.size)
    for k in range(places.size):
        means[k] = mean_of(prior, places[k], steps[k])
    return means


@no_refcount
def slope_of_mean(prior, place, mean, strength):
    """First derivative of the log likelihood by the mean of a place, and the negated second one."""
    first = second = 0.0
    for j in range(FIRST_LOOKS):
        if prior.reached[LOOKS, place, j] == 0:
            break
        clicked = strength / (strength * mean + j)
        missed = strength / (strength * (1.0 - mean) + j)
        first += prior.reached[CLICKS, place, j] * clicked - prior.reached[MISSES, place, j] * missed
        second += prior.reached[CLICKS, place, j] * clicked * clicked
        second += prior.reached[MISSES, place, j] * missed * missed
    return first, second


@no_refcount
def slope_of_strength(prior):
    """First and second derivative of the log likelihood by log c."""
    c = prior.strength[0]
    first = second = 0.0
    for p in range(prior.mean.size):
        m = prior.mean[p]
        for j in range(FIRST_LOOKS):
            looked = prior.reached[LOOKS, p, j]
            if looked == 0:
                break
            of_clicks, of_misses, of_looks = m / (c * m + j), (1.0 - m) / (c * (1.0 - m) + j), 1.0 / (c + j)
            clicked, missed = prior.reached[CLICKS, p, j], prior.reached[MISSES, p, j]
            first += clicked * of_clicks + missed * of_misses - looked * of_looks
            second += looked * of_looks**2 - clicked * of_clicks**2 - missed * of_misses**2
    return c * first, c * first + c * c * second


@no_refcount
def fit_strength(prior):
    """One Newton step in log c, uphill and of limited size."""
    first, second = slope_of_strength(prior)
    log_c = math.log(prior.strength[0])
    first += STIFF * (math.log(START_STRENGTH) - log_c)
    second -= STIFF
    step = -first / second if second < 0.0 else math.copysign(LARGEST_STEP, first)
    prior.strength[0] = math.exp(log_c + min(max(step, -LARGEST_STEP), LARGEST_STEP))


@kernel
def fit_means(prior):
    """One Newton step in the logits of all means; neighbouring places are alike a priori, the lower the more.

    Their differences are normal with variance STEP log((p + 1) / p), as of a random walk in the log of the place.
    Returns the weight of each place.
    """
    n = prior.mean.size
    weight, right, diagonal, link = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for p in range(n):
        m = prior.mean[p]
        first, second = slope_of_mean(prior, p, m, prior.strength[0])
        scale = m * (1.0 - m)  # derivative by the logit
        weight[p] = second * scale * scale
        step = first * scale / weight[p] if weight[p] > 0.0 else 0.0
        logit = math.log(m / (1.0 - m)) + min(max(step, -LARGEST_STEP), LARGEST_STEP)
        diagonal[p], right[p] = weight[p], weight[p] * logit
    anchor = ANCHOR * START_MEAN * (1.0 - START_MEAN)
    diagonal[0] += anchor
    right[0] += anchor * math.log(START_MEAN / (1.0 - START_MEAN))
    for p in range(1, n):
        link[p] = 1.0 / (STEP * math.log((p + 1.5) / (p + 0.5)))
        diagonal[p] += link[p]
        diagonal[p - 1] += link[p]
    for p in range(1, n):  # Thomas algorithm for a tridiagonal matrix
        share = link[p] / diagonal[p - 1]
        diagonal[p] -= share * link[p]
        right[p] += share * right[p - 1]
    right[n - 1] /= diagonal[n - 1]
    for p in range(n - 2, -1, -1):
        right[p] = (right[p] + link[p + 1] * right[p + 1]) / diagonal[p]
    for p in range(n):
        prior.mean[p] = min(max(1.0 / (1.0 + math.exp(-right[p])), LEAST), MOST)
    return weight


@kernel
def never_rise(mean, weight):
    """Make means non-increasing by averaging violators (pool adjacent violators)."""
    n = mean.size
    value, mass, size = np.empty(n), np.empty(n), np.empty(n, np.int64)
    blocks = 0
    for p in range(n):
        value[blocks], mass[blocks], size[blocks] = mean[p], weight[p] + 1e-9, 1
        blocks += 1
        while blocks > 1 and value[blocks - 2] < value[blocks - 1]:
            together = mass[blocks - 2] + mass[blocks - 1]
            value[blocks - 2] = (
                value[blocks - 2] * mass[blocks - 2] + value[blocks - 1] * mass[blocks - 1]
            ) / together
            mass[blocks - 2] = together
            size[blocks - 2] += size[blocks - 1]
            blocks -= 1
    p = 0
    for b in range(blocks):
        for _ in range(size[b]):
            mean[p] = value[b]
            p += 1


@kernel
def fit(prior):
    """Fit means and strength to the counts. O(places)."""
    for _ in range(ROUNDS):
        never_rise(prior.mean, fit_means(prior))
        fit_strength(prior)


@kernel
def fit_when_due(prior):
    """Count a visit; refit each time a quarter of the visits is new. Returns whether it did."""
    prior.tally[VISITS] += 1
    if prior.tally[VISITS] < prior.tally[NEXT_FIT]:
        return False
    prior.tally[NEXT_FIT] = int(prior.tally[VISITS] * GROWTH) + 1
    fit(prior)
    return True
