"""Two rankers' lists mixed into one, and which of them clicks prefer, however often one looks.

Mixing is the team draft of Radlinski, Kurup and Joachims 2008 (CIKM), with two additions: places from the top at
which both lists agree belong to neither team (Chapelle, Joachims, Radlinski and Yue 2012, TOIS, on clicks that tell
nothing), and a team that has no item left ends the draft after a whole pair of picks.

The interval is the normal mixture of Robbins 1970 (Annals of Mathematical Statistics 41) for increments within -1 and
1, in the form of Howard, Ramdas, McAuliffe and Sekhon 2021 (Annals of Statistics 49): with S the sum of n credits of
+1 and -1, and M the sum of what each was expected to be given those before it,
P(for any n: |S - M| >= sqrt((n + RHO) log((n + RHO) / (RHO ERROR^2)))) <= ERROR. Credits need not be alike, nor
independent, and one may stop when one likes. M counts the n visits that gave a credit and no others: the interval is
for the lead among those. Divided by all visits it is told in credits a visit, with the share that gave one as it was.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

OURS, NEITHER, THEIRS = 1, 0, -1
ERROR = 0.05  # chance that an interval ever misses, over all looks
RHO = 100.0  # credits; the interval is narrowest for its error at about eight times as many


class Mix(NamedTuple):
    """A mixed list; the teams drafted its places from `first` up to `end`, from 0, the last one not included."""

    ranking: list[int]
    teams: list[int]  # of each place: OURS, NEITHER or THEIRS
    first: int
    end: int


class Standing(NamedTuple):
    """How two rankers stand: of how many visitors, or lists, how many gave their credit to each.

    `lead` is ours less theirs in credits a visitor, or list. The interval, right whenever one looks, is for the lead
    that was to be expected among those who gave a credit; `low` and `high` are it in the unit of `lead`. How many
    give a credit is taken as it was: the interval does not allow for luck in that.
    """

    total: int
    ours: int
    theirs: int
    lead: float
    low: float
    high: float

    @property
    def leader(self) -> int:
        """Who leads, where the interval leaves no doubt: OURS or THEIRS; else NEITHER."""
        return OURS if self.low > 0.0 else THEIRS if self.high < 0.0 else NEITHER

    @property
    def withstands(self) -> float:
        """Share of them that might be bots' which all helped the leader, and it would lead all the same."""
        return max(self.low, -self.high, 0.0)


def teams(size: int, first: int, end: int, coins: bytes) -> list[int]:
    """The team of each place: in every pair of places from `first` to `end` each has one, in the order of a coin."""
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
    """Both lists mixed into one of at most `size` places. `coins`: a bit for every two places.

    `fits`: whether an item may stand in a list beside others; one that may not is passed over.
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
    """Whose item was clicked more: OURS, THEIRS or NEITHER. `clicks`: places, from 0."""
    sum_ = sum(teams[place] for place in clicks if place < len(teams))
    return (sum_ > 0) - (sum_ < 0)


def margin(credits: int) -> float:
    """How far the sum of so many credits may be from what was to be expected, at any time."""
    return math.sqrt((credits + RHO) * math.log((credits + RHO) / (RHO * ERROR * ERROR)))


def standing(total: int, ours: int, theirs: int) -> Standing:
    """How both stand."""
    n, lead, wide = max(total, 1), ours - theirs, margin(ours + theirs)
    return Standing(total, ours, theirs, lead / n, max((lead - wide) / n, -1.0), min((lead + wide) / n, 1.0))
