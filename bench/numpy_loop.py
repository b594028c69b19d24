"""CascadeUCB-V in a few lines of NumPy: the peer that every speed is a ratio to."""

import numpy as np


def numpy_ranking(seen, wins, t, length):
    """The list of round t."""
    mean, lt = wins / seen, np.log(max(t, 2))
    index = np.minimum(mean + np.sqrt(4 * mean * (1 - mean) * lt / seen) + 6 * lt / seen, 1)
    top = np.argpartition(index, -length)[-length:]
    return top[np.argsort(-index[top])]


def numpy_update(seen, wins, ranking, bits):
    """Learn from what a cascade user clicked."""
    examined = ranking[: bits.argmax() + 1] if bits.any() else ranking
    seen[examined] += 1
    wins[examined] += bits[: examined.size]


def numpy_loop(attraction, length, horizon, seed):
    """Final regret. No tie-breaking, no adversary, no marks: less work than our loop does."""
    rng = np.random.default_rng(seed)
    seen, wins = np.ones(attraction.size), np.zeros(attraction.size)
    best = 1 - np.prod(1 - np.sort(attraction)[-length:])
    regret = 0.0
    for t in range(1, horizon + 1):
        ranking = numpy_ranking(seen, wins, t, length)
        bits = rng.random(length) < attraction[ranking]
        numpy_update(seen, wins, ranking, bits)
        regret += best - (1 - np.prod(1 - attraction[ranking]))
    return regret
