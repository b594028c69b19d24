"""Clients whose clicks are not those of the others, or who click as an attack does while it lasts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...click_logs import mapped
from ...click_logs.looks import Impressions, ItemNumbers, blocks
from ...comparison.count_tests import FEWEST, adjusted_shares
from ...core.arrays import Bools, Floats, Ints
from .attention import Appeal, counts_of, fit, place_cells
from .client_tests import (
    CLICKS,
    CLIENT_COLUMNS,
    EXPECTED,
    LISTS,
    LISTS_EXPECTED,
    SHOWN,
    SUSPECT,
    TOP,
    TOP_EXPECTED,
    ListKinds,
    Pairs,
    Scores,
    calibrated,
    least_silent,
    pairs_of,
    ranks_of_taste,
    scored,
    tally_clients,
    too_active,
    top_shares,
)
from .scales import of_impressions, tally
from .stretches import Elsewhere, UsualRates
from .two_regimes import gains

SURE = 0.05  # share of the clients named that may be honest (Benjamini and Hochberg 1995)
LISTED = 1_000  # clients
COMES = 0.5  # share of its impressions that a client has in suspect intervals, to be named for its clicks there
TELLING = 0.005  # chance that an honest client is silent, below which silence is asked about at all
QUIET = 0.1  # share of the lists expected that a silent client clicks at most
PASSES = 2  # what is usual is learnt again without those named
WAYS = ("amount", "place", "taste", "item", "all", "time")  # in which a client may be odd


@dataclass(frozen=True)
class SuspectClient:
    """A client that stands out."""

    client: Any
    impressions: int
    clicks: int
    expected_clicks: float  # of someone with the usual taste who looked at the same items
    suspect_impressions: int  # those in suspect intervals
    certainty: float  # 1 - the share of honest ones among all clients named that are as odd or odder
    why: str  # clicks: not those of the others; time: as an attack has them, while it lasts
    score: float = 0.0  # nats: minus the log chance that an honest client is that odd
    effect: float = 0.0  # what stands out, as a multiple of what is expected
    reason: str = ""  # in a sentence


@dataclass(frozen=True)
class OddClients:
    """What a log says of its clients."""

    named: Ints  # numbers of clients, the clearest first
    listed: list[SuspectClient]
    least: int  # impressions without a click before a client could have been named for that; 0 without clients
    honest: Floats  # [client] share of honest ones among those as odd or odder


NOBODY = OddClients(np.zeros(0, np.int64), [], 0, np.zeros(0))


def stand_out(
    impressions: Impressions,
    client: ItemNumbers,
    names: list[Any],
    items: list[Any] | None = None,
    suspect: Bools | None = None,
    intervals: Sequence[tuple[int, int]] = (),
    boards: int = 1,
    reloaded: Bools | None = None,
) -> OddClients:
    """Which clients stand out, and why: the tests of `client_tests`, and one for each suspect interval.

    In an interval a client's clicks are weighed: how much better do its rates explain them than the usual ones do?
    Of someone with usual ones the chance of s nats is at most e^-s (Ville 1939). The clients named are those whose
    scores pass after Benjamini and Hochberg 1995: of all named, at most SURE are honest. `boards`: on how many each
    client is judged. `reloaded`: impressions that are the same look as one before (`reloads`). O(looks log looks).
    """
    n = len(names)
    if not n or not impressions.n:
        return NOBODY
    suspect = np.zeros(impressions.n, np.bool_) if suspect is None else suspect
    log = _Clients(impressions, client, n, suspect, intervals, boards, reloaded)
    named = log.too_active()
    for _ in range(PASSES):
        usual: Bools = ~suspect & ~impressions_of(named, client, n)
        log.learn(usual if usual.any() else ~suspect)
        before, named = named, log.named()
        if np.array_equal(before, named):
            break
    share = log.rates_of_honest()
    listed = [log.described(c, float(share[c]), names, items) for c in named[:LISTED].tolist()]
    return OddClients(named, listed, log.least_silent(), np.minimum(share, 1.0))


def impressions_of(named: Ints, client: ItemNumbers, n: int) -> Bools:
    """Which impressions are of some of `n` clients, by their numbers; `client`: whose each impression is."""
    flags: Bools = np.zeros(n + 1, np.bool_)  # the last is that of nobody, -1
    flags[named] = True
    chosen: Bools = np.empty(client.size, np.bool_)
    for some in blocks(client.size):
        chosen[some] = flags[client[some]]
    return chosen


def _first_looks(client: ItemNumbers, reloaded: Bools) -> ItemNumbers:
    """Whose each impression is, nobody's if it is the same look as one before."""
    out: ItemNumbers = mapped.empty(client.size, np.int32)
    for some in blocks(client.size):
        out[some] = np.where(reloaded[some], -1, client[some])
        mapped.release(client, out)
    return out


class _Clients:
    """The clients of a log, and how odd each is against what is usual."""

    def __init__(
        self,
        impressions: Impressions,
        client: ItemNumbers,
        n: int,
        suspect: Bools,
        intervals: Sequence[tuple[int, int]],
        boards: int,
        reloaded: Bools | None = None,
    ) -> None:
        self.impressions, self.client, self.n, self.suspect = impressions, client, n, suspect
        self.intervals, self.boards, self.reloaded = intervals, boards, reloaded
        self.trials = client if reloaded is None else _first_looks(client, reloaded)
        self.cells = place_cells(impressions)
        self.out: Floats = np.zeros((n, CLIENT_COLUMNS))
        self.scores: Floats = np.zeros((len(WAYS), n))
        self.share = 0.0  # of lists that are clicked
        self.tests: Scores
        self.pairs: Pairs

    def learn(self, usual: Bools) -> None:
        """Score all clients against what the impressions of `usual`, bool[n], show."""
        shown = self.impressions
        counts = counts_of(shown, self.cells, usual)
        appeal: Appeal = fit(counts)
        rank, mean = ranks_of_taste(counts, appeal)
        kinds = ListKinds(shown, self.cells, appeal)
        share, self.share = kinds.shares_clicked(shown, usual)
        at_top = top_shares(counts, self.cells)
        self.out[:] = 0.0
        again = np.zeros((2, self.n))  # lists reloaded, and how many of as many others click
        for some, part in shown.parts():
            kind = kinds.of(part)
            if self.reloaded is not None:
                at = np.flatnonzero(self.reloaded[some])
                whose = self.client[some][at]
                again += [np.bincount(whose, of, self.n) for of in (np.ones(at.size), share[kind[at]])]
            tally_clients(
                part.item,
                part.bits,
                part.first,
                *self.cells.of(part),
                self.cells.places,
                self.client[some],
                self.suspect[some],
                tuple(appeal),
                kind,
                share,
                rank,
                mean,
                at_top,
                self.out,
            )
        self.pairs = pairs_of(shown, self.cells, self.trials, appeal, self.out[:, SHOWN])
        self.tests = scored(self.out, self.pairs, again)
        self.scores[:5] = np.abs(np.stack(self.tests[:5]))
        self.scores[5] = self._in_intervals(usual)

    def too_active(self) -> Ints:
        """Clients whose clicks are left out when it is learnt for the first time what is usual."""
        lists, count = np.zeros(self.n), np.zeros(self.n)
        for some, part in self.impressions.parts():
            client, clicked = self.client[some], part.clicks() > 0
            identified = client >= 0
            lists += np.bincount(client[identified & clicked], minlength=self.n)
            count += np.bincount(client[identified], minlength=self.n)
        judged = max(int(np.count_nonzero(count >= FEWEST)), 1)
        return too_active(lists, count, math.log(len(WAYS) * judged / SURE))

    def _in_intervals(self, usual: Bools) -> Floats:
        """Nats by which the rates of a suspect interval explain a client's clicks in it better than the usual do."""
        best: Floats = np.zeros(self.n)
        if not self.intervals:
            return best
        shown, calm = self.impressions, tally(self.impressions, usual)
        elsewhere = Elsewhere.of(shown.n, lambda start, end: tally(shown.part(slice(start, end))))
        whole = UsualRates(elsewhere.counts[0], elsewhere.counts[1], elsewhere)
        for start, end in self.intervals:
            rates = whole.rates(calm, tally(self.impressions.part(slice(start, end))))
            sums, here = self._gains(rates, start, end)
            there = self.out[:, SHOWN] - here
            scale = calibrated(np.maximum(sums[1], 0.0), (there >= FEWEST) & (sums[1] > 0.0))
            ratio = float(np.max(sums[1], initial=0.0) / max(float(np.max(scale, initial=0.0)), 1e-9)) or 1.0
            best = np.maximum(best, np.where(here > 1, sums[0] / max(ratio, 1.0), 0.0))
        mostly = self.out[:, SUSPECT] >= COMES * self.out[:, SHOWN]  # others' clicks may have been rewritten
        return np.where(mostly, best, 0.0)

    def _gains(self, rates: tuple[Floats, Floats], start: int, end: int) -> tuple[list[Floats], Floats]:
        """How much better the second rates explain each client's clicks, inside and outside of an interval, in nats.

        And how many impressions each has inside.
        """
        sums, here = [np.zeros(self.n), np.zeros(self.n)], np.zeros(self.n)
        for some, part in self.impressions.parts():
            client, gain, place = self.client[some], np.empty(part.n), np.arange(some.start, some.stop)
            gains(*of_impressions(part)[:4], 0, *rates, gain)
            inside, identified = (place >= start) & (place < end), client >= 0
            for total, which in zip(sums, (identified & inside, identified & ~inside), strict=True):
                total += np.bincount(client[which], gain[which], self.n)
            here += np.bincount(client[identified & inside], minlength=self.n)
        return sums, here

    def rates_of_honest(self) -> Floats:
        """For each client, the least share of honest ones at which it would be named with all that are as odd.

        Clients who came while clicks were suspect are a family of their own: among them bots are no surprise. So are
        those shown so much that silence could be told.
        """
        alone = len(WAYS) * np.exp(-self.scores[:5].max(axis=0))
        everybody = adjusted_shares(alone, self.out[:, SHOWN] > 0)
        there = adjusted_shares(len(WAYS) * np.exp(-self.scores[5]), self.out[:, SUSPECT] > 0)
        quiet_enough = self.out[:, LISTS] <= QUIET * self.out[:, LISTS_EXPECTED]
        few = np.where(quiet_enough, np.exp(-np.maximum(-self.tests.amount, 0.0)) / 2.0, 1.0)  # one-sided
        quiet = adjusted_shares(few, self._could_be_quiet())
        shares: Floats = np.minimum(np.minimum(everybody, quiet) * self.boards, there)
        return shares

    def _could_be_quiet(self) -> Bools:
        """The clients whom silence could make stand out: what they were shown decides, not what they clicked.

        Most are shown far too little for that: they need not be allowed for (Bourgon, Gentleman and Huber 2010,
        independent filtering).
        """
        able: Bools = np.exp(-self.tests.silence) / 2.0 <= TELLING
        return able

    def named(self) -> Ints:
        """The clients that stand out, the clearest first."""
        share = self.rates_of_honest()
        odd = np.flatnonzero(share <= SURE)
        return odd[np.lexsort((-self.scores[:, odd].max(axis=0), share[odd]))]

    def least_silent(self) -> int:
        """Impressions without any click after which a client would be named for that, alone among honest ones."""
        judged = int(np.count_nonzero(self.out[:, SHOWN] >= FEWEST))
        if not judged:
            return 0
        rivals = min(len(WAYS) * judged, (int(np.count_nonzero(self._could_be_quiet())) + 1) / 2.0)
        need = math.log(rivals * self.boards / SURE) * self.tests.excess
        return max(least_silent(self.share, self.tests.spread, need), FEWEST)

    def described(self, c: int, share: float, names: list[Any], items: list[Any] | None) -> SuspectClient:
        """What is said of a client."""
        row = self.out[c]
        way = int(np.argmax(self.scores[:, c]))
        part = int(np.argmax(self.scores[:3, c])) if WAYS[way] == "all" else way
        reason, effect = self._reason(c, WAYS[part], items)
        return SuspectClient(
            client=names[c],
            impressions=int(row[SHOWN]),
            clicks=int(row[CLICKS]),
            expected_clicks=round(float(row[EXPECTED]), 2),
            suspect_impressions=int(row[SUSPECT]),
            certainty=float(1.0 - share),
            why="time" if WAYS[way] == "time" else "clicks",
            score=round(float(self.scores[way, c]), 2),
            effect=round(float(effect), 3),
            reason=reason,
        )

    def _reason(self, c: int, way: str, items: list[Any] | None) -> tuple[str, float]:
        row, shown = self.out[c], int(self.out[c, SHOWN])
        if way == "amount":
            effect = row[LISTS] / max(row[LISTS_EXPECTED], 1e-9)
            verb = "never clicks: none" if row[LISTS] == 0 else f"clicks in {int(row[LISTS]):,}"
            return f"{verb} of {shown:,} lists, where others click in {row[LISTS_EXPECTED]:,.1f}", effect
        if way == "place":
            clicks, due = int(row[CLICKS]), row[TOP_EXPECTED]
            effect = row[TOP] / max(due, 1e-9)
            return f"{int(row[TOP]):,} of {clicks:,} clicks on the first place, where others have {due:,.1f}", effect
        if way == "item":
            looks, clicks, due = self.pairs.of(c, int(self.tests.which[c]))
            name = "one item" if items is None else f"item {items[int(self.tests.which[c])]}"
            return f"{clicks:,} clicks of {looks:,} looks at {name}, where others have {due:,.1f}", clicks / max(
                due, 1e-9
            )
        if way == "time":
            effect = row[CLICKS] / max(row[EXPECTED], 1e-9)
            inside = int(row[SUSPECT])
            return (
                f"{inside:,} of {shown:,} impressions lie in a suspect interval, with the clicks of the attack",
                effect,
            )
        which = "rarely" if self.tests.taste[c] < 0 else "often"
        effect = row[CLICKS] / max(row[EXPECTED], 1e-9)
        return f"clicks what others {which} click, {int(row[CLICKS]):,} times in {shown:,} lists", effect
