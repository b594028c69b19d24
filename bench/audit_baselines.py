"""Simple detectors for comparison: a CUSUM of clicks, an hourly rate limit, an isolation forest of clients.

Each is configured as a user would, without knowing the attack. The forest needs scikit-learn, which `make setup`
installs; without it, its figures are left out.
"""

import importlib.util
from typing import Any

import numpy as np
from planted_logs import Log

from steadyrank.core.arrays import Bools, Floats, Ints

PER_HOUR = 0.999  # quantile of a client's busiest hour beyond which it is over the limit
BLOCK = 50  # impressions of a CUSUM's step
SLACK, BAR = 0.5, 5.0  # of a CUSUM, in standard deviations (Page 1954)
ODD = 0.01  # share of clients that a forest names
CUSUM, LIMIT, FOREST = "CUSUM", "rate limit", "isolation forest"


def excursions(clicks: Ints) -> Bools:
    """Which impressions lie in an excursion of the total click rate; clicks: int64[n]."""
    flags: Bools = np.zeros(clicks.size, np.bool_)
    n = clicks.size // BLOCK
    if n == 0:
        return flags
    steps = clicks[: n * BLOCK].reshape(n, BLOCK).mean(axis=1)
    z = (steps - np.median(steps)) / max(1.4826 * float(np.median(np.abs(steps - np.median(steps)))), 1e-9)
    for sign in (1.0, -1.0):
        level, start = 0.0, 0
        for i, value in enumerate(sign * z):
            if level == 0.0:
                start = i
            level = max(0.0, level + value - SLACK)
            if level > BAR:
                flags[start * BLOCK : (i + 1) * BLOCK] = True
    return flags


def over_limit(client: Ints, time: Floats) -> Ints:
    """Clients whose busiest hour exceeds the limit; time: seconds."""
    pairs, counts = np.unique(np.stack([client, (time // 3600).astype(np.int64)]), axis=1, return_counts=True)
    names, who = np.unique(pairs[0], return_inverse=True)
    busiest: Ints = np.zeros(names.size, np.int64)
    np.maximum.at(busiest, who, counts)
    found: Ints = names[busiest > np.quantile(busiest, PER_HOUR)]
    return found


def odd_in_forest(client: Ints, clicks: Ints, top: Bools) -> Ints | None:
    """Clients that an isolation forest (Liu, Ting and Zhou 2008) finds odd; None without scikit-learn.

    Their features: impressions, clicks and lists clicked of each, and the share of clicks on the first place (`top`).
    """
    if importlib.util.find_spec("sklearn") is None:
        return None
    from sklearn.ensemble import IsolationForest

    names, who = np.unique(client, return_inverse=True)
    shown = np.bincount(who)
    total = np.bincount(who, clicks)
    first = np.bincount(who, top) / np.maximum(total, 1)
    table = np.stack([np.log(shown), total / shown, np.bincount(who, clicks > 0) / shown, first], axis=1)
    found: Ints = names[IsolationForest(contamination=ODD, random_state=0).fit_predict(table) < 0]
    return found


def flags_of(client: Ints, time: Floats, clicks: Ints, top: Bools) -> dict[str, Bools]:
    """By detector, the suspect impressions: those in an excursion, or of the clients named."""
    found = {CUSUM: excursions(clicks), LIMIT: np.isin(client, over_limit(client, time))}
    odd = odd_in_forest(client, clicks, top)
    return found if odd is None else {**found, FOREST: np.isin(client, odd)}


def rate_limit(log: Log) -> set[int]:
    """Clients of a planted log whose busiest hour exceeds the limit."""
    return set(over_limit(log.client, log.time).tolist())


def cusum(log: Log) -> Any:
    """Which rows of a planted log lie in an excursion of the total click rate, bool[n]."""
    return excursions(log.bits.sum(axis=1))


def forest(log: Log) -> set[int] | None:
    """Clients of a planted log that an isolation forest finds odd; None without scikit-learn."""
    found = odd_in_forest(log.client, log.bits.sum(axis=1), log.bits[:, 0])
    return None if found is None else set(found.tolist())
