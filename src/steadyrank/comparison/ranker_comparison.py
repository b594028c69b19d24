"""Compare another ranker with ours on the other's lists: a verdict, estimates of our clicks, and caveats."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from .off_policy import (
    INVERSE,
    ROBUST,
    Estimate,
    Interval,
    Lists,
    check_chances,
    clicks_of,
    clusters,
    estimates,
    mean,
    weight_limit,
)

ENOUGH = 50  # effective lists below which a caveat calls intervals too narrow: a judgement, not measured
COVERED = 0.9  # mean weight below which a caveat says that a part of ours is never shown
DOUBTED = 2.0  # mean weight above which a caveat calls the propensities wrong: at most 1 is expected


class Row(NamedTuple):
    """One list: slots of items from the top, clicked places from 0, places examined; unknown chances are empty."""

    shown: Sequence[int]
    ours: Sequence[int]
    clicks: Sequence[int]
    examined: int
    propensities: Sequence[float]
    marginals: Sequence[float]
    sender: int


class Part(NamedTuple):
    """A comparison over some lists. `alike`: share of our places at which their list has the same item."""

    lists: int
    theirs: Interval
    alike: float
    estimates: list[Estimate]


class Verdict(NamedTuple):
    """Whose lists get more clicks, by the most suitable estimate: `better` is ours, theirs, or open.

    `model`: cascade if no list had more than one click, else position; the method is doubly robust. `gain`: clicks
    per list of ours minus clicks per list of theirs. `says`: the verdict in a sentence.
    """

    better: str
    model: str
    lists: int
    theirs: Interval
    ours: Interval
    gain: Interval
    says: str


class Comparison(NamedTuple):
    """Both rankers over all lists, and over those that are not suspect.

    `trusted` is None if no list is suspect or too few are not. `theirs` and `ours`: the most frequent item at each
    place. `says`: caveats.
    """

    verdict: Verdict
    whole: Part
    trusted: Part | None
    suspect: int
    theirs: list[str]
    ours: list[str]
    says: list[str]


def lists_of(rows: Sequence[Row]) -> Lists:
    """Rows as arrays. Raises ValueError for impossible chances; leave out rows for which ours had nothing to show."""
    n, length = len(rows), max((len(row.shown) for row in rows), default=1)
    shown, ours = np.full((n, length), -1), np.full((n, length), -1)
    clicks = np.zeros((n, length), np.bool_)
    propensities, marginals = np.full((n, length), np.nan), np.full((n, length), np.nan)
    for i, row in enumerate(rows):
        try:
            check_chances("propensities", row.propensities)
            check_chances("marginals", row.marginals)
        except ValueError as error:
            raise ValueError(f"list {i + 1}: {error}") from None
        shown[i, : len(row.shown)] = row.shown
        ours[i, : len(row.ours)] = row.ours[:length]
        clicks[i, list(row.clicks)] = True
        propensities[i, : len(row.propensities)] = row.propensities
        marginals[i, : len(row.marginals)] = row.marginals
    numbers: tuple[Ints, Ints] = (
        np.array([row.examined for row in rows], np.int64),
        np.array([row.sender for row in rows], np.int64),
    )
    return Lists(shown, ours, clicks, numbers[0], propensities, marginals, numbers[1])


def compare(lists: Lists, suspect: Bools, names: Sequence[str]) -> Comparison:
    """Compare both rankers; `suspect`: lists to leave out of the `trusted` part. Needs at least two lists."""
    whole = _part(lists, len(names))
    count = int(np.count_nonzero(suspect))
    trusted = _part(lists.only(~suspect), len(names)) if 0 < count < suspect.size - 1 else None
    theirs, ours = ([names[slot] for slot in _most_often(part)] for part in (lists.shown, lists.ours))
    single = float(clicks_of(lists).max()) <= 1.0
    caveats = [*_too_many_clicks(trusted or whole, single), *_caveats(whole, trusted, count)]
    return Comparison(_verdict(trusted or whole, single), whole, trusted, count, theirs, ours, caveats)


def _verdict(part: Part, single: bool) -> Verdict:
    """`single`: whether no list had more than one click, as when people leave with the first."""
    model = "cascade" if single else "position"
    (one,) = [one for one in part.estimates if (one.model, one.method) == (model, ROBUST)]
    gain, doubt = one.gain, _doubt(one, single)
    better = "open" if doubt else "ours" if gain.low > 0.0 else "theirs" if gain.high < 0.0 else "open"
    words = {"ours": "Ours gets more clicks", "theirs": "Theirs gets more clicks", "open": "Open"}[better]
    interval = "no interval" if math.isnan(gain.low) else f"95 %: {gain.low:+.3f} to {gain.high:+.3f}"
    says = f"{words}: ours {one.ours.value:.3f} a list, theirs {part.theirs.value:.3f}; "
    says += f"gain {gain.value:+.3f} ({interval})."
    if better == "open":
        says += f" {doubt or 'The interval holds 0: more lists are needed.'}"
    return Verdict(better, model, part.lists, part.theirs, one.ours, gain, says)


def _doubt(one: Estimate, single: bool) -> str:
    """Why an estimate decides nothing, whatever its interval; empty if it may decide."""
    covered, effective = one.spread.covered, one.spread.effective
    if math.isnan(one.gain.low):
        return "All lists are those of one client."
    if one.cut or covered > DOUBTED or (single and one.ours.value > 1.0):
        return f"That cannot be: {_doubted(one)} are not those of the lists, or there are too few lists."
    if effective < ENOUGH:
        seldom = "Lists like ours were shown too seldom"
        return f"{seldom}: these say as much as {effective:.0f} of ours, and {ENOUGH} are needed."
    if covered + 2.0 * covered / math.sqrt(effective) < COVERED:  # two standard errors, about
        return f"The other ranker shows about {covered:.0%} of what ours would: the rest is a guess."
    return ""


def _doubted(one: Estimate) -> str:
    """What probably made an estimate impossible, in words."""
    return (
        "the chances that were given" if one.given else "the shares that stand for the chances, as none were given,"
    )


def _too_many_clicks(part: Part, single: bool) -> list[str]:
    """A sentence for each model with estimates above one click a list, where no list had more than one."""
    wrong: dict[str, float] = {}
    doubted = ""
    for one in part.estimates if single else ():
        if one.ours.value > 1.0:
            wrong[one.model] = max(one.ours.value, wrong.get(one.model, 0.0))
            doubted = _doubted(one)
    why = {
        "position": "The model takes each place for itself, and does not know that people leave with their first "
        "click: do not believe it here.",
        "cascade": f"{doubted.capitalize()} are not those of the lists, or there are too few lists.",
    }
    return [
        f"{model}: estimates up to {value:.3f} clicks a list, and no list had more than one. {why[model]}"
        for model, value in wrong.items()
    ]


def _part(lists: Lists, n_items: int) -> Part:
    places = lists.ours >= 0
    alike = float((lists.shown == lists.ours)[places].mean()) if places.any() else 0.0
    theirs: Floats = clicks_of(lists)
    return Part(theirs.size, mean(theirs, clusters(lists.sender)), alike, estimates(lists, n_items))


def _most_often(lists: Ints) -> list[int]:
    commonest = []
    for place in lists.T:
        slots, count = np.unique(place[place >= 0], return_counts=True)
        if slots.size:
            commonest.append(int(slots[np.argmax(count)]))
    return commonest


def _caveats(whole: Part, trusted: Part | None, suspect: int) -> list[str]:
    """What a reader should know before trusting the numbers, in sentences."""
    caveats = []
    if not all(one.given for one in whole.estimates):
        missing = sorted({one.model for one in whole.estimates if not one.given})
        caveats.append(
            f"Without propensities of the other ranker ({' and '.join(missing)}), the share of lists with an item at "
            "its place stands for them: right only if it shows everybody lists of the same kind, whoever they are."
        )
    last = trusted or whole
    for one in last.estimates:
        caveats += _about_weights(one, last.lists) if one.method == INVERSE else []
    caveats += [_about_cut(one) for one in last.estimates if one.cut]
    if math.isnan(last.theirs.low):
        which = "All lists" if trusted is None else "All lists that are not suspect"
        caveats.append(
            f"{which} are those of one client: there are no intervals (null), since it is unknown how clients differ."
        )
    if suspect:
        caveats.append(
            f"{suspect:,} of {whole.lists:,} lists are suspect: left out by the guard, labelled as fraud, or of "
            "rounds outside of the trusted regime."
            + (" Without them fewer than two are left." if trusted is None else "")
        )
    return caveats


def _about_weights(one: Estimate, lists: int) -> list[str]:
    """Caveats from the weights of a model's estimates."""
    caveats, spread = [], one.spread
    if spread.clipped:
        caveats.append(
            f"{one.model}: {spread.clipped:,} of {lists:,} lists have a weight above {weight_limit(lists):.1f}: "
            "it is very seldom that the other ranker shows them. They count for that much and no more, so that a few "
            "do not decide. Inverse propensities say too little by that; self-normalised takes them to be like the "
            "others, and doubly robust fills it in by a model of clicks."
        )
    if spread.covered > DOUBTED:
        caveats.append(
            f"{one.model}: the mean weight is {spread.covered:.1f}, and would be 1 at most, but for chance, if the "
            "chances were those of the other ranker's lists: they are smaller, and the estimates too large."
        )
    if spread.covered < COVERED:
        caveats.append(
            f"{one.model}: the other ranker shows about {spread.covered:.0%} of what ours would. Inverse "
            "propensities leave the rest out and say too little; self-normalised takes it to be like what is shown, "
            "and doubly robust fills it in by a model of clicks; nothing here checks either."
        )
    if spread.effective < ENOUGH:
        caveats.append(
            f"{one.model}: its lists say as much as {spread.effective:.0f} of ours, fewer than {ENOUGH}: the "
            "intervals are too narrow to be believed. Wait for more lists, or let the other ranker vary more."
        )
    return caveats


def _about_cut(one: Estimate) -> str:
    """The caveat for an impossible estimate."""
    wrong = "less than no click" if one.ours.value == 0.0 else "more clicks than a list has places"
    return (
        f"{one.model}, {one.method}: the estimate was {wrong}. It is set to {one.ours.value:g}, with all that is "
        f"possible for its interval: {_doubted(one)} are not those of the lists, or there are too few lists."
    )
