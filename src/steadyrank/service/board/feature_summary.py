"""What features are worth to a board, in plain words."""

import math
from typing import NamedTuple

from ...live.features import FeatureSpace, Kind
from ...views import View
from .board import Board


class Effect(NamedTuple):
    """What one feature does: by how many standard deviations of a click's logit it moves that, and what it means.

    `odds`: by what the odds of a click are multiplied where the feature is a standard deviation above its mean.
    """

    feature: str
    effect: float
    odds: float
    says: str


class FeatureSummary(NamedTuple):
    """The share of the differences between clicks that features explain, and each one's effect, strongest first."""

    explained: float
    strongest: list[Effect]
    says: str


def summarize_features(board: Board, view: View | None) -> FeatureSummary | None:
    """What features are worth by a learner's view; None if the board has none."""
    space = board.learner_state.features
    if view is None or not space.size:
        return None
    words = dict(zip(space.labels, _meanings(space), strict=True))
    strongest = [
        Effect(label, effect, math.exp(effect), words[label][effect < 0.0])
        for label, effect in space.strongest(view.effects)
    ]
    return FeatureSummary(view.explained, strongest, _said(space, view))


def _said(space: FeatureSpace, view: View) -> str:
    if view.rounds == 0:
        return "Nothing was learnt yet, so nothing can be said of features."
    what = "items and visitors" if space.visits else "items"
    return (
        f"What is known of {what} explains {100 * view.explained:.0f} % of the differences in how readily items "
        "are clicked; the rest is of each item's own."
    )


def _meanings(space: FeatureSpace) -> list[tuple[str, str]]:
    """What each of the numbers means where it brings more clicks, and where it brings fewer."""
    items = [f"items with {having}" for kind in space.items for having in _having(kind)]
    visitors = ["Visitors", *(f"Visitors with {having}" for kind in space.visits for having in _having(kind))]
    return [
        (f"{who} click {what} more readily.", f"{who} click {what} less readily.")
        for who in visitors
        for what in items
    ]


def _having(kind: Kind) -> list[str]:
    return [f"{kind.name} {each}" for each in kind.categories] or [f"a high {kind.name}"]
