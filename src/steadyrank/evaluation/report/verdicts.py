"""A claim of the paper, its outcome under each reading, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """The outcome of a claim under one reading.

    `mapping` from ratings to attraction and `reading` of what else the paper leaves open, empty where none is
    involved, or as the study `corruption` has it. `holds` is None while it is not measured. `score` says how near it
    comes: 1 is what is claimed.
    """

    holds: bool | None
    figures: str
    mapping: str = ""
    reading: str = ""
    score: float = 0.0

    @property
    def under(self) -> str:
        """Mapping and reading as one label."""
        return ", ".join(part for part in (self.mapping, self.reading) if part) or "as stated"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper that can be measured: where it stands, what is tested, and the outcomes."""

    id: str
    text: str
    place: str
    tested: str
    study: str = ""
    outcomes: Sequence[Outcome] = ()
    because: str = ""  # why it cannot be tested here

    @property
    def verdict(self) -> str:
        """holds, holds where ..., fails, cannot be tested here, because ..., or not measured."""
        if self.because:
            return f"cannot be tested here, because {self.because}"
        measured = [outcome for outcome in self.outcomes if outcome.holds is not None]
        if not measured:
            return "not measured"
        if len(measured) < len(self.outcomes):
            missing = sorted({o.mapping or o.reading or "the rest" for o in self.outcomes if o.holds is None})
            return f"{self._judged(measured)}; {' and '.join(missing)} not measured"
        return self._judged(measured)

    @property
    def tried(self) -> int:
        """Under how many readings it was judged."""
        return sum(outcome.holds is not None for outcome in self.outcomes)

    @property
    def held(self) -> int:
        """Under how many of them it holds."""
        return sum(outcome.holds is True for outcome in self.outcomes)

    @property
    def closest(self) -> Outcome | None:
        """The reading under which it comes closest, the first of several."""
        measured = [outcome for outcome in self.outcomes if outcome.holds is not None]
        return max(measured, key=lambda outcome: outcome.score) if measured else None

    def _judged(self, measured: Sequence[Outcome]) -> str:
        if all(outcome.holds for outcome in measured):
            return "holds"
        if not any(outcome.holds for outcome in measured):
            return "fails"
        return f"holds where {_grouped(measured)}"

    def data(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "id": self.id,
            "text": self.text,
            "place": self.place,
            "tested": self.tested,
            "study": self.study,
            "verdict": self.verdict,
            "tried": self.tried,
            "held": self.held,
            "readings": [
                {
                    "mapping": outcome.mapping,
                    "reading": outcome.reading,
                    "holds": outcome.holds,
                    "score": outcome.score,
                    "figures": outcome.figures,
                }
                for outcome in self.outcomes
            ],
        }


def _grouped(measured: Sequence[Outcome]) -> str:
    """Which outcomes hold, in few words: mappings with all of their readings, some, or so many of so many."""
    parts = []
    for mapping in dict.fromkeys(outcome.mapping for outcome in measured):
        here = [outcome for outcome in measured if outcome.mapping == mapping]
        holding = [outcome for outcome in here if outcome.holds]
        names = [outcome.reading or "as judged" for outcome in holding]
        if not holding:
            continue
        if not mapping:
            parts += names
        elif len(holding) == len(here):
            parts.append(mapping)
        elif len(holding) <= 2:
            parts.append(f"{mapping} ({', '.join(names)})")
        else:
            parts.append(f"{mapping} ({len(holding)} of {len(here)} readings)")
    return " or ".join(parts)
