"""All readings that the paper's text supports, side by side; the search over them is reported as such.

Each reading changes one part that the paper leaves open; everything else is as in the study `corruption`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..lab.cells import Cell, Study
from .lineup import JUDGED, PAPER, SHOWN_BESIDE

RATES = [0.0, 0.10, 0.25]


@dataclass(frozen=True)
class Reading:
    """One choice for a part that the paper leaves open: the part, its name, and what it changes."""

    part: str
    name: str
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by learner
    world: Mapping[str, Any] = field(default_factory=dict)  # adversary or users

    def learners(self) -> list[dict[str, Any]]:
        """The paper's five with their settings."""
        return [{"learner": w["learner"], "settings": dict(self.settings.get(w["learner"], {}))} for w in PAPER]

    def names(self) -> dict[str, str]:
        """The name of each of the five in results."""
        return {w["learner"]: Cell(profile="", **w).who for w in self.learners()}

    def where(self) -> tuple[str, str]:
        """Adversary and users."""
        return self.world.get("adversary", "PrefixFlip"), self.world.get("users", "Cascade")


def _ours(part: str, name: str, **settings: Any) -> Reading:
    return Reading(part, name, {"M2UCBV": settings})


_WIDTHS = {"a": 1.0, "b": 0.0}
_MEDIAN_UCB = {
    "reading": "A4",
    "alpha": 1.0,
    "calibration": "none",
    "radius": "plain",
    "a": math.sqrt(1.5),
    "b": 0.0,
}

READINGS = [
    Reading("none", "as judged"),
    _ours("blocks", "Algorithm 2: ceil(2 log n) blocks", preset="paper-alg"),
    _ours("blocks", "appendix: blocks of 15.7 log n bits", preset="paper-app"),
    _ours("blocks", "blocks of 5 bits", preset="small-block"),
    _ours("blocks", "no blocks: the mean", preset="mean"),
    _ours("partition", "redrawn with each new bit", partition="fresh"),
    _ours("partition", "redrawn every round", partition="every-round"),
    _ours("partition", "in order of arrival", partition="consecutive"),
    _ours("partition", "averaged over all", partition="averaged"),
    _ours("calibration", "none", calibration="none"),
    _ours("calibration", "bisection as printed, tolerance 0.001", calibration="bisection", eta=1e-3),
    _ours("calibration", "shares 0 and 1 clipped", edge="clip"),
    _ours("model selection", "G-COBE", selection="gcobe"),
    _ours("model selection", "bases learn from their own rounds", data="private"),
    _ours("warm-up", "literal: 10 C observations", warmup="literal"),
    _ours("widths", "A = 1, B = 0", **_WIDTHS),
    Reading("widths", "A = 1, B = 0, CascadeUCB-V too", {"M2UCBV": _WIDTHS, "CascadeUCBV": _WIDTHS}),
    _ours("widths", "A = 2.5, B = 6", a=2.5),
    _ours("estimator", "Median-UCB of the paper's source", **_MEDIAN_UCB),
    Reading("rivals", "CascadeCBARBAR with n0 = 1", {"CascadeCBARBAR": {"n0": 1.0}}),
    Reading("rivals", "CascadeCBARBAR with n0 = 16", {"CascadeCBARBAR": {"n0": 16.0}}),
    Reading("rivals", "CascadeRAC with rho = 0.1", {"CascadeRAC": {"rho": 0.1}}),
    Reading("rivals", "FTRL of Zimmert et al.", {"FTRL": {"variant": "hybrid"}}),
    Reading("ties", "by item number", {name: {"ties": "number"} for name in ("M2UCBV", "CascadeUCBV")}),
    Reading("attack", "attractions inverted", world={"adversary": "AttractionFlip"}),
    Reading("feedback", "every shown item's bit", world={"users": "SemiBandit"}),
]


def _blocks() -> Iterator[dict[str, Any]]:
    world = {"profile": ["yelp-pizza"], "mapping": JUDGED, "rate": RATES}
    for reading in READINGS:
        beside = SHOWN_BESIDE if reading.world or reading.part == "none" else []
        where = {name: [value] for name, value in reading.world.items()}
        yield {**world, **where, "who": [*reading.learners(), *beside]}


STUDY = Study(
    place=19,
    name="readings",
    title="What the paper leaves open, part by part",
    paper="sections 3 to 5: where the text allows more than one algorithm or experiment",
    exhibit="search",
    question="Which reading of which part moves which claim?",
    blocks=list(_blocks()),
    default=False,
)
