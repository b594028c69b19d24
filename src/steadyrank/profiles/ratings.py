"""Items with their ratings, as `steadyrank profile build` keeps them on disk."""

import dataclasses
import json
import math
import os
import pathlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import choice
from .mappings import MAPPINGS, attractions, bayesian_averages

FORMAT = "steadyrank-ratings-1"
LISTENERS = "listeners"  # the mapping that takes the share of raters as attraction


@dataclass(frozen=True)
class Ratings:
    """The arms of one data set: label, number of ratings and Bayesian average of each; `raters` in all."""

    name: str
    origin: str
    items: list[str]
    counts: list[int]
    averages: list[float]
    raters: int | None = None

    def attractions(self, mapping: str) -> list[float]:
        """Click probabilities by a rating mapping, or by `listeners`: the share of all raters who rated the item."""
        choice("mapping", mapping, [*MAPPINGS, LISTENERS])
        if mapping != LISTENERS:
            return attractions(self.averages, mapping)
        if self.raters is None:
            raise ValueError(f"{self.name} does not say how many raters there are, which the mapping listeners needs")
        return [count / self.raters for count in self.counts]

    def save(self, path: pathlib.Path) -> None:
        """Write as JSON; a reader never sees half a file."""
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1), encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path: pathlib.Path) -> "Ratings":
        """Read what `save` wrote; anything else is refused with what was expected and found."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a file of `steadyrank profile build`: {error}") from None
        fields = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(found, dict) or found.pop("format", None) != FORMAT or set(found) != fields:
            raise ValueError(f"{path} must have the format {FORMAT!r} with {sorted(fields)}")
        ratings = cls(**found)
        if not len(ratings.items) == len(ratings.counts) == len(ratings.averages) > 0:
            raise ValueError(f"{path}: items, counts and averages must have the same length, at least 1")
        for value in [*ratings.counts, *ratings.averages]:
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{path}: counts and averages must be numbers, not {value!r}")
        return ratings


def draw(
    name: str,
    origin: str,
    items: Sequence[tuple[str, int, float]],
    n_items: int | None,
    seed: int,
    raters: int | None = None,
) -> Ratings:
    """Of (label, number of ratings, mean rating) keep `n_items` at random (None: all), in their order.

    The prior of the Bayesian average is taken over all `items`, before the draw.
    """
    if n_items is not None and not 1 <= n_items <= len(items):
        raise ValueError(f"--items must be from 1 to the {len(items):,} items found, not {n_items}")
    averages = bayesian_averages([mean for _, _, mean in items], [count for _, count, _ in items])
    kept = range(len(items)) if n_items is None else sorted(random.Random(seed).sample(range(len(items)), n_items))
    return Ratings(
        name, origin, [items[i][0] for i in kept], [items[i][1] for i in kept], [averages[i] for i in kept], raters
    )
