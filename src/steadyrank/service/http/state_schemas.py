"""What answers about the state of a board look like: its items, its learner, and who is not heard."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from ..board.config import Known
from .schemas import BoardOut, ChangeOut, ItemOut, Schema, ShortView, ViewOut

_Names: TypeAlias = list[str]  # `list` is a member of what follows
_Changes: TypeAlias = list[ChangeOut]
_Estimates: TypeAlias = list[float]


class SegmentVisits(Schema):
    """How many visits are of a segment, null for visits without one."""

    segment: str | None
    visits: int


class SilencedOut(Schema):
    """A client that is not heard, by its number, or a cohort, with its kind; in shadow: would not be.

    `since`: the first round of it that is not learnt from, as far as it is remembered, and about when that was, in
    seconds since 1970. `visits`, `clicks`: what it had, as far as it is remembered. `label`: the label that says so,
    if a person did. `segments`: those of `visits` by segment, the most first; null on a board without segments, and
    where it is not remembered, as of who was labelled.
    """

    client: int
    kind: str | None
    since: int | None
    time: float | None
    visits: int
    clicks: int | None
    why: str
    label: int | None
    segments: list[SegmentVisits] | None


class GuardCountsOut(Schema):
    """How many answers one guard refused and took back; one that it refused for several kinds of senders counts for
    each of them.

    `stands_down`: since this round the guard refuses nobody, because it would refuse too many of the recent visits;
    null: it does not. `stood_down`: how often it has done so.
    """

    guard: str
    refused: int
    retracted: int
    stands_down: int | None
    stood_down: int


class GuardOut(Schema):
    """Whose feedback does not reach the learner: how many answers were refused and taken back, and who is not heard.

    `count`: how many are not heard; `silenced`: these, or the first of them. With `shadow`: what would have been.
    `guards`: each of them, in the order in which they are asked, and `guard`: the last that the settings name.
    Where a `segment` is asked for, `silenced` has those with visits of it, and `of_segment` says how many there are.
    """

    guard: str
    shadow: bool
    refused: int
    retracted: int
    guards: list[GuardCountsOut]
    count: int
    of_segment: int | None
    silenced: list[SilencedOut]


class IntervalOut(Schema):
    """A mean with its 95 % interval; null where there is too little."""

    value: float | None
    low: float | None
    high: float | None


class SavedOut(Schema):
    """What people would have lost if feedback that is not trusted had been believed (docs/dashboard.md).

    `rounds`: of the stretches that are not trusted, from when each was noticed; `people`: the share of their visits
    that were people's, as estimated; `lost`: clicks. `believed`: the list that the latest such stretch leads to,
    empty if there was none; `plain`: the list by plain click rates now.
    """

    rounds: int
    people: float
    lost: IntervalOut
    believed: list[str]
    plain: list[str]


class StateItem(ItemOut):
    """An item, and what is known of it, where the board has `features`."""

    features: Known | UnsetType = UNSET


class EffectOut(Schema):
    """What a feature does: it moves the logit of a click by `effect` of its standard deviations, in words `says`.

    `odds`: what the odds of a click are multiplied by where the feature is a standard deviation above its mean.
    """

    feature: str
    effect: float
    odds: float
    says: str


class FeaturesOut(Schema):
    """What features are worth: the share of the differences in how readily items are clicked that they explain.

    `count`: how many effects there are, features of items alone and with those of visits; `strongest`: all, or the
    strongest of them.
    """

    explained: float
    says: str
    count: int
    strongest: list[EffectOut]


class SegmentOut(Schema):
    """A segment of the visits, null for visits without one: the list that it gets now, and what is learnt in it.

    `estimates`: of each item in the segment's current regime, in the order of `items`.
    """

    segment: str | None
    list: _Names
    view: ShortView
    changes: _Changes
    estimates: _Estimates


class StateOut(Schema):
    """A board, its items, the learner's own view where it has one, who is not heard, and what that saved.

    `features`: what these are worth, `segments`: each with its list; null on a board that has none.
    `items` and the estimates of regimes are of a page; `next`: what to give as `after` for the one that follows, null
    if there is none.
    """

    board: BoardOut
    items: list[StateItem]
    view: ViewOut | None
    guard: GuardOut
    saved: SavedOut | None
    features: FeaturesOut | None
    segments: list[SegmentOut] | None
    next: str | None
    event: int
