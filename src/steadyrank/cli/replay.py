"""`steadyrank replay`: show the lists of learners after they learnt from a past log."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from .choices import parse_choice, require_report_extra
from .logs import LEFT_OUT, add_options, board_of, drawn_by_weight, lists_of, read_log

if TYPE_CHECKING:
    from ..click_logs.click_log import ClickLog
    from ..live import Ranker

_FIRST = 10  # most items printed of a list


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "replay",
        help="show the lists of learners trained on a past log",
        description="Run the lists of a click log through learners, oldest first, and print the list that each would "
        "show now. Logs are read as by `steadyrank audit`. A column `weight`, as `audit --clean` writes it, is the "
        "probability that a list is taken.",
        epilog="example: steadyrank audit clicks.csv --clean clean.parquet && steadyrank replay clean.parquet",
    )
    add_options(sub)
    sub.add_argument(
        "--learner",
        action="append",
        default=None,
        dest="learners",
        metavar="NAME",
        help="NAME or NAME:setting=value,... of a live learner; may be repeated (default: SteadyRank, CascadeTS)",
    )
    sub.add_argument(
        "--length",
        type=int,
        default=None,
        help="places of a list (default: those of the longest list that was looked at)",
    )
    sub.add_argument(
        "--seed", type=int, default=0, help="seed of the learners' random choices, and of the choice by weight"
    )
    sub.add_argument(
        "--save", default=None, metavar="FILE", help="save the learner, which must be the only one, for `Ranker.load`"
    )
    sub.add_argument("--json", action="store_true", help="print JSON and nothing else")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    require_report_extra("polars")
    import numpy as np

    from ..core.settings import whole

    choices = [parse_choice(text) for text in options.learners or ["SteadyRank", "CascadeTS"]]
    if options.save is not None and len(choices) != 1:
        raise ValueError(f"--save {options.save} keeps one learner: name one with --learner, not {len(choices)}")
    log = read_log(options)
    board = board_of(log, options.of)
    longest = int(np.diff(log.impressions.first).max())
    length = longest if options.length is None else whole("--length", options.length, 1, 10_000)
    rows = [(names, bits) for _, names, bits in lists_of(log, length, board, drawn_by_weight(options, log))]
    if not rows:
        raise ValueError("no list of the log begins at the first place and has different items: nothing to replay")
    rankers = _learnt(rows, length, choices, options.seed)
    if options.save is not None:
        next(iter(rankers.values())).save(options.save)
    left_out = int((log.board == board).sum()) - len(rows)
    _print(options, log, rows, left_out, rankers)


def _learnt(
    rows: list[tuple[list[str], list[int]]], length: int, choices: list[tuple[str, dict[str, Any]]], seed: int
) -> "dict[str, Ranker]":
    """Train a ranker for each learner; returns them by the text of the choice."""
    from ..live import Ranker

    items = list(dict.fromkeys(item for names, _ in rows for item in names))
    rankers = {}
    for name, settings in choices:  # create all before any learns: a wrong name fails early
        given = ",".join(f"{key}={value}" for key, value in settings.items())
        rankers[f"{name}:{given}" if given else name] = Ranker(items, length, name, seed=seed, settings=settings)
    for ranker in rankers.values():
        ranker.learn(rows)
    return rankers


def _print(
    options: argparse.Namespace,
    log: "ClickLog",
    rows: list[tuple[list[str], list[int]]],
    left_out: int,
    rankers: "dict[str, Ranker]",
) -> None:
    lists = {name: list(ranker.rank().items) for name, ranker in rankers.items()}
    doubted = {name: None if (view := ranker.view()) is None else view.corrupted for name, ranker in rankers.items()}
    clicked = sum(any(bits) for _, bits in rows)
    if options.json:
        learners = [{"learner": name, "items": items, "doubted": doubted[name]} for name, items in lists.items()]
        print(
            json.dumps({"lists": len(rows), "clicked": clicked, "left_out": left_out, "learners": learners}, indent=2)
        )
        return
    words = f"; {left_out:,} left out{LEFT_OUT}"
    print("\n".join([*log.notes, f"{len(rows):,} lists, {clicked:,} with a click{words if left_out else ''}"]))
    for name, items in lists.items():
        share = doubted[name]
        print(f"{name}: {', '.join(items[:_FIRST])}" + (f" ({share:.1%} of the lists not believed)" if share else ""))
