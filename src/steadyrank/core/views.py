"""What a learner makes of the feedback, for people to read."""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .arrays import Floats, Ints
from .item_evidence import INVERTED


@dataclass(frozen=True, eq=False)
class Regime:
    """One stretch, or several, of rounds with the same click behaviour."""

    number: int  # 1, 2, ... in order of opening
    start: int  # its first round
    rounds: int  # how many it has
    estimate: Floats  # [K] attraction of each item in it, posterior mean
    looks: Ints  # [K] looks behind each estimate; 0: the estimate is what items have in common
    weight: Floats  # [K] these, and how many looks the prior stands for


@dataclass(frozen=True, eq=False)
class Change:
    """A change of regime."""

    start: int  # the first round of the new behaviour, as far as can be told
    noticed: int  # the round whose feedback gave it away
    before: int  # numbers of regimes
    after: int
    inversion: float  # nats by which `before`, inverted, predicts `after` better than as it was learnt; 0: forgotten

    @property
    def inverted(self) -> bool:
        """Whether `after` looks like `before` inverted: clicks on what was not clicked, and none on what was.

        Users rarely change like that; attacks do, when they begin and when they end.
        """
        return self.inversion > INVERTED


_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


@dataclass(frozen=True, eq=False)
class Worths:
    """What a click on each item is worth, where value is the goal."""

    mean: Floats  # [K]
    doubt: Floats  # [K] variance of what is believed, as a share of the squared mean
    ends: bool  # whether a click ends the visit

    def interval(self) -> tuple[Floats, Floats]:
        """The 95 % interval of each: of a Gamma distribution, by the cube root of Wilson and Hilferty 1931."""
        ninth, deviation = self.doubt / 9.0, np.sqrt(self.doubt / 9.0)
        low, high = (np.maximum(1.0 - ninth + z * deviation, 0.0) ** 3 for z in (-_Z, _Z))
        return self.mean * low, self.mean * high


@dataclass(frozen=True, eq=False)
class View:
    """Regimes, which of them is believed, and what that implies for the feedback."""

    regimes: tuple[Regime, ...]  # those remembered, in order of opening
    current: int  # number of the regime that feedback is added to
    trusted: int  # number of the longest regime; the current one among equals
    rounds: int  # learnt from
    rejected: int  # visits that the guard refused: the learner knows of none, `beside` adds them
    corrupted: float  # share of all rounds rejected or outside the trusted regime, in [0, 1]
    n_changes: int
    changes: tuple[Change, ...]  # the latest ones, oldest first
    attention: tuple[float, ...] = ()  # the chance that each place is looked at, the first one's being 1
    effects: tuple[float, ...] = ()  # of each feature: standard deviations of the logit of a click, signed
    explained: float = 0.0  # share of the variance of these logits that features explain, in the trusted regime
    worths: Worths | None = None  # None: clicks are the goal
    segments: "tuple[View, ...]" = ()  # of each segment, first that of visits without one; this is all of them then

    @property
    def inverted(self) -> bool:
        """Whether the latest change looks like an inversion of what was learnt before it."""
        return bool(self.changes) and self.changes[-1].inverted

    def with_refused(self, refused: int) -> "View":
        """This view, with visits that the guard kept from the learner."""
        if refused == 0:
            return self
        trusted = (1.0 - self.corrupted) * self.rounds
        return replace(self, rejected=refused, corrupted=1.0 - trusted / (self.rounds + refused))

    def regime(self, number: int) -> Regime:
        """The regime with this number."""
        for regime in self.regimes:
            if regime.number == number:
                return regime
        raise KeyError(f"no regime {number}: known are {', '.join(str(r.number) for r in self.regimes)}")


class Band(NamedTuple):
    """Rounds of one regime in a row, both ends included, and whether it is the trusted one."""

    start: int
    end: int
    regime: int
    trusted: bool


def bands(view: View, rounds: int) -> list[Band]:
    """Which regime each round up to the latest belongs to, in order.

    Rounds before the first change that is remembered are taken for the regime that it left. Where feedback comes out
    of order, a change may be dated before the one that was noticed before it: what was noticed last counts.
    """
    starts = [(1, view.changes[0].before if view.changes else view.current)]
    starts += [(max(change.start, 1), change.after) for change in view.changes]
    later = itertools.accumulate((start for start, _ in reversed(starts[1:])), min, initial=rounds + 1)
    merged: list[Band] = []
    for (start, regime), after in zip(starts, reversed(list(later)), strict=True):
        end = after - 1
        if end < start:
            continue
        if merged and merged[-1].regime == regime:
            merged[-1] = merged[-1]._replace(end=end)
        else:
            merged.append(Band(start, end, regime, regime == view.trusted))
    return merged


@dataclass(frozen=True)
class Suspect:
    """A client that a guard does not hear."""

    client: int
    since: int  # the round of the first of its remembered visits that is not learnt from
    visits: int  # remembered
    clicks: int  # in these
    beyond: float  # nats of evidence beyond what is needed
    segments: tuple[int, ...] = ()  # visits by the number of their segment, 0 for none

    @property
    def why(self) -> str:
        """One sentence."""
        return (
            f"its {self.visits} latest visits fit a taste that a few others share and most do not, "
            f"by {self.beyond:.1f} nats more than it takes to be sure"
        )


@dataclass(frozen=True)
class SpentAllowance:
    """A client that a guard does not hear for a while, since it came often enough."""

    client: int
    visits: int  # heard in the period
    until: int  # the last round of the period
    since: int = 0  # it is not remembered when that was
    clicks: int | None = None  # nor what was clicked
    segments: tuple[int, ...] = ()  # nor in which segments

    @property
    def why(self) -> str:
        """One sentence."""
        return f"it had its {self.visits} visits of the rounds up to {self.until}"


@dataclass(frozen=True, eq=False)
class GuardView:
    """What a guard did with the visits."""

    refused: int  # visits that did not reach the learner
    retracted: int = 0  # earlier visits taken back
    suspects: tuple[Suspect | SpentAllowance, ...] = ()  # clients who are not heard now
    stands_down: int = 0  # since this round it refuses nobody, because it would refuse too many; 0: it does not
    stood_down: int = 0  # how often it has done so


@dataclass(frozen=True, eq=False)
class TrustView(GuardView):
    """What `ClientTrust` made of the clients."""

    share: float = 0.0  # of visits of the rare taste; 0: none was found
    expected: float = 0.0  # of its clicks so many would have led to something, were they people's
    came: float = 0.0  # and so many did
