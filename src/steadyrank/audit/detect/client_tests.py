"""Score how odd each client of a log is, calibrated by how much honest clients differ.

Honest clients are not alike: some click more, some only at the top, some have a taste of their own, and clicks
within a list are correlated. So each test estimates its overdispersion from the log's own clients, and scores are
divided by how much their 90th percentile exceeds the nominal one. A score is -log of the p-value of a client, or of
an upper bound on it:

- *amount*: lists with a click, out of those shown, against others' share for lists whose first item is as popular:
  beta-binomial (Skellam 1948), two-sided. Lists, not clicks, since clicks within one list are correlated;
- *place*: clicks on the first place, out of all clicks, against the share of other clients; beta-binomial;
- *taste*: popularity of the clicked items, as ranks among all clicks, against the mean at their place: z^2 / 2, since
  ranks are uniform and a uniform variable is sub-Gaussian with its own variance; n clicks count as n / (1 +
  correlation (n - 1)) independent ones (Kish 1965, design effect);
- *item*: clicks on one item, out of the looks at it, against the probabilities for all clients; beta-binomial, less
  the logarithm of the number of items the client looked at;
- *all*: amount, place and taste together: the sum of three exponential scores is Erlang, e^-s (1 + s + s^2 / 2).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...click_logs import mapped
from ...click_logs.looks import Impressions, ItemNumbers, blocks
from ...comparison.count_tests import (
    FEWEST,
    QUANTILE,
    ROUNDS,
    TRIM_ABOVE,
    Counts,
    beta_binomial,
    calibration_divisor,
    signed_scores,
    spread_of,
)
from ...core.arrays import Bools, Floats, Ints
from ...core.compiling.jit import kernel
from .attention import CLICKS as CLICKED
from .attention import Appeal, PlaceCells, cell_at, chance, looks_of, sums

MOST_LOOKS = 20_000_000  # most looks in the test of single items; clients with most impressions come first
BLOCK_LOOKS = 1 << 20  # looks counted, and pairs scored, in one block
SAMPLED_LISTS = 1 << 20  # lists sampled for the quantiles of first items' popularity
POPULARITY_CLASSES = 8  # kinds of lists by the popularity of their first item

# columns of a table of clients
SHOWN, LISTS, LISTS_EXPECTED, CLICKS, EXPECTED, TOP, TOP_EXPECTED, TASTE, SUSPECT = range(9)
CLIENT_COLUMNS = 9


class Pairs(NamedTuple):
    """Pairs of a client and an item that it looked at, one per row, sorted by client and item."""

    first: Ints  # [client + 1] the first row of each client
    item: ItemNumbers
    looks: ItemNumbers
    clicks: ItemNumbers
    expected: Floats

    def of(self, client: int, item: int) -> tuple[int, int, float]:
        """Looks, clicks and expected clicks of a client at an item that it looked at."""
        start, end = self.first[client : client + 2]
        at = start + np.searchsorted(self.item[start:end], item)
        return int(self.looks[at]), int(self.clicks[at]), float(self.expected[at])

    def parts(self) -> Iterator[tuple[Ints, slice]]:
        """Iterate in blocks over the client number of each pair and the slice of rows; clients are not split."""
        for some in whole_groups(self.first, BLOCK_LOOKS):
            rows = slice(int(self.first[some.start]), int(self.first[some.stop]))
            yield np.repeat(np.arange(some.start, some.stop), np.diff(self.first[some.start : some.stop + 1])), rows
            mapped.release(self.item, self.looks, self.clicks, self.expected)


class Scores(NamedTuple):
    """Scores of all clients in each test, in nats; positive for more than expected, negative for less."""

    amount: Floats
    place: Floats
    taste: Floats
    item: Floats
    all: Floats  # amount, place and taste together
    which: Ints  # the item behind the score `item`, -1 for none
    spread: float  # overdispersion of the amount among honest clients
    excess: float  # calibration divisor of the amount
    silence: Floats  # score in the amount, as a positive number, that each client would have without any click


def ranks_of_taste(counts: Ints, appeal: Appeal) -> tuple[Floats, Floats]:
    """Each item's rank among all clicks, from 0 to 1 by appeal, and the mean rank of clicks in each cell."""
    clicks = counts[CLICKED].sum(axis=1).astype(np.float64)
    order = np.argsort(appeal.item, kind="stable")
    so_far = np.cumsum(clicks[order])
    rank = np.full(clicks.size, 0.5)
    rank[order] = (so_far - 0.5 * clicks[order]) / max(float(so_far[-1]) if so_far.size else 0.0, 1.0)
    at_cell = counts[CLICKED].sum(axis=0)
    mean: Floats = np.where(at_cell > 0, rank @ counts[CLICKED] / np.maximum(at_cell, 1), 0.5)
    return rank, mean


def top_shares(counts: Ints, cells: PlaceCells) -> Floats:
    """The share of clicks on the first place, for each group of list lengths."""
    clicks = counts[CLICKED].sum(axis=0).reshape(-1, cells.places)
    total = clicks.sum(axis=1)
    share: Floats = np.where(total > 0, clicks[:, 0] / np.maximum(total, 1), 0.5)
    return share


@kernel
def tally_clients(
    item, bits, first, base, last, places, client, suspect, appeal, kind, usual, rank, mean, share, out
):
    """Add the activity of each client to out, float64[client, CLIENT_COLUMNS].

    `kind`: int64[n], kind of each list (`ListKinds`); `usual`: share of lists clicked, by kind. O(looks).
    """
    log_odds, effect = appeal
    for t in range(client.size):
        c = client[t]
        if c < 0:
            continue
        got = 0.0
        due = 0.0
        for q in range(first[t], first[t + 1]):
            cell = cell_at(base[t], last[t], q - first[t])
            due += chance(log_odds[item[q]] + effect[cell])
            if bits[q]:
                got += 1.0
                out[c, TOP] += 1.0 if cell % places == 0 else 0.0
                out[c, TASTE] += rank[item[q]] - mean[cell]
        out[c, SHOWN] += 1.0
        out[c, LISTS] += 1.0 if got > 0.0 else 0.0
        out[c, LISTS_EXPECTED] += usual[kind[t]]
        out[c, SUSPECT] += 1.0 if suspect[t] else 0.0
        out[c, CLICKS] += got
        out[c, EXPECTED] += due
        out[c, TOP_EXPECTED] += got * share[last[t] // places]


def apply_design_effect(squares: Floats, one: Floats, n: Floats, nats: Floats) -> Floats:
    """Reduce scores `nats` of n observations each to the effective number of independent ones (Kish 1965).

    `squares`: squared total deviation of each client; `one`: variance of a single observation. The correlation within
    clients is estimated by trimmed moments.
    """
    effective = n
    for _ in range(ROUNDS):
        scores = nats * effective / np.maximum(n, 1.0)
        kept = (n > 1) & (scores < TRIM_ABOVE)
        pairs = float((n * (n - 1.0) * one)[kept].sum())
        within = float((squares - n * one)[kept].sum()) / max(pairs, 1e-9)
        effective = n / (1.0 + min(max(within, 0.0), 1.0) * np.maximum(n - 1.0, 0.0))
    return nats * effective / np.maximum(n, 1.0)


def calibrated(scores: Floats, judged: Bools) -> Floats:
    """Divide scores by how much they exceed their nominal distribution."""
    return scores / calibration_divisor(scores, judged)


def whole_groups(first: Ints, size: int) -> Iterator[slice]:
    """Slices of consecutive groups with at most `size` rows together, or of a single larger group.

    `first`: int64[group + 1], the first row of each group.
    """
    start, n = 0, first.size - 1
    while start < n:
        end = int(np.searchsorted(first, first[start] + size, side="right")) - 1
        end = min(max(end, start + 1), n)
        yield slice(start, end)
        start = end


def pairs_of(
    impressions: Impressions, cells: PlaceCells, client: ItemNumbers, appeal: Appeal, shown: Floats
) -> Pairs:
    """Pairs of clients with enough impressions and the items they looked at. O(looks log looks) of these clients.

    Works in blocks of clients: temporary arrays hold about BLOCK_LOOKS looks.
    """
    all_looks: Floats = np.zeros(shown.size)
    for some, part in impressions.parts():
        identified = client[some] >= 0
        all_looks += np.bincount(client[some][identified], np.diff(part.first)[identified], shown.size)
    order = np.argsort(-shown, kind="stable")
    kept: Bools = np.zeros(shown.size + 1, np.bool_)
    kept[order[(np.cumsum(all_looks[order]) <= MOST_LOOKS) & (shown[order] >= FEWEST)]] = True
    chosen = np.concatenate([some.start + np.flatnonzero(kept[client[some]]) for some in blocks(client.size)])
    taken, whose = impressions.only(chosen), client[chosen]
    in_order = np.argsort(whose, kind="stable")
    row = np.concatenate([[0], np.cumsum(np.bincount(whose, minlength=shown.size))])  # [client + 1] into `in_order`
    first = np.concatenate([[0], np.cumsum(np.where(kept[:-1], all_looks, 0.0))]).astype(np.int64)
    many: Ints = np.zeros(shown.size, np.int64)
    grown = mapped.GrowingArrays()
    for some in whole_groups(first, BLOCK_LOOKS):
        lists = in_order[row[some.start] : row[some.stop]]
        item, cell, bits = looks_of(taken, cells, lists)
        p = 1.0 / (1.0 + np.exp(-(appeal.item[item] + appeal.cell[cell])))
        sizes = taken.first[lists + 1] - taken.first[lists]
        key = np.repeat(whose[lists].astype(np.int64), sizes) * impressions.n_items + item
        pair, where, looks = np.unique(key, return_inverse=True, return_counts=True)
        many[some] = np.bincount(pair // impressions.n_items - some.start, minlength=some.stop - some.start)
        grown.add(
            item=(pair % impressions.n_items).astype(np.int32),
            looks=looks.astype(np.int32),
            clicks=np.bincount(where, bits, pair.size).astype(np.int32),
            expected=sums(where, p, pair.size),
        )
    return Pairs(
        np.concatenate([[0], np.cumsum(many)]),
        grown.take("item", np.int32),
        grown.take("looks", np.int32),
        grown.take("clicks", np.int32),
        grown.take("expected", np.float64),
    )


def single_items(pairs: Pairs, n_clients: int, factor: Floats) -> tuple[Floats, Ints]:
    """The oddest item of each client: signed score less the log of the number of its items, and the item.

    `factor`: how much more than others each client clicks overall. Works in blocks of clients, except for pairs with
    several looks, from which the overdispersion is estimated.
    """

    def counts(client: Ints, rows: slice) -> Counts:
        looks = pairs.looks[rows].astype(np.float64)
        due = np.minimum(pairs.expected[rows] * factor[client], 0.98 * looks)
        return Counts(pairs.clicks[rows].astype(np.float64), looks, due)

    several = [[np.zeros(0)] * len(Counts._fields)]
    for client, rows in pairs.parts():
        here = counts(client, rows)
        several.append([of[here.n > 1.0] for of in here])
    spread, by = spread_of(Counts(*map(np.concatenate, zip(*several, strict=True))))
    del several
    best: Floats = np.zeros(n_clients)
    which: Ints = np.full(n_clients, -1, np.int64)
    for client, rows in pairs.parts():
        scores = np.zeros(client.size)
        signed_scores(*counts(client, rows), spread, scores)
        scores /= by
        order = np.argsort(np.abs(scores), kind="stable")
        best[client[order]] = scores[order]
        which[client[order]] = pairs.item[rows][order]
    looked_at = np.diff(pairs.first)
    left = np.maximum(np.abs(best) - np.log(np.maximum(looked_at, 1)), 0.0)
    return np.sign(best) * left, which


class ListKinds:
    """Kinds of lists, by length and by quantile of the first item's popularity.

    The quantiles of a long log are those of a sample of SAMPLED_LISTS lists.
    """

    def __init__(self, impressions: Impressions, cells: PlaceCells, appeal: Appeal) -> None:
        self.cells, self.appeal = cells, appeal
        asked = impressions
        if impressions.n > SAMPLED_LISTS:
            asked = impressions.only(np.linspace(0, impressions.n - 1, SAMPLED_LISTS).astype(np.int64))
        self.edges = np.quantile(self._heads(asked), np.arange(1, POPULARITY_CLASSES) / POPULARITY_CLASSES)

    def _heads(self, impressions: Impressions) -> Floats:
        base, _ = self.cells.of(impressions)
        heads: Floats = self.appeal.item[impressions.item[impressions.first[:-1]]] + self.appeal.cell[base]
        return heads

    def of(self, impressions: Impressions) -> Ints:
        """The kind of each list, int64[n]."""
        _, last = self.cells.of(impressions)
        kinds: Ints = last // self.cells.places * POPULARITY_CLASSES + np.searchsorted(
            self.edges, self._heads(impressions)
        )
        return kinds

    def shares_clicked(self, impressions: Impressions, usual: Bools) -> tuple[Floats, float]:
        """The share of lists clicked, by kind and on average, among the impressions of `usual`, bool[n]."""
        kinds = (1 + len(self.cells.lengths)) * POPULARITY_CLASSES
        n, clicked = np.zeros(kinds), np.zeros(kinds)
        for some, part in impressions.parts():
            chosen = usual[some]
            kind = self.of(part)[chosen]
            n += np.bincount(kind, minlength=kinds)
            clicked += np.bincount(kind, (part.clicks() > 0)[chosen], kinds)
        share: Floats = (clicked + 0.5) / (n + 1.0)
        return share, float(n @ share) / max(float(n.sum()), 1.0)


def score_clients(out: Floats, pairs: Pairs, again: Floats) -> Scores:
    """The scores of all clients from their activity `out`.

    `again`: [2, client] reloaded lists (`reloads`), and how many of these would be clicked usually. A client clicks
    too little only if that holds without its reloads, too.
    """
    shown, got, due = out[:, SHOWN], out[:, CLICKS], out[:, EXPECTED]
    judged: Bools = shown >= FEWEST
    amount, spread, by = beta_binomial(out[:, LISTS], shown, out[:, LISTS_EXPECTED], judged)
    looks, expected = shown - again[0], out[:, LISTS_EXPECTED] - again[1]
    few, silence = np.zeros(shown.size), np.zeros(shown.size)
    signed_scores(out[:, LISTS], looks, expected, spread, few)
    amount = np.where(amount < 0.0, np.maximum(amount, np.minimum(few / by, 0.0)), amount)
    signed_scores(np.zeros(shown.size), looks, expected, spread, silence)
    place, _, _ = beta_binomial(out[:, TOP], got, out[:, TOP_EXPECTED], judged & (got > 1))
    z = np.where(got > 0, 6.0 * out[:, TASTE] ** 2 / np.maximum(got, 1.0), 0.0)
    taste = apply_design_effect(out[:, TASTE] ** 2, np.full(got.size, 1.0 / 12.0), got, z)
    taste = calibrated(np.sign(out[:, TASTE]) * taste, judged & (got > 0))
    factor = np.clip((got + 2.0) / (due + 2.0), 0.2, 5.0)
    item, which = single_items(pairs, shown.size, factor)
    for one in (amount, place, taste, item, silence):
        one[~judged] = 0.0
    total = np.abs(amount) + np.abs(place) + np.abs(taste)
    together = calibrated(total - np.log1p(total + 0.5 * total**2), judged)
    return Scores(amount, place, taste, item, together, which, spread, by, -silence / by)


def too_active(lists: Floats, shown: Floats, need: float) -> Ints:
    """Numbers of clients who click in too many lists to be used for learning what is usual.

    Their score against the rate of the nine tenths that click least is at least `need` nats. If clicks are rare, a
    few bots may cause most of them, and the items they click would seem generally popular.
    """
    judged: Bools = shown >= FEWEST
    each = lists / np.maximum(shown, 1.0)
    calm = judged & (each <= np.quantile(each[judged], QUANTILE)) if judged.any() else judged
    rate = (float(lists[calm].sum()) + 0.5) / (float(shown[calm].sum()) + 1.0)
    scores, _, _ = beta_binomial(lists, shown, shown * rate, judged)
    return np.flatnonzero(judged & (scores >= need))


def least_silent(share: float, spread: float, need: float) -> int:
    """Number of impressions without a click at which the amount's score reaches `need`; `share`: of lists clicked."""
    n, score = 1.0, np.zeros(1)
    while n < 1e9:
        signed_scores(np.zeros(1), np.array([n]), np.array([n * share]), spread, score)
        if -score[0] >= need:
            return math.ceil(n)
        n *= 1.1
    return math.ceil(n)
