"""The command line: thin, and nothing heavy is imported before a command needs it."""

import argparse
import inspect
import os
import pathlib
import sys
import typing
from collections.abc import Sequence
from typing import Any

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` perhaps, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (KeyError, ValueError, OSError, MemoryError) as error:
        message = error.args[0] if isinstance(error, KeyError) else error
        print(f"steadyrank {options.command}: {message}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steadyrank", description="Learn rankings from clicks, some of which are false."
    )
    parser.add_argument("--version", action="version", version=f"steadyrank {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_simulate(commands)
    _add_reproduce(commands)
    for kind, one, method in (
        ("learners", "learner", "rank"), ("adversaries", "adversary", "corrupt"), ("users", "users", "click"),
    ):  # fmt: skip
        sub = commands.add_parser(
            kind, help=f"list the {kind} and their settings", description=f"List the {kind} with what each does."
        )
        sub.add_argument("name", nargs="?", help="show only this one, with its settings explained")
        sub.set_defaults(run=_list, kind=kind, one=one, method=method)
    sub = commands.add_parser("profiles", help="list the profiles", description="List the profiles by name.")
    sub.set_defaults(run=_profiles)
    return parser


def _add_simulate(commands: Any) -> None:
    sub = commands.add_parser(
        "simulate",
        help="run learners against users and an adversary",
        description="Run learners against simulated users and an adversary; print their regret.",
        epilog="example: steadyrank simulate CascadeTS TimeBlocks MUCBV:preset=small-block,corruption=0 "
        "--profile synthetic-spread --adversary PrefixFlip --budget 10%",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    sub.add_argument(
        "learner", nargs="+", help="NAME or NAME:setting=value,... ; `steadyrank learners` lists names and settings"
    )
    sub.add_argument("--profile", default="synthetic-spread", help="`steadyrank profiles` lists them")
    sub.add_argument("--adversary", default="Honest", help="NAME or NAME:setting=value,...")
    sub.add_argument("--schedule", default="front", help="when it acts: front, spread, late, bursts, ramp")
    sub.add_argument("--budget", default="0", help="rounds it may corrupt: a number, or a share such as 10%%")
    sub.add_argument("--users", default="Cascade", help="NAME or NAME:setting=value,...")
    sub.add_argument("--length", type=int, default=10, help="items a list")
    sub.add_argument("--horizon", type=int, default=40_000, help="rounds")
    sub.add_argument("--seeds", type=int, default=10, help="how many runs, with seeds 0, 1, ...")
    sub.add_argument("--threads", type=int, default=None, help="threads (default: one a core)")
    sub.add_argument("--omniscient", action="store_true", help="withhold the feedback of corrupted rounds")
    sub.set_defaults(run=_simulate)


def _add_reproduce(commands: Any) -> None:
    sub = commands.add_parser(
        "reproduce",
        help="compare all learners at 0 to 25 %% corruption",
        description="Compare all learners under the paper's attack at 0 to 25 %% corruption; print a table and "
        "write a figure.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    sub.add_argument("--profile", default="synthetic-spread", help="`steadyrank profiles` lists them")
    sub.add_argument("--adversary", default="PrefixFlip", help="`steadyrank adversaries` lists them")
    sub.add_argument("--horizon", type=int, default=40_000, help="rounds")
    sub.add_argument("--seeds", type=int, default=5, help="how many runs, with seeds 0, 1, ...")
    sub.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder for what it writes")
    sub.set_defaults(run=_reproduce)


def parse_choice(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME:a=1,b=x` as a name and settings; values become whole numbers, numbers, True/False/None or words."""
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} in {text!r} must be setting=value")
        settings[key.strip()] = _parse_value(value.strip())
    return name, settings


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_budget(text: str, horizon: int) -> int:
    """A number of rounds, or a share of the horizon such as `10%`."""
    try:
        budget = round(float(text[:-1]) / 100 * horizon) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"--budget must be a number of rounds or a share such as 10%, not {text!r}") from None
    if not 0 <= budget <= horizon:
        raise ValueError(
            f"--budget must be from 0 to the horizon of {horizon} rounds, or from 0% to 100%, not {text!r}"
        )
    return budget


def _simulate(options: argparse.Namespace) -> None:
    from .contract import Problem, find, make
    from .learners import ALL
    from .profiles import profile
    from .progress import Progress
    from .report.tables import aligned, plus_minus
    from .results import half_width
    from .simulate import simulate

    world = profile(options.profile)
    budget = parse_budget(options.budget, options.horizon)
    adversary, adversary_settings = parse_choice(options.adversary)
    users, users_settings = parse_choice(options.users)
    chosen = [(text, *parse_choice(text)) for text in options.learner]
    if budget > 0 and adversary == "Honest":
        raise ValueError(f"--budget {options.budget} has no effect on Honest; choose an --adversary")
    problem = Problem(world.attraction.size, options.length, options.horizon, budget, world.attraction)
    for _, name, settings in chosen:  # every learner is refused here or not at all, before the first one runs
        make(find("learner", name, ALL, "rank"), problem, settings=settings)
    bar = Progress(len(chosen) * max(options.seeds, 1), "simulating", sys.stderr)
    rows = []
    for text, name, settings in chosen:
        run = simulate(
            name, world.attraction, length=options.length, horizon=options.horizon, adversary=adversary,
            schedule=options.schedule, budget=budget, seeds=range(options.seeds), settings=settings,
            adversary_settings=adversary_settings, users=users, users_settings=users_settings,
            threads=options.threads, omniscient=options.omniscient, progress=bar.step,
        )  # fmt: skip
        spread = float(half_width(run.final))
        rows.append([text, f"{run.final.mean():,.1f}", plus_minus(spread, 1), f"{run.spent[:, -1].mean():,.0f}"])
    bar.close()
    print(
        f"{world.name} ({world.mapping}), {world.attraction.size} items, lists of {options.length}, "
        f"{options.horizon:,} rounds, {options.seeds} seeds, users {options.users}, "
        f"{options.adversary} {options.schedule} {budget:,} rounds{', omniscient' if options.omniscient else ''}"
    )
    print(aligned(["learner", "regret", "95 %", "corrupted rounds"], rows))


def _reproduce(options: argparse.Namespace) -> None:
    from .lab import compare
    from .learners import ALL
    from .progress import Progress
    from .report.tables import comparison_table

    try:
        from .report.figures import draw_comparison
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing; install it with: pip install 'steadyrank[report]'") from None
    options.out.mkdir(parents=True, exist_ok=True)
    rates = [0.0, 0.05, 0.10, 0.15, 0.20, 0.25]  # the paper's
    bar = Progress(len(ALL) * len(rates) * options.seeds, "comparing learners", sys.stderr)
    result = compare(
        list(ALL), options.profile, adversary=options.adversary, rates=rates, horizon=options.horizon, length=10,
        seeds=range(options.seeds), progress=bar.step,
    )  # fmt: skip
    bar.close()
    table = comparison_table(result)
    result.save(options.out / "comparison.json")
    (options.out / "comparison.txt").write_text(table + "\n")
    files = draw_comparison(result, options.out / "comparison")
    print(f"Regret after {result.horizon:,} rounds on {result.profile}, by share of corrupted rounds:\n\n{table}\n")
    print("Figure:", *(str(file) for file in files))


def _list(options: argparse.Namespace) -> None:
    import steadyrank

    from .contract import find

    known: dict[str, type] = getattr(steadyrank, options.kind)()
    if options.name is None:
        width = max(map(len, known))
        for name, cls in known.items():
            print(f"{name:<{width}}  {_summary(cls)}{_shape(cls)}")
            for line in _settings(cls):
                print(f"{'':<{width}}    {line}")
        return
    cls = find(options.one, options.name, known, options.method)
    print(f"{cls.__name__}\n\n{inspect.getdoc(cls)}\n")
    for line in _settings(cls):
        print(f"    {line}")


def _shape(cls: type) -> str:
    """For an adversary: whether a cascade user could have sent its feedback."""
    cascade = getattr(cls, "cascade", None)
    return "" if cascade is None else f" [feedback {'could' if cascade else 'could not'} come from a cascade user]"


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").split("\n")[0]


def _settings(cls: type) -> list[str]:
    """`name = default`, with the words a setting may take."""
    from .contract import settings_of

    hints = typing.get_type_hints(cls.create)  # type: ignore[attr-defined]
    lines = []
    for name, parameter in settings_of(cls).items():
        words = [str(word) for word in _words(hints[name])]
        lines.append(f"{name} = {parameter.default}" + (f"   ({' | '.join(words)})" if words else ""))
    return lines


def _words(hint: Any) -> list[Any]:
    """The literal values in a type, looked for inside unions."""
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [word for part in typing.get_args(hint) for word in _words(part)]


def _profiles(options: argparse.Namespace) -> None:
    from .profiles import profile, profiles

    for name in profiles():
        world = profile(name)
        print(f"{name:<20} {world.attraction.size} items, {world.mapping}; {world.origin}")


if __name__ == "__main__":
    sys.exit(main())
