"""FTRL: follow the regularised leader over lists, with semi-bandit losses.

Marginals are found by a joint Newton method, lists drawn by systematic sampling."""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import count_bits, top_allowed
from ..core.settings import choice, known_horizon, real, refuse_unused

LBINF, LBINFV, HYBRID, TSALLIS = range(4)
# rows of `curve`: x, phi'(x), its derivative by the logit, log(1 - x), (1 - x) / x
VALUE, FIRST, STEEP, LOG_REST, ODDS = range(5)
PRICE, RESIDUAL = range(2)  # indices in `price`: multiplier of the constraint, and residual of the equations
_FAR = 600.0  # beyond this logit, a float64 is 0 or 1
_SOLVED = 1e-4  # tolerance of a round's equations, in clicks: losses are known to a few clicks at best
_NEAR = 1e-3  # up to this step of a logit, four terms of a series are as exact as exp and log


@kernel
def barrier(variant, u, gamma, c0):
    """x, phi'(x), its derivative by the logit u of x, phi''(x) x (1 - x), log(1 - x) and (1 - x) / x, for a variant.

    LBINF (Ito 2021): phi = -log x + gamma (1 - x) log(1 - x), c0 = -gamma. LBINFV (Tsuchiya, Ito, Honda 2023):
    phi = x - 1 - log x + gamma (x + (1 - x) log(1 - x)), c0 = 1. The constant matters because each item has its own
    factor. HYBRID (Zimmert, Luo, Wei 2019): phi = -sqrt x + gamma (1 - x) log(1 - x). TSALLIS (Zimmert, Seldin 2021):
    phi = -4 sqrt x. Logits keep x and 1 - x positive where a float64 of either would be 0.
    """
    e = math.exp(-min(abs(u), _FAR))
    big, small = 1.0 / (1.0 + e), e / (1.0 + e)
    x, y = (big, small) if u >= 0.0 else (small, big)
    log_y = (-u if u >= 0.0 else 0.0) - math.log1p(e)
    if variant <= LBINFV:
        return x, c0 - 1.0 / x - gamma * log_y, y / x + gamma * x, log_y, y / x
    root = math.sqrt(x)
    if variant == HYBRID:
        return x, -0.5 / root - gamma * (1.0 + log_y), 0.25 * y / root + gamma * x, log_y, y / x
    return x, -2.0 / root, y / root, log_y, y / x


@kernel
def asymptote(variant, z, gamma, c0):
    """Approximate logit of the x with phi'(x) = z, good for x near 0 or near 1."""
    if variant <= LBINFV:
        z -= c0
        return -math.log(max(-z - 1.0, 0.05)) if z < -0.5 * gamma - 1.0 else (z + 1.0) / gamma
    if variant == HYBRID:
        return -math.log(max(4.0 * z * z - 1.0, 0.05)) if z < -1.0 else (z + 1.0) / gamma
    return -math.log(max(0.25 * z * z - 1.0, 1e-6)) if z < 0.0 else 14.0


@kernel
def solve(variant, gamma, c0, losses, factor, d, logits, price, curve, tolerance):
    """Minimise <losses, x> + sum factor_i phi(x_i) over x in (0, 1)^K with sum x = d.

    Newton on all logits and the price lambda of the constraint at once: factor_i phi'(x_i) + losses_i = lambda.
    `logits`, `price[PRICE]` and `curve` ([5, K]: the `barrier` of each logit) hold the start and receive the answer.
    Returns the largest residual of those equations and of the sum: below `tolerance`, unless limited by rounding.
    O(K) a step, one or two steps from the answer of the round before; most items need no logarithm and, after the
    first step, reuse their slopes. If twenty steps do not suffice, it brackets the price.
    """
    k = losses.size
    value, first = curve[VALUE], curve[FIRST]
    # one loop for each kind of work: the compiler vectorizes those without a sum or a branch
    residual, ease = np.empty(k), np.empty(k)
    for i in range(k):
        ease[i] = 1.0 / (factor[i] * curve[STEEP, i])
    worst, start = np.inf, price[PRICE]
    for _ in range(20):
        for i in range(k):
            residual[i] = factor[i] * first[i] + losses[i] - price[PRICE]
        total = pull = give = worst = 0.0
        for i in range(k):
            x = value[i]
            share = x * (1.0 - x) * ease[i]
            total += x
            pull += share * residual[i]
            give += share
            worst = max(worst, abs(residual[i]))
        worst = max(worst, abs(total - d))
        if worst < tolerance:
            return worst
        step = (d - total + pull) / max(give, 1e-300)
        if not abs(step) < 1e12:
            break
        price[PRICE] += step
        moves = residual
        for i in range(k):
            moves[i] = (step - residual[i]) * ease[i]
        if variant <= LBINFV:
            shift(gamma, c0, moves, logits, curve)
        for i in range(k):
            if abs(moves[i]) <= _NEAR and variant <= LBINFV:
                continue
            if abs(moves[i]) <= 2.0:
                logits[i] += moves[i]
            else:  # too far for a Newton step
                logits[i] = asymptote(variant, (price[PRICE] - losses[i]) / factor[i], gamma, c0)
            draw(variant, gamma, c0, logits[i], curve, i)
            ease[i] = 1.0 / (factor[i] * curve[STEEP, i])
    price[PRICE] = start
    worst = bracket(variant, gamma, c0, losses, factor, d, logits, price)
    trace(variant, gamma, c0, logits, curve)
    return worst


@kernel
def shift(gamma, c0, moves, logits, curve):
    """Update the `barrier` of LBINF or LBINFV for items whose logits move by up to `_NEAR`.

    With r = (1 - x) / x, which is exp(-u): r times exp(-move), and log(1 - x) less the series of its derivatives, x,
    x y, x y (y - x) with y = 1 - x. The remainder is below 1e-14; x and phi' come from the same r, so errors of
    many moves stay as small as those of a logit. Takes about a fifth of the time of `barrier`.
    """
    value, first, steep, log_rest, odds = curve[VALUE], curve[FIRST], curve[STEEP], curve[LOG_REST], curve[ODDS]
    for i in range(moves.size):
        move = moves[i] if abs(moves[i]) <= _NEAR else 0.0
        logits[i] += move
        x = value[i]
        y = x * odds[i]
        log_rest[i] -= move * x * (1.0 + 0.5 * move * y * (1.0 + move * (y - x) * (1.0 / 3.0)))
        r = odds[i] * (1.0 - move * (1.0 - move * (0.5 - move * (1.0 / 6.0 - move * (1.0 / 24.0)))))
        x = 1.0 / (1.0 + r)
        odds[i] = r
        value[i] = x
        first[i] = c0 - 1.0 - r - gamma * log_rest[i]
        steep[i] = r + gamma * x


@kernel
def draw(variant, gamma, c0, logit, curve, i):
    """Write the `barrier` of item i's logit."""
    curve[VALUE, i], curve[FIRST, i], curve[STEEP, i], curve[LOG_REST, i], curve[ODDS, i] = barrier(
        variant, logit, gamma, c0
    )


@kernel
def trace(variant, gamma, c0, logits, curve):
    """Write the `barrier` of each logit."""
    for i in range(logits.size):
        draw(variant, gamma, c0, logits[i], curve, i)


@kernel
def invert(variant, z, gamma, c0):
    """The logit of the x with phi'(x) = z, without a start."""
    u = asymptote(variant, z, gamma, c0)
    for _ in range(100):
        _x, first, steep, _log, _odds = barrier(variant, u, gamma, c0)
        move = min(max((z - first) / steep, -2.0), 2.0)
        u = min(max(u + move, -_FAR), _FAR)
        if abs(move) < 1e-14 * max(abs(u), 1.0):
            break
    return u


@kernel
def bracket(variant, gamma, c0, losses, factor, d, logits, price):
    """`solve` by Newton on the price alone, kept inside a bracket: the sum of the marginals rises with the price."""
    low, high, stride = -np.inf, np.inf, 1.0
    gap = np.inf
    for _ in range(300):
        total = give = 0.0
        for i in range(losses.size):
            logits[i] = invert(variant, (price[PRICE] - losses[i]) / factor[i], gamma, c0)
            x, _first, steep, _log, _odds = barrier(variant, logits[i], gamma, c0)
            total += x
            give += x * (1.0 - x) / (factor[i] * steep)
        gap = total - d
        if abs(gap) < 1e-9:
            break
        if gap > 0.0:
            high = price[PRICE]
        else:
            low = price[PRICE]
        guess = price[PRICE] - gap / give if give > 0.0 else np.inf
        if math.isinf(low) or math.isinf(high):
            reach = price[PRICE] - math.copysign(stride, gap)
            price[PRICE] = guess if abs(guess - price[PRICE]) < stride else reach
            stride *= 2.0
        else:
            price[PRICE] = guess if low < guess < high else 0.5 * (low + high)
    worst = abs(gap)
    for i in range(losses.size):
        _x, first, _steep, _log, _odds = barrier(variant, logits[i], gamma, c0)
        worst = max(worst, abs(factor[i] * first + losses[i] - price[PRICE]))
    return worst


@kernel
def lead(learner, t):
    """Solve for an FTRL learner's marginals of round t, `curve[VALUE]`; nothing to solve if all items are shown.

    `price[RESIDUAL]` receives the residual of the equations.
    """
    variant, gamma, c0, weight = learner.variant, learner.gamma, learner.c0, learner.weight
    if learner.length >= weight.size:
        return
    goal, factor = np.empty(weight.size), learner.factor
    for i in range(weight.size):
        goal[i] = learner.losses[i] + learner.guess[i]
    if variant > LBINFV:  # 1 / eta: 1 / sqrt(t) for hybrid, 2 / sqrt(t) for tsallis
        factor[:] = math.sqrt(t) if variant == HYBRID else 0.5 * math.sqrt(t)
    learner.price[RESIDUAL] = solve(
        variant, gamma, c0, goal, factor, learner.length, learner.logits, learner.price, learner.curve, _SOLVED
    )


@kernel
def systematic(marginals, chosen, rng):
    """Draw `chosen.size` distinct items, item i with chance exactly marginals[i] (Madow 1949).

    The marginals lie in [0, 1] and sum to that size. Visits the items in a circle, from a random start in steps of a
    random size that reaches all, and takes every item in which u, u + 1, ... falls on the running sum. O(K), with
    three uniforms or slightly more: a shuffle would take K.
    """
    k = marginals.size
    stride = 1 + int(rng.random() * (k - 1))
    while math.gcd(stride, k) > 1:
        stride = 1 + int(rng.random() * (k - 1))
    item = int(rng.random() * k)
    goal = rng.random()
    running, filled = 0.0, 0
    for left in range(k, 0, -1):
        running += marginals[item]
        if filled < chosen.size and (
            running > goal or left == chosen.size - filled
        ):  # in case rounding left a place empty
            chosen[filled] = item
            filled += 1
            goal += 1.0
        item += stride - (k if item + stride >= k else 0)


Variant: TypeAlias = Literal["lbinf", "lbinfv", "hybrid", "tsallis"]
Weights: TypeAlias = Literal["naive", "first-only", "plug-in"]
NAIVE, FIRST_ONLY, PLUG_IN = range(3)  # as in Weights
_REACH = 0.05  # least chance of a look that `plug-in` divides by: smaller ones are noise (ours)
_MEAN = 0.01  # its estimates of attraction stay this far from 0 and 1 (ours)
_LEAST = 1e-6  # weights beyond 1e6 would decide the run by one observation (ours)


class FTRL(NamedTuple):
    """Best-of-both-worlds learner for lists: losses 1 - click, importance-weighted (Ito 2021 and relatives).

    `lbinf` and `lbinfv` agree with code of Ito's co-authors, `hybrid` with its authors'; `tsallis` is for lists of
    one place. Claimed for semi-bandits: corruption adds sqrt(C times the regret without it). A cascade hides later
    places, for which none of their weights accounts; `weights` chooses how. Loss estimates are sums, so early false
    losses last long.

    Settings: `variant`; `weights`: `naive`, observed items over their marginal (later places learn more slowly);
    `first-only`, the first place of a shuffled list, unbiased, d times the variance; `plug-in`, also over the
    estimated chance of being examined; `epsilon` (0.2), of lbinfv. `hybrid` takes losses as they are, not shifted by
    1.
    """

    losses: Floats  # [K] estimated cumulative loss
    guess: Floats  # [K] predicted next loss
    weight: Floats  # [K] squared factor of the regulariser
    factor: Floats  # [K]
    logits: Floats  # [K] of the marginals
    curve: Floats  # [5, K] the marginals and the regulariser there, row by row as `barrier` gives it
    price: Floats  # [2] multiplier of the constraint; residual of the last solution
    looks: Ints  # [K]
    clicks: Ints  # [K]
    clock: Ints  # [1] rounds learnt from
    variant: int
    weights: int
    length: int
    gamma: float
    c0: float

    live = False

    @classmethod
    def create(
        cls, problem: Problem, *, variant: Variant = "lbinf", weights: Weights = "naive", epsilon: float | None = None
    ) -> "FTRL":
        k, d = problem.n_items, problem.length
        code = choice("variant", variant, get_args(Variant))
        if code == TSALLIS and d != 1:
            raise ValueError(f"variant 'tsallis' is for lists of length 1, not {d}; choose 'lbinf' or 'hybrid'")
        log_t = math.log(max(known_horizon("FTRL", problem.horizon), 3))
        if code != LBINFV:
            refuse_unused({"epsilon": epsilon}, f"variant={variant!r}")
        start = (1.0 + real("epsilon", 0.2 if epsilon is None else epsilon, 0.0)) ** 2 if code == LBINFV else 2.0
        gamma = log_t if code <= LBINFV else 1.0 if 2 * d <= k or d == k else 1.0 / math.sqrt(math.log(k / (k - d)))
        guess = (0.25, 0.5, 0.0, 0.0)[code]
        learner = cls(
            np.zeros(k),
            np.full(k, guess),
            np.full(k, start),
            np.full(k, math.sqrt(start)),
            np.full(k, math.log(d / (k - d)) if d < k else 40.0),
            np.zeros((5, k)),
            np.zeros(2),
            np.zeros(k, np.int64),
            np.zeros(k, np.int64),
            np.zeros(1, np.int64),
            code,
            choice("weights", weights, get_args(Weights)),
            int(d),
            gamma,
            (-log_t, 1.0, 0.0, 0.0)[code],
        )
        trace(code, learner.gamma, learner.c0, learner.logits, learner.curve)
        lead(learner, 1)
        return learner

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(self.losses.size)
        for k in range(index.size):
            index[k] = self.curve[VALUE, k]
        chosen = np.empty(self.length, np.int64)
        systematic(index, chosen, rng)
        for k in chosen:  # drawn items first, by marginal or shuffled; others only replace items not allowed
            index[k] = 1.0 + (rng.random() if self.weights == FIRST_ONLY else index[k])
        top_allowed(index, allowed, ranking, rng)
        for p in range(ranking.size):
            note[p] = self.curve[VALUE, ranking[p]]

    def update(self, visit, ranking, note, clicks, examined):
        reach = 1.0
        for p in range(1 if self.weights == FIRST_ONLY else examined):
            k = ranking[p]
            x = max(note[p], _LEAST)
            off = (0.0 if clicks[p] else 1.0) - self.guess[k]
            share = 1.0 / self.length if self.weights == FIRST_ONLY else max(reach, _REACH)
            self.losses[k] += off / (x * share)
            if self.variant <= LBINFV:
                self.weight[k] += off * off * min(1.0, 2.0 * (1.0 - x) / (self.gamma * x * x)) / self.gamma
                self.factor[k] = math.sqrt(self.weight[k])
            if self.weights == PLUG_IN:
                mean = self.clicks[k] / self.looks[k] if self.looks[k] > 0 else 0.0
                reach *= 1.0 - min(max(mean, _MEAN), 1.0 - _MEAN)
        for k in range(self.losses.size):
            self.losses[k] += self.guess[k]
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for p in range(1 if self.weights == FIRST_ONLY else examined):
            k = ranking[p]
            if self.variant == LBINF:
                self.guess[k] += ((0.0 if clicks[p] else 1.0) - self.guess[k]) / 4.0
            elif self.variant == LBINFV:
                self.guess[k] = (0.5 + self.looks[k] - self.clicks[k]) / (1.0 + self.looks[k])
        self.clock[0] += 1
        lead(self, self.clock[0] + 1)
