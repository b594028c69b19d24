"""Estimate the power of an audit: the smallest attacks of some kinds that would have been found in a log.

Attacks are simulated on the log's own lists, judged as suspect stretches are, and made larger until four in five are
found.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...click_logs.looks import Impressions
from ...core.arrays import Bools, Ints
from .attention import PlaceCells, looks_of
from .changed_stretches import UsualImpressions
from .explanations import Usual, explain, gathered
from .stretches import BAR, SHORTEST

CHANCE = 0.8  # probability with which an attack must be found
DRAWS = 10  # simulated attacks per size
TARGETS = 3  # items that are promoted, or demoted
MARGIN = 6.0  # nats for having to search for the edges of an attack, which a simulation knows
STEP = math.sqrt(2.0)  # factor from one size to the next
LARGEST = 0.25  # largest attack tried, as a share of the log
MOST = 20_000  # largest attack tried, in impressions
KINDS = ("promote", "demote", "silent")


@dataclass(frozen=True)
class Detectable:
    """Size, in consecutive impressions, of the smallest attack found with a probability of 80 %; None if none is.

    promote: three items with below-average click rates are clicked whenever looked at, and nothing else is; demote:
    the three most clicked items are never clicked; silent: nothing is clicked.
    """

    promote: int | None
    demote: int | None
    silent: int | None
    client: int  # impressions without a click after which a single client would be named; 0 without clients

    def hidden(self, n: int) -> int:
        """Size of the largest of these attacks that could go undetected in n impressions."""
        return min(n, max(n if size is None else size for size in (self.promote, self.demote, self.silent)))


def detectable(
    impressions: Impressions,
    cells: PlaceCells,
    usual: Usual,
    free: UsualImpressions,
    client: int,
    rng: np.random.Generator,
) -> Detectable:
    """The smallest attacks that would have been found in this log; `free`: its usual impressions."""
    sizes = {kind: _smallest(kind, impressions, cells, usual, free, rng) for kind in KINDS}
    return Detectable(**sizes, client=client)


def _smallest(
    kind: str,
    impressions: Impressions,
    cells: PlaceCells,
    usual: Usual,
    free: UsualImpressions,
    rng: np.random.Generator,
) -> int | None:
    target = _targets(kind, usual)
    size = float(SHORTEST // 2)
    while size <= min(LARGEST * impressions.n, MOST) and size <= free.size:
        m = math.ceil(size)
        hits = 0
        for draw in range(DRAWS):
            chosen = free.at(rng.choice(free.size, m, replace=False))
            hits += _would_be_found(kind, target, impressions, cells, usual, chosen)
            if hits + DRAWS - 1 - draw < CHANCE * DRAWS:
                break
        if hits >= CHANCE * DRAWS:
            return m
        size *= STEP
    return None


def _targets(kind: str, usual: Usual) -> Ints:
    """The items that an attack promotes or demotes, chosen for the strongest effect."""
    seen = np.flatnonzero(usual.looks)
    rate = usual.appeal.item[seen]
    if kind == "promote":
        seen = seen[rate <= np.median(rate)] if seen.size else seen
        worth = usual.looks[seen].astype(np.float64)
    else:
        worth = usual.looks[seen] / (1.0 + np.exp(-rate))
    return seen[np.argsort(-worth, kind="stable")[:TARGETS]]


def _would_be_found(
    kind: str, target: Ints, impressions: Impressions, cells: PlaceCells, usual: Usual, chosen: Ints
) -> bool:
    item, cell, bits = looks_of(impressions, cells, np.sort(chosen))
    hit: Bools = np.isin(item, target)
    bits = hit if kind == "promote" else bits & ~hit if kind == "demote" else np.zeros(bits.size, np.bool_)
    explanation = explain(usual, gathered(item, cell, bits, cells.n))
    where = math.log(
        max(4.0 * impressions.n / chosen.size, 1.0)
    )  # stretches tried: at steps of half a length, in two directions
    return explanation.all >= BAR + where + MARGIN and explanation.left >= BAR + MARGIN
