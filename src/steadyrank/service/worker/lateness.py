"""How many answers come too late for the order in which a board learns."""

import collections
import contextlib
from collections.abc import Iterator

from ...refusals import Refused

LATEST = 200  # answers looked at
_FEWEST = 50  # answers before anything is said


class Lateness:
    """The latest answers that this worker saw of a board, and which of them were late.

    Late is an answer that came after its list was settled, and one that was refused because the list has expired.
    """

    def __init__(self) -> None:
        self._latest: collections.deque[bool] = collections.deque(maxlen=LATEST)

    def count(self, late: bool) -> None:
        """An answer came."""
        self._latest.append(late)

    @property
    def share(self) -> float | None:
        """Of late ones among the latest answers; None while there are too few to tell."""
        return sum(self._latest) / len(self._latest) if len(self._latest) >= _FEWEST else None

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Count an answer that is refused meanwhile because its list has expired."""
        try:
            yield
        except Refused as refusal:
            if refusal.code == 410:
                self.count(True)
            raise
