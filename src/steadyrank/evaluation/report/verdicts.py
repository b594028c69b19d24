"""A claim of the paper, its outcome under each reading, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .paired import CellKey, Difference

Verdict = Literal["holds", "fails", "undecided", "not measured"]


def verdict_of(truth: bool | None) -> Verdict:
    """The verdict for a truth value; None means undecided."""
    return "undecided" if truth is None else "holds" if truth else "fails"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a claim under one reading.

    `mapping` from ratings to attraction, and `reading` of what else the paper leaves open; empty if not involved.
    `data`: data sets it was judged on; an outcome on data other than the paper's (`elsewhere`) is shown but decides
    nothing. `score`: how close the claim comes to holding, 1 for as claimed. `weakest`: the decisive comparison.
    `wants`: cells that need more seeds to decide it.
    """

    verdict: Verdict
    figures: str
    mapping: str = ""
    reading: str = ""
    score: float = 0.0
    data: str = ""
    elsewhere: bool = False
    seeds: str = ""
    weakest: Difference | None = None
    wants: frozenset[CellKey] = field(default_factory=frozenset)

    @property
    def under(self) -> str:
        """Mapping, reading and data as one label."""
        parts = (self.mapping, self.reading, self.data if self.elsewhere else "")
        return ", ".join(part for part in parts if part) or "as stated"

    @property
    def interval(self) -> str:
        """The decisive comparison with its interval."""
        return "" if self.weakest is None else str(self.weakest)


@dataclass(frozen=True)
class Claim:
    """One measurable sentence of the paper: its place, what is tested, and the outcomes.

    `because`: why it cannot be tested here; `rests_on`: the reconstruction it depends on.
    """

    id: str
    text: str
    place: str
    tested: str
    study: str = ""
    outcomes: Sequence[Outcome] = ()
    because: str = ""
    rests_on: str = ""

    @property
    def judged(self) -> list[Outcome]:
        """The measured outcomes on the paper's data."""
        return [o for o in self.outcomes if o.verdict != "not measured" and not o.elsewhere]

    @property
    def verdict(self) -> str:
        """holds, holds where ..., fails, undecided, cannot be tested, because ..., or not measured."""
        if self.because:
            return f"cannot be tested here, because {self.because}"
        if self.outcomes and all(outcome.elsewhere for outcome in self.outcomes):
            data = " and ".join(sorted({outcome.data for outcome in self.outcomes}))
            return f"cannot be tested on the paper's data: this is {data}"
        wanted = [outcome for outcome in self.outcomes if not outcome.elsewhere]
        if not self.judged:
            return "not measured"
        words = _in_words(self.judged)
        if len(self.judged) < len(wanted):
            open_ones = sorted({o.mapping or o.reading or "the rest" for o in wanted if o.verdict == "not measured"})
            return f"{words}; {' and '.join(open_ones)} not measured"
        return words

    @property
    def kind(self) -> str:
        """The verdict in one word: holds, partly, fails, undecided, cannot or open."""
        if self.verdict.startswith("cannot"):
            return "cannot"
        if not self.judged:
            return "open"
        kinds = {outcome.verdict for outcome in self.judged}
        if kinds == {"holds"}:
            return "holds"
        return "partly" if "holds" in kinds else "undecided" if "undecided" in kinds else "fails"

    @property
    def tried(self) -> int:
        """The number of readings under which it was judged."""
        return len(self.judged)

    @property
    def held(self) -> int:
        """The number of readings under which it holds."""
        return sum(outcome.verdict == "holds" for outcome in self.judged)

    @property
    def closest(self) -> Outcome | None:
        """The outcome with the highest score, the first of several."""
        return max(self.judged, key=lambda outcome: outcome.score) if self.judged else None

    @property
    def command(self) -> str:
        """The command that measures it."""
        return f"steadyrank reproduce --study {self.study}" if self.study else ""

    def data(self) -> dict[str, Any]:
        """As a dictionary, for JSON."""
        return {
            "id": self.id,
            "text": self.text,
            "place": self.place,
            "tested": self.tested,
            "study": self.study,
            "command": self.command,
            "verdict": self.verdict,
            "kind": self.kind,
            "rests_on": self.rests_on,
            "tried": self.tried,
            "held": self.held,
            "readings": [_plain(outcome) for outcome in self.outcomes],
        }


def _plain(outcome: Outcome) -> dict[str, Any]:
    names = ("mapping", "reading", "data", "elsewhere", "verdict", "score", "seeds", "interval", "figures")
    return {name: getattr(outcome, name) for name in names}


def _in_words(judged: Sequence[Outcome]) -> str:
    holding = [outcome for outcome in judged if outcome.verdict == "holds"]
    unsure = [outcome for outcome in judged if outcome.verdict == "undecided"]
    if len(holding) == len(judged):
        return "holds"
    if holding:
        also = f"; undecided where {_grouped(unsure, judged)}" if unsure else ""
        return f"holds where {_grouped(holding, judged)}{also}"
    if len(unsure) == len(judged):
        return "undecided"
    return f"undecided where {_grouped(unsure, judged)}, fails elsewhere" if unsure else "fails"


def _grouped(chosen: Sequence[Outcome], judged: Sequence[Outcome]) -> str:
    """The chosen outcomes in short: mappings, if all their readings are chosen, else readings or their number."""
    parts = []
    for mapping in dict.fromkeys(outcome.mapping for outcome in judged):
        here = [outcome for outcome in judged if outcome.mapping == mapping]
        these = [outcome for outcome in chosen if outcome.mapping == mapping]
        names = [outcome.reading or "as judged" for outcome in these]
        if not these:
            continue
        if not mapping:
            parts += names
        elif len(these) == len(here):
            parts.append(mapping)
        elif len(these) <= 2:
            parts.append(f"{mapping} ({', '.join(names)})")
        else:
            parts.append(f"{mapping} ({len(these)} of {len(here)} readings)")
    return " or ".join(parts)
