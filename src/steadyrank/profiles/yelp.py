"""The Yelp Open Dataset as Yelp ships it: one JSON object a line."""

import pathlib
from typing import TextIO

import polars as pl

from .lines import json_lines, read
from .ratings import Ratings, draw
from .totals import find_file, mean_ratings

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
) -> Ratings:
    """The businesses of a city (spelt as in the file) that list the category; open ones unless `closed`.

    Yelp rounds a business's stars to halves; `reviews` takes means and numbers from the review file instead.
    """
    what = "the Yelp Open Dataset"
    file = find_file(folder, ["yelp_academic_dataset_business.json"], what)
    review_file = find_file(folder, ["yelp_academic_dataset_review.json"], what) if reviews else None
    layout = json_lines(_BUSINESS, valid=_STARS & (pl.col("review_count") >= 0), optional="categories")
    wanted = (pl.col("city") == city) & pl.col("categories").str.split(", ").list.contains(category)
    found = pl.concat(
        block.filter(wanted if closed else wanted & (pl.col("is_open") == 1)) for block in read(file, layout, stream)
    )
    if review_file is None:
        rated = found.select("name", count="review_count", mean="stars")
    else:
        rated = found.select("name", item="business_id").join(
            _means(review_file, found, stream), on="item", maintain_order="left"
        )
        rated = rated.select("name", "count", "mean")
    query = f"{city}, {category}, {'open or closed' if closed else 'open'}"
    if rated.is_empty():
        raise ValueError(f"{file}: no business for {query}; city and category must be spelt as in the file")
    origin = (
        f"Yelp Open Dataset: {query}, {'means of the reviews' if reviews else 'stars rounded by Yelp'}: businesses"
    )
    return draw("yelp", origin, rated.rows(), n_items, seed, least=at_least)


def _means(file: pathlib.Path, found: pl.DataFrame, stream: TextIO) -> pl.DataFrame:
    """Number and mean of the reviews of the businesses found, in the order of the business file."""
    wanted = found["business_id"].implode()
    layout = json_lines(_REVIEW, valid=_STARS)
    return mean_ratings(
        block.filter(pl.col("business_id").is_in(wanted)).select(item="business_id", rating="stars")
        for block in read(file, layout, stream)
    )
