"""What simple detectors find in the same logs: a rate limit, a CUSUM of clicks, an isolation forest of clients.

Each is set as its users would set it, without knowing the attack. The forest needs scikit-learn, which the project
does not: without it, its row is left out with a word.
"""

import importlib.util
from typing import Any

import numpy as np
from planted_logs import Log

PER_HOUR = 0.999  # quantile of a client's busiest hour beyond which it is over the limit
BLOCK = 50  # impressions of a CUSUM's step
SLACK, BAR = 0.5, 5.0  # of a CUSUM, in standard deviations (Page 1954)
ODD = 0.01  # share of clients that a forest names


def rate_limit(log: Log) -> set[int]:
    """Clients whose busiest hour is beyond the limit."""
    hour = (log.time // 3600).astype(np.int64)
    pairs, counts = np.unique(np.stack([log.client, hour]), axis=1, return_counts=True)
    busiest: dict[int, int] = {}
    for client, count in zip(pairs[0].tolist(), counts.tolist(), strict=True):
        busiest[client] = max(busiest.get(client, 0), count)
    limit = np.quantile(list(busiest.values()), PER_HOUR)
    return {client for client, count in busiest.items() if count > limit}


def cusum(log: Log) -> Any:
    """Which rows lie in an excursion of the total click rate, bool[n]."""
    clicks = log.bits.sum(axis=1)
    n = clicks.size // BLOCK
    steps = clicks[: n * BLOCK].reshape(n, BLOCK).mean(axis=1)
    z = (steps - np.median(steps)) / max(1.4826 * float(np.median(np.abs(steps - np.median(steps)))), 1e-9)
    flags = np.zeros(clicks.size, np.bool_)
    for sign in (1.0, -1.0):
        level, start = 0.0, 0
        for i, value in enumerate(sign * z):
            if level == 0.0:
                start = i
            level = max(0.0, level + value - SLACK)
            if level > BAR:
                flags[start * BLOCK : (i + 1) * BLOCK] = True
    return flags


def forest(log: Log) -> set[int] | None:
    """Clients that an isolation forest (Liu, Ting and Zhou 2008) finds odd; None without scikit-learn."""
    if importlib.util.find_spec("sklearn") is None:
        return None
    from sklearn.ensemble import IsolationForest

    names, who = np.unique(log.client, return_inverse=True)
    clicks = log.bits.sum(axis=1)
    shown = np.bincount(who)
    mean = np.bincount(who, clicks) / shown
    first = np.bincount(who, log.bits[:, 0]) / np.maximum(np.bincount(who, clicks), 1)
    table = np.stack([np.log(shown), mean, np.bincount(who, clicks > 0) / shown, first], axis=1)
    found = IsolationForest(contamination=ODD, random_state=0).fit_predict(table)
    return set(names[found < 0].tolist())
