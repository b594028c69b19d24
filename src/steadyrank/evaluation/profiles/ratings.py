"""Items with their ratings: the file format of `steadyrank profile build`."""

import dataclasses
import json
import pathlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import Floats
from ...core.files import replacing
from ...core.settings import choice
from .mappings import MAPPINGS, attractions, bayesian_averages, is_shifted

FORMAT = "steadyrank-ratings-1"
_OPTIONAL = {"features", "visitors"}  # fields that files without features lack, as in earlier versions
LISTENERS = "listeners"  # the mapping whose attraction is the share of raters


@dataclass(frozen=True)
class Ratings:
    """The items of one data set: label, number of ratings and Bayesian average of each; `raters`: their total number.

    `features`: a row of numbers for each item; `visitors`: a row for each possible visitor, with a number for each of
    the last features (the features before them count as 1 for every visitor). Both or neither.
    """

    name: str
    origin: str
    items: list[str]
    counts: list[int]
    averages: list[float]
    raters: int | None = None
    features: list[list[float]] | None = None
    visitors: list[list[float]] | None = None

    def attractions(self, mapping: str) -> list[float]:
        """Click probabilities by a mapping of ratings, or by `listeners`: the share of raters who rated the item."""
        if is_shifted(mapping) or choice("mapping", mapping, [*MAPPINGS, LISTENERS]) < len(MAPPINGS):
            return attractions(self.averages, mapping)
        if self.raters is None:
            raise ValueError(f"{self.name} does not say how many raters there are, which the mapping listeners needs")
        return [count / self.raters for count in self.counts]

    def save(self, path: pathlib.Path) -> None:
        """Write as JSON, atomically."""
        try:
            with replacing(path) as file:
                fields = {name: value for name, value in vars(self).items() if name not in _OPTIONAL or value}
                file.write(json.dumps({"format": FORMAT, **fields}, indent=None if self.features else 1).encode())
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror or error}") from None

    @classmethod
    def load(cls, path: pathlib.Path) -> "Ratings":
        """Read a file that `save` wrote; ValueError, with what was expected, for anything else."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a file of `steadyrank profile build`: {error}") from None
        fields = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(content, dict)
            or content.pop("format", None) != FORMAT
            or set(content) | _OPTIONAL != fields
        ):
            raise ValueError(f"{path} must have the format {FORMAT!r} with {sorted(fields - _OPTIONAL)}")
        ratings = cls(**content)
        ratings._check(path)
        return ratings

    def _check(self, path: pathlib.Path) -> None:
        for name, kind, low in (("items", str, None), ("counts", int, 0), ("averages", float, -100.0)):
            values = getattr(self, name)
            if not isinstance(values, list) or len(values) != len(self.items) or not values:
                raise ValueError(f"{path}: items, counts and averages must be lists of the same length, at least 1")
            for value in values:
                number = type(value) in (kind, int) if kind is float else type(value) is kind
                if not number or (low is not None and not low <= value <= 2**53):
                    raise ValueError(f"{path}: {name} must hold {kind.__name__} values in range, not {value!r}")
        if self.raters is not None and (type(self.raters) is not int or self.raters < max(1, *self.counts)):
            raise ValueError(f"{path}: raters must be null or at least the largest count, not {self.raters!r}")
        if not isinstance(self.name, str) or not isinstance(self.origin, str):
            raise ValueError(f"{path}: name and origin must be text, not {self.name!r} and {self.origin!r}")
        if (self.features is None) != (self.visitors is None):
            raise ValueError(f"{path}: features and visitors must both be there or neither")
        if self.features is not None:
            features, who = (
                rows_of_numbers(path, "features", self.features),
                rows_of_numbers(path, "visitors", self.visitors),
            )
            if len(features) != len(self.items) or not 1 <= who.shape[1] <= features.shape[1]:
                raise ValueError(
                    f"{path}: features must have a row for each of {len(self.items)} items, and visitors from 1 to "
                    f"as many numbers each as items have; their shapes are {features.shape} and {who.shape}"
                )


def rows_of_numbers(path: pathlib.Path, name: str, rows: Any) -> Floats:
    """Convert lists of finite numbers, all of the same length, to an array; ValueError for anything else."""
    try:
        numbers = np.array(rows, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.ndim != 2 or not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"{path}: {name} must be lists of finite numbers, each as long as the others and none empty")
    return numbers


def draw(
    name: str,
    origin: str,
    items: Sequence[tuple[str, int, float]],
    n_items: int | None,
    seed: int,
    *,
    least: int,
    raters: int | None = None,
) -> Ratings:
    """Draw `n_items` (None: all) of the items (label, number of ratings, mean) with `least` ratings, in order.

    The prior of the Bayesian average comes from all items with at least `least` ratings, before the draw; items
    without ratings are left out.
    """
    rated = [place for place, item in enumerate(items) if item[1] >= max(least, 1)]
    kept = drawn([count for _, count, _ in items], n_items, seed, least=least)
    averages = dict(
        zip(rated, bayesian_averages([items[i][2] for i in rated], [items[i][1] for i in rated]), strict=True)
    )
    about = f"{origin} with at least {max(least, 1)} ratings, "
    about += f"all {len(rated):,}" if n_items is None else f"{n_items:,} random ones of {len(rated):,} (seed {seed})"
    return Ratings(
        name, about, [items[i][0] for i in kept], [items[i][1] for i in kept], [averages[i] for i in kept], raters
    )


def drawn(counts: Sequence[int], n_items: int | None, seed: int, *, least: int) -> list[int]:
    """The indices of the items that `draw` keeps, given their numbers of ratings."""
    rated = [place for place, count in enumerate(counts) if count >= max(least, 1)]
    if not rated:
        raise ValueError(f"no item has {least} ratings: ask for at most {max(counts):,}, the most that one has")
    if n_items is not None and not 1 <= n_items <= len(rated):
        raise ValueError(f"the number of items must be from 1 to the {len(rated):,} items found, not {n_items}")
    return (
        rated
        if n_items is None
        else [rated[i] for i in sorted(random.Random(seed).sample(range(len(rated)), n_items))]
    )
