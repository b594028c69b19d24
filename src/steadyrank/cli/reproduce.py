"""`steadyrank reproduce`: the main job."""

import argparse
import pathlib
import sys
from typing import Any


def add(commands: Any) -> None:
    """Add the command."""
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
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..lab import compare
    from ..learners import ALL
    from ..progress import Progress
    from ..report.tables import comparison_table

    try:
        from ..report.figures import draw_comparison
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
