"""No guard: every visit is admitted."""

from typing import NamedTuple

from ..core.contract import Problem


class Anyone(NamedTuple):
    """Admits every visit and keeps no memory. It costs nothing: the compiler removes it."""

    always: bool

    @classmethod
    def create(cls, problem: Problem) -> "Anyone":
        return cls(True)

    def admit(self, visit, ranking, note, clicks, examined):
        return True
