"""`steadyrank simulate`: run learners against users and an adversary."""

import argparse
import json
import pathlib
import sys
from typing import Any

from .choices import add_world, classes_in, parse_budget, parse_choice


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "simulate",
        help="run learners against users and an adversary",
        description="Run learners against simulated users and an adversary; print their regret.",
        epilog="example: steadyrank simulate SteadyRank CascadeTS MUCBV:preset=small-block,corruption=0 "
        "--profile synthetic-spread --adversary PrefixFlip --budget 10%",
    )
    sub.add_argument(
        "learner",
        nargs="*",
        default=["SteadyRank"],
        help="NAME or NAME:setting=value,... ; `steadyrank learners` lists names and settings",
    )
    add_world(sub, "synthetic-spread")
    sub.add_argument("--adversary", default="Honest", help="NAME or NAME:setting=value,...")
    sub.add_argument("--budget", help="rounds the adversary may corrupt: a number, or a share such as 10%%")
    sub.add_argument(
        "--own",
        type=pathlib.Path,
        default=None,
        metavar="FILE",
        help="a Python file whose learners, users, adversaries and guards can be used by name",
    )
    sub.add_argument(
        "--rules",
        type=pathlib.Path,
        default=None,
        metavar="FILE",
        help="a JSON file of rules for lists of items 0, 1, ...; regret is against the best list that keeps them",
    )
    sub.add_argument("--seeds", type=int, default=10, help="number of runs, with seeds 0, 1, ...")
    sub.add_argument("--threads", type=int, default=None, help="number of threads (default: one per core)")
    sub.add_argument("--omniscient", action="store_true", help="withhold the feedback of corrupted rounds")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..adversaries import ALL as ADVERSARIES
    from ..comparison.intervals import half_width
    from ..core.compiling.jit import told_of_compiling
    from ..core.contract import Problem
    from ..core.discovery import find_class, make
    from ..core.progress import Progress
    from ..core.settings import whole
    from ..evaluation.profiles import profile
    from ..evaluation.report.text import aligned, plus_minus
    from ..learners import ALL
    from ..simulator.simulate import simulate
    from ..users import ALL as USERS

    world = profile(options.profile, options.mapping)
    whole("--length", options.length, 1, world.attraction.size)
    whole("--horizon", options.horizon, 1)
    whole("--seeds", options.seeds, 1, 10_000)
    budget = parse_budget(options.budget or "0", options.horizon)
    rules = _rules_in(options.rules) if options.rules else None
    adversary, adversary_settings = parse_choice(options.adversary)
    users, users_settings = parse_choice(options.users)
    guard, guard_settings = parse_choice(options.guard)
    own = {cls.__name__: cls for cls in classes_in(options.own)} if options.own else {}
    buys = hasattr(find_class("users", own.get(users, users), USERS), "buy")  # then regret is in value
    chosen = [(text, *parse_choice(text)) for text in options.learner]
    if budget > 0 and adversary == "Honest":
        raise ValueError(f"--budget {options.budget} has no effect on Honest; choose an --adversary")
    if (
        options.budget is None
        and find_class("adversary", own.get(adversary, adversary), ADVERSARIES).__name__ != "Honest"
    ):
        raise ValueError(f"--adversary {adversary} can do nothing without a --budget such as 10%")
    problem = Problem(world.attraction.size, options.length, options.horizon, budget, world.attraction)
    if world.features is not None:
        problem = problem._replace(features=world.features)
    for _, name, settings in chosen:  # check all learners before the first one runs
        make(find_class("learner", own.get(name, name), ALL), problem, settings=settings)
    bar = Progress(len(chosen) * options.seeds, "simulating", sys.stderr)
    rows = []
    for text, name, settings in chosen:
        with told_of_compiling(bar.compiling):
            run = simulate(
                own.get(name, name),
                world.attraction,
                length=options.length,
                horizon=options.horizon,
                adversary=own.get(adversary, adversary),
                schedule=options.schedule,
                budget=budget,
                seeds=range(options.seeds),
                settings=settings,
                adversary_settings=adversary_settings,
                users=own.get(users, users),
                users_settings=users_settings,
                threads=options.threads,
                omniscient=options.omniscient,
                guard=own.get(guard, guard),
                guard_settings=guard_settings,
                features=world.features,
                visitors=world.visitors,
                progress=bar.step,
                rules=rules,
            )
        spread = float(half_width(run.final))
        views = [view for view in run.views if view is not None]
        suspected = sum(view.corrupted * (view.rounds + view.rejected) for view in views) / max(len(views), 1)
        corrupted = f"{run.spent[:, -1].mean():,.0f}"
        row = [text, f"{run.final.mean():,.1f}", plus_minus(spread, 1), corrupted]
        if buys:
            row += [_percent(run.worth.mean()), plus_minus(100.0 * float(half_width(run.worth)), 1)]
        if guard != "Anyone":
            row += [_percent(run.honest_refused), _percent(run.false_refused)]
        rows.append([*row, f"{suspected:,.0f}" if views else ""])
    bar.close()
    print(
        f"{world.title}, {world.attraction.size} items, lists of {options.length}, "
        f"{options.horizon:,} rounds, {options.seeds} seeds, users {options.users}, "
        f"{options.adversary} {options.schedule} {budget:,} rounds{', omniscient' if options.omniscient else ''}"
        f"{'' if guard == 'Anyone' else f', guard {options.guard}'}"
    )
    refused = [] if guard == "Anyone" else ["honest refused", "false refused"]
    worth = ["worth of the best lists", "95 %"] if buys else []
    titles = ["learner", "regret", "95 %", "corrupted rounds", *worth, *refused, "suspected"]
    shown = len(titles) if any(row[-1] for row in rows) else len(titles) - 1
    print(aligned(titles[:shown], [row[:shown] for row in rows]))


def _rules_in(path: pathlib.Path) -> dict[str, Any]:
    """Read rules from a JSON file."""
    if not path.is_file():
        raise ValueError(f"--rules {str(path)!r} is not a file")
    try:
        rules = json.loads(path.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"--rules {path} is not JSON: {error}") from None
    if not isinstance(rules, dict):
        raise ValueError(f'--rules {path} must hold an object such as {{"exclude": ["3"]}}, not {rules!r:.80}')
    return rules


def _percent(share: float) -> str:
    return "" if share != share else f"{share:.1%}"
