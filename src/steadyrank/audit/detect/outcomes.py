"""Audit the outcomes of clicks: items whose clicks rose without purchases, and clients who click but never buy.

A list counts as bought if it has an outcome, such as a purchase, and it counts for each item clicked in it. The share
of an item's clicked lists that are bought is learnt from what is not suspect, with a common prior; its honest
variation is estimated from tenths of the log. Clients are compared with what others buy after clicks on the same
items. Both are beta-binomial tests (`count_tests`) with a bound on false discoveries, as in `clients`. Findings are
reported but change no verdict: a client who clicks without buying may just be reading.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...comparison.count_tests import FEWEST, Counts, adjusted_shares, beta_binomial, fewer_than_due, signed_scores
from ...core.arrays import Bools, Floats, Ints
from .attention import sums
from .clients import FALSE_DISCOVERY_RATE, SILENCE_LEVEL
from .scales import Tally
from .stretches import prior_of, rates_by_item

TENTHS = 10  # parts of a log, from which the variation of shares is estimated
LISTED = 100  # clients


@dataclass(frozen=True)
class FewOutcomes:
    """An item that was clicked more than usual in a stretch, but bought less often per click."""

    item: int
    start: int  # impressions of the stretch
    end: int
    clicks: int
    expected_clicks: float
    bought: int
    expected_bought: float  # for as many clicks
    certainty: float


@dataclass(frozen=True)
class NeverBuys:
    """A client who clicks but never buys."""

    client: int
    clicked: int  # lists
    expected_bought: float
    certainty: float


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of clicks on a board."""

    clicked: int  # lists with a click
    bought: int  # of those
    few_outcomes: list[FewOutcomes]
    never_buy: list[NeverBuys]


@dataclass(frozen=True)
class RaisedItem:
    """An item that was clicked more than expected in the stretch from `start` to before `end`."""

    item: int
    start: int
    end: int
    clicks: int
    expected_clicks: float


def outcomes_of(
    impressions: Impressions,
    bought: Bools,
    clean: Bools,
    raised: list[RaisedItem],
    client: ItemNumbers | None,
    n_clients: int,
) -> Outcomes:
    """Audit outcomes; `bought` and `clean`: bool[n]; `raised`: items to test for missing outcomes. O(looks)."""
    tenths = [_tally(impressions, bought, clean, slice(low, high)) for low, high in _edges(impressions.n)]
    clicks, bought_of = (np.sum([tenth[i] for tenth in tenths], axis=0) for i in (0, 1))
    rate = rates_by_item(clicks, bought_of)
    return Outcomes(
        int(sum(int((part.clicks() > 0).sum()) for _, part in impressions.parts())),
        int(sum(int(((part.clicks() > 0) & bought[some]).sum()) for some, part in impressions.parts())),
        _few_outcomes(impressions, bought, raised, tenths, rate),
        [] if client is None else _never_buy(impressions, bought, client, n_clients, rate),
    )


def _edges(n: int) -> list[tuple[int, int]]:
    edges = (n * np.arange(TENTHS + 1) // TENTHS).tolist()
    return list(itertools.pairwise(edges))


def _clicked(part: Impressions) -> tuple[ItemNumbers, Ints]:
    """The items clicked, and the index of the impression of each."""
    which = np.repeat(np.arange(part.n), np.diff(part.first))
    return part.item[part.bits], which[part.bits]


def _tally(impressions: Impressions, bought: Bools, chosen: Bools | None, some: slice) -> Tally:
    """Clicks by item in the slice `some`, restricted to chosen impressions, and those in lists that were bought."""
    counts = np.zeros(impressions.n_items, np.int64), np.zeros(impressions.n_items, np.int64)
    for inner, part in impressions.part(some).parts():
        where = slice(some.start + inner.start, some.start + inner.stop)
        item, which = _clicked(part)
        if chosen is not None:
            kept = chosen[where][which]
            item, which = item[kept], which[kept]
        counts[0][:] += np.bincount(item, minlength=impressions.n_items)
        counts[1][:] += np.bincount(item[bought[where][which]], minlength=impressions.n_items)
    return counts


def _few_outcomes(
    impressions: Impressions, bought: Bools, raised: list[RaisedItem], tenths: list[Tally], rate: Floats
) -> list[FewOutcomes]:
    if not raised:
        return []
    asked = [_tally(impressions, bought, None, slice(one.start, one.end)) for one in raised]
    mine = np.array([(tally[0][one.item], tally[1][one.item]) for tally, one in zip(asked, raised, strict=True)])
    due = np.array([rate[one.item] for one in raised]) * mine[:, 0]
    seen = np.concatenate([tenth[0] for tenth in tenths]).astype(np.float64)
    got = np.concatenate([tenth[1] for tenth in tenths]).astype(np.float64)
    these = Counts(mine[:, 1].astype(np.float64), mine[:, 0].astype(np.float64), due)
    clicks, paid = (np.sum([tenth[i] for tenth in tenths], axis=0) for i in (0, 1))
    doubt = 1.0 / (prior_of(clicks, paid)[1] + clicks + 1.0)
    usual = Counts(got, seen, np.tile(rate, TENTHS) * seen)
    share = fewer_than_due(these, usual, doubt[[one.item for one in raised]])
    return [
        FewOutcomes(
            one.item,
            one.start,
            one.end,
            one.clicks,
            one.expected_clicks,
            int(mine[i, 1]),
            round(float(due[i]), 1),
            float(1.0 - share[i]),
        )
        for i, one in enumerate(raised)
        if share[i] <= FALSE_DISCOVERY_RATE
    ]


def _never_buy(
    impressions: Impressions, bought: Bools, client: ItemNumbers, n_clients: int, rate: Floats
) -> list[NeverBuys]:
    """Clients without a purchase, where others would have bought after the same clicks, most missing first."""
    lists, got, due = np.zeros(n_clients), np.zeros(n_clients), np.zeros(n_clients)
    for some, part in impressions.parts():
        item, which = _clicked(part)
        clicks = np.bincount(which, minlength=part.n)
        mean = sums(which, rate[item], part.n) / np.maximum(clicks, 1)
        known = (clicks > 0) & (client[some] >= 0)
        who = client[some][known]
        lists += np.bincount(who, minlength=n_clients)
        got += np.bincount(who, bought[some][known], n_clients)
        due += np.bincount(who, mean[known], n_clients)
    judged: Bools = lists >= FEWEST
    _, spread, excess = beta_binomial(got, lists, due, judged)
    silence = np.zeros(n_clients)
    signed_scores(np.zeros(n_clients), lists, due, spread, silence)
    chance = np.exp(np.minimum(silence, 0.0) / excess) / 2.0  # one-sided: of never buying
    able: Bools = judged & (chance <= SILENCE_LEVEL)
    share = adjusted_shares(np.where(got == 0.0, chance, 1.0), able)
    named = np.flatnonzero(able & (got == 0.0) & (share <= FALSE_DISCOVERY_RATE))
    order = named[np.argsort(-due[named], kind="stable")][:LISTED]
    return [NeverBuys(int(c), int(lists[c]), round(float(due[c]), 1), float(1.0 - share[c])) for c in order.tolist()]
