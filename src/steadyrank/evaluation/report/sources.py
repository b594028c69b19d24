"""The data set behind each profile, and whether the paper used it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ..profiles import Profile, profile


@dataclass(frozen=True)
class Source:
    """A data set in words; `papers`: whether the paper's evaluation used it."""

    words: str
    papers: bool


MODELLED = {
    "yelp-pizza": Source("Yelp, modelled", True),
    "movielens-32m": Source("MovieLens 32M, modelled", True),
    "lastfm": Source("Last.fm HetRec 2011, modelled (the paper has Last.fm 360K)", False),
}


def split(names: Sequence[str], sources: Mapping[str, Source]) -> tuple[list[str], list[str]]:
    """Split profiles into those with the paper's data and the others."""
    return [n for n in names if sources[n].papers], [n for n in names if not sources[n].papers]


def in_words(names: Sequence[str], sources: Mapping[str, Source]) -> str:
    """The distinct data sets of these profiles."""
    return "; ".join(dict.fromkeys(sources[name].words for name in names))


def world_of(rows: pl.DataFrame) -> Profile:
    """The profile with which the first row was simulated."""
    first = rows.row(0, named=True)
    return profile(first.get("data") or first["profile"], first["mapping"] or None)
