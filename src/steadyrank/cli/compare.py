"""`steadyrank compare`: compare learners from the user's own file with built-in ones."""

import argparse
import pathlib
import sys
from typing import Any

from ..core.files import replacing
from .choices import add_world, check_own, learners_in, parse_choice, require_report_extra


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "compare",
        help="compare your own learner with known ones",
        description="Compare the learners in your own file with known ones, at several shares of corrupted rounds.",
        epilog="example: steadyrank compare my_learner.py --with CascadeTS TimeBlocks --profile movielens",
    )
    sub.add_argument("file", type=pathlib.Path, help="a Python file that defines one or more learners")
    sub.add_argument(
        "--with",
        dest="others",
        nargs="*",
        default=["CascadeTS", "CascadeUCBV", "M2UCBV"],
        metavar="NAME",
        help="learners to compare with, in addition to Random",
    )
    add_world(sub, "yelp-pizza")
    sub.add_argument("--adversary", default="PrefixFlip", help="`steadyrank adversaries` lists them")
    sub.add_argument("--rates", default="0,10,25", help="corrupted rounds in percent, separated by commas")
    sub.add_argument("--seeds", type=int, default=3, help="number of runs, with seeds 0, 1, ...")
    sub.add_argument("--figure", type=pathlib.Path, default=None, help="write a figure to this .svg file")
    sub.set_defaults(run=_run)


def parse_rates(text: str) -> list[float]:
    """Parse percentages separated by commas into shares, lowest first."""
    try:
        rates = sorted({float(part) / 100 for part in text.split(",")})
    except ValueError:
        raise ValueError(f"--rates must be percentages between commas such as 0,10,25, not {text!r}") from None
    if not rates or not all(0.0 <= rate <= 1.0 for rate in rates):
        raise ValueError(f"--rates must be from 0 to 100 percent, not {text!r}")
    return rates


def _run(options: argparse.Namespace) -> None:
    rates = parse_rates(options.rates)
    adversary, adversary_settings = parse_choice(options.adversary)
    users, users_settings = parse_choice(options.users)
    guard, guard_settings = parse_choice(options.guard)
    require_report_extra("polars", *(["matplotlib"] if options.figure else []))
    from ..core.compiling.jit import told_of_compiling
    from ..core.discovery import find_class
    from ..core.progress import Progress
    from ..core.settings import whole
    from ..evaluation.lab.cells import Cell
    from ..evaluation.lab.runner import compare
    from ..evaluation.report.tables import by_rate, finals, text
    from ..learners import ALL
    from ..testing import check_learner

    if options.figure is not None and options.figure.suffix != ".svg":
        raise ValueError(f"--figure must end in .svg, not {str(options.figure)!r}")
    if options.figure is not None and not options.figure.parent.is_dir():
        raise ValueError(f"{options.figure.parent} is not a folder: {options.figure} cannot be written")
    whole("--seeds", options.seeds, 1, 10_000)
    others = {name: find_class("learner", name, ALL) for name in [*options.others, "Random"]}
    own = {learner.__name__: learner for learner in learners_in(options.file)}
    if taken := sorted(set(own) & set(others)):
        raise ValueError(
            f"{options.file} defines {', '.join(taken)}, which is compared with too; give it another name"
        )
    for learner in own.values():
        check_own(learner, check_learner)
    both = [*own.values(), *others.values()]
    bar = Progress(len(both) * len(rates) * options.seeds, "comparing", sys.stderr)
    world = Cell(
        "Random",
        options.profile,
        options.mapping,
        adversary=adversary,
        adversary_settings=adversary_settings,
        schedule=options.schedule,
        users=users,
        users_settings=users_settings,
        guard=guard,
        guard_settings=guard_settings,
        horizon=options.horizon,
        length=options.length,
        seeds=options.seeds,
    )
    with told_of_compiling(bar.compiling):
        rows = compare(both, world, rates, bar.step)
    bar.close()
    last = finals(rows)
    about = f"{last['profile'][0]}, {last['mapping'][0]}: {options.adversary} {options.schedule}"
    about += "" if options.users == "Cascade" else f", users {options.users}"
    about += "" if guard == "Anyone" else f", guard {options.guard}"
    print(
        f"Regret after {options.horizon:,} rounds on {about}, by share of corrupted rounds:\n\n{text(by_rate(last))}"
    )
    if options.figure is not None:
        from ..evaluation.report.figures import rates as draw

        with replacing(options.figure) as file:
            file.write(draw("compare", last, about).encode())
        print(f"\nFigure: {options.figure}")
