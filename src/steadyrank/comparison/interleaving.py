"""Interleave the lists of two rankers, and tell which of them clicks prefer by an interval valid at any time.

Lists are mixed by the team draft of Radlinski, Kurup and Joachims 2008 (CIKM), with two additions: places from the
top at which both lists agree belong to neither team (Chapelle, Joachims, Radlinski and Yue 2012, TOIS, on
uninformative clicks), and when a team has no item left, the draft ends after a whole pair of picks.

The interval is the normal mixture of Robbins 1970 (Annals of Mathematical Statistics 41) for increments within -1 and
1, in the form of Howard, Ramdas, McAuliffe and Sekhon 2021 (Annals of Statistics 49): with S the sum of n credits of
+1 and -1, and M the sum of what each was expected to be given those before it,
P(for any n: |S - M| >= sqrt((n + RHO) log((n + RHO) / (RHO ERROR^2)))) <= ERROR. Credits need not be identically
distributed or independent, and stopping at any time is valid. M covers only the n visits that gave a credit, so the
interval is for the lead among those; divided by the number of all visits it is in credits per visit, conditional on
the share of visits that gave a credit.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

OURS, NEITHER, THEIRS = 1, 0, -1
ERROR = 0.05  # probability that the interval ever misses, over all times
RHO = 100.0  # credits; the interval is tightest at about eight times as many


class Mix(NamedTuple):
    """A mixed list; the teams drafted the places from `first` up to and without `end`, counted from 0."""

    ranking: list[int]
    teams: list[int]  # of each place: OURS, NEITHER or THEIRS
    first: int
    end: int


class Standing(NamedTuple):
    """The state of a comparison: the number of visitors, or lists, and how many gave their credit to each ranker.

    `lead` is ours minus theirs in credits per visitor, or list. `low` to `high`, in the same unit, is an interval
    valid at any time for the expected lead among those who gave a credit. It is conditional on how many did: it does
    not cover chance in that number.
    """

    total: int
    ours: int
    theirs: int
    lead: float
    low: float
    high: float

    @property
    def leader(self) -> int:
        """OURS or THEIRS if the interval excludes 0, else NEITHER."""
        return OURS if self.low > 0.0 else THEIRS if self.high < 0.0 else NEITHER

    @property
    def withstands(self) -> float:
        """Share of visitors, or lists, that could be bots voting for the leader without changing who leads."""
        return max(self.low, -self.high, 0.0)


def teams(size: int, first: int, end: int, coins: bytes) -> list[int]:
    """The team of each place: each pair of places from `first` to `end` has one of each, ordered by a coin."""
    team = [NEITHER] * size
    for place in range(first, end):
        pair, second = divmod(place - first, 2)
        heads = coins[pair // 8] >> (pair % 8) & 1
        team[place] = OURS if heads ^ second else THEIRS
    return team


def draft(
    ours: Sequence[int],
    theirs: Sequence[int],
    size: int,
    coins: bytes,
    fits: Callable[[Sequence[int], int], bool] = lambda _items, _item: True,
) -> Mix:
    """Mix both lists into one of at most `size` places. `coins`: one bit for every two places.

    `fits`: whether an item may be added to a list; items that may not are skipped.
    """
    first = 0
    while first < min(size, len(ours), len(theirs)) and ours[first] == theirs[first]:
        first += 1
    mixed, end = list(ours[:first]), size
    for place, team in enumerate(teams(size, first, size, coins)[first:], first):
        pick = next(
            (item for item in (ours if team == OURS else theirs) if item not in mixed and fits(mixed, item)), None
        )
        if pick is None:
            end = place - (place - first) % 2
            break
        mixed.append(pick)
    for item in (*ours, *theirs):
        if len(mixed) < size and item not in mixed and fits(mixed, item):
            mixed.append(item)
    return Mix(mixed, teams(len(mixed), first, end, coins), first, end)


def credit(teams: Sequence[int], clicks: Sequence[int]) -> int:
    """The team whose items were clicked more often: OURS, THEIRS or NEITHER. `clicks`: places, from 0."""
    sum_ = sum(teams[place] for place in clicks if place < len(teams))
    return (sum_ > 0) - (sum_ < 0)


def margin(credits: int) -> float:
    """Half width, valid at any time, of the interval for the sum of this many credits."""
    return math.sqrt((credits + RHO) * math.log((credits + RHO) / (RHO * ERROR * ERROR)))


def standing(total: int, ours: int, theirs: int) -> Standing:
    """The state of a comparison of which `ours` and `theirs`, out of `total`, gave a credit to each ranker."""
    n, lead, wide = max(total, 1), ours - theirs, margin(ours + theirs)
    return Standing(total, ours, theirs, lead / n, max((lead - wide) / n, -1.0), min((lead + wide) / n, 1.0))
