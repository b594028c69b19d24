"""Build profiles of the paper's three data sets from their original files, anywhere in a folder."""

import hashlib
import pathlib
from collections.abc import Callable
from typing import TextIO

from . import lastfm, movielens, yelp
from .ratings import Ratings

# marks of the releases that the paper used, section 5: 529 restaurants, 32,000,204 ratings, 359,347 users
_PAPERS: dict[str, Callable[[Ratings], bool]] = {
    "yelp-pizza": lambda ratings: len(ratings.items) == 529,
    "movielens-32m": lambda ratings: "32,000,204 ratings" in ratings.origin,
    "lastfm": lambda ratings: "359,347 users" in ratings.origin,
}
_MARKS = {  # files by which each data set is recognised
    "yelp-pizza": ("yelp_academic_dataset_business.json",),
    "movielens-32m": ("ratings.csv", "ratings.dat"),
    "lastfm": ("usersha1-artmbid-artname-plays.tsv", "user_artists.dat"),
}
_ITEMS, _AT_LEAST, _SEED = 500, 100, 0  # the paper's draw, section 5; its seed is not given


def is_papers(name: str, ratings: Ratings) -> bool:
    """Whether the ratings come from the release that the paper used."""
    return _PAPERS[name](ratings)


def build_all(folder: pathlib.Path, out: pathlib.Path, stream: TextIO) -> dict[str, str]:
    """Build profiles of the paper's data sets in `out` and return the files by profile.

    `folder` holds the files as their owners ship them, in any subfolders; ValueError if one of the three data sets is
    missing. File names contain a digest of the content, so that results never mix two releases.
    """
    if not folder.is_dir():
        raise ValueError(f"--data must be a folder with the original files; {str(folder)!r} is not a folder")
    homes = {name: _home(folder, marks) for name, marks in _MARKS.items()}
    missing = [f"{' or '.join(_MARKS[name])} ({name})" for name, home in homes.items() if home is None]
    if missing:
        raise ValueError(f"{str(folder)!r} must hold the files of all three data sets; it lacks {', '.join(missing)}")
    files = {}
    for name, home in homes.items():
        assert home is not None
        ratings = _build(name, home, stream)
        part = out / f"{name}.json"
        out.mkdir(parents=True, exist_ok=True)
        ratings.save(part)
        digest = hashlib.sha256(part.read_bytes()).hexdigest()[:12]
        files[name] = str(part.replace(out / f"{name}-{digest}.json"))
    return files


def _home(folder: pathlib.Path, marks: tuple[str, ...]) -> pathlib.Path | None:
    """The first folder by name that holds one of the files `marks`, which are in order of preference."""
    for mark in marks:
        for path in sorted(folder.rglob(mark)):
            return path.parent
    return None


def _build(name: str, home: pathlib.Path, stream: TextIO) -> Ratings:
    if name == "yelp-pizza":
        reviews = (home / "yelp_academic_dataset_review.json").is_file()
        return yelp.build(
            home,
            city="Philadelphia",
            category="Pizza",
            closed=False,
            reviews=reviews,
            n_items=None,
            at_least=1,
            seed=_SEED,
            stream=stream,
        )
    if name == "movielens-32m":
        return movielens.build(home, n_items=_ITEMS, at_least=_AT_LEAST, seed=_SEED, stream=stream)
    return lastfm.build(home, n_items=_ITEMS, at_least=_AT_LEAST, seed=_SEED, stream=stream)
