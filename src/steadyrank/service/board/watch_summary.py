"""The summary of a board for a page, small whatever the number of items: its list, diverging items, features."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import ANYONE, Visit
from ...core.views import View, Worths
from ...live.features import SEGMENT_NAME, FeatureSpace, Kind
from ...live.impression_buffer import UNANSWERED
from ...live.learner_state import LearnerState
from .board import Board
from .schema import IntervalOut, Schema

MOST_DIVERGING = 20
_DRAWS = 60  # lists drawn to estimate what users get
_MOST_DRAWN = 75_000  # items in all drawn lists; boards with very many items draw fewer lists, at least one
_Z = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


class ItemOut(Schema, kw_only=True):
    """An item: its plain click rate, and its attraction as the learner estimates it.

    `invalid_clicks`: clicks that a guard refused or retracted, or that a label calls fraud. `worth`: of a click, with
    a 95 % interval, where value is the goal.
    """

    item: str
    active: bool
    looks: int
    clicks: int
    rate: float
    estimate: float | None
    invalid_clicks: int
    worth: IntervalOut | UnsetType = UNSET


class WatchItem(ItemOut, kw_only=True):
    """An item with its attraction in the trusted regime and a 95 % interval."""

    low: float | None
    high: float | None


class ItemScan(NamedTuple):
    """The parts of a summary whose cost grows with the number of items.

    `diverging`: the items whose click rate is outside the interval of their estimate.
    """

    view: View | None
    diverging: list[WatchItem]


class SegmentSummary(NamedTuple):
    """A segment of the visits (None: visits without one), its list now, and the learner's view of it."""

    segment: str | None
    shown: list[WatchItem]
    view: View


def scan_items(board: Board) -> ItemScan:
    """Compute the view and the diverging items. No list is drawn, so other requests may rank meanwhile."""
    view = board.learner_state.view()
    return ItemScan(view, _Items(board.learner_state, view).diverging())


def count_open(board: Board) -> int:
    """Count the impressions that can still be answered."""
    return int(np.count_nonzero(np.isin(board.impressions.state, UNANSWERED)))


def list_shown(board: Board, view: View | None) -> list[WatchItem]:
    """The list that users get now, with the learner's view of its items."""
    return _Items(board.learner_state, view).at(typical_list(board))


def summarize_segments(board: Board, view: View | None) -> list[SegmentSummary]:
    """Summarize what each segment gets, visits without a segment first; empty on a board without segments."""
    state, space = board.learner_state, board.learner_state.features
    if view is None or not space.segments:
        return []
    names, segments = (None, *space.segments), []
    for name, own in zip(names, view.segments, strict=True):
        slots = typical_list(board, space.of_visit({SEGMENT_NAME: name}), len(names))
        segments.append(SegmentSummary(name, _Items(state, own).at(slots), own))
    return segments


def typical_list(board: Board, known: Floats | None = None, parts: int = 1) -> list[int]:
    """The slots of the list that users get now, from the top; `known`: features of the visits it is for.

    Lists are random, and while regimes differ they serve two of them. So items are ordered by their places in a few
    lists, drawn from the same seed each time; fewer lists if there are many `parts` (segments). Under rules the
    result is the drawn list most like all others, since that one keeps the rules.
    """
    state, rng = board.learner_state, np.random.default_rng(0)
    visit = Visit(board.impressions.rounds + 1, ANYONE, state.unknown if known is None else known)
    points: dict[int, int] = {}
    rules, drawn = board.rules(best=True), list[list[int]]()
    size = min(state.length, state.newcomers.active)
    for _ in range(min(_DRAWS, 1 + _MOST_DRAWN // (parts * state.capacity)) if size else 0):
        drawn.append(board.rank(visit, None, size, rng, rules).ranking.tolist())
        for place, slot in enumerate(drawn[-1]):
            points[slot] = points.get(slot, 0) + size - place
    if rules is not None and drawn:
        return max(drawn, key=lambda slots: sum((size - place) * points[slot] for place, slot in enumerate(slots)))
    return sorted(points, key=lambda slot: (-points[slot], slot))[:size]


def worths_out(worths: Worths, some: slice | Sequence[int]) -> list[IntervalOut]:
    """The mean worth of clicks on some items, with intervals."""
    columns = (each[some].tolist() for each in (worths.mean, *worths.interval()))
    return [IntervalOut(value=mean, low=low, high=high) for mean, low, high in zip(*columns, strict=True)]


def interval(mean: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of rates with mean `mean` and `weight` looks, the prior's pseudo-looks included.

    It approximates the quantiles of the Beta distribution with the same mean and weight.
    """
    share = _Z * _Z / weight
    centre = (mean + share / 2.0) / (1.0 + share)
    half = _Z / (1.0 + share) * np.sqrt(mean * (1.0 - mean) / weight + share / (4.0 * weight))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


class _Items:
    """The items of a learner with their click rates, and their estimates and intervals in the trusted regime.

    The trusted regime, because while bots click, the current one is theirs: measured by it, what honest users like
    would look like the fraud. On boards with visit features there are no intervals: the rate of an item is that of
    the visitors who saw it, the estimate that of the average visitor, so a difference is no sign of fraud.
    """

    def __init__(self, state: LearnerState, view: View | None) -> None:
        size = len(state.names)
        self._learner_state = state
        self._active: Bools = state.active[:size]
        self._looks: Ints = state.looks[:size]
        self._compared = view is not None and not state.features.visits
        self._clicks: Ints = state.clicks[:size]
        self._trusted = None if view is None else view.regime(view.trusted)
        self._worths = None if view is None else view.worths

    def at(self, slots: list[int]) -> list[WatchItem]:
        """The items in these slots."""
        return [self._item(slot) for slot in slots]

    def diverging(self) -> list[WatchItem]:
        """Items whose click rate is outside the interval, most of their own standard deviations beyond it first.

        The excess must be more than one click: no interval reaches 0, so an item never clicked would always be
        outside.
        """
        if self._trusted is None or not self._compared:
            return []
        seen = np.flatnonzero(self._looks)
        looks = self._looks[seen]
        low, high = interval(self._trusted.estimate[seen], self._trusted.weight[seen])
        rate = self._clicks[seen] / looks
        beyond = np.maximum(low - rate, rate - high) - 1.0 / looks
        outside = np.flatnonzero(beyond > 0.0)
        order = np.argsort(-beyond[outside] * np.sqrt(looks[outside]), kind="stable")
        return self.at(seen[outside[order][:MOST_DIVERGING]].tolist())

    def _item(self, slot: int) -> WatchItem:
        looks, clicks = int(self._looks[slot]), int(self._clicks[slot])
        estimate: float | None = None
        bounds: tuple[float | None, float | None] = (None, None)
        if self._trusted is not None:
            mean = self._trusted.estimate[slot]
            estimate = float(mean)
            if self._compared:
                low, high = interval(mean, self._trusted.weight[slot])
                bounds = float(low), float(high)
        return WatchItem(
            item=self._learner_state.names[slot],
            active=bool(self._active[slot]),
            looks=looks,
            clicks=clicks,
            rate=clicks / max(looks, 1),
            estimate=estimate,
            invalid_clicks=self._learner_state.invalid_clicks(slot),
            worth=UNSET if self._worths is None else worths_out(self._worths, [slot])[0],
            low=bounds[0],
            high=bounds[1],
        )


class EffectOut(Schema):
    """The effect of a feature on the logit of a click, per standard deviation; `says`: the effect in words.

    `odds`: the factor on the odds of a click where the feature is one standard deviation above its mean.
    """

    feature: str
    effect: float
    odds: float
    says: str


class FeaturesOut(Schema):
    """What features explain: `explained` is the share of the differences in attraction that they account for.

    `count`: the number of effects, of item features alone and combined with visit features; `strongest`: all, or the
    strongest of them.
    """

    explained: float
    says: str
    count: int
    strongest: list[EffectOut]


def summarize_features(board: Board, view: View | None, most: int | None = None) -> FeaturesOut | None:
    """Summarize the effects of features by a learner's view, `most` at most; None if the board has no features."""
    space = board.learner_state.features
    if view is None or not space.size:
        return None
    words = dict(zip(space.labels, _meanings(space), strict=True))
    effects = space.strongest(view.effects)
    strongest = [
        EffectOut(feature=label, effect=effect, odds=math.exp(effect), says=words[label][effect < 0.0])
        for label, effect in effects[:most]
    ]
    return FeaturesOut(
        explained=view.explained, says=_explained(space, view), count=len(effects), strongest=strongest
    )


def _explained(space: FeatureSpace, view: View) -> str:
    if view.rounds == 0:
        return "Nothing was learnt yet, so nothing can be said of features."
    what = "items and visitors" if space.visits else "items"
    return (
        f"What is known of {what} explains {100 * view.explained:.0f} % of the differences in how readily items "
        "are clicked; the rest is of each item's own."
    )


def _meanings(space: FeatureSpace) -> list[tuple[str, str]]:
    """For each effect, a sentence for the case that it raises clicks and one for the case that it lowers them."""
    items = [f"items with {having}" for kind in space.items for having in _having(kind)]
    visitors = ["Visitors", *(f"Visitors with {having}" for kind in space.visits for having in _having(kind))]
    return [
        (f"{who} click {what} more readily.", f"{who} click {what} less readily.")
        for who in visitors
        for what in items
    ]


def _having(kind: Kind) -> list[str]:
    return [f"{kind.name} {each}" for each in kind.categories] or [f"a high {kind.name}"]
