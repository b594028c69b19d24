"""A comparison on disk: load and summarise."""

import json
import os
import pathlib
from dataclasses import asdict, dataclass

import numpy as np

from .arrays import Floats


@dataclass(frozen=True)
class Comparison:
    """Final regret of several learners at several corruption rates."""

    profile: str
    mapping: str
    adversary: str
    schedule: str
    length: int
    horizon: int
    seeds: list[int]
    rates: list[float]  # share of the rounds that the adversary may corrupt
    final: dict[str, list[list[float]]]  # learner -> [rate][seed]

    def summary(self, learner: str) -> tuple[Floats, Floats]:
        """Mean final regret at each rate, and the half-width of its 95 % interval over seeds."""
        values = np.array(self.final[learner])
        return values.mean(axis=1), half_width(values)

    def save(self, path: pathlib.Path) -> None:
        """Write as JSON; a reader never sees half a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(asdict(self), indent=1))
        os.replace(part, path)

    @classmethod
    def load(cls, path: pathlib.Path) -> "Comparison":
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))


def half_width(values: Floats) -> Floats:
    """1.96 standard errors over the last axis; 0 for one value, whose error is unknown."""
    n = values.shape[-1]
    if n < 2:
        return np.zeros(values.shape[:-1])
    return np.asarray(1.96 * values.std(axis=-1, ddof=1) / np.sqrt(n))
