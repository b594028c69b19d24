"""Read the Yelp Open Dataset as Yelp ships it: one JSON object per line."""

import pathlib
from collections.abc import Iterator
from typing import TextIO

import polars as pl

from .lines import json_lines, read
from .ratings import Ratings, draw, drawn
from .totals import factorised, find_file, mean_ratings

_BUSINESS = {
    "business_id": pl.String,
    "name": pl.String,
    "city": pl.String,
    "stars": pl.Float64,
    "review_count": pl.Int64,
    "is_open": pl.Int64,
    "categories": pl.String,
}
_REVIEW = {"business_id": pl.String, "stars": pl.Float64}
_SIGNED_REVIEW = {"user_id": pl.String, **_REVIEW}
_STARS = pl.col("stars").is_between(1.0, 5.0)


def build(
    folder: pathlib.Path,
    *,
    city: str,
    category: str,
    closed: bool,
    reviews: bool,
    n_items: int | None,
    at_least: int,
    seed: int,
    stream: TextIO,
    n_factors: int = 0,
) -> Ratings:
    """Draw businesses of a city (spelt as in the file) that list the category; only open ones unless `closed`.

    Yelp rounds a business's stars to halves; `reviews` takes exact means and counts from the review file, which
    features (`n_factors`) need, too.
    """
    if n_factors and not reviews:
        raise ValueError("features need the ratings of each user, which only the reviews have: add --reviews")
    what = "the Yelp Open Dataset"
    file = find_file(folder, ["yelp_academic_dataset_business.json"], what)
    review_file = find_file(folder, ["yelp_academic_dataset_review.json"], what) if reviews else None
    layout = json_lines(_BUSINESS, valid=_STARS & (pl.col("review_count") >= 0), optional="categories")
    wanted = (pl.col("city") == city) & pl.col("categories").str.split(", ").list.contains(category)
    businesses = pl.concat(
        block.filter(wanted if closed else wanted & (pl.col("is_open") == 1)) for block in read(file, layout, stream)
    )
    if review_file is None:
        rated = businesses.select("name", count="review_count", mean="stars", item="business_id")
    else:
        rated = businesses.select("name", item="business_id").join(
            mean_ratings(_reviews(review_file, businesses, _REVIEW, stream)), on="item", maintain_order="left"
        )
        rated = rated.select("name", "count", "mean", "item")
    query = f"{city}, {category}, {'open or closed' if closed else 'open'}"
    if rated.is_empty():
        raise ValueError(f"{file}: no business for {query}; city and category must be spelt as in the file")
    origin = (
        f"Yelp Open Dataset: {query}, {'means of the reviews' if reviews else 'stars rounded by Yelp'}: businesses"
    )
    ratings = draw("yelp", origin, rated.drop("item").rows(), n_items, seed, least=at_least)
    if n_factors == 0 or review_file is None:
        return ratings
    kept = rated["item"][drawn(rated["count"].to_list(), n_items, seed, least=at_least)].to_list()
    return factorised(ratings, _reviews(review_file, businesses, _SIGNED_REVIEW, stream), kept, n_factors, seed)


def _reviews(
    file: pathlib.Path, businesses: pl.DataFrame, columns: dict[str, type[pl.DataType]], stream: TextIO
) -> Iterator[pl.DataFrame]:
    """Blocks of reviews of these businesses, with columns item and rating, and user if that is read."""
    ids = businesses["business_id"].implode()
    layout = json_lines(columns, valid=_STARS)
    names = {"user_id": "user", "business_id": "item", "stars": "rating"}
    for block in read(file, layout, stream):
        yield block.filter(pl.col("business_id").is_in(ids)).rename(names, strict=False)
