"""Beta-binomial tests of observed against expected counts, for counts that are overdispersed (Skellam 1948).

A score is -log of the p-value of a count, or of an upper bound on it. The overdispersion is estimated from the counts
themselves; scores are then calibrated: divided by how much their 90th percentile exceeds the nominal one. The audit
tests clients, items in parts of a log, and clicks with an outcome.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats
from ..core.compiling.jit import kernel, no_refcount
from ..core.item_evidence import log_beta

TRIM_ABOVE = 4.6  # nats: counts with p < 0.01 are left out when the overdispersion is estimated
ROUNDS = 10  # iterations of that trimmed estimate
QUANTILE = 0.9  # at which scores are calibrated: up to a tenth of the counts may be fraudulent
SPREAD = (0.002, 0.5)  # bounds of the overdispersion: no two honest clients are exactly alike
FEWEST = 5  # smallest n for which a count is tested
LONGEST_SUM = 64  # longest tail that is summed; for longer ones the largest term times their number is a bound
SHORT = 16.0  # largest n for which a probability is computed as a product, which is faster than nine log-gammas


@no_refcount
def log_pmf(k, n, a, b):
    """Log probability of k out of n under a beta-binomial."""
    if n <= SHORT and n == math.floor(n):
        chance = 1.0
        for i in range(int(k)):
            chance *= (n - i) * (a + i) / ((i + 1.0) * (a + b + i))
        for i in range(int(n - k)):
            chance *= (b + i) / (a + b + k + i)
        return math.log(chance)
    ways = math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
    return ways + log_beta(a + k, b + n - k) - log_beta(a, b)


@kernel
def signed_scores(got, n, due, spread, out):
    """Write the signed score of each count to `out`, in nats: positive for more than `due`, negative for fewer.

    The p-value is twice the smaller tail of a beta-binomial with mean due / n and intraclass correlation `spread`;
    an upper bound for long tails. O(LONGEST_SUM) per count.
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
        most = log_pmf(got[i], n[i], a, b)
        total = terms
        if terms <= LONGEST_SUM:
            total, term, k = 1.0, 1.0, got[i]
            for _ in range(1, int(terms)):
                if more:
                    term *= (n[i] - k) * (a + k) / ((k + 1.0) * (b + n[i] - k - 1.0))
                    k += 1.0
                else:
                    term *= k * (b + n[i] - k) / ((n[i] - k + 1.0) * (a + k - 1.0))
                    k -= 1.0
                total += term
        else:
            most = max(most, log_pmf(n[i] if more else 0.0, n[i], a, b))
        nats = -(most + math.log(total)) - math.log(2.0)
        out[i] = max(nats, 0.0) * (1.0 if more else -1.0)


class Counts(NamedTuple):
    """Observed counts out of `n` and expected counts `due`, one entry per test."""

    got: Floats
    n: Floats
    due: Floats


def beta_binomial(got: Floats, n: Floats, due: Floats, judged: Bools) -> tuple[Floats, float, float]:
    """Return the calibrated signed scores of all counts, the overdispersion, and the calibration divisor.

    The last two are estimated from the counts that are `judged`.
    """
    spread, by = spread_of(Counts(got[judged], n[judged], due[judged]))
    every = np.zeros(got.size)
    signed_scores(got, n, due, spread, every)
    return every / by, spread, by


def spread_of(asked: Counts) -> tuple[float, float]:
    """Return the overdispersion of honest counts and the divisor that calibrates scores.

    The overdispersion is the correlation within clients, estimated by trimmed moments.
    """
    # start with the smallest: bots must not hide in an overdispersion that they caused
    scores, spread = np.zeros(asked.n.size), SPREAD[0]
    signed_scores(*asked, spread, scores)
    one = asked.due * (1.0 - asked.due / np.maximum(asked.n, 1.0))
    for _ in range(ROUNDS):
        kept = np.abs(scores) < TRIM_ABOVE
        pairs = float((np.maximum(asked.n - 1.0, 0.0) * one)[kept].sum())
        apart = float(((asked.got - asked.due)[kept] ** 2 - one[kept]).sum())
        before, spread = spread, float(np.clip(apart / max(pairs, 1e-9), *SPREAD))
        if spread == before:
            break
        signed_scores(*asked, spread, scores)
    return spread, calibration_divisor(scores, np.ones(scores.size, np.bool_))


def calibration_divisor(scores: Floats, judged: Bools) -> float:
    """Return the factor by which scores are too large, at least 1.

    The 90th percentile of honest clients' scores should be at most log 10. Scores of zero are ignored. If most are
    zero, as in logs with few clicks, bots may be a large part of the rest: then the median is compared with log 2.
    """
    size = np.abs(scores[judged & (scores != 0.0)])
    if size.size < 20:
        return 1.0
    part = QUANTILE if 2 * size.size > np.count_nonzero(judged) else 0.5
    return max(1.0, float(np.quantile(size, part)) / math.log(1.0 / (1.0 - part)))


def adjusted_shares(chance: Floats, judged: Bools) -> Floats:
    """p-values adjusted as by Benjamini and Hochberg (1995): the smallest false discovery rate at which each passes.

    1 for those that are not `judged`.
    """
    shares: Floats = np.ones(chance.size)
    who = np.flatnonzero(judged)
    order = who[np.argsort(chance[who], kind="stable")]
    raw = chance[order] * order.size / np.arange(1, order.size + 1)
    shares[order] = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    return shares


def fewer_than_due(asked: Counts, usual: Counts, doubt: Floats) -> Floats:
    """Test which counts in `asked` are too small: returns the false discovery rate at which each is, 1 for others.

    `usual`: counts of the same kind from which the overdispersion is estimated. `doubt`: uncertainty of each expected
    count, as an intraclass correlation, 1 / (a + b + 1) for a Beta(a, b); it is added to the overdispersion. Rates
    are adjusted as by Benjamini and Hochberg (1995) over all of `asked`.
    """
    _, spread, by = beta_binomial(*usual, usual.n >= FEWEST)
    nats = np.zeros((asked.n.size, 1))
    for i, wider in enumerate(np.minimum(spread + doubt, SPREAD[1]).tolist()):
        signed_scores(asked.got[i : i + 1], asked.n[i : i + 1], asked.due[i : i + 1], wider, nats[i])
    low = np.maximum(-nats[:, 0] / by, 0.0)
    shares = adjusted_shares(np.exp(-low), np.ones(low.size, np.bool_))
    return np.where(low > 0.0, shares, 1.0)
