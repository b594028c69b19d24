"""Lists by name; what may be one; candidates that are no items: refused, left out, or added."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ..refusals import Refused

Unknown: TypeAlias = Literal["refuse", "skip", "add"]
WORDS = ("refuse", "skip", "add")


def check_unknown(unknown: str) -> None:
    """Refuse another word."""
    if unknown not in WORDS:
        raise Refused(422, f"unknown must be one of {', '.join(WORDS)}, not {unknown!r:.80}")


def fresh(candidates: Sequence[str], known: dict[str, int]) -> list[str]:
    """Those that are no items, each once, in order."""
    if isinstance(candidates, str):
        raise Refused(422, f"candidates must be several names, not the text {candidates!r}")
    return [item for item in dict.fromkeys(candidates) if item not in known]


def without(candidates: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """The others; refused if there are none."""
    gone = set(left_out)
    kept = [item for item in candidates if item not in gone]
    if not kept:
        raise Refused(
            422, f"none of the {len(gone)} candidates is an item, such as {next(iter(left_out), None)!r:.80}"
        )
    return kept


def refuse_text(items: Any) -> None:
    """Refuse a text in place of a list of names: its letters would be taken for items."""
    if isinstance(items, str):
        raise ValueError(f"a list is a sequence of names, not the text {items!r}")


def check_item(item: Any) -> None:
    """Refuse what cannot name an item."""
    if not isinstance(item, str) or not item or len(item) > 500:
        raise ValueError(f"an item is named by text of 1 to 500 characters, not {item!r}")
