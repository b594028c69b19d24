"""Numbers and means of ratings by item, summed over blocks."""

import pathlib
from collections.abc import Iterable, Sequence

import polars as pl

_COMPACT_ROWS = 1_000_000


def mean_ratings(blocks: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Of frames with columns item and rating: item, count and mean, sorted by item.

    Partial sums are merged now and then, so memory grows with the number of items, not of ratings. Sums of whole and
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


def find_file(folder: pathlib.Path, names: Sequence[str], what: str) -> pathlib.Path:
    """The first of the names that the folder holds; otherwise an error with what was expected and what is there."""
    if not folder.is_dir():
        raise ValueError(f"--from must be the folder of {what}; {str(folder)!r} is not a folder")
    for name in names:
        if (folder / name).is_file():
            return folder / name
    there = sorted(path.name for path in folder.iterdir())
    shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
    raise ValueError(f"{str(folder)!r} must hold {' or '.join(names)} of {what}; it holds {shown or 'nothing'}")
