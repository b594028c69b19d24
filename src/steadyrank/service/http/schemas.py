"""Requests and answers that several routes share."""

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from ..board.schema import Schema

# what a value may be is declared by the board, which refuses others by name
Features: TypeAlias = dict[str, Annotated[Any, Meta(extra_json_schema={"type": ["number", "string", "null"]})]]


class AnswerIn(Schema, kw_only=True):
    """What was clicked: an item or null, or a bit a place with how many places were looked at."""

    clicked: str | UnsetType | None = UNSET
    clicks: list[int] | None = None
    examined: int | None = None


class DoneOut(Schema):
    """It is done."""

    done: bool = True


class ErrorOut(Schema):
    """Why a request was refused."""

    code: int
    message: str
