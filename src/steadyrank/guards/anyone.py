"""No guard: everybody is heard."""

from typing import NamedTuple

from ..core.contract import Problem


class Anyone(NamedTuple):
    """Admits every visit and remembers nothing. Costs nothing: compiled, it vanishes."""

    always: bool

    @classmethod
    def create(cls, problem: Problem) -> "Anyone":
        return cls(True)

    def admit(self, visit, ranking, note, clicks, examined):
        return True
