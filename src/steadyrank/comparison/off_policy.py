"""What another ranker would have got, estimated from lists that it did not show, with 95 % intervals. NumPy alone.

The value of a ranker is the mean number of clicks on its lists. Two models of users, each with three estimators:

- `cascade`: a click depends on the item and on those above it. A list of ours is known as far down as theirs agrees.
  Inverse propensities: RIPS of McInerney, Brost, Chandar, Mehrotra and Carterette 2020 (KDD). Doubly robust:
  Cascade-DR of Kiyohara, Saito, Matsuhiro, Narita, Shimizu and Yamamoto 2022 (WSDM).
- `position`: a click depends on the item and its place. Inverse propensities: the item-position estimator of Li,
  Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen 2018 (KDD), clipped as below. Doubly robust: the same
  with a control variate at each place, as Dudik, Langford and Li 2011 (ICML) have it for one action.
- *self-normalised*, of both: what inverse propensities sum at a place is divided by the sum of the weights there, not
  by the number of lists (Swaminathan and Joachims 2015, NeurIPS; place by place, as Precup, Sutton and Singh 2000,
  ICML, do with decisions). The mean weight is 1 in expectation alone: in a log it is more or less, and RIPS is off by
  that. This one is not; its bias falls as one by the number of lists, and it takes what theirs never shows to be like
  what it shows.

A weight is clipped where it would let a few lists decide, as Ionides 2008 (Journal of Computational and Graphical
Statistics 17) and Bottou et al. 2013 (JMLR 14) do it: at the root of the number of lists, as the former has it, or at
a tenth of that number where this is more, so that logs in which many lists speak of ours lose nothing. An estimate of
clicks on a list is from 0 to the length of the list.

All of them are reconstructions, not taken from the papers' text or code. The models of clicks in the doubly robust
ones are ours, and simple; they are fitted to other clients' lists than those that they are used on, so what they get
wrong costs width and not truth. Ours is one draw a list, by what was known before that list: the chance of that draw
need not be known.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from .intervals import student

INVERSE, NORMALISED, ROBUST = METHODS = ("inverse propensities", "self-normalised", "doubly robust")
FOLDS = 5
PRIOR = 4.0  # looks that the mean rate counts for in an item's
LEAST_CHANCE = 1e-9  # of an item at its place: what is less likely is in no log
MOST_SHARE = 0.1  # of a large log that one list may count for


class Lists(NamedTuple):
    """Lists of another ranker, what was clicked, and what ours would have shown; item -1: the list has ended."""

    shown: Ints  # [n, L] numbers of items from 0
    ours: Ints  # [n, L]
    clicks: Bools  # [n, L]
    examined: Ints  # [n] places that were looked at, from the top
    propensities: Floats  # [n, L] chance of the item at its place given those above; nan: not known
    marginals: Floats  # [n, L] chance of the item at its place; nan: not known
    sender: Ints  # [n] who looked; -1: not known, each by itself

    def only(self, chosen: Bools) -> "Lists":
        """Some of them."""
        return Lists._make(column[chosen] for column in self)

    def clicked(self) -> Bools:
        """[n, L] clicks, as far as a list was looked at."""
        seen: Bools = np.arange(self.shown.shape[1]) < self.examined[:, None]
        return self.clicks & seen


class ClickModel(NamedTuple):
    """What is expected of an item, fitted to the lists outside of each fold."""

    rates: Floats  # [fold, K], or [fold, K, L]: at each place
    fold: Ints  # [n] in which each list is


class Interval(NamedTuple):
    """A mean with a 95 % interval; nan where there is too little."""

    value: float
    low: float
    high: float


class Spread(NamedTuple):
    """How the weights of our places are spread.

    `covered`: their mean, about 1 where theirs may show all that ours does, less by what it never does. `effective`:
    how many lists the weighted ones are worth, at the place where these are fewest. `clipped`: lists with a weight
    that was above the limit, and was lowered to it.
    """

    covered: float
    effective: float
    clipped: int


class Estimate(NamedTuple):
    """Clicks on a list of ours, and how much that is more than theirs."""

    model: str  # cascade or position
    method: str  # one of METHODS
    given: bool  # whether propensities were given; else they are shares in the log
    spread: Spread
    ours: Interval
    gain: Interval
    cut: bool  # whether the estimate was below 0 or above the length of a list, and is now that


def check_chances(name: str, chances: Sequence[float]) -> None:
    """Refuse chances of which one is too small to be in a log, or is none; `name`: what they are called."""
    for place, chance in enumerate(chances, 1):
        if not LEAST_CHANCE <= chance <= 1.0:
            raise ValueError(f"{name} must be from {LEAST_CHANCE:g} to 1, not {chance!r} at place {place}")


def weight_limit(lists: int) -> float:
    """The weight above which one of so many lists counts no more."""
    return max(math.sqrt(lists), MOST_SHARE * lists)


def clusters(sender: Ints) -> Ints:
    """Numbers of who looked from 0 on, in which everybody without a name is one of its own."""
    alone = sender < 0
    numbers = sender.astype(np.int64)
    numbers[alone] = sender.max(initial=-1) + 1 + np.arange(np.count_nonzero(alone))
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def mean(values: Floats, cluster: Ints) -> Interval:
    """The mean of values that may depend on one another within a cluster: by the variance of the clusters' sums."""
    n, groups = values.size, int(cluster.max(initial=-1)) + 1
    if groups < 2:
        return Interval(float(values.mean()) if n else np.nan, np.nan, np.nan)
    middle = float(values.mean())
    sums = np.bincount(cluster, values - middle, groups)
    half = student(groups - 1) * float(np.sqrt(groups / (groups - 1) * np.square(sums).sum())) / n
    return Interval(middle, middle - half, middle + half)


def shares(shown: Ints) -> Floats:
    """[n, L] the share of lists with the same item at the same place, of those that are as long."""
    share = np.full(shown.shape, np.nan)
    for k in range(shown.shape[1]):
        here = np.flatnonzero(shown[:, k] >= 0)
        _, number, count = np.unique(shown[here, k], return_inverse=True, return_counts=True)
        share[here, k] = count[number] / max(here.size, 1)
    return share


def prefix_shares(shown: Ints) -> Floats:
    """[n, L] of the lists with the same items above a place, the share with the same item at it as well."""
    share = np.full(shown.shape, np.nan)
    above, size = np.zeros(shown.shape[0], np.int64), np.full(shown.shape[0], shown.shape[0])
    for k in range(shown.shape[1]):
        here = np.flatnonzero(shown[:, k] >= 0)
        pairs = np.column_stack([above[here], shown[here, k]])
        _, number, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        share[here, k] = count[number.ravel()] / size[here]
        above[here], size[here] = number.ravel(), count[number.ravel()]
    return share


class Weights(NamedTuple):
    """What each place of a list of theirs counts for ours: 0 where theirs is another one."""

    here: Bools  # [n, L] where ours has a place
    ratio: Floats  # [n, L] of the chances at a place, ours by theirs, given those above in a cascade
    weight: Floats  # [n, L] of a place: its ratio; in a cascade the product of the ratios down to it
    clipped: Bools  # [n] lists with a weight that was above the limit


def cascade_weights(lists: Lists, propensities: Floats, most: float = math.inf) -> Weights:
    """The product of the ratios down to a place is its weight, and at most `most`."""
    n, length = lists.shown.shape
    here, ratio = _ratios(lists, propensities)
    weight, clipped = np.ones((n, length)), np.zeros(n, np.bool_)
    for k in range(length):
        above = weight[:, k - 1] if k else np.ones(n)
        over = above * ratio[:, k] > most
        ratio[over, k] = most / above[over]
        weight[:, k] = np.where(over, most, above * ratio[:, k])
        clipped |= over
    return Weights(here, ratio, weight, clipped)


def position_weights(lists: Lists, marginals: Floats, most: float = math.inf) -> Weights:
    """The ratio at a place is its weight, and at most `most`."""
    here, ratio = _ratios(lists, marginals)
    clipped: Bools = np.any(ratio > most, axis=1)
    weight = np.minimum(ratio, most)
    return Weights(here, weight, weight, clipped)


def self_normalised(lists: Lists, weights: Weights) -> Floats:
    """[n] what each list adds to the self-normalised estimate, of which it is the mean.

    At place k, R_k = sum w click / sum w, over the lists in which ours has that place; the estimate is the mean of
    the sum of R_k over the places of ours. List i adds R_k + w_ik (click_ik - R_k) / (mean of w at k), whose second
    part sums to 0: the spread of these numbers is that of the estimate (a ratio's, by linearisation). A place at
    which nothing of theirs speaks of ours counts for no click.
    """
    weight, clicked = np.where(weights.here, weights.weight, 0.0), lists.clicked()
    total, places = weight.sum(axis=0), weights.here.sum(axis=0)
    weighed = total > 0.0
    rate = np.divide((weight * clicked).sum(axis=0), total, out=np.zeros(total.size), where=weighed)
    scale = np.divide(places, total, out=np.zeros(total.size), where=weighed)
    values: Floats = np.where(weights.here, rate + weight * (clicked - rate) * scale, 0.0).sum(axis=1)
    return values


def cascade(lists: Lists, weights: Weights, model: ClickModel | None) -> Floats:
    """[n] each list's estimate of the value of ours; a `model` makes it doubly robust.

    By recursion from the last place: value(k) = model(k, ours) + ratio (click + value(k + 1) - model(k, theirs)),
    where the model says that nothing is clicked after a click.
    """
    n, length = lists.shown.shape
    here, ratio, clicked = weights.here, weights.ratio, lists.clicked()
    before = np.cumsum(clicked, axis=1) > clicked
    value, ahead = np.zeros(n), np.zeros(n)  # from the place on; by the model, of ours from there on
    for k in range(length - 1, -1, -1):
        if model is None:
            value = ratio[:, k] * (clicked[:, k] + value)
            continue
        mine = np.where(here[:, k], model.rates[model.fold, lists.ours[:, k]], 0.0)
        theirs = model.rates[model.fold, lists.shown[:, k]]
        expected = np.where(before[:, k], 0.0, theirs + (1.0 - theirs) * ahead)
        ahead = mine + (1.0 - mine) * ahead
        value = np.where(before[:, k], 0.0, ahead) + ratio[:, k] * (clicked[:, k] + value - expected)
    return value


def position(lists: Lists, weights: Weights, model: ClickModel | None) -> Floats:
    """[n] each list's estimate of the value of ours; a `model` makes it doubly robust."""
    weight, clicked = weights.weight, lists.clicked()
    mine = np.zeros(weight.shape)
    if model is not None:
        rates = model.rates[model.fold[:, None], lists.ours, np.arange(lists.ours.shape[1])]
        mine = np.where(weights.here, rates, 0.0)
    # where the weight is not 0, theirs is the same item
    values: Floats = (mine + weight * (clicked - mine)).sum(axis=1)
    return values


def _ratios(lists: Lists, chances: Floats) -> tuple[Bools, Floats]:
    """[n, L] where ours has a place; and 1 / chance where theirs has the same item there, else 0."""
    here: Bools = lists.ours >= 0
    same = here & (lists.shown == lists.ours)
    chances = np.maximum(chances, LEAST_CHANCE)  # logs of earlier versions may have less
    return here, np.divide(1.0, chances, out=np.zeros(chances.shape), where=same)


def spread_of(weights: Weights) -> Spread:
    """Kish's (1965) effective size is the square of the sum of weights by the sum of their squares."""
    here, clipped = weights.here, weights.clipped
    if not here.any():
        return Spread(0.0, 0.0, 0)
    weight = np.where(here, weights.weight, 0.0)
    squares = np.square(weight).sum(axis=0)
    worth = np.divide(np.square(weight.sum(axis=0)), squares, out=np.zeros(squares.size), where=squares > 0.0)
    return Spread(float(weight[here].mean()), float(worth[here.any(axis=0)].min()), int(np.count_nonzero(clipped)))


def attractions(lists: Lists, n_items: int, cluster: Ints) -> ClickModel:
    """Click rate of an item that was looked at, in the lists outside of each fold, drawn to the mean rate."""
    looks, clicks = _outside(lists, n_items, cluster)
    looks, clicks = looks.sum(axis=2), clicks.sum(axis=2)
    typical = clicks.sum(axis=1) / np.maximum(looks.sum(axis=1), 1.0)
    return ClickModel((clicks + PRIOR * typical[:, None]) / (looks + PRIOR), cluster % FOLDS)


def place_rates(lists: Lists, n_items: int, cluster: Ints) -> ClickModel:
    """Click rate of an item at a place, in the lists outside of each fold: the place's, times the item's.

    An item's is its clicks as a multiple of those of all items at the same places, drawn to 1.
    """
    looks, clicks = _outside(lists._replace(examined=(lists.shown >= 0).sum(axis=1)), n_items, cluster)
    place = clicks.sum(axis=1) / np.maximum(looks.sum(axis=1), 1.0)
    expected = (looks * place[:, None, :]).sum(axis=2)
    prior = PRIOR * place.mean(axis=1, keepdims=True)
    item = (clicks.sum(axis=2) + prior) / np.maximum(expected + prior, 1e-12)
    return ClickModel(np.minimum(place[:, None, :] * item[:, :, None], 1.0), cluster % FOLDS)


def _outside(lists: Lists, n_items: int, cluster: Ints) -> tuple[Floats, Floats]:
    """[fold, K, L] looks and clicks in the lists outside of each fold."""
    n, length = lists.shown.shape
    looked = (np.arange(length) < lists.examined[:, None]) & (lists.shown >= 0)
    place = np.broadcast_to(np.arange(length), (n, length))
    fold = np.broadcast_to((cluster % FOLDS)[:, None], (n, length))
    at = (fold * n_items + lists.shown) * length + place
    size, shape = FOLDS * n_items * length, (FOLDS, n_items, length)
    looks = np.bincount(at[looked], minlength=size).reshape(shape).astype(np.float64)
    clicks = np.bincount(at[looked & lists.clicks], minlength=size).reshape(shape).astype(np.float64)
    return looks.sum(axis=0) - looks, clicks.sum(axis=0) - clicks


def clicks_of(lists: Lists) -> Floats:
    """[n] clicks on each list of theirs, as far as it was looked at."""
    count: Floats = lists.clicked().sum(axis=1).astype(np.float64)
    return count


def estimates(lists: Lists, n_items: int) -> list[Estimate]:
    """The METHODS of both models; each with the propensities given, if all lists have them, else with shares."""
    cluster, there, theirs = clusters(lists.sender), lists.shown >= 0, clicks_of(lists)
    length, most = int((lists.ours >= 0).sum(axis=1).max(initial=0)), weight_limit(theirs.size)
    results = []
    for name, given, otherwise, weigh, value, fit in (
        ("cascade", lists.propensities, prefix_shares, cascade_weights, cascade, attractions),
        ("position", lists.marginals, shares, position_weights, position, place_rates),
    ):
        all_given = bool(np.isfinite(given[there]).all())
        weights = weigh(lists, given if all_given else otherwise(lists.shown), most)
        for method, values in (
            (INVERSE, value(lists, weights, None)),
            (NORMALISED, self_normalised(lists, weights)),
            (ROBUST, value(lists, weights, fit(lists, n_items, cluster))),
        ):
            ours, gain = mean(values, cluster), mean(values - theirs, cluster)
            both = _possible(ours, gain, length)
            cut = both[0].value != ours.value
            results.append(Estimate(name, method, all_given, spread_of(weights), *both, cut))
    return results


def _possible(ours: Interval, gain: Interval, length: int) -> tuple[Interval, Interval]:
    """Clicks on a list of ours, and how much more than theirs that is, within what can be; nan stays nan.

    An estimate that cannot be is moved to where it can, and no more is known: its interval is all that can be.
    """
    value = min(max(ours.value, 0.0), float(length))
    if value == ours.value:
        least, most = np.clip(ours[1:], 0.0, length).tolist()
        return Interval(value, least, most), Interval(gain.value, *np.clip(gain[1:], -length, length).tolist())
    theirs, nothing = ours.value - gain.value, 0.0 * ours.low  # nan if there is no interval
    return (
        Interval(value, nothing, nothing + length),
        Interval(value - theirs, nothing - theirs, nothing + length - theirs),
    )
