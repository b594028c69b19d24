"""Read MovieLens as GroupLens ships it: 32M, 25M (`ratings.csv`, `movies.csv`), 1M (`ratings.dat`, `movies.dat`)."""

import csv
import pathlib
from typing import TextIO

import polars as pl

from .lines import Malformed, delimited, read
from .ratings import Ratings, draw, drawn
from .totals import factorised, find_file, mean_ratings

_TITLE_COLUMNS = ["movieId", "title", "genres"]
_COLUMNS = {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64, "time": pl.Int64}
_STARS = pl.col("rating").is_between(0.5, 5.0) & ((pl.col("rating") * 2) % 1 == 0)
_VALID = _STARS & (pl.col("user") >= 0) & (pl.col("item") >= 0)


def build(
    folder: pathlib.Path, *, n_items: int | None, at_least: int, seed: int, stream: TextIO, n_factors: int = 0
) -> Ratings:
    """Draw `n_items` movies (None: all) of those with `at_least` ratings; with `n_factors`, add features.

    Cost: one pass over the ratings in constant memory; features take another pass, and memory for the ratings of the
    movies drawn.
    """
    what = "MovieLens (ratings.csv and movies.csv, or ratings.dat and movies.dat of 1M)"
    file = find_file(folder, ["ratings.csv", "ratings.dat"], what)
    separator = "," if file.suffix == ".csv" else "::"
    titles = _titles(find_file(folder, [f"movies{file.suffix}"], what), stream)
    header = "userId,movieId,rating,timestamp" if separator == "," else None
    layout = delimited(_COLUMNS, separator, valid=_VALID, header=header)
    means = mean_ratings(read(file, layout, stream))
    items = [(titles.get(item, f"movie {item}"), count, mean) for item, count, mean in means.rows()]
    origin = f"MovieLens {file.name}, {means['count'].sum():,} ratings: movies"
    ratings = draw("movielens", origin, items, n_items, seed, least=at_least)
    if n_factors == 0:
        return ratings
    kept = means["item"][drawn(means["count"].to_list(), n_items, seed, least=at_least)].to_list()
    return factorised(ratings, read(file, layout, stream), kept, n_factors, seed)


def _titles(path: pathlib.Path, stream: TextIO) -> dict[int, str]:
    """Titles by movie number. 1M is in Latin-1 with separators `::`, the others are quoted CSV in UTF-8."""
    old = path.suffix == ".dat"
    malformed, titles = Malformed(str(path)), {}
    with path.open(encoding="latin-1" if old else "utf-8", errors="replace", newline="") as file:
        rows = (line.rstrip("\r\n").split("::") for line in file) if old else csv.reader(file)
        try:
            for row in rows:
                malformed.lines += 1
                if malformed.lines == 1 and not old:
                    if row != _TITLE_COLUMNS:
                        raise ValueError(f"{path} must begin with the columns {_TITLE_COLUMNS}, not {row}")
                elif len(row) == 3 and row[0].isascii() and row[0].isdigit():
                    titles[int(row[0])] = row[1]
                else:
                    malformed.add(malformed.lines, ",".join(row).encode())
        except csv.Error as error:
            raise ValueError(f"{path}: row {malformed.lines + 1} cannot be read: {error}") from None
    malformed.refuse_above(malformed.lines)
    if malformed.count:
        stream.write(f"{malformed}; left out\n")
    return titles
