"""Aggregate blocks of ratings: numbers and means by item, and features of items and visitors."""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import polars as pl

from .factors import item_and_visitor_features
from .ratings import Ratings

_COMPACT_ROWS = 1_000_000


def mean_ratings(blocks: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Aggregate frames with columns item and rating to item, count and mean, sorted by item.

    Partial sums are merged regularly, so memory grows with the number of items, not of ratings. Sums of whole and
    half stars are exact, so the order of the blocks does not matter.
    """
    sums: list[pl.DataFrame] = []
    for block in blocks:
        total, number = pl.col("rating").sum().cast(pl.Float64), pl.len().cast(pl.Int64).alias("count")
        sums.append(block.group_by("item").agg(total, number))
        if sum(map(len, sums)) > _COMPACT_ROWS:
            sums = [_merge(sums)]
    return _merge(sums).select("item", "count", mean=pl.col("rating") / pl.col("count")).sort("item")


def _merge(sums: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(sums).group_by("item").agg(pl.col("rating").sum(), pl.col("count").sum())


def factorised(
    ratings: Ratings, blocks: Iterable[pl.DataFrame], kept: Sequence[object], n_factors: int, seed: int
) -> Ratings:
    """Add features of the items `kept`, and of visitors, computed from frames with columns user, item and rating.

    Memory grows with the number of these items' ratings.
    """
    places = pl.DataFrame({"item": kept, "place": range(len(kept))})
    rows = pl.concat(block.select("user", "item", "rating").join(places, on="item") for block in blocks)
    rows = rows.select(pl.col("user").rank("dense").cast(pl.Int64), "place", pl.col("rating").cast(pl.Float64))
    features, visitors, worth = item_and_visitor_features(
        rows["user"].to_numpy(), rows["place"].to_numpy(), rows["rating"].to_numpy(), len(kept), n_factors, seed
    )
    about = (
        f"{ratings.origin}; {n_factors} factors of {len(rows):,} ratings, which foretell {worth:.0%} of the variance "
        f"of ratings by visitors held out, {len(visitors):,} of them kept"
    )
    return dataclasses.replace(ratings, origin=about, features=features.tolist(), visitors=visitors.tolist())


def find_file(folder: pathlib.Path, names: Sequence[str], what: str) -> pathlib.Path:
    """The first of the files that the folder holds; ValueError, with what was expected and found, if none."""
    if not folder.is_dir():
        raise ValueError(f"--from must be the folder of {what}; {str(folder)!r} is not a folder")
    for name in names:
        if (folder / name).is_file():
            return folder / name
    there = sorted(path.name for path in folder.iterdir())
    shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
    raise ValueError(f"{str(folder)!r} must hold {' or '.join(names)} of {what}; it holds {shown or 'nothing'}")
