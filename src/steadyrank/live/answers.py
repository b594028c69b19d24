"""What an answer to a list means: which places were clicked, and how many were looked at. The only parser of it.

Parsing has two steps, because the list is not always available when the answer comes: `given` checks the form,
`Given.to` checks it against the list. Candidates that are no items are refused, skipped or added.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import Bools
from ..core.refusals import Refused, not_text
from ..core.settings import whole

Unknown: TypeAlias = Literal["refuse", "skip", "add"]
WORDS = ("refuse", "skip", "add")
LONGEST_ITEM = 500  # characters of a name


def check_unknown(unknown: str) -> None:
    """Refuse any other value of `unknown`."""
    if unknown not in WORDS:
        raise Refused(422, f"unknown must be one of {', '.join(WORDS)}, not {unknown!r:.80}")


def check_candidates(candidates: Sequence[str] | None) -> None:
    """Refuse an empty list of candidates; None: all items."""
    if candidates is not None and not len(candidates):
        raise Refused(422, "candidates must name at least one item, or be left out")


def fresh(candidates: Sequence[str], slots: dict[str, int]) -> list[str]:
    """The candidates that are no items yet, without repetition, in order."""
    if isinstance(candidates, str):
        raise Refused(422, f"candidates must be several names, not the text {candidates!r}")
    others = [item for item in dict.fromkeys(candidates) if item not in slots]
    for item in others:
        if not isinstance(item, str):
            raise Refused(422, f"candidates are names, which are text, {not_text(item)}")
    return others


def without(candidates: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """The candidates not in `left_out`; refused if there are none."""
    gone = set(left_out)
    kept = [item for item in candidates if item not in gone]
    if not kept:
        raise Refused(
            422, f"none of the {len(gone)} candidates is an item, such as {next(iter(left_out), None)!r:.80}"
        )
    return kept


def refuse_text(items: Any) -> None:
    """Refuse a string in place of a list of names: its letters would become items."""
    if isinstance(items, str):
        raise ValueError(f"a list is a sequence of names, not the text {items!r}")


def check_item(item: Any) -> None:
    """Refuse what cannot be the name of an item."""
    if not isinstance(item, str) or not item or len(item) > LONGEST_ITEM:
        raise ValueError(f"an item is named by text of 1 to 500 characters, {not_text(item)}")


LEFT_OUT: Any = object()  # the argument `clicked` was not given; None means no click


class Form(NamedTuple):
    """How an error describes the parts of an answer."""

    parts: str
    examined: str  # error for an `examined` without clicks


IN_PROCESS = Form(
    "an answer is one of clicked=ITEM, clicked=None, position=NUMBER, clicks=[...]",
    "examined={!r} goes with clicks=[...] only",
)
OVER_HTTP = Form(
    "an answer has either clicked (an item or null) or clicks (one bit per place)",
    "examined ({!r}) goes with clicks only",
)


class Answer(NamedTuple):
    """One bit per place of a list, and the number of places from the top that it covers."""

    clicks: Bools
    examined: int

    @property
    def positions(self) -> list[int]:
        """The places that were clicked, from 0."""
        places: list[int] = np.flatnonzero(self.clicks).tolist()
        return places


class Given(NamedTuple):
    """An answer not yet checked against its list: item, position from 1, or bits; if all are None: no click."""

    item: str | None = None
    position: int | None = None
    clicks: Sequence[bool | int] | None = None
    examined: int | None = None

    def to(self, items: Sequence[str]) -> Answer:
        """The answer to a list of these items, from the top; refused with 422 if it does not fit."""
        if self.clicks is not None:
            return _bits(len(items), self.clicks, self.examined)
        if self.item is None and self.position is None:
            return Answer(np.zeros(len(items), np.bool_), len(items))
        if self.item is not None:
            if not isinstance(self.item, str):
                raise Refused(
                    422, f"clicked must be the name of an item, which is text, or None, {not_text(self.item)}"
                )
            if self.item not in items:
                raise Refused(422, f"item {self.item!r:.80} was not shown")
            position = items.index(self.item) + 1
        else:
            position = _whole("position", self.position, 1, len(items))
        clicks: Bools = np.zeros(len(items), np.bool_)
        clicks[position - 1] = True
        return Answer(clicks, position)


def given(
    form: Form,
    *,
    clicked: Any = LEFT_OUT,
    position: int | None = None,
    clicks: Sequence[bool | int] | None = None,
    examined: int | None = None,
) -> Given:
    """Parse an answer given in exactly one way; refused with 422 otherwise."""
    if (clicked is not LEFT_OUT) + (position is not None) + (clicks is not None) != 1:
        raise Refused(422, form.parts)
    if clicks is None and examined is not None:
        raise Refused(422, form.examined.format(examined))
    return Given(None if clicked is LEFT_OUT else clicked, position, clicks, examined)


def given_if_any(
    form: Form, items: Sequence[str], *, clicked: Any, position: Any, clicks: Any, examined: Any
) -> Answer | None:
    """The answer to a list of these items; None if no argument was given."""
    if clicked is LEFT_OUT and position is None and clicks is None and examined is None:
        return None
    return given(form, clicked=clicked, position=position, clicks=clicks, examined=examined).to(items)


def check_id(shown: Any) -> None:
    """Refuse what cannot be an impression id of this process."""
    if isinstance(shown, bool) or not isinstance(shown, int):
        raise Refused(422, f"an impression's id is a whole number, not {shown!r}")


def only_click(answer: Answer) -> int:
    """The place, from 0, of the only click of an answer that comes with a value; refused with 422 otherwise."""
    if len(answer.positions) != 1:
        raise Refused(422, f"a value needs exactly one click, not {len(answer.positions)}: report others by outcome")
    return answer.positions[0]


def at(size: int, positions: Sequence[int], examined: int) -> Answer:
    """Clicks at positions, from 0, of a list that may have been longer: those beyond its end are dropped."""
    clicks: Bools = np.zeros(size, np.bool_)
    for position in positions:
        if position < size:
            clicks[position] = True
    return Answer(clicks, min(examined, size))


def _whole(name: str, value: Any, low: int, high: int) -> int:
    try:
        return whole(name, value, low, high)
    except ValueError as error:
        raise Refused(422, str(error)) from None


def _bits(size: int, clicks: Sequence[bool | int], examined: int | None) -> Answer:
    try:
        clicks = list(clicks)
        wrong = len(clicks) > size or any(bit not in (0, 1) for bit in clicks)
    except (TypeError, ValueError):  # not a sequence, or a sequence of arrays
        wrong = True
    if wrong:
        some = clicks[: size + 1] if isinstance(clicks, list) else clicks  # shorten what may have a million entries
        raise Refused(422, f"clicks must be 0 or 1 for each place, at most {size} of them, not {some!r:.80}")
    looked = len(clicks) if examined is None else _whole("examined", examined, 0, len(clicks))
    bits: Bools = np.zeros(size, np.bool_)
    bits[:looked] = np.array(clicks[:looked], np.bool_)
    if any(clicks[looked:]):
        raise Refused(422, f"a click at position {looked + clicks[looked:].index(1) + 1}, but examined is {looked}")
    return Answer(bits, looked)
