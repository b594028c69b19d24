"""Find clients who click unlike the others, or like an attack during a suspect interval."""

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
    score_clients,
    tally_clients,
    too_active,
    top_shares,
)
from .scales import of_impressions, tally
from .stretches import Elsewhere, UsualRates
from .two_regimes import gains

FALSE_DISCOVERY_RATE = 0.05  # share of honest clients among those named (Benjamini and Hochberg 1995)
LISTED = 1_000  # clients
LEAST_SUSPECT_SHARE = 0.5  # of a client's impressions in suspect intervals, to be named for its clicks there
SILENCE_LEVEL = 0.005  # a client is tested for silence if an honest one is silent with at most this probability
SILENT_SHARE = 0.1  # most lists that a silent client clicks, as a share of those expected
PASSES = 2  # rounds of learning what is usual, the second without the clients named in the first
TESTS = ("amount", "place", "taste", "item", "all", "time")  # tests of a client


@dataclass(frozen=True)
class SuspectClient:
    """A client that stands out."""

    client: Any
    impressions: int
    clicks: int
    expected_clicks: float  # of a client with the usual taste who looked at the same items
    suspect_impressions: int  # those in suspect intervals
    certainty: float  # 1 - false discovery rate among all clients at least as odd
    why: str  # clicks: unlike the others'; time: like those of an attack, while it lasts
    score: float = 0.0  # nats: -log of the p-value
    effect: float = 0.0  # the count that stands out, as a multiple of the expected one
    reason: str = ""  # in a sentence


@dataclass(frozen=True)
class OddClients:
    """The clients of a log that stand out."""

    named: Ints  # numbers of clients, the most certain first
    listed: list[SuspectClient]
    least: int  # impressions without a click after which a client would be named; 0 without clients
    honest: Floats  # [client] share of honest clients among those at least as odd


NO_ODD_CLIENTS = OddClients(np.zeros(0, np.int64), [], 0, np.zeros(0))


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
    """Find the clients that stand out, by the tests of `client_tests` and one for each suspect interval.

    The test of an interval is the log likelihood ratio of a client's clicks in it between the interval's rates and
    the usual ones; for a client with usual rates it reaches s nats with a probability of at most e^-s (Ville 1939).
    Clients are named with a false discovery rate of at most FALSE_DISCOVERY_RATE. `suspect`: bool[n], impressions in
    suspect `intervals`. `boards`: number of boards on which clients are tested. `reloaded`: bool[n] (`reloads`).
    O(looks log looks).
    """
    n = len(names)
    if not n or not impressions.n:
        return NO_ODD_CLIENTS
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
    """Which impressions are of the clients with the numbers `named`, out of n; `client`: of each impression."""
    flags: Bools = np.zeros(n + 1, np.bool_)  # the last is for unknown clients, -1
    flags[named] = True
    chosen: Bools = np.empty(client.size, np.bool_)
    for some in blocks(client.size):
        chosen[some] = flags[client[some]]
    return chosen


def _first_looks(client: ItemNumbers, reloaded: Bools) -> ItemNumbers:
    """The client of each impression, -1 for reloads."""
    out: ItemNumbers = mapped.empty(client.size, np.int32)
    for some in blocks(client.size):
        out[some] = np.where(reloaded[some], -1, client[some])
        mapped.release(client, out)
    return out


class _Clients:
    """The clients of a log and their scores."""

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
        self.scores: Floats = np.zeros((len(TESTS), n))
        self.share = 0.0  # of lists with a click
        self.tests: Scores
        self.pairs: Pairs

    def learn(self, usual: Bools) -> None:
        """Learn usual behaviour from the impressions of `usual`, bool[n], and score all clients against it."""
        shown = self.impressions
        counts = counts_of(shown, self.cells, usual)
        appeal: Appeal = fit(counts)
        rank, mean = ranks_of_taste(counts, appeal)
        kinds = ListKinds(shown, self.cells, appeal)
        share, self.share = kinds.shares_clicked(shown, usual)
        at_top = top_shares(counts, self.cells)
        self.out[:] = 0.0
        again = np.zeros((2, self.n))  # lists reloaded, and how many of these would be clicked usually
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
        self.tests = score_clients(self.out, self.pairs, again)
        self.scores[:5] = np.abs(np.stack(self.tests[:5]))
        self.scores[5] = self._in_intervals(usual)

    def too_active(self) -> Ints:
        """Numbers of the clients to leave out when usual behaviour is learnt for the first time."""
        lists, count = np.zeros(self.n), np.zeros(self.n)
        for some, part in self.impressions.parts():
            client, clicked = self.client[some], part.clicks() > 0
            identified = client >= 0
            lists += np.bincount(client[identified & clicked], minlength=self.n)
            count += np.bincount(client[identified], minlength=self.n)
        judged = max(int(np.count_nonzero(count >= FEWEST)), 1)
        return too_active(lists, count, math.log(len(TESTS) * judged / FALSE_DISCOVERY_RATE))

    def _in_intervals(self, usual: Bools) -> Floats:
        """Score of each client in the suspect interval whose rates explain its clicks best, against usual rates."""
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
        # clicks of clients with fewer impressions there may have been falsified
        mostly = self.out[:, SUSPECT] >= LEAST_SUSPECT_SHARE * self.out[:, SHOWN]
        return np.where(mostly, best, 0.0)

    def _gains(self, rates: tuple[Floats, Floats], start: int, end: int) -> tuple[list[Floats], Floats]:
        """Log likelihood ratio, second against first rates, of each client's clicks inside and outside an interval.

        Also returns the number of each client's impressions inside.
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
        """For each client, the false discovery rate at which it would be named.

        Rates are adjusted within three families of tests: all clients; clients with impressions in suspect intervals,
        where bots are no surprise; and clients with enough impressions for silence to be significant.
        """
        alone = len(TESTS) * np.exp(-self.scores[:5].max(axis=0))
        everybody = adjusted_shares(alone, self.out[:, SHOWN] > 0)
        there = adjusted_shares(len(TESTS) * np.exp(-self.scores[5]), self.out[:, SUSPECT] > 0)
        quiet_enough = self.out[:, LISTS] <= SILENT_SHARE * self.out[:, LISTS_EXPECTED]
        few = np.where(quiet_enough, np.exp(-np.maximum(-self.tests.amount, 0.0)) / 2.0, 1.0)  # one-sided
        quiet = adjusted_shares(few, self._could_be_quiet())
        shares: Floats = np.minimum(np.minimum(everybody, quiet) * self.boards, there)
        return shares

    def _could_be_quiet(self) -> Bools:
        """The clients with enough impressions for silence to be significant, whatever they clicked.

        Most clients have far too few, so excluding them gains power (Bourgon, Gentleman and Huber 2010, independent
        filtering).
        """
        able: Bools = np.exp(-self.tests.silence) / 2.0 <= SILENCE_LEVEL
        return able

    def named(self) -> Ints:
        """Numbers of the clients that stand out, the most certain first."""
        share = self.rates_of_honest()
        odd = np.flatnonzero(share <= FALSE_DISCOVERY_RATE)
        return odd[np.lexsort((-self.scores[:, odd].max(axis=0), share[odd]))]

    def least_silent(self) -> int:
        """Number of impressions without a click at which a single bot among honest clients would be named."""
        judged = int(np.count_nonzero(self.out[:, SHOWN] >= FEWEST))
        if not judged:
            return 0
        rivals = min(len(TESTS) * judged, (int(np.count_nonzero(self._could_be_quiet())) + 1) / 2.0)
        need = math.log(rivals * self.boards / FALSE_DISCOVERY_RATE) * self.tests.excess
        return max(least_silent(self.share, self.tests.spread, need), FEWEST)

    def described(self, c: int, share: float, names: list[Any], items: list[Any] | None) -> SuspectClient:
        """The report on a client."""
        row = self.out[c]
        way = int(np.argmax(self.scores[:, c]))
        part = int(np.argmax(self.scores[:3, c])) if TESTS[way] == "all" else way
        reason, effect = self._reason(c, TESTS[part], items)
        return SuspectClient(
            client=names[c],
            impressions=int(row[SHOWN]),
            clicks=int(row[CLICKS]),
            expected_clicks=round(float(row[EXPECTED]), 2),
            suspect_impressions=int(row[SUSPECT]),
            certainty=float(1.0 - share),
            why="time" if TESTS[way] == "time" else "clicks",
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
