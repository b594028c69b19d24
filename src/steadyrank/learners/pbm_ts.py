"""PBM-TS: Thompson sampling with a posterior for each item, for users whose attention by place is known.

Exact draws from the posterior of an attraction observed through the attention of places. The density of an attraction
a with S clicks and F_p times no click at place p is, up to a factor and with a uniform prior,
a^S prod_p (1 - attention_p a)^F_p (Lagree, Vernade, Cappe 2016, section 6). Its logarithm g is concave, so three
pieces lie above it: a flat one at its mode between two points, and beyond each the line from the mode through that
point (Devroye 1986, section VII.2). A draw below these pieces is accepted with the ratio of density to pieces.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import top
from ..core.places import attention_of, place_best_first
from .shared.place_counts import PlaceCounts, count_places, uncount_places

MODE, PEAK, LEFT, RIGHT, LOW, HIGH = range(6)  # columns: the mode a and g(a), two points, and g - PEAK at these


class PlacePosteriors(NamedTuple):
    """The three pieces above the log posterior of each item. 48 bytes an item."""

    pieces: Floats  # [K, 6]

    @classmethod
    def create(cls, n_items: int) -> "PlacePosteriors":
        """Flat: no item was shown yet."""
        pieces = np.zeros((n_items, 6))
        pieces[:, RIGHT] = 1.0
        return cls(pieces)


@no_refcount
def log_density(counts, k, a):
    """g(a) for a in (0, 1)."""
    value, clicks = 0.0, 0
    for p in range(counts.attention.size):
        without = counts.shown[k, p] - counts.clicks[k, p]
        clicks += counts.clicks[k, p]
        if without > 0:
            value += without * math.log1p(-counts.attention[p] * a)
    return value + clicks * math.log(a) if clicks > 0 else value


@no_refcount
def slopes(counts, k, a):
    """g'(a) and -g''(a)."""
    clicks, first, second = 0, 0.0, 0.0
    for p in range(counts.attention.size):
        without = counts.shown[k, p] - counts.clicks[k, p]
        clicks += counts.clicks[k, p]
        step = counts.attention[p] / (1.0 - counts.attention[p] * a)
        first -= without * step
        second += without * step * step
    return first + clicks / a, second + clicks / (a * a)


@no_refcount
def find_mode(counts, k):
    """The maximum of g in [1e-9, 1 - 1e-9], by Newton's method within a shrinking bracket."""
    low, high = 1e-9, 1.0 - 1e-9
    if slopes(counts, k, low)[0] <= 0.0:
        return low
    if slopes(counts, k, high)[0] >= 0.0:
        return high
    a = 0.5
    for _ in range(60):
        first, second = slopes(counts, k, a)
        low, high = (a, high) if first > 0.0 else (low, a)
        after = a + first / second
        after = after if low < after < high else 0.5 * (low + high)
        if abs(after - a) <= 1e-12 * a:
            break
        a = after
    return a


@no_refcount
def find_point(counts, k, mode, peak, step, end):
    """A point towards `end` where g is 1/2 to 2 below its peak, `mode + step` if that qualifies; and by how much.

    The end itself, if g is higher there.
    """
    drop = log_density(counts, k, end) - peak
    if drop >= -2.0:
        return end, drop
    near, far, a = mode, end, mode + step
    for _ in range(80):
        if not min(near, far) < a < max(near, far):
            a = 0.5 * (near + far)
        drop = log_density(counts, k, a) - peak
        if drop > -0.5:
            near, a = a, mode + 2.0 * (a - mode)
        elif drop < -2.0:
            far, a = a, mode + 0.5 * (a - mode)
        else:
            break
    return a, drop


@no_refcount
def set_pieces(posteriors, counts, ranking, examined):
    """Update the pieces of items whose counts have changed."""
    for p in range(examined):
        k = ranking[p]
        piece = posteriors.pieces[k]
        mode = find_mode(counts, k)
        first, second = slopes(counts, k, mode)
        step = min(math.sqrt(2.0 / max(second, 1e-300)), 1.0 / max(abs(first), 1e-300))
        peak = log_density(counts, k, mode)
        piece[MODE], piece[PEAK] = mode, peak
        piece[LEFT], piece[LOW] = find_point(counts, k, mode, peak, -step, 1e-12)
        piece[RIGHT], piece[HIGH] = find_point(counts, k, mode, peak, step, 1.0 - 1e-12)


@no_refcount
def draw_attraction(posteriors, counts, k, rng):
    """A draw from item k's posterior; takes about three uniforms, and rarely evaluates the density."""
    piece = posteriors.pieces[k]
    mode, left, right, low, high = piece[MODE], piece[LEFT], piece[RIGHT], piece[LOW], piece[HIGH]
    if low == 0.0 and high == 0.0:
        return rng.random()  # never shown
    before = math.exp(low) * (mode - left) / -low if left > 1e-12 else 0.0
    after = math.exp(high) * (right - mode) / -high if right < 1.0 - 1e-12 else 0.0
    middle = right - left
    while True:
        u = rng.random() * (before + middle + after)
        level = math.log(1.0 - rng.random())
        if u < middle:
            a, hat = left + u, 0.0
            slope = high / (right - mode) if a > mode else low / (left - mode)
            if level <= slope * (a - mode):  # below the chord, which lies below g
                return a
        else:
            far = math.log(1.0 - rng.random())
            if u < middle + after:
                a = right + far * (right - mode) / high
                hat = high * (a - mode) / (right - mode)
            else:
                a = left + far * (left - mode) / low
                hat = low * (a - mode) / (left - mode)
        if 0.0 < a < 1.0 and level + hat <= log_density(counts, k, a) - piece[PEAK]:
            return a


class PBMTS(NamedTuple):
    """Ranks by one draw from each item's posterior, a^S prod_p (1 - attention_p a)^(N_p - S_p) up to a factor.

    Lagree, Vernade, Cappe 2016, section 6; draws are exact, by rejection, with a tighter envelope than theirs. N_p
    and S_p count how often the item was shown at place p, and clicked there. The prior is uniform. The highest draw
    goes where attention is highest. No defence.

    Settings: `eta` or `attention`, the assumed attention of users, as for `PositionBased`.
    """

    counts: PlaceCounts
    posteriors: PlacePosteriors

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *, eta: float | None = None, attention: Sequence[float] | str | None = None
    ) -> "PBMTS":
        looks = attention_of(eta, attention, problem.length)
        return cls(PlaceCounts.create(problem.n_items, looks), PlacePosteriors.create(problem.n_items))

    def rank(self, visit, allowed, ranking, note, rng):
        drawn = np.empty(allowed.size)
        for k in range(allowed.size):
            drawn[k] = draw_attraction(self.posteriors, self.counts, k, rng) if allowed[k] else -np.inf
        top(drawn, ranking, rng)
        place_best_first(self.counts.order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        count_places(self.counts, ranking, clicks, examined)
        set_pieces(self.posteriors, self.counts, ranking, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_places(self.counts, ranking, clicks, examined)
        set_pieces(self.posteriors, self.counts, ranking, examined)
