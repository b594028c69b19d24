"""GRAB: shows the best list so far, or a neighbouring list that may be better.

The best list has the largest sum over places of its items' click rates there: an assignment problem."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Counts, Floats, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.kernels import kl_upper
from ..core.settings import known_horizon, whole


@kernel
def best_assignment(worth, chosen):
    """Write into `chosen`, one number a place, distinct columns of worth[place, item] with the largest sum.

    Shortest augmenting paths (Jonker, Volgenant 1987; Crouse 2016), place by place: O(d^2 K) for d places. Which of
    several equal sums it finds depends on the order of the columns.
    """
    d, n = worth.shape
    place_price, item_price = np.zeros(d), np.zeros(n)
    holder = np.full(n, -1, np.int64)  # place that holds an item
    came = np.empty(n, np.int64)  # place from which the shortest path enters an item
    cost, done = np.empty(n), np.empty(n, np.bool_)
    chosen[:] = -1
    for start in range(d):
        cost[:] = np.inf
        done[:] = False
        p, reached, end = start, 0.0, -1
        while end < 0:
            least, item = np.inf, -1
            for k in range(n):
                if not done[k]:
                    through = reached - worth[p, k] - place_price[p] - item_price[k]
                    if through < cost[k]:
                        cost[k] = through
                        came[k] = p
                    # among equal costs prefer a free item: it ends the path
                    if cost[k] < least or (cost[k] == least and holder[k] < 0 <= holder[item]):
                        least, item = cost[k], k
            reached = least
            done[item] = True
            if holder[item] < 0:
                end = item
            else:
                p = holder[item]
        place_price[start] += reached
        for k in range(n):
            if done[k] and k != end:
                place_price[holder[k]] += reached - cost[k]
                item_price[k] -= reached - cost[k]
        while True:  # along the path, each place takes the item through which it was reached
            p = came[end]
            holder[end] = p
            chosen[p], end = end, chosen[p]
            if p == start:
                break


_TABLE = 4096  # leaders are counted by a hash of their items


@no_refcount
def place_of(leader):
    """Index of a leader's counter: a polynomial hash of its items, in their order."""
    h = 17
    for p in range(leader.size):
        h = (31 * h + int(leader[p]) + 1) % 1_000_003
    return h % _TABLE


@kernel
def elect(shown, clicks, allowed, leader, rng):
    """The list of allowed items with the largest sum of click rates at their places; ties broken at random.

    Returns the allowed items in the random order in which they were compared.
    """
    items = np.flatnonzero(allowed)
    for i in range(items.size - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        items[i], items[j] = items[j], items[i]
    worth = np.zeros((leader.size, items.size))
    for p in range(leader.size):
        for i in range(items.size):
            n = shown[items[i], p]
            worth[p, i] = clicks[items[i], p] / n if n > 0 else 0.0
    best_assignment(worth, leader)
    gain = np.empty(leader.size)
    for p in range(leader.size):
        gain[p] = -worth[p, leader[p]]
        leader[p] = items[leader[p]]
    return items, np.argsort(gain, kind="mergesort")


@kernel
def step(bounds, leader, items, order, ranking):
    """Write the leader, or its neighbour with the largest sum of bounds if that is larger, into `ranking`.

    Neighbours trade two consecutive places of `order`, from the most clicked place to the least, or have
    another item at the last of these.
    """
    d = leader.size
    ranking[:] = leader
    most, one, other, new = 0.0, -1, -1, -1
    for i in range(d - 1):
        p, q = order[i], order[i + 1]
        gain = bounds[leader[q], p] + bounds[leader[p], q] - bounds[leader[p], p] - bounds[leader[q], q]
        if gain > most:
            most, one, other = gain, p, q
    last = order[d - 1]
    listed = np.zeros(bounds.shape[0], np.bool_)
    for p in range(d):
        listed[leader[p]] = True
    for k in items:
        gain = bounds[k, last] - bounds[leader[last], last]
        if not listed[k] and gain > most:
            most, new = gain, k
    if new >= 0:
        ranking[last] = new
    elif one >= 0:
        ranking[one], ranking[other] = leader[other], leader[one]


class GRAB(NamedTuple):
    """Shows the best list by click rates of item and place, or a neighbour of it whose KL bounds promise more.

    Gauthier, Gaudel, Fromont, Lompo 2021, Algorithm 1: neighbours trade two places that are consecutive in the order
    of their click rates, or replace the item at the last of them. Attention is unknown: it learns the rate of each
    item at each place. The leader is shown every `period`-th time that it leads. As in the authors' code the bounds
    are max{q : n kl(rate, q) <= log T}, 1 if an item was never shown, and `period` is 10; the paper's have the
    logarithm of how often this leader led. Leaders are counted by a hash, and ties between leaders are broken at
    random.
    """

    shown: Counts  # [K, length]
    clicks: Counts  # [K, length]
    bounds: Floats  # [K, length]
    led: Ints  # [4096] how often each leader led
    level: float  # log T
    period: int

    live = False

    @classmethod
    def create(cls, problem: Problem, *, period: int = 10) -> "GRAB":
        shape = problem.n_items, problem.length
        level = math.log(known_horizon("GRAB", problem.horizon))
        counts = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        return cls(*counts, np.ones(shape), np.zeros(_TABLE, np.int64), level, whole("period", period, 1))

    def rank(self, visit, allowed, ranking, note, rng):
        leader = np.empty(ranking.size, np.int64)
        items, order = elect(self.shown, self.clicks, allowed, leader, rng)
        for p in range(leader.size):
            note[p] = leader[p]
        if self.led[place_of(leader)] % self.period == 0:
            ranking[:] = leader
        else:
            step(self.bounds, leader, items, order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        self.led[place_of(note[: ranking.size])] += 1
        for p in range(examined):
            k = ranking[p]
            self.shown[k, p] += 1
            self.clicks[k, p] += 1 if clicks[p] else 0
            n = self.shown[k, p]
            self.bounds[k, p] = kl_upper(self.clicks[k, p] / n, n, self.level)
