"""What requests and answers look like: checked when they come in, and the source of the API's description."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...core.views import View
from ..board.config import (
    AnonymousMinute,
    BotShare,
    ClientDays,
    ClientMinute,
    Config,
    FeatureKinds,
    GuardChoice,
    Length,
    Lifetime,
    MostClicks,
    MostOpen,
    NewShare,
    ObservedItems,
    Seed,
    Settle,
)


class Schema(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON object with these members and no others."""


# what a value may be is declared by the board, which refuses others by name
Features: TypeAlias = dict[str, Annotated[Any, Meta(extra_json_schema={"type": ["number", "string", "null"]})]]
FewSettings: TypeAlias = Annotated[dict[str, bool | int | float | str], Meta(max_length=100)]
Items: TypeAlias = list[str] | dict[str, Features]


class BoardIn(Schema):
    """Settings of a board; on one that is there, what is left out stays. Items that are not there yet are added.

    `items`: names, or an object with what is known of each, where the board has `features`. `guards`: several, each
    with its settings; `guard` and `guard_settings` are the short form of one, and go without it. `cohorts`: the kinds
    that lists may be asked for with.
    """

    items: Items | UnsetType = UNSET
    length: Length | UnsetType = UNSET
    learner: str | UnsetType = UNSET
    settings: FewSettings | UnsetType = UNSET
    seed: Seed | UnsetType = UNSET
    new_share: NewShare | UnsetType = UNSET
    lifetime: Lifetime | UnsetType = UNSET
    settle: Settle | UnsetType | None = UNSET
    count_unanswered: bool | UnsetType = UNSET
    most_open: MostOpen | UnsetType = UNSET
    public_feedback: bool | UnsetType = UNSET
    bind_client: bool | UnsetType = UNSET
    client_minute: ClientMinute | UnsetType = UNSET
    client_lists: ClientMinute | UnsetType = UNSET
    anonymous_minute: AnonymousMinute | UnsetType = UNSET
    client_days: ClientDays | UnsetType = UNSET
    guard: str | UnsetType = UNSET
    guard_settings: FewSettings | UnsetType = UNSET
    guards: list[GuardChoice] | UnsetType | None = UNSET
    most_clicks: MostClicks | UnsetType | None = UNSET
    cohorts: list[str] | UnsetType | None = UNSET
    shadow: bool | UnsetType = UNSET
    observed_items: ObservedItems | UnsetType = UNSET
    interleave: bool | UnsetType = UNSET
    interleave_bots: BotShare | UnsetType = UNSET
    features: FeatureKinds | UnsetType | None = UNSET
    segments: Annotated[list[str], Meta(max_length=1_000)] | UnsetType | None = UNSET

    def changes(self) -> dict[str, Any]:
        """The settings that are given."""
        given = {name: getattr(self, name) for name in Config.__struct_fields__}
        return {name: msgspec.to_builtins(value) for name, value in given.items() if value is not UNSET}


class SilenceOut(Schema):
    """Lists that are over without an answer that says anything, as a share of all that are over.

    `share`: lately, since some 100 answers ago; `usual`: the most that is usual on this board, null before there
    were 100 answers; `alarming`: the share is much more than usual; `alarmed`: the latest round that was alarming.
    """

    share: float
    usual: float | None
    alarming: bool
    alarmed: int | None


class BoardOut(Schema):
    """A board."""

    board: str
    length: Length
    learner: str
    settings: dict[str, Any]
    seed: Seed
    new_share: NewShare
    lifetime: Lifetime
    settle: Settle | None
    count_unanswered: bool
    most_open: MostOpen
    public_feedback: bool
    bind_client: bool
    client_minute: ClientMinute
    client_lists: ClientMinute
    anonymous_minute: AnonymousMinute
    client_days: ClientDays
    guard: str
    guard_settings: dict[str, Any]
    guards: list[GuardChoice]
    most_clicks: MostClicks | None
    cohorts: list[str] | None
    shadow: bool
    observed_items: ObservedItems
    interleave: bool
    interleave_bots: BotShare
    features: FeatureKinds | None
    segments: list[str] | None
    items: int
    impressions: int
    answers: int
    clicks: int
    unanswered: int
    rounds: int
    silence: SilenceOut


class ParkedOut(Schema):
    """A board that this worker does not serve, and why."""

    board: str
    why: str


class BoardsOut(Schema):
    """Boards that the key may see, by name; `next`: what to give as `after` for more, null if there are none.

    `parked`: those that this worker does not serve, the first 1,000; `broken`: their names alone.
    """

    boards: list[BoardOut]
    parked: list[ParkedOut]
    broken: list[str]
    next: str | None


class SecretOut(Schema):
    """Until when impression ids signed by the secret before are good, in seconds since 1970."""

    until: float


class ItemsIn(Schema):
    """Items to add or to reinstate: names, or an object with what is known of each."""

    items: Items


class RetireIn(Schema):
    """Items to show no longer."""

    items: list[str]


class RankIn(Schema):
    """What to rank: all items, or some candidates; a list as long as the board's, or shorter.

    `client`: who looks; `cohort`: what it has in common with others, at most eight kinds, such as network or agent;
    of these, those that the board declares in `cohorts`, if it does.
    `unknown`: what becomes of candidates that are no items of the board: refuse the request, skip or add them.
    `theirs`: the caller's own list, from the top, to be mixed with ours, where the board has `interleave`.
    `features`: what is known of the visit, where the board has `features` of visits; `segment`: which of the board's
    `segments` it belongs to; null: it is not known.
    """

    candidates: list[str] | None = None
    unknown: Literal["refuse", "skip", "add"] = "refuse"
    length: int | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    theirs: list[str] | None = None
    features: Features | None = None
    segment: str | None = None


class RankOut(Schema):
    """A list that was given out; `expires` in seconds since 1970; `skipped`: how many candidates were left out."""

    impression: str
    items: list[str]
    expires: float
    skipped: int | UnsetType = UNSET


class AnswerIn(Schema, kw_only=True):
    """What was clicked: an item or null, or a bit a place with how many places were looked at."""

    clicked: str | UnsetType | None = UNSET
    clicks: list[int] | None = None
    examined: int | None = None


class FeedbackIn(AnswerIn, kw_only=True):
    """An answer to an impression; `client`: who answers, where the board has `bind_client`."""

    impression: str
    client: str | None = None


class BatchRow(FeedbackIn, kw_only=True):
    """An answer with its board."""

    board: str


class BatchIn(Schema):
    """Many answers."""

    feedback: list[BatchRow]


class FeedbackOut(Schema):
    """learnt, waiting (until the impression is settled), late, or duplicate."""

    outcome: str


class BatchRowOut(Schema):
    """An outcome, or the code of a refusal; the first few of these say why."""

    code: int
    outcome: str | None = None
    message: str | UnsetType = UNSET


class BatchOut(Schema):
    """One for each row, in order, and how many were refused with which code."""

    feedback: list[BatchRowOut]
    refused: dict[str, int]


class DoneOut(Schema):
    """It is done."""

    done: bool = True


class ForgottenOut(Schema):
    """How many impressions of a client were forgotten."""

    impressions: int


class ItemOut(Schema):
    """How an item stands: its plain click rate, and its attraction as the learner sees it."""

    item: str
    active: bool
    looks: int
    clicks: int
    rate: float
    estimate: float | None


class RegimeOut(Schema):
    """A stretch of rounds with one click behaviour; estimates by item, in the order of `items`."""

    number: int
    start: int
    rounds: int
    estimates: list[float]


class ChangeOut(Schema):
    """From one regime to another: the round it is dated to, and the round in which it was noticed.

    `inversion`: nats by which the regime before, inverted, predicts the one after better than as it was learnt.
    """

    start: int
    noticed: int
    before: int
    after: int
    inversion: float


class ShortView(Schema):
    """What SteadyRank makes of the feedback, in short.

    `inverted`: the latest change looks like an inversion of what was learnt before it. `attention`: the chance that
    each place of a list is looked at, as learnt from clicks; 1 everywhere of users who scan until they click.
    """

    current: int
    trusted: int
    rounds: int
    rejected: int
    corrupted: float
    n_changes: int
    inverted: bool
    attention: list[float]


class ViewOut(ShortView):
    """What SteadyRank makes of the feedback."""

    regimes: list[RegimeOut]
    changes: list[ChangeOut]


def in_short(view: View) -> dict[str, Any]:
    """The members of a `ShortView`."""
    return {name: getattr(view, name) for name in ShortView.__struct_fields__} | {"attention": list(view.attention)}


class ErrorOut(Schema):
    """Why a request was refused."""

    code: int
    message: str
