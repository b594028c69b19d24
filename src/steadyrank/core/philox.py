"""Random numbers inside `update`: a counter-based generator whose state is part of a learner's memory.

Replaying the same feedback gives the same draws, because the counter is memory like any other.
"""

import math

import numpy as np

from .arrays import Ints
from .compiling.jit import no_refcount

_LOW = 0xFFFFFFFF
_MOST_DRAWN, _MOST_BITS = 41, 1 << 17  # up to these, products of a probability's factors do not overflow


def start(seed: int) -> Ints:
    """State of a generator, int64[2]: its key (32 bits, hashed from `seed`) and its counter."""
    key = np.random.SeedSequence([seed, 0x5EAD]).generate_state(1)[0]
    return np.array([int(key), 0], np.int64)


@no_refcount
def philox(low, high, key):
    """Philox2x32-10 (Salmon et al. 2011, section 4.3): two 32-bit words from a counter and a key.

    Products are split so that no intermediate exceeds 63 bits: compiled and interpreted code give the same numbers.
    """
    for _ in range(10):
        a = low * 0xD193
        b = low * 0xD256  # the multiplier 0xD256D193 in two halves
        a += (b & 0xFFFF) << 16
        product_high = (b >> 16) + (a >> 32)
        low, high = product_high ^ key ^ high, a & _LOW
        key = (key + 0x9E3779B9) & _LOW
    return low, high


@no_refcount
def uniform(chance):
    """The next uniform number in [0, 1) with 53 random bits; advances the counter."""
    counter = chance[1]
    chance[1] = counter + 1
    low, high = philox(counter & _LOW, (counter >> 32) & _LOW, chance[0])
    return ((low >> 5) * 67108864.0 + (high >> 6)) / 9007199254740992.0


@no_refcount
def log_choose(n, k):
    """log of the binomial coefficient."""
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@no_refcount
def hypergeometric_at(x, n, ones, size):
    """The probability that x of `size` bits, drawn without replacement from n bits with `ones` ones, are ones.

    x must be possible. O(size) products if they cannot overflow, several times faster than logarithms.
    """
    if size > _MOST_DRAWN or n >= _MOST_BITS:
        return math.exp(log_choose(ones, x) + log_choose(n - ones, size - x) - log_choose(n, size))
    above = below = 1.0
    for i in range(x):
        above *= (ones - i) * (size - i)
        below *= (n - i) * (i + 1)
    for i in range(size - x):
        above *= n - ones - i
        below *= n - x - i
    return above / below


@no_refcount
def hypergeometric(n, ones, size, chance):
    """Draw how many of `size` bits, drawn without replacement from n bits with `ones` ones, are ones.

    Inversion outwards from the mode; takes about as many steps as the standard deviation.
    """
    lowest = max(0, size - (n - ones))
    highest = min(size, ones)
    if lowest == highest:
        return lowest
    mode = ((size + 1) * (ones + 1)) // (n + 2)
    mode = min(max(mode, lowest), highest)
    p = hypergeometric_at(mode, n, ones, size)
    u = uniform(chance) - p
    below = above = mode
    p_below = p_above = p
    while u >= 0.0 and (below > lowest or above < highest):
        if above < highest:
            p_above *= (ones - above) * (size - above) / ((above + 1.0) * (n - ones - size + above + 1.0))
            above += 1
            u -= p_above
            if u < 0.0:
                return above
        if below > lowest:
            p_below *= below * (n - ones - size + below) / ((ones - below + 1.0) * (size - below + 1.0))
            below -= 1
            u -= p_below
            if u < 0.0:
                return below
    return mode
