"""Schemas of other systems, each turned into lists and what of them was clicked; one file a schema."""

from collections.abc import Callable
from typing import Any, NamedTuple

from . import dsjson, events, ga4, metarank, personalize, sessions, ubi
from .joiner import Pile


class Format(NamedTuple):
    """A schema: its name, what it is, whether rows look like it, and how a row is taken."""

    name: str
    words: str
    fits: Callable[[dict[str, Any]], bool]  # of the first row that is not empty
    take: Callable[[dict[str, Any], int, Pile], None]
    plain_first: bool  # whether rows that can be read as a plain log are one


_MODULES = (ubi, ga4, personalize, dsjson, metarank, sessions, events)
FORMATS = {
    module.NAME: Format(module.NAME, module.WORDS, module.fits, module.take, module in (sessions, events))
    for module in _MODULES
}
