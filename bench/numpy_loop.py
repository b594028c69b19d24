"""CascadeUCB-V in ten lines of NumPy: the peer that every speed is a ratio to."""

import numpy as np


def numpy_loop(attraction, length, horizon, seed):
    """Final regret. No tie-breaking, no adversary, no marks: less work than our loop does."""
    rng = np.random.default_rng(seed)
    seen, wins = np.ones(attraction.size), np.zeros(attraction.size)
    best = 1 - np.prod(1 - np.sort(attraction)[-length:])
    regret = 0.0
    for t in range(1, horizon + 1):
        mean, lt = wins / seen, np.log(max(t, 2))
        index = np.minimum(mean + np.sqrt(4 * mean * (1 - mean) * lt / seen) + 6 * lt / seen, 1)
        top = np.argpartition(index, -length)[-length:]
        ranking = top[np.argsort(-index[top])]
        bits = rng.random(length) < attraction[ranking]
        examined = ranking[: bits.argmax() + 1] if bits.any() else ranking
        seen[examined] += 1
        wins[examined] += bits[: examined.size]
        regret += best - (1 - np.prod(1 - attraction[ranking]))
    return regret
