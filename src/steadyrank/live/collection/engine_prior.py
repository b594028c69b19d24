"""What an item attracts before anybody has looked at it: by its place in the engine's order, learnt over all queries.

The attraction of an item at place p of the engine's order is taken to be Beta(c m_p, c (1 - m_p)), so that n looks at
it with w clicks have the chance B(c m_p + w, c (1 - m_p) + n - w) / B(c m_p, c (1 - m_p)). Mean m_p of each place and
strength c are where the product of these over all (query, item) pairs is largest (empirical Bayes). Which items were
looked at again was decided by earlier clicks, which are part of the product: so the choice cancels out of it, and
a prior that is learnt from lists that it has chosen itself is right all the same. The mean click rate of a place is
not: items are looked at for longer where they were clicked.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from .engine_scores import NO_SCORE, STEPS, USUAL

FIRST_LOOKS = 32  # of a pair, those that the prior is learnt from
START_MEAN, START_STRENGTH = 0.05, 15.0  # before the first fit
ANCHOR = 0.5  # looks that START_MEAN counts for at the first place
STIFF = 2.0  # evidence that START_STRENGTH counts for, in units of a squared step of log c
STEP = 0.36  # variance of the change of a logit from one place to another, for each unit of the log of the place
FIRST_FIT, GROWTH = 100, 1.25  # visits before the first fit, and how many times as many before the next
ROUNDS = 8  # of a fit
LARGEST_STEP = 0.5  # of a logit and of log c in a round
LEAST, MOST = 1e-4, 0.95  # of a mean
CLICKS, MISSES, LOOKS = range(3)  # rows of EnginePrior.reached
EXCESS, SPREAD = range(2)  # places of EnginePrior.score
SURE = 5.0  # evidence that scores mean nothing, in units of SPREAD: a slope of 0.45 is usual before any is seen
VISITS, NEXT_FIT = range(2)  # places of EnginePrior.tally


class EnginePrior(NamedTuple):
    """Means by place, never rising from one place to the next, and one strength. P places.

    The likelihood needs no more of the pairs than how many of them went beyond j clicks, j misses, j looks.
    """

    reached: Ints  # [3, P, FIRST_LOOKS] pairs first seen at a place with more than j clicks, misses, looks
    mean: Floats  # [P]
    strength: Floats  # [1] looks that the mean counts for
    usual: Floats  # [2, P] first looks at items with a score, and the sum of these, in standard deviations
    score: Floats  # [2] of first looks, clicks beyond the place's mean times the score, and what a logit weighs there
    tally: Ints  # [2] visits, and the number of visits from which on the next fit is due

    def copied(self) -> "EnginePrior":
        """The same, for who reads it while more is learnt."""
        return EnginePrior._make(array.copy() for array in self)

    @classmethod
    def create(cls, places: int) -> "EnginePrior":
        """Nothing known: all places alike."""
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
    """One look more (sign 1), or one less (-1), at a pair that has had so many looks and clicks without it."""
    prior.reached[LOOKS, place, looks] += sign
    if clicked:
        prior.reached[CLICKS, place, clicks] += sign
    else:
        prior.reached[MISSES, place, looks - clicks] += sign


@no_refcount
def score_at(prior, place, step):
    """By how many standard deviations a score is better than is usual at its place."""
    return (step - USUAL) / STEPS - prior.usual[1, place] / (prior.usual[0, place] + 1.0)


@no_refcount
def count_score(prior, place, step, clicked, sign):
    """A first look more, or one less, at an item with this step of its score (`engine_scores`)."""
    if step != NO_SCORE:
        mean, score = prior.mean[place], score_at(prior, place, step)
        prior.score[EXCESS] += sign * ((1.0 if clicked else 0.0) - mean) * score
        prior.score[SPREAD] += sign * mean * (1.0 - mean) * score * score
        prior.usual[0, place] += sign
        prior.usual[1, place] += sign * (step - USUAL) / STEPS


@no_refcount
def slope_of_score(score):
    """By how much a standard deviation of the engine's score moves the logit of what an item attracts: never down."""
    return max(score[EXCESS], 0.0) / (score[SPREAD] + SURE)


@no_refcount
def mean_of(prior, place, step):
    """What an item attracts by its place and score: a logit more or less for each standard deviation of the score.

    The slope is one step of Newton's from 0, of the likelihood of first looks alone: no click has chosen these.
    """
    mean = prior.mean[place]
    if step == NO_SCORE or prior.score[EXCESS] <= 0.0:
        return mean
    logit = math.log(mean / (1.0 - mean)) + slope_of_score(prior.score) * score_at(prior, place, step)
    return min(max(1.0 / (1.0 + math.exp(-logit)), LEAST), MOST)


@kernel
def means_of(prior, places, steps):
    """`mean_of` for items of these places, from 0, and steps of scores."""
    means = np.empty(places.size)
    for k in range(places.size):
        means[k] = mean_of(prior, places[k], steps[k])
    return means


@no_refcount
def slope_of_mean(prior, place, mean, strength):
    """First derivative of the log likelihood by the mean of a place, and minus the second one."""
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
    """One step of Newton's in log c, uphill and not too far."""
    first, second = slope_of_strength(prior)
    log_c = math.log(prior.strength[0])
    first += STIFF * (math.log(START_STRENGTH) - log_c)
    second -= STIFF
    step = -first / second if second < 0.0 else math.copysign(LARGEST_STEP, first)
    prior.strength[0] = math.exp(log_c + min(max(step, -LARGEST_STEP), LARGEST_STEP))


@kernel
def fit_means(prior):
    """One step of Newton's in the logits of all means together: neighbouring places are alike, the more the lower.

    Their differences are normal with variance STEP log((p + 1) / p), as of a random walk in the log of the place.
    Returns the weight of each place.
    """
    n = prior.mean.size
    weight, right, diagonal, link = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for p in range(n):
        m = prior.mean[p]
        first, second = slope_of_mean(prior, p, m, prior.strength[0])
        scale = m * (1.0 - m)  # of a logit
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
    for p in range(1, n):  # Thomas's elimination: the matrix has three diagonals
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
    """Replace means that rise from one place to the next by what they have in common (pool adjacent violators)."""
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
    """Means and strength from all that was counted. O(places)."""
    for _ in range(ROUNDS):
        never_rise(prior.mean, fit_means(prior))
        fit_strength(prior)


@kernel
def fit_when_due(prior):
    """A visit more; the fit is made anew each time a quarter of the visits is new. Whether it was."""
    prior.tally[VISITS] += 1
    if prior.tally[VISITS] < prior.tally[NEXT_FIT]:
        return False
    prior.tally[NEXT_FIT] = int(prior.tally[VISITS] * GROWTH) + 1
    fit(prior)
    return True
