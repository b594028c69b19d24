"""Which batches of past clicks a board has learnt from: so that none is learnt twice, and no name means two."""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from ...core.refusals import Refused
from . import events

MOST_PARTS = 10_000  # remembered; the oldest are forgotten first
_encode = msgspec.msgpack.Encoder(order="sorted").encode  # features may come in any order


class _Part(NamedTuple):
    """What came under the name of a part: a digest of its rows, and how many the whole batch has, 0 if unknown."""

    digest: str
    total: int


class PastBatches:
    """The parts of batches, by name, in the order in which they came."""

    def __init__(self, kept: Iterable[Any] = ()) -> None:
        """`kept`: what `keep` returned."""
        self._parts = {name: _Part(digest, total) for name, digest, total in kept}

    def includes(self, event: events.History) -> bool:
        """Whether a part was learnt from before; refused with 409 if other rows came under its name."""
        before = self._parts.get(event.batch)
        if before is None:
            return False
        if before.digest != _digest(event.rows) or 0 != before.total != event.total != 0:
            batch = event.batch.rpartition("#")[0] or event.batch
            raise Refused(409, f"batch {batch!r:.80} came before with other rows: give these rows another name")
        return True

    def add(self, event: events.History) -> None:
        """A part is learnt from; one without a name is not remembered."""
        if not event.batch:
            return
        self._parts[event.batch] = _Part(_digest(event.rows), event.total)
        if len(self._parts) > MOST_PARTS:
            del self._parts[next(iter(self._parts))]

    def keep(self) -> list[list[Any]]:
        """Everything, for a snapshot."""
        return [[name, *part] for name, part in self._parts.items()]


def _digest(rows: list[events.Past]) -> str:
    return hashlib.sha256(_encode(rows)).hexdigest()[:32]
