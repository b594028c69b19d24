"""What is reported of another ranker's lists, and what is said to that."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from .schemas import AnswerIn, Schema

Chance: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


class ObserveIn(AnswerIn, kw_only=True):
    """A list that another ranker showed, from the top, and its answer, if there is one by now.

    `id`: any name of this list that is its own; the same again is a duplicate. `time`: when it was shown, in seconds
    since 1970; now if it is left out. `propensities`: the chance with which that ranker chose the item of each place,
    given those above it; `marginals`: whatever is above it. `candidates`: what it chose from, if not from all items.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    items: list[str]
    time: float | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    candidates: list[str] | None = None
    propensities: list[Chance] | None = None
    marginals: list[Chance] | None = None


class ObserveOut(Schema):
    """`outcome`: shown (not answered yet), learnt, waiting, late or duplicate.

    `impression` answers the list later, as one of our own, until `expires`; `ours`: what this board would have shown.
    """

    outcome: str
    impression: str
    expires: float
    ours: list[str]
