"""Last.fm plays: 360K (Celma 2010) and HetRec 2011 2K, as their owners ship them.

Plays become ratings by the usual percentile rule (Celma and Lamere 2008): within one user's artists, the fifth with
the most plays is rated 5, the next fifth 4, down to 1. A rating is then ceil(5 share), with share the part of the
user's artists that have at most as many plays. An artist's ratings are those of its listeners.
"""

import pathlib
from collections.abc import Iterator
from typing import TextIO

import polars as pl

from .lines import Layout, delimited, read
from .ratings import Ratings, draw
from .totals import find_file, mean_ratings

_PLAYS = pl.col("plays") >= 0
_360K = delimited(
    {"user": pl.String, "item": pl.String, "name": pl.String, "plays": pl.Int64},
    "\t",
    pattern=r"[0-9a-f]{40}\t[^\t]*\t[^\t]*\t\d+",
    valid=_PLAYS & (pl.col("user").str.len_bytes() == 40),
)
_2K = delimited(
    {"user": pl.Int64, "item": pl.Int64, "plays": pl.Int64},
    "\t",
    pattern=r"\d+\t\d+\t\d+",
    valid=_PLAYS,
    header="userID\tartistID\tweight",
)
_FILES = ["usersha1-artmbid-artname-plays.tsv", "user_artists.dat"]


def build(folder: pathlib.Path, *, n_items: int | None, at_least: int, seed: int, stream: TextIO) -> Ratings:
    """`n_items` random artists (None: all) of those with `at_least` listeners.

    Of the 360K the artists that have a MusicBrainz id, which are the 186,642 of its description; the others count in
    their listeners' percentiles only. Cost: one pass in constant memory; a user's rows must stand together.
    """
    file = find_file(folder, _FILES, "Last.fm (360K or HetRec 2011 2K)")
    plays = _Plays(file, _360K if file.suffix == ".tsv" else _2K, stream)
    means = mean_ratings(plays)
    names = plays.names if file.suffix == ".tsv" else _artists(file.with_name("artists.dat"))
    rows = means.filter(pl.col("count") >= at_least).rows()
    items = [(names.get(item, f"artist {item}"), count, mean) for item, count, mean in rows]
    origin = f"Last.fm {file.name}, {plays.n_users:,} users: {n_items or len(items)} of {len(items):,} artists "
    origin += f"with at least {at_least} listeners, plays rated 1 to 5 by percentile, seed {seed}"
    return draw("lastfm", origin, items, n_items, seed, raters=plays.n_users)


class _Plays:
    """Iterates over blocks of whole users with columns item and rating; afterwards knows names and users."""

    def __init__(self, file: pathlib.Path, layout: Layout, stream: TextIO) -> None:
        self.file, self.layout, self.stream = file, layout, stream
        self.names: dict[object, str] = {}
        self._users: set[object] = set()

    @property
    def n_users(self) -> int:
        """Users whose rows were read."""
        return len(self._users)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        rest: pl.DataFrame | None = None
        for block in read(self.file, self.layout, self.stream):
            rows = block if rest is None else pl.concat([rest, block])
            last = rows["user"][-1]
            rest = rows.filter(pl.col("user") == last)
            yield self._rated(rows.filter(pl.col("user") != last))
        if rest is not None:
            yield self._rated(rest)

    def _rated(self, rows: pl.DataFrame) -> pl.DataFrame:
        users = set(rows["user"].unique())
        if again := users & self._users:
            raise ValueError(f"{self.file}: the rows of user {min(again)} do not stand together; sort it by user")
        self._users |= users
        number, at_most = pl.len().over("user"), pl.col("plays").rank("max").over("user").cast(pl.Int64)
        rated = rows.with_columns(rating=(5 * at_most + number - 1) // number)
        if "name" in rated.columns:
            rated = rated.filter(pl.col("item") != "")
            self.names.update(rated.group_by("item").agg(pl.col("name").first()).rows())
        return rated.select("item", "rating")


def _artists(path: pathlib.Path) -> dict[object, str]:
    """Names by artist, where the file is there; an artist without a name keeps its number."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file]
    if not rows or rows[0][:2] != ["id", "name"]:
        found = "\t".join(rows[0]) if rows else ""
        raise ValueError(f"{path} must begin with the columns id and name, not {found!r}")
    return {int(row[0]): row[1] for row in rows[1:] if len(row) > 1 and row[0].isdigit()}
