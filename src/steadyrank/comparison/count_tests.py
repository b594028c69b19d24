"""Counts against what is expected of them, where honest ones differ anyway: beta-binomial tests (Skellam 1948).

The spread is estimated from the counts themselves, and scores are divided by what they exceed their promise by at the
90th percentile. A score is minus the logarithm of the chance of an honest count that is as odd, or of a bound on it.
Counts are of clients in an audit, of items in parts of a log, and of clicks of which something came.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats
from ..core.compiling.jit import kernel, no_refcount
from ..core.item_evidence import log_beta

TRIMMED = 4.6  # nats: counts odder than one in a hundred do not say how much honest ones differ
ROUNDS = 10  # of estimating a spread without those
QUANTILE = 0.9  # at which scores are held to their promise: up to a tenth of the counts may be false
SPREAD = (0.002, 0.5)  # least and most that honest ones differ: nobody is exactly like the others
FEWEST = 5  # of which a count has to be to be judged at all
SUMMED = 64  # terms of a tail that are summed; beyond, the first times their number is a bound


@no_refcount
def log_pmf(k, n, a, b):
    """Log chance of k of n under a beta-binomial."""
    ways = math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
    return ways + log_beta(a + k, b + n - k) - log_beta(a, b)


@kernel
def tails(got, n, due, spread, out):
    """Write signed nats: how unlikely so many of n are, or so few, where `due` are expected of a beta-binomial.

    `spread`: the intraclass correlation. Twice the smaller tail; of long tails a bound. O(SUMMED) each.
    """
    for i in range(got.size):
        out[i] = 0.0
        if n[i] <= 0.0:
            continue
        mean = min(max(due[i] / n[i], 1e-6), 1.0 - 1e-6)
        strength = (1.0 - spread) / spread
        a, b = mean * strength, (1.0 - mean) * strength
        more = got[i] >= mean * n[i]
        terms = n[i] - got[i] + 1.0 if more else got[i] + 1.0
        step = 1.0 if more else -1.0
        top = log_pmf(got[i], n[i], a, b)
        ending = log_pmf(n[i] if more else 0.0, n[i], a, b)
        most = max(top, ending)
        if terms <= SUMMED:
            total = 0.0
            for j in range(int(terms)):
                total += math.exp(log_pmf(got[i] + step * j, n[i], a, b) - most)
        else:
            total = terms
        nats = -(most + math.log(total)) - math.log(2.0)
        out[i] = max(nats, 0.0) * step


class Counts(NamedTuple):
    """How many of `n` there were, each a row, and how many are `due`."""

    got: Floats
    n: Floats
    due: Floats


def beta_binomial(got: Floats, n: Floats, due: Floats, judged: Bools) -> tuple[Floats, float, float]:
    """Signed scores of counts, the spread that honest ones have, and by what scores were divided.

    Those `judged` say what the last two are.
    """
    spread, by = spread_of(Counts(got[judged], n[judged], due[judged]))
    every = np.zeros(got.size)
    tails(got, n, due, spread, every)
    return every / by, spread, by


def spread_of(asked: Counts) -> tuple[float, float]:
    """The spread that honest counts have, and by what scores of it are to be divided.

    The spread is the correlation within clients, by trimmed moments.
    """
    scores, spread = np.zeros(asked.n.size), SPREAD[0]  # from below: bots must not hide in a spread of their own
    tails(*asked, spread, scores)
    one = asked.due * (1.0 - asked.due / np.maximum(asked.n, 1.0))
    for _ in range(ROUNDS):
        kept = np.abs(scores) < TRIMMED
        pairs = float((np.maximum(asked.n - 1.0, 0.0) * one)[kept].sum())
        apart = float(((asked.got - asked.due)[kept] ** 2 - one[kept]).sum())
        spread = float(np.clip(apart / max(pairs, 1e-9), *SPREAD))
        tails(*asked, spread, scores)
    return spread, excess(scores, np.ones(scores.size, np.bool_))


def excess(scores: Floats, judged: Bools) -> float:
    """By how much scores exceed their promise, at least 1: of one in ten honest clients they are at most log 10.

    Clients without a score say nothing. Where these are most, as in logs with few clicks, a tenth of the clients, who
    may be bots, may be many of the others: then half of those are asked, of whom it is at most log 2.
    """
    size = np.abs(scores[judged & (scores != 0.0)])
    if size.size < 20:
        return 1.0
    part = QUANTILE if 2 * size.size > np.count_nonzero(judged) else 0.5
    return max(1.0, float(np.quantile(size, part)) / math.log(1.0 / (1.0 - part)))


def adjusted_shares(chance: Floats, judged: Bools) -> Floats:
    """Adjusted after Benjamini and Hochberg 1995: for each of those judged, the least rate at which it passes."""
    shares: Floats = np.ones(chance.size)
    who = np.flatnonzero(judged)
    order = who[np.argsort(chance[who], kind="stable")]
    raw = chance[order] * order.size / np.arange(1, order.size + 1)
    shares[order] = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    return shares


def fewer_than_due(asked: Counts, usual: Counts, doubt: Floats) -> Floats:
    """Of each count that is asked about, the share of false finds among those that are as much too small.

    `usual`: counts of the same kind that say how far honest ones differ. `doubt`: how far it is not known what is due
    of each that is asked about, as the correlation that this gives to it, 1 / (a + b + 1) of a Beta(a, b); beside the
    spread it widens the law. 1 for a count that is not too small. The shares are those of Benjamini and Hochberg
    1995, among all that are asked about.
    """
    _, spread, by = beta_binomial(*usual, usual.n >= FEWEST)
    nats = np.zeros((asked.n.size, 1))
    for i, wider in enumerate(np.minimum(spread + doubt, SPREAD[1]).tolist()):
        tails(asked.got[i : i + 1], asked.n[i : i + 1], asked.due[i : i + 1], wider, nats[i])
    low = np.maximum(-nats[:, 0] / by, 0.0)
    shares = adjusted_shares(np.exp(-low), np.ones(low.size, np.bool_))
    return np.where(low > 0.0, shares, 1.0)
