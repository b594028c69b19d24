"""Off-policy estimates: the clicks our ranker would have got, from lists another showed, with 95 % intervals.

Needs NumPy alone. The value of a ranker is the mean number of clicks on its lists. "Ours" is the ranker to evaluate,
"theirs" the one that showed the lists. Two models of users, each with three estimators:

- `cascade`: a click depends on the item and on those above it. Our list is observed down to where theirs differs.
  Inverse propensities: RIPS of McInerney, Brost, Chandar, Mehrotra and Carterette 2020 (KDD). Doubly robust:
  Cascade-DR of Kiyohara, Saito, Matsuhiro, Narita, Shimizu and Yamamoto 2022 (WSDM).
- `position`: a click depends on the item and its place. Inverse propensities: the item-position estimator of Li,
  Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen 2018 (KDD), clipped as below. Doubly robust: the same
  with a control variate at each place, as Dudik, Langford and Li 2011 (ICML) have it for one action.
- *self-normalised*, for both models: the weighted sum at a place is divided by the sum of the weights there, not by
  the number of lists (Swaminathan and Joachims 2015, NeurIPS; place by place, as Precup, Sutton and Singh 2000,
  ICML, do with decisions). The mean weight is 1 only in expectation; RIPS is off by as much as a log's mean weight
  is. The self-normalised estimate is not; its bias falls as 1 / number of lists, and it assumes that what theirs
  never shows is like what it shows.

Large weights are clipped, so that a few lists do not decide, as in Ionides 2008 (Journal of Computational and
Graphical Statistics 17) and Bottou et al. 2013 (JMLR 14): at the square root of the number of lists, as in the
former, or at a tenth of that number if this is more, so that nothing is lost in logs where many lists agree with
ours. An estimate of clicks per list lies between 0 and the length of the list.

All estimators are reconstructions, not taken from the papers' text or code. The click models of the doubly robust
ones are our own, and simple. They are cross-fitted by client, so their errors widen the interval but do not bias the
estimate. Our list is one draw, made with what was known before their list; its probability need not be known.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from .intervals import student

INVERSE, NORMALISED, ROBUST = METHODS = ("inverse propensities", "self-normalised", "doubly robust")
FOLDS = 5
PRIOR = 4.0  # weight, in looks, of the mean rate in the rate of an item
LEAST_CHANCE = 1e-9  # smallest propensity accepted
MOST_SHARE = 0.1  # of a large log: how much weight one list may have


class Lists(NamedTuple):
    """Their lists, the clicks, and the lists ours would have shown. Item -1 stands after the end of a list."""

    shown: Ints  # [n, L] item numbers, from 0
    ours: Ints  # [n, L]
    clicks: Bools  # [n, L]
    examined: Ints  # [n] places that were looked at, from the top
    propensities: Floats  # [n, L] probability of the item at its place given those above; NaN: unknown
    marginals: Floats  # [n, L] marginal probability of the item at its place; NaN: unknown
    sender: Ints  # [n] client; -1: unknown, each counted as a client of its own

    def only(self, chosen: Bools) -> "Lists":
        """The lists that are `chosen`, bool[n]."""
        return Lists._make(column[chosen] for column in self)

    def clicked(self) -> Bools:
        """[n, L] clicks at places that were examined."""
        seen: Bools = np.arange(self.shown.shape[1]) < self.examined[:, None]
        return self.clicks & seen


class ClickModel(NamedTuple):
    """Expected click rates of items, for each fold fitted to the lists of the other folds."""

    rates: Floats  # [fold, K], or [fold, K, L] for each place
    fold: Ints  # [n] the fold of each list


class Interval(NamedTuple):
    """A mean with a 95 % interval; NaN if there is too little data."""

    value: float
    low: float
    high: float


class Spread(NamedTuple):
    """Diagnostics of the weights.

    `covered`: their mean, about 1 if theirs may show all that ours does, less by the share it never shows.
    `effective`: effective sample size, at the place where it is smallest. `clipped`: lists with a clipped weight.
    """

    covered: float
    effective: float
    clipped: int


class Estimate(NamedTuple):
    """Estimated clicks per list of ours, and the gain over theirs."""

    model: str  # cascade or position
    method: str  # one of METHODS
    given: bool  # whether propensities were given; else shares in the log stand in for them
    spread: Spread
    ours: Interval
    gain: Interval
    cut: bool  # whether the estimate was out of range and was set to 0 or to the length of a list


def check_chances(name: str, chances: Sequence[float]) -> None:
    """Raise ValueError unless all chances are from LEAST_CHANCE to 1; `name`: what the message calls them."""
    for place, chance in enumerate(chances, 1):
        if not LEAST_CHANCE <= chance <= 1.0:
            raise ValueError(f"{name} must be from {LEAST_CHANCE:g} to 1, not {chance!r} at place {place}")


def weight_limit(lists: int) -> float:
    """The value at which weights are clipped, for this many lists."""
    return max(math.sqrt(lists), MOST_SHARE * lists)


def clusters(sender: Ints) -> Ints:
    """Consecutive client numbers from 0; each unknown sender becomes a client of its own."""
    alone = sender < 0
    numbers = sender.astype(np.int64)
    numbers[alone] = sender.max(initial=-1) + 1 + np.arange(np.count_nonzero(alone))
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def mean(values: Floats, cluster: Ints) -> Interval:
    """The mean with a cluster-robust 95 % interval: values of one cluster may be dependent."""
    n, groups = values.size, int(cluster.max(initial=-1)) + 1
    if groups < 2:
        return Interval(float(values.mean()) if n else np.nan, np.nan, np.nan)
    middle = float(values.mean())
    sums = np.bincount(cluster, values - middle, groups)
    half = student(groups - 1) * float(np.sqrt(groups / (groups - 1) * np.square(sums).sum())) / n
    return Interval(middle, middle - half, middle + half)


def shares(shown: Ints) -> Floats:
    """[n, L] the share of lists with the same item at the same place, of lists that have this place."""
    share = np.full(shown.shape, np.nan)
    for k in range(shown.shape[1]):
        here = np.flatnonzero(shown[:, k] >= 0)
        _, number, count = np.unique(shown[here, k], return_inverse=True, return_counts=True)
        share[here, k] = count[number] / max(here.size, 1)
    return share


def prefix_shares(shown: Ints) -> Floats:
    """[n, L] among lists with the same items above a place, the share with the same item at it."""
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
    """Importance weights of the places of their lists: 0 where the items differ."""

    here: Bools  # [n, L] whether our list has this place
    ratio: Floats  # [n, L] 1 / probability of the item if the lists agree, else 0; in a cascade given those above
    weight: Floats  # [n, L] the ratio; in a cascade the product of the ratios down to the place
    clipped: Bools  # [n] whether the list has a clipped weight


def cascade_weights(lists: Lists, propensities: Floats, most: float = math.inf) -> Weights:
    """Weights of the cascade model: the product of the ratios down to a place, clipped at `most`."""
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
    """Weights of the position model: the ratio at a place, clipped at `most`."""
    here, ratio = _ratios(lists, marginals)
    clipped: Bools = np.any(ratio > most, axis=1)
    weight = np.minimum(ratio, most)
    return Weights(here, weight, weight, clipped)


def self_normalised(lists: Lists, weights: Weights) -> Floats:
    """[n] contributions of the lists to the self-normalised estimate, which is their mean.

    At place k, R_k = sum w click / sum w, over the lists in which ours has that place; the estimate is the mean of
    the sum of R_k over the places of ours. List i contributes R_k + w_ik (click_ik - R_k) / (mean of w at k), whose
    second part sums to 0: the variance of the contributions is that of the ratio, by linearisation. A place where no
    list of theirs agrees with ours contributes no click.
    """
    weight, clicked = np.where(weights.here, weights.weight, 0.0), lists.clicked()
    total, places = weight.sum(axis=0), weights.here.sum(axis=0)
    weighed = total > 0.0
    rate = np.divide((weight * clicked).sum(axis=0), total, out=np.zeros(total.size), where=weighed)
    scale = np.divide(places, total, out=np.zeros(total.size), where=weighed)
    values: Floats = np.where(weights.here, rate + weight * (clicked - rate) * scale, 0.0).sum(axis=1)
    return values


def cascade(lists: Lists, weights: Weights, model: ClickModel | None) -> Floats:
    """[n] each list's estimate of the value of ours in the cascade model; doubly robust with a `model`.

    By recursion from the last place: value(k) = model(k, ours) + ratio (click + value(k + 1) - model(k, theirs)),
    where the model expects no click after a click.
    """
    n, length = lists.shown.shape
    here, ratio, clicked = weights.here, weights.ratio, lists.clicked()
    before = np.cumsum(clicked, axis=1) > clicked
    value, ahead = np.zeros(n), np.zeros(n)  # estimate from this place down; the model's value of ours from there
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
    """[n] each list's estimate of the value of ours in the position model; doubly robust with a `model`."""
    weight, clicked = weights.weight, lists.clicked()
    mine = np.zeros(weight.shape)
    if model is not None:
        rates = model.rates[model.fold[:, None], lists.ours, np.arange(lists.ours.shape[1])]
        mine = np.where(weights.here, rates, 0.0)
    # where the weight is not 0, theirs is the same item
    values: Floats = (mine + weight * (clicked - mine)).sum(axis=1)
    return values


def _ratios(lists: Lists, chances: Floats) -> tuple[Bools, Floats]:
    """[n, L] whether ours has this place; and 1 / probability if theirs has the same item there, else 0."""
    here: Bools = lists.ours >= 0
    same = here & (lists.shown == lists.ours)
    chances = np.maximum(chances, LEAST_CHANCE)  # logs of earlier versions may hold smaller ones
    return here, np.divide(1.0, chances, out=np.zeros(chances.shape), where=same)


def spread_of(weights: Weights) -> Spread:
    """Diagnostics of weights. The effective size is Kish's (1965): squared sum of weights by sum of their squares."""
    here, clipped = weights.here, weights.clipped
    if not here.any():
        return Spread(0.0, 0.0, 0)
    weight = np.where(here, weights.weight, 0.0)
    squares = np.square(weight).sum(axis=0)
    worth = np.divide(np.square(weight.sum(axis=0)), squares, out=np.zeros(squares.size), where=squares > 0.0)
    return Spread(float(weight[here].mean()), float(worth[here.any(axis=0)].min()), int(np.count_nonzero(clipped)))


def attractions(lists: Lists, n_items: int, cluster: Ints) -> ClickModel:
    """Cascade model: click rate of an examined item in the other folds, shrunk to the mean rate."""
    looks, clicks = _outside(lists, n_items, cluster)
    looks, clicks = looks.sum(axis=2), clicks.sum(axis=2)
    typical = clicks.sum(axis=1) / np.maximum(looks.sum(axis=1), 1.0)
    return ClickModel((clicks + PRIOR * typical[:, None]) / (looks + PRIOR), cluster % FOLDS)


def place_rates(lists: Lists, n_items: int, cluster: Ints) -> ClickModel:
    """Position model: click rate of an item at a place in the other folds, as rate of the place times item factor.

    The item factor is the item's clicks by those expected of all items at the same places, shrunk to 1.
    """
    looks, clicks = _outside(lists._replace(examined=(lists.shown >= 0).sum(axis=1)), n_items, cluster)
    place = clicks.sum(axis=1) / np.maximum(looks.sum(axis=1), 1.0)
    expected = (looks * place[:, None, :]).sum(axis=2)
    prior = PRIOR * place.mean(axis=1, keepdims=True)
    item = (clicks.sum(axis=2) + prior) / np.maximum(expected + prior, 1e-12)
    return ClickModel(np.minimum(place[:, None, :] * item[:, :, None], 1.0), cluster % FOLDS)


def _outside(lists: Lists, n_items: int, cluster: Ints) -> tuple[Floats, Floats]:
    """[fold, K, L] looks and clicks, for each fold those in the lists of the other folds."""
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
    """[n] clicks on each list of theirs, at places that were examined."""
    count: Floats = lists.clicked().sum(axis=1).astype(np.float64)
    return count


def estimates(lists: Lists, n_items: int) -> list[Estimate]:
    """Estimates by all METHODS of both models, with propensities if all lists have them, else with shares."""
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
    """Limit the estimate and the gain to possible values, 0 to `length` clicks per list; NaN stays NaN.

    An estimate out of range is moved to the bound, and its interval becomes the whole range.
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
