"""Which lists of another ranker were reported: by the keys that callers' ids make, so that none is learnt twice."""

import math
from collections.abc import Container
from typing import Any

import numpy as np

from ...refusals import Refused

OTHER_ITEMS = "a list of other items was reported with this id before"


class Reported:
    """Keys of the lists that the board remembers, in the order in which they came, and when each was shown.

    Of those that it has forgotten only the latest time is kept: a list that was shown no later may be one of them.
    """

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.latest = -math.inf

    def refuse_forgotten(self, key: int, time: float) -> None:
        """Refuse a list that the board does not remember if it may have been reported before."""
        if key in self.times or time <= self.latest:
            raise Refused(410, "the list has expired: one with this id may have been learnt from before")

    def add(self, key: int, time: float, remembered: Container[int]) -> None:
        """A list was reported; `remembered`: the keys that the board remembers, this one among them."""
        self.times[key] = time
        while (oldest := next(iter(self.times))) not in remembered:
            self.latest = max(self.latest, self.times.pop(oldest))

    def arrays(self) -> dict[str, Any]:
        """Everything, as arrays by name; nothing where nothing was ever reported."""
        if not self.times:
            return {}
        keys = np.fromiter(self.times, np.uint64, len(self.times))
        return {"reported.key": keys, "reported.time": np.array([self.latest, *self.times.values()])}

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> "Reported":
        """The one that `arrays` came from."""
        reported = cls()
        if "reported.key" in arrays:
            reported.latest, *times = arrays["reported.time"].tolist()
            reported.times = dict(zip(arrays["reported.key"].tolist(), times, strict=True))
        return reported
