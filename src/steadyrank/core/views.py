"""Views for people: what a learner or a guard concluded from the feedback."""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .arrays import Floats, Ints
from .item_evidence import INVERTED


@dataclass(frozen=True, eq=False)
class Regime:
    """One or several stretches of rounds with the same click behaviour."""

    number: int  # 1, 2, ... in order of opening
    start: int  # its first round
    rounds: int  # number of its rounds
    estimate: Floats  # [K] posterior mean of each item's attraction in it
    looks: Ints  # [K] looks behind each estimate; 0: the estimate is the prior mean
    weight: Floats  # [K] these plus the pseudo-looks of the prior


@dataclass(frozen=True, eq=False)
class Change:
    """A change of regime."""

    start: int  # estimated first round of the new behaviour
    noticed: int  # round whose feedback revealed it
    before: int  # number of the regime before
    after: int
    inversion: float  # nats by which `before`, inverted, predicts `after` better than as learnt; 0: dropped

    @property
    def inverted(self) -> bool:
        """Whether `after` looks like `before` inverted: clicks on what was not clicked, and none on what was.

        Users rarely change like that; attacks do, when they begin and when they end.
        """
        return self.inversion > INVERTED


_Z = 1.959963984540054  # standard deviations that contain 95 % of a normal distribution


@dataclass(frozen=True, eq=False)
class Worths:
    """The estimated worth of a click on each item, if value is the goal."""

    mean: Floats  # [K]
    doubt: Floats  # [K] posterior variance as a share of the squared mean
    ends: bool  # whether a click ends the visit

    def interval(self) -> tuple[Floats, Floats]:
        """The 95 % interval of each: of a Gamma distribution, by the cube root of Wilson and Hilferty 1931."""
        ninth, deviation = self.doubt / 9.0, np.sqrt(self.doubt / 9.0)
        low, high = (np.maximum(1.0 - ninth + z * deviation, 0.0) ** 3 for z in (-_Z, _Z))
        return self.mean * low, self.mean * high


@dataclass(frozen=True, eq=False)
class View:
    """The regimes, which of them is trusted, and what that implies for the feedback."""

    regimes: tuple[Regime, ...]  # those stored, in order of opening
    current: int  # number of the regime that learns now
    trusted: int  # number of the longest regime; the current one among equals
    rounds: int  # rounds learnt from
    rejected: int  # visits that the guard refused; added by `with_refused`, since the learner does not see them
    corrupted: float  # share of all rounds rejected or outside the trusted regime, in [0, 1]
    n_changes: int
    changes: tuple[Change, ...]  # the latest ones, oldest first
    attention: tuple[float, ...] = ()  # chance that each place is looked at, relative to the first
    effects: tuple[float, ...] = ()  # effect of each feature, in standard deviations of the logit of a click
    explained: float = 0.0  # share of these logits' variance that features explain, in the trusted regime
    worths: Worths | None = None  # None if clicks are the goal
    segments: "tuple[View, ...]" = ()  # a view per segment, that of visits without one first; this is the joint one

    @property
    def inverted(self) -> bool:
        """Whether the latest change looks like an inversion of what was learnt before it."""
        return bool(self.changes) and self.changes[-1].inverted

    def with_refused(self, refused: int) -> "View":
        """This view with visits that the guard refused."""
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
    """Consecutive rounds of one regime, both ends included, and whether it is the trusted one."""

    start: int
    end: int
    regime: int
    trusted: bool


def bands(view: View, rounds: int) -> list[Band]:
    """The regime of each round up to the latest, as bands in order.

    Rounds before the first remembered change are assigned to the regime that it left. If feedback comes out
    of order, a change may be dated before one that was noticed earlier: then the one noticed last counts.
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
    """A client that a guard refuses."""

    client: int
    since: int  # round of its first remembered visit that is not learnt from
    visits: int  # visits remembered
    clicks: int  # clicks in these
    beyond: float  # nats of evidence above the bar
    segments: tuple[int, ...] = ()  # number of visits by segment, 0 for none

    @property
    def why(self) -> str:
        """One sentence."""
        return (
            f"its {self.visits} latest visits fit a taste that a few others share and most do not, "
            f"by {self.beyond:.1f} nats more than it takes to be sure"
        )


@dataclass(frozen=True)
class SpentAllowance:
    """A client that a guard refuses for a while, because it used up its allowance."""

    client: int
    visits: int  # visits admitted in the period
    until: int  # the last round of the period
    since: int = 0  # not remembered
    clicks: int | None = None  # not remembered
    segments: tuple[int, ...] = ()  # not remembered

    @property
    def why(self) -> str:
        """One sentence."""
        return f"it had its {self.visits} visits of the rounds up to {self.until}"


@dataclass(frozen=True, eq=False)
class GuardView:
    """What a guard did with the visits."""

    refused: int  # visits that did not reach the learner
    retracted: int = 0  # earlier visits retracted
    suspects: tuple[Suspect | SpentAllowance, ...] = ()  # clients that are refused now
    stands_down: int = 0  # round since which it refuses nobody, because it would refuse too many; 0: it is active
    stood_down: int = 0  # how often it has done so


@dataclass(frozen=True, eq=False)
class TrustView(GuardView):
    """What `ClientTrust` concluded about the clients."""

    share: float = 0.0  # share of visits of the rare taste; 0: none was found
    expected: float = 0.0  # outcomes expected of the rare taste's clicks if these were people's
    came: float = 0.0  # outcomes that they had
