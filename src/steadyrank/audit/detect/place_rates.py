"""Estimate click rates as if all items had been shown at the first place.

The model and its fit are those of `learners.steady.attention`: an item at place p is clicked with probability
attention[p] times its attraction (Richardson, Dominowska and Ragno 2007), everybody looks at the first place, and
only items shown at several places separate the two factors. Lists are counted down to their first click, or
completely without one: whether a place is counted then depends only on the places above it, so its rate is unbiased,
whether people continue after a click or not. Counting down to the last click, as elsewhere in an audit, would leave
out places without a click more often than clicked ones.
"""

from typing import NamedTuple

import numpy as np

from ...click_logs.looks import Impressions
from ...core.arrays import Bools, Counts, Floats, Ints
from ...core.beta_prior import fit_prior
from ...core.compiling.jit import kernel
from ...learners.steady.attention import BAR, LEAST_SHAPE, fit_attention
from .attention import ITEMS, PLACES
from .stretches import rates_by_item

ENOUGH = 10.0  # least number of clicks that compare a place with others for its attention to be reported


class PlaceRates(NamedTuple):
    """Attention of places, the last entry for all places from there on, and click rates corrected for it."""

    source: str  # log, if it is fitted; given; none, if it cannot be estimated
    note: str  # what cannot be estimated, or ""
    attention: Floats  # [place] NaN if it cannot be estimated
    error: Floats  # [place] standard error of its logarithm; 0 if it is given or is 1 by definition
    looks: Ints  # [place]
    clicks: Ints  # [place]
    rate: Floats  # [K] NaN if it cannot be estimated


@kernel
def count_by_place(item, bits, first, top, chosen, looks, clicks):
    """Add the chosen impressions, bool[n], down to their first click, to looks and clicks, int32[K, place].

    `top`: int64[n], the place of the first look.
    """
    last = looks.shape[1] - 1
    for t in range(chosen.size):
        if chosen[t]:
            for q in range(first[t], first[t + 1]):
                p = min(top[t] + q - first[t], last)
                looks[item[q], p] += 1
                if bits[q]:
                    clicks[item[q], p] += 1
                    break


def place_rates(impressions: Impressions, chosen: Bools, given: Floats | None = None) -> PlaceRates:
    """Fit attention and rates to the chosen impressions, bool[n]. O(looks), and O(items times places) per step.

    `given`: known attention of places from the top, the last for all below.
    """
    looks, clicks = _counts(impressions, chosen)
    n_places = looks.shape[1]
    at_place = looks.sum(axis=0, dtype=np.int64), clicks.sum(axis=0, dtype=np.int64)
    unknown: Floats = np.full(n_places, np.nan)
    if given is not None:
        attention = np.append(given, np.full(n_places, given[-1]))[:n_places]
        return PlaceRates("given", "", attention, np.zeros(n_places), *at_place, _rates(looks, clicks, attention))
    if n_places < 2:
        rate = np.full(looks.shape[0], np.nan)
        return PlaceRates("none", "The log has only one place.", unknown, unknown, *at_place, rate)
    attention, error, seen = fitted(looks, clicks)
    return PlaceRates(
        "log" if np.isfinite(attention[1:]).any() else "none",
        _note(attention, at_place[0], seen),
        attention,
        error,
        *at_place,
        _rates(looks, clicks, attention),
    )


def _counts(impressions: Impressions, chosen: Bools) -> tuple[Counts, Counts]:
    """Looks and clicks by item and place."""
    n = impressions.n_items
    longest = max((int((_tops(part) + np.diff(part.first)).max()) for _, part in impressions.parts()), default=1)
    places = min(longest, PLACES if n * PLACES <= ITEMS * 8 else 3)
    looks, clicks = np.zeros((n, places), np.int32), np.zeros((n, places), np.int32)
    for some, part in impressions.parts():
        count_by_place(part.item, part.bits, part.first, _tops(part), chosen[some], looks, clicks)
    return looks, clicks


def _tops(impressions: Impressions) -> Ints:
    """The place of each impression's first look."""
    return np.zeros(impressions.n, np.int64) if impressions.top is None else impressions.top.astype(np.int64)


def fitted(looks: Counts, clicks: Counts) -> tuple[Floats, Floats, float]:
    """Return attention by place, 1 at the first; the standard error of its logarithm; nats against full attention.

    NaN if fewer than ENOUGH clicks compare a place with the first, directly or by way of other places. Attention is 1
    everywhere unless the evidence against this exceeds the bar of SteadyRank. The error is that of a Poisson count
    with a mean of two factors, place and item, both estimated from the same counts.
    """
    n_places = looks.shape[1]
    chance, prior = np.ones(n_places), np.ones(2)
    fit_prior(looks.sum(axis=1, dtype=np.int64), clicks.sum(axis=1, dtype=np.int64), prior)
    nats, _ = fit_attention(looks, clicks, max(prior[0], LEAST_SHAPE), chance)
    if nats <= BAR:
        chance[:] = 1.0
    spread = looks * chance
    due = spread * (clicks.sum(axis=1) / np.maximum(spread.sum(axis=1), 1e-9))[:, None]
    compared = (due * (1.0 - due / np.maximum(due.sum(axis=1), 1e-9)[:, None])).sum(axis=0)
    known = _connected(looks) & (compared >= ENOUGH)
    known[0] = True
    error = np.where(known, 1.0 / np.sqrt(np.maximum(compared, 1e-9)), np.nan)
    error[0] = 0.0
    return np.where(known, chance, np.nan), error, nats


def _connected(looks: Counts) -> Bools:
    """Which places are connected with the first: by an item shown at both, or at a connected place."""
    there = looks > 0
    known: Bools = np.zeros(looks.shape[1], np.bool_)
    known[0] = True
    while True:
        items = there[:, known].any(axis=1)
        more = known | there[items].any(axis=0)
        if np.array_equal(more, known):
            return known
        known = more


def _rates(looks: Counts, clicks: Counts, attention: Floats) -> Floats:
    """Each item's rate at full attention, under a common prior; NaN without looks at known places."""
    weight = np.nan_to_num(attention, nan=0.0)
    known = np.isfinite(attention)
    seen = (looks * weight).sum(axis=1)
    won = clicks[:, known].sum(axis=1, dtype=np.int64)
    rate = rates_by_item(np.maximum(np.rint(seen).astype(np.int64), won), won)
    return np.where(looks[:, known].any(axis=1), rate, np.nan)


def _note(attention: Floats, looks: Ints, nats: float) -> str:
    """A note on which places' attention cannot be estimated, or that no effect was found."""
    lacking = np.flatnonzero(np.isnan(attention) & (looks > 0)) + 1
    if lacking.size and lacking.size == np.count_nonzero(looks[1:]):
        return (
            "The effect of places cannot be separated from that of items: too few clicks on items that were shown at "
            "several places."
        )
    words = []
    if lacking.size:
        named = ", ".join(map(str, lacking.tolist()))
        words.append(f"Places {named} cannot be compared: too few clicks on items that were shown elsewhere, too.")
    if nats <= BAR:
        words.append("Nothing says that places below the first are looked at less.")
    return " ".join(words)
