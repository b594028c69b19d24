"""Refuse feedback that no user can give."""

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..core.arrays import Ints
from ..core.contract import Problem
from ..core.kernels import cascade_like
from ..core.settings import choice
from ..core.views import GuardView

Model: TypeAlias = Literal["cascade", "whole"]
CASCADE = 0  # as in Model


class Plausible(NamedTuple):
    """Admits only feedback that the users' click model can produce, whoever sends it.

    `model`: `cascade` admits no click on the whole list, or one click where the feedback ends; `whole` admits any
    clicks as long as the feedback covers the whole list. Feedback that covers no place
    is admitted. Not the default, because real users sometimes click twice or leave early. O(length), no memory.
    """

    refused: Ints  # [1] visits
    model: int

    @classmethod
    def create(cls, problem: Problem, *, model: Model = "cascade") -> "Plausible":
        return cls(np.zeros(1, np.int64), choice("model", model, get_args(Model)))

    def admit(self, visit, ranking, note, clicks, examined):
        possible = examined == 0 or examined == ranking.size
        if self.model == CASCADE and examined > 0:
            possible = cascade_like(clicks, ranking.size, examined)
        if not possible:
            self.refused[0] += 1
        return possible

    def view(self) -> GuardView:
        """How many visits were refused."""
        return GuardView(int(self.refused[0]))
