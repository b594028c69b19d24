"""Read Last.fm plays: 360K (Celma 2010) and HetRec 2011 2K, as their owners ship them.

Plays become ratings by the usual percentile rule (Celma and Lamere 2008): within one user's artists, the fifth with
the most plays is rated 5, the next fifth 4, down to 1. A rating is then ceil(5 share), with share the part of the
user's artists that have at most as many plays. An artist's ratings are those of its listeners; where a user has an
artist twice, the plays add up.
"""

import pathlib
from collections.abc import Iterator
from typing import TextIO

import polars as pl

from .lines import Layout, delimited, read
from .ratings import Ratings, draw, drawn
from .totals import factorised, find_file, mean_ratings

_PLAYS = pl.col("plays") >= 0
_360K = delimited(
    {"user": pl.String, "item": pl.String, "name": pl.String, "plays": pl.Int64},
    "\t",
    valid=_PLAYS & pl.col("user").str.contains("^[0-9a-f]{40}$"),
)
_2K = delimited(
    {"user": pl.Int64, "item": pl.Int64, "plays": pl.Int64},
    "\t",
    valid=_PLAYS & (pl.col("user") >= 0) & (pl.col("item") >= 0),
    header="userID\tartistID\tweight",
    final_newline=False,
)
_FILES = ["usersha1-artmbid-artname-plays.tsv", "user_artists.dat"]


def build(
    folder: pathlib.Path, *, n_items: int | None, at_least: int, seed: int, stream: TextIO, n_factors: int = 0
) -> Ratings:
    """Draw `n_items` artists (None: all) of those with `at_least` listeners; with `n_factors`, add features.

    In 360K only artists with a MusicBrainz id are drawn, the 186,642 of its description; the others only count in
    their listeners' percentiles. Cost: one pass in constant memory, and another one for features; the rows of a user
    must be contiguous.
    """
    file = find_file(folder, _FILES, "Last.fm (360K or HetRec 2011 2K)")
    layout = _360K if file.suffix == ".tsv" else _2K
    plays = _Plays(file, layout, stream)
    means = mean_ratings(plays)
    names = plays.names if file.suffix == ".tsv" else _artists(file.with_name("artists.dat"))
    items = [(names.get(item, f"artist {item}"), count, mean) for item, count, mean in means.rows()]
    origin = f"Last.fm {file.name}, {plays.n_users:,} users, plays rated 1 to 5 by percentile: artists"
    ratings = draw("lastfm", origin, items, n_items, seed, least=at_least, raters=plays.n_users)
    if n_factors == 0:
        return ratings
    kept = means["item"][drawn(means["count"].to_list(), n_items, seed, least=at_least)].to_list()
    return factorised(ratings, _Plays(file, layout, stream), kept, n_factors, seed)


class _Plays:
    """Iterates over blocks of whole users with columns user, item and rating; collects names and users on the way."""

    def __init__(self, file: pathlib.Path, layout: Layout, stream: TextIO) -> None:
        self.file, self.layout, self.stream = file, layout, stream
        self.names: dict[object, str] = {}
        self._users: set[object] = set()

    @property
    def n_users(self) -> int:
        """The number of users read."""
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
        named = [pl.col("name").first()] if "name" in rows.columns else []
        unnamed = (
            rows.filter(pl.col("item") == "") if named else rows.clear()
        )  # without an id each row counts as another artist
        rows = rows.filter(pl.col("item") != "") if named else rows
        rows = rows.group_by("user", "item", maintain_order=True).agg(*named, pl.col("plays").sum())
        rows = pl.concat([rows, unnamed.select(rows.columns)])
        number, at_most = pl.len().over("user"), pl.col("plays").rank("max").over("user").cast(pl.Int64)
        rated = rows.with_columns(rating=(5 * at_most + number - 1) // number)
        if "name" in rated.columns:
            rated = rated.filter(pl.col("item") != "")
            self.names.update(rated.group_by("item").agg(pl.col("name").first()).rows())
        return rated.select("user", "item", "rating")


def _artists(path: pathlib.Path) -> dict[object, str]:
    """Names of artists by number; empty if the file does not exist."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file]
    if not rows or rows[0][:2] != ["id", "name"]:
        header = "\t".join(rows[0]) if rows else ""
        raise ValueError(f"{path} must begin with the columns id and name, not {header!r}")
    return {int(row[0]): row[1] for row in rows[1:] if len(row) > 1 and row[0].isascii() and row[0].isdigit()}
