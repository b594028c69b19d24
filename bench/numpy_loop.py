"""CascadeUCB-V in a few lines of NumPy: the reference for all ratios of speed."""

import numpy as np


def numpy_ranking(looks, clicks, t, length):
    """The list of round t."""
    mean, lt = clicks / looks, np.log(max(t, 2))
    index = np.minimum(mean + np.sqrt(4 * mean * (1 - mean) * lt / looks) + 6 * lt / looks, 1)
    top = np.argpartition(index, -length)[-length:]
    return top[np.argsort(-index[top])]


def numpy_update(looks, clicks, ranking, bits):
    """Learn from what a cascade user clicked."""
    examined = ranking[: bits.argmax() + 1] if bits.any() else ranking
    looks[examined] += 1
    clicks[examined] += bits[: examined.size]


def numpy_loop(attraction, length, horizon, seed):
    """Final regret. No tie-breaking, no adversary, no marks: less work than our loop does."""
    rng = np.random.default_rng(seed)
    looks, clicks = np.ones(attraction.size), np.zeros(attraction.size)
    best = 1 - np.prod(1 - np.sort(attraction)[-length:])
    regret = 0.0
    for t in range(1, horizon + 1):
        ranking = numpy_ranking(looks, clicks, t, length)
        bits = rng.random(length) < attraction[ranking]
        numpy_update(looks, clicks, ranking, bits)
        regret += best - (1 - np.prod(1 - attraction[ranking]))
    return regret
