"""`steadyrank profiles` lists profiles, `steadyrank profile build` builds one from an original data set."""

import argparse
import pathlib
import sys
from typing import Any

from .choices import require_report_extra

_SOURCES = {
    "yelp": "yelp_academic_dataset_business.json, and _review.json with --reviews",
    "movielens": "ratings.csv and movies.csv of 32M or 25M, or ratings.dat and movies.dat of 1M",
    "lastfm": "usersha1-artmbid-artname-plays.tsv of 360K, or user_artists.dat of HetRec 2011 2K",
}


def add(commands: Any) -> None:
    """Add the commands about profiles."""
    sub = commands.add_parser("profiles", help="list the profiles", description="List the profiles by name.")
    sub.set_defaults(run=_list)
    sub = commands.add_parser(
        "profile",
        help="build a profile from an original data set",
        description="Build a profile from the files of an original data set.",
    )
    actions = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="read the original files", description="Read the original files.")
    sources = build.add_subparsers(dest="source", required=True, metavar="SOURCE")
    for source, files in _SOURCES.items():
        _add_source(sources, source, files)


def _add_source(sources: Any, source: str, files: str) -> None:
    one = sources.add_parser(source, help=files, description=f"Reads {files}.")
    one.add_argument("--from", dest="folder", type=pathlib.Path, required=True, help="the folder with the files")
    one.add_argument("--out", type=pathlib.Path, required=True, help="the file to write; its name ends in .json")
    if source == "yelp":
        one.add_argument("--city", default="Philadelphia", help="spelt as in the file")
        one.add_argument("--category", default="Pizza", help="spelt as in the file")
        one.add_argument("--closed", action="store_true", help="take closed businesses too")
        one.add_argument("--reviews", action="store_true", help="unrounded means, from the review file")
    items, least = {"yelp": ("all", 0), "movielens": ("500", 100), "lastfm": ("500", 100)}[source]
    one.add_argument("--items", default=items, help="number of items to draw at random, or all")
    one.add_argument("--at-least", type=int, default=least, help="leave out items with fewer ratings")
    one.add_argument("--seed", type=int, default=0, help="seed of the draw")
    one.add_argument(
        "--features",
        type=int,
        default=0,
        metavar="D",
        help="number of factors of the ratings to use as features of items and visitors; 0 for no features",
    )
    one.set_defaults(run=_build)


def _list(options: argparse.Namespace) -> None:
    from ..evaluation.profiles import mappings, profile, profiles

    for name in profiles():
        world = profile(name)
        shown = ", ".join(mappings(name))
        print(f"{name:<20} {world.attraction.size} items; mappings: {shown}; {world.origin}")


def _build(options: argparse.Namespace) -> None:
    if options.items != "all" and not (options.items.isascii() and options.items.isdigit()):
        raise ValueError(f"--items must be a whole number or all, not {options.items!r}")
    items = None if options.items == "all" else int(options.items)
    if options.out.suffix != ".json":
        raise ValueError(f"--out must end in .json, not {str(options.out)!r}")
    if options.out.is_dir():
        raise ValueError(f"--out: {str(options.out)!r} is a folder; name a file")
    if not options.out.parent.is_dir():
        raise ValueError(f"--out: {str(options.out.parent)!r} is not a folder")
    if options.at_least < 0:
        raise ValueError(f"--at-least must be 0 or more, not {options.at_least}")
    if not 0 <= options.features <= 63:
        raise ValueError(f"--features must be from 0 to 63, not {options.features}")
    require_report_extra()
    from ..evaluation.profiles import lastfm, movielens, yelp

    common = {"n_items": items, "at_least": options.at_least, "seed": options.seed}
    common |= {"stream": sys.stderr, "n_factors": options.features}
    if options.source == "yelp":
        ratings = yelp.build(
            options.folder,
            city=options.city,
            category=options.category,
            closed=options.closed,
            reviews=options.reviews,
            **common,
        )
    else:
        ratings = {"movielens": movielens, "lastfm": lastfm}[options.source].build(options.folder, **common)
    ratings.save(options.out)
    print(f"{len(ratings.items)} items: {ratings.origin}")
    users_option = " --users LogisticCascade" if options.features else ""
    learner = "SteadyRankLinear" if options.features else "CascadeTS"
    print(f"try: steadyrank simulate {learner} --profile {options.out} --mapping moderate{users_option}")
