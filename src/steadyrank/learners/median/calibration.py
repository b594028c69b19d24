"""The map from a bit's mean to a block's majority, q_b, its inverse g_b, and its form without replacement.

Ghaffari et al., *Online Learning to Rank under Corruption*, eq. (q) of Appendix A and Algorithm 4, `Calibrate`.
`b` is odd throughout and r = (b + 1) / 2.
"""

import math

from ...core.compiling.jit import no_refcount
from ...core.philox import log_choose


@no_refcount
def majority(b, p):
    """q_b(p) = P(Bin(b, p) >= r), the regularised incomplete beta function I_p(r, r).

    Continued fraction (Lentz), O(sqrt b) steps, relative error about 1e-13 for b in the tens.
    """
    if p <= 0.0 or p >= 1.0:
        return 0.0 if p <= 0.0 else 1.0
    if p > 0.5:
        return 1.0 - math.exp(log_majority(b, 1.0 - p))
    return math.exp(log_majority(b, p))


@no_refcount
def log_majority(b, p):
    """log q_b(p) for 0 < p <= 1/2, where the fraction converges fast, without cancellation or underflow."""
    r = 0.5 * (b + 1)
    log_front = r * (math.log(p) + math.log1p(-p)) + math.lgamma(2.0 * r) - 2.0 * math.lgamma(r) - math.log(r)
    c = 1.0
    d = 1.0 / (1.0 - 2.0 * r * p / (r + 1.0))
    fraction = d
    for i in range(1, 10_000):
        even = i * (r - i) * p / ((r + 2.0 * i - 1.0) * (r + 2.0 * i))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        fraction *= d * c
        odd = -(r + i) * (2.0 * r + i) * p / ((r + 2.0 * i) * (r + 2.0 * i + 1.0))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        step = d * c
        fraction *= step
        if abs(step - 1.0) < 1e-15:
            break
    return log_front + math.log(fraction)


@no_refcount
def calibrate(b, y):
    """g_b(y), the exact inverse of q_b.

    Newton on log q against log p: that curve is increasing and concave, and the start, from the union bound
    q_b(p) <= choose(b, r) p^r, is left of the root, so the iterates rise to it and never overshoot.
    """
    if b == 1 or y <= 0.0 or y >= 1.0 or y == 0.5:
        return min(max(y, 0.0), 1.0)
    if y > 0.5:
        return 1.0 - calibrate_tail(b, 1.0 - y)
    return calibrate_tail(b, y)


@no_refcount
def calibrate_tail(b, y):
    """g_b(y) for 0 < y < 1/2."""
    r = (b + 1) // 2
    log_slope = math.lgamma(2.0 * r) - 2.0 * math.lgamma(r)  # q_b'(p) = (p (1 - p))^(r - 1) / B(r, r)
    log_p = min((math.log(y) - log_choose(b, r)) / r, math.log(0.5))
    for _ in range(100):
        p = math.exp(log_p)
        log_q = log_majority(b, p)
        slope = math.exp(log_slope + r * log_p + (r - 1.0) * math.log1p(-p) - log_q)
        step = (math.log(y) - log_q) / slope
        log_p = min(log_p + step, math.log(0.5))
        if abs(step) < 1e-13:
            break
    return math.exp(log_p)


@no_refcount
def calibrate_bisect(b, y, eta, steps):
    """`Calibrate` as printed: bisection that stops once |q_b(m) - y| <= eta.

    q_b is flat near 0 and 1, so the answer there is a dyadic artefact of eta: y = 0, b = 21 gives 1/16 at
    eta = 1e-6.
    """
    if b == 1:
        return y
    low, high = 0.0, 1.0
    for _ in range(steps):
        m = 0.5 * (low + high)
        v = majority(b, m)
        if abs(v - y) <= eta:
            return m
        if v < y:
            low = m
        else:
            high = m
    return 0.5 * (low + high)


@no_refcount
def block_majority(n, ones, b):
    """Q = P(Hypergeom(n, ones, b) >= r): the chance of a majority among b of n bits drawn without replacement.

    O(b), relative accuracy.
    """
    if 2 * ones > n:
        return 1.0 - minority(n, n - ones, b)
    return minority(n, ones, b)


@no_refcount
def minority(n, ones, b):
    """`block_majority` for 2 ones <= n: the sum starts at its largest term, so it underflows only with the result."""
    r = (b + 1) // 2
    if ones < r:
        return 0.0
    term = math.exp(log_choose(ones, r) + log_choose(n - ones, b - r) - log_choose(n, b))
    total = term
    for x in range(r, min(b, ones)):
        term *= (ones - x) * (b - x) / ((x + 1.0) * (n - ones - b + x + 1.0))
        total += term
    return total


@no_refcount
def block_edge(n, ones, b):
    """f = P(Hypergeom(n, ones, b - 1) = r - 1), which `block_majority_step` needs besides Q; 0 if impossible."""
    r = (b + 1) // 2
    if n < b or ones < r - 1 or n - ones < b - r:
        return 0.0
    return math.exp(log_choose(ones, r - 1) + log_choose(n - ones, b - r) - log_choose(n, b - 1))


@no_refcount
def block_majority_step(q, f, n, ones, b, bit):
    """(Q, f) after one more bit, in O(1); n and `ones` count the bits before it, n >= b.

    Absolute accuracy only (about 1e-15): if Q is nearly 0 or 1, evaluate `block_majority` itself.
    """
    r = (b + 1) // 2
    if f < 1e-290:  # impossible so far, or underflow: no value to continue from
        return block_majority(n + 1, ones + bit, b), block_edge(n + 1, ones + bit, b)
    q += (b * f / (n + 1.0)) * (bit - (ones - r + 1.0) / (n - b + 1.0))
    if bit == 1:
        f *= (n - b + 2.0) / (n + 1.0) * (ones + 1.0) / (ones - r + 2.0)
    else:
        f *= (n - b + 2.0) / (n + 1.0) * (n - ones + 1.0) / (n - ones - b + r + 1.0)
    return q, f
