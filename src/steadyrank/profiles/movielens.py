"""MovieLens as GroupLens ships it: 32M and 25M (`ratings.csv`, `movies.csv`), 1M (`ratings.dat`, `movies.dat`)."""

import csv
import pathlib
from typing import TextIO

import polars as pl

from .lines import delimited, read
from .ratings import Ratings, draw
from .totals import find_file, mean_ratings

_COLUMNS = {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64, "time": pl.Int64}
_VALID = pl.col("rating").is_between(0.5, 5.0) & ((pl.col("rating") * 2) % 1 == 0)
_STARS = r"(?:[1-4](?:\.[05])?|0\.5|5(?:\.0)?)"  # half stars from 0.5 to 5


def build(folder: pathlib.Path, *, n_items: int | None, at_least: int, seed: int, stream: TextIO) -> Ratings:
    """`n_items` random movies (None: all) of those with `at_least` ratings.

    Cost: one pass over the ratings in constant memory.
    """
    what = "MovieLens (ratings.csv and movies.csv, or ratings.dat and movies.dat of 1M)"
    file = find_file(folder, ["ratings.csv", "ratings.dat"], what)
    separator = "," if file.suffix == ".csv" else "::"
    titles = _titles(find_file(folder, [f"movies{file.suffix}"], what))
    pattern = separator.join([r"\d+", r"\d+", _STARS, r"\d+"])
    header = "userId,movieId,rating,timestamp" if separator == "," else None
    layout = delimited(_COLUMNS, separator, pattern=pattern, valid=_VALID, header=header)
    means = mean_ratings(read(file, layout, stream))
    rows = means.filter(pl.col("count") >= at_least).rows()
    items = [(titles.get(item, f"movie {item}"), count, mean) for item, count, mean in rows]
    origin = f"MovieLens {file.name}, {means['count'].sum():,} ratings: "
    origin += f"{n_items or len(items)} of {len(items):,} movies with at least {at_least} ratings, seed {seed}"
    return draw("movielens", origin, items, n_items, seed)


def _titles(path: pathlib.Path) -> dict[int, str]:
    """Titles by movie; 1M is in Latin-1 and separates by `::`, the others are quoted CSV in UTF-8."""
    if path.suffix == ".dat":
        with path.open(encoding="latin-1") as file:
            rows = [line.rstrip("\n").split("::") for line in file]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        if header != ["movieId", "title", "genres"]:
            raise ValueError(f"{path} must begin with the columns 'movieId,title,genres', not {','.join(header)!r}")
    for number, row in enumerate(rows, 1 if path.suffix == ".dat" else 2):
        if len(row) != 3 or not row[0].isdigit():
            raise ValueError(f"{path}: row {number} must be movie, title and genres, not {row!r}")
    return {int(row[0]): row[1] for row in rows}
