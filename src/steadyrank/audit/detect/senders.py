"""Find groups of senders who act alike, unlike all others: many who come again and again for a single item.

Honest logs have such dedicated senders, too, such as a build that fetches the same package every night. So the number
of dedicated senders of each item is compared with the number expected from other items, given how often each sender
comes, with an overdispersion estimated from the log itself (`count_tests.beta_binomial`). For items with too many,
those senders are named who come so often that at most a share FALSE_DISCOVERY_RATE of them is honest.
"""

from dataclasses import dataclass

import numpy as np

from ...click_logs.looks import ItemNumbers
from ...comparison.count_tests import FEWEST, adjusted_shares, beta_binomial
from ...core.arrays import Bools, Floats, Ints
from .attention import sums
from .clients import FALSE_DISCOVERY_RATE

VISIT = 600.0  # seconds: a sender's events on one item within this time are retries of one visit
OFTEN = 12  # classes of senders, by the logarithm of their visits


@dataclass(frozen=True)
class AlikeSenders:
    """Senders who only come for one item."""

    item: int
    senders: Ints  # their numbers
    expected: float  # number of such senders expected if the item were like others
    certainty: float


def visits_of(item: ItemNumbers, client: ItemNumbers, time: Floats, unit: float) -> Bools:
    """Which events begin a visit, bool[n]; `unit`: units of time per second."""
    slot = ((time - time[0]) / (VISIT * unit)).astype(np.int64) if time.size else np.zeros(0, np.int64)
    order = np.lexsort((slot, item, client))
    same = np.ones(order.size, np.bool_)
    same[:1] = False
    for of in (client, item):
        same[1:] &= of[order][1:] == of[order][:-1]
    near = np.concatenate([[False], np.diff(slot[order]) <= 1])
    first: Bools = np.ones(order.size, np.bool_)
    first[order] = ~(same & near)
    return first


def alike(item: ItemNumbers, client: ItemNumbers, n_items: int, n_clients: int) -> list[AlikeSenders]:
    """Groups of senders who act alike, the highest score first; `item` and `client`: one entry per visit."""
    key, visits = np.unique(client.astype(np.int64) * n_items + item, return_counts=True)
    who, what = key // n_items, key % n_items
    each = np.bincount(who, visits, n_clients)
    only = np.bincount(who, minlength=n_clients) == 1
    often = np.minimum(np.log2(np.maximum(each, 1.0)).astype(np.int64), OFTEN - 1)
    asked = each[who] >= 2.0
    who, what = who[asked], what[asked]
    kind, dedicated = often[who], only[who]
    there = np.bincount(kind, minlength=OFTEN)
    base: Floats = (np.bincount(kind, dedicated, OFTEN) + 0.5) / (there + 1.0)
    got, n, due = (sums(what, of, n_items) for of in (dedicated, np.ones(what.size), base[kind]))
    judged: Bools = n >= FEWEST
    scores, _, _ = beta_binomial(got, n, due, judged)
    share = adjusted_shares(np.exp(-np.maximum(scores, 0.0)), judged)
    odd = np.flatnonzero((scores > 0.0) & (share <= FALSE_DISCOVERY_RATE))
    groups = [
        _named(int(k), who, what, kind, dedicated, base, float(share[k])) for k in odd[np.argsort(-scores[odd])]
    ]
    return [group for group in groups if group is not None]


def _named(
    k: int, who: Ints, what: Ints, kind: Ints, dedicated: Bools, base: Floats, share: float
) -> AlikeSenders | None:
    """The dedicated senders of item k with enough visits that few of them are honest; None if there are none."""
    mine = what == k
    for least in range(1, OFTEN):
        some = mine & (kind >= least)
        senders, due = who[some & dedicated], float(base[kind[some]].sum())
        if senders.size >= FEWEST and due <= FALSE_DISCOVERY_RATE * senders.size:
            return AlikeSenders(k, senders, round(due, 2), 1.0 - max(share, due / senders.size))
    return None
