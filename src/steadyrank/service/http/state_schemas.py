"""What answers about the state of a board look like: its items, its learner, and who is not heard."""

from .schemas import BoardOut, ItemOut, Schema, ViewOut


class SilencedOut(Schema):
    """A client that is not heard, by its number, or a cohort, with its kind; in shadow: would not be.

    `since`: the first round of it that is not learnt from, as far as it is remembered, and about when that was, in
    seconds since 1970. `visits`, `clicks`: what it had, as far as it is remembered. `label`: the label that says so,
    if a person did.
    """

    client: int
    kind: str | None
    since: int | None
    time: float | None
    visits: int
    clicks: int | None
    why: str
    label: int | None


class GuardOut(Schema):
    """Whose feedback does not reach the learner: how many answers were refused and taken back, and who is not heard.

    `count`: how many are not heard; `silenced`: these, or the first of them. With `shadow`: what would have been.
    """

    guard: str
    shadow: bool
    refused: int
    retracted: int
    count: int
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


class StateOut(Schema):
    """A board, its items, the learner's own view where it has one, who is not heard, and what that saved.

    `items` and the estimates of regimes are of a page; `next`: what to give as `after` for the one that follows, null
    if there is none.
    """

    board: BoardOut
    items: list[ItemOut]
    view: ViewOut | None
    guard: GuardOut
    saved: SavedOut | None
    next: str | None
    event: int
