"""`steadyrank reproduce`, `report` and `results`: run the studies, write the report, list finished cells."""

import argparse
import json
import pathlib
import sys
from typing import Any

from ..core.files import replacing
from .choices import require_report_extra

FINISHED = "{total:,} cells, {finished:,} of them finished already"
_FILTERS = ("learner", "profile", "mapping", "adversary", "schedule", "users")


def add(commands: Any) -> None:
    """Add the commands."""
    run = commands.add_parser(
        "reproduce",
        help="re-run the paper's evaluation and score its claims",
        description="Run the studies that are not finished yet, then write the report. Safe to interrupt and repeat.",
    )
    _add_common(run)
    run.add_argument("--study", action="append", default=[], metavar="NAME", help="only this one (may be repeated)")
    run.add_argument("--full", action="store_true", help="the studies that take hours, too")
    run.add_argument("--on", default="local", help="local, ray, or ray://HOST of a Ray cluster (default: local)")
    run.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="FOLDER",
        help="use the original files of Yelp, MovieLens and Last.fm in this folder or below, not the models",
    )
    run.add_argument("--workers", type=int, default=None, help="number of parallel jobs (default: one per core)")
    run.set_defaults(run=_reproduce)
    report = commands.add_parser(
        "report",
        help="write the report from finished cells",
        description="Write the page, the figures and the tables from the cells that are finished; runs nothing.",
    )
    _add_common(report)
    report.add_argument("--data", type=pathlib.Path, metavar="FOLDER", help="for a run with --data: the same folder")
    report.set_defaults(run=_report, study=[], full=False)
    results = commands.add_parser(
        "results",
        help="list, filter and export finished cells",
        description="List, filter and export finished cells.",
    )
    results.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder of the results")
    for name in _FILTERS:
        results.add_argument(f"--{name}", help=f"only cells with this {name}")
    results.add_argument("--current", action="store_true", help="only cells made by the current source")
    results.add_argument("--export", type=pathlib.Path, help="write all their rows to a .csv or .parquet file")
    results.set_defaults(run=_results)


def _add_common(sub: Any) -> None:
    sub.add_argument("--quick", action="store_true", help="two seeds and shorter runs: minutes, for a first look")
    sub.add_argument(
        "--seeds",
        type=int,
        default=None,
        help="runs per setting (default: 3, and 10 if a claim stays undecided; quick: 2)",
    )
    sub.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder of the results (default: results)"
    )
    sub.add_argument("--json", action="store_true", help="print the scorecard as JSON")


def _studies(options: argparse.Namespace) -> Any:
    from ..evaluation.studies import ALL, find_studies

    if options.full and options.study:
        raise ValueError("--full runs every study; leave --study out")
    return list(ALL.values()) if options.full else find_studies(options.study)


def _plan(options: argparse.Namespace) -> Any:
    from ..core.settings import whole
    from ..evaluation.lab.cells import FIRST_SEEDS, QUICK_SEEDS, Plan
    from ..evaluation.profiles.originals import build_all

    data = build_all(options.data, options.out / "data", sys.stderr) if options.data else {}
    if options.seeds is not None:
        return Plan(whole("--seeds", options.seeds, 1, 10_000), options.quick, data=data)
    if options.quick:
        return Plan(QUICK_SEEDS, quick=True, data=data)
    return Plan(FIRST_SEEDS, staged=True, data=data)


def _reproduce(options: argparse.Namespace) -> None:
    require_report_extra()
    from ..core.compiling.jit import told_of_compiling
    from ..core.settings import whole
    from ..evaluation.lab.results import CellStore
    from ..evaluation.lab.runner import expand

    studies = _studies(options)
    if options.workers is not None:
        whole("--workers", options.workers, 1, 10_000)
        if options.on != "local":
            raise ValueError(f"--workers has no effect with --on {options.on}: the cluster decides")
    plan, store = _plan(options), CellStore(options.out)
    bars: list[Any] = []
    try:
        with told_of_compiling(lambda begins: bars[-1].compiling(begins) if bars else None):
            jobs = expand(studies, plan)
            run_shown(jobs, store, bars, FINISHED, on=options.on, n_workers=options.workers)
            if plan.staged:
                _run_undecided(store, plan, options, bars)
    except KeyboardInterrupt:
        print("\ninterrupted: finished cells are kept, the report shows them", file=sys.stderr)
        _write(options, store, plan, studies)
        raise
    _write(options, store, plan, studies)


def _run_undecided(store: Any, plan: Any, options: argparse.Namespace, bars: list[Any]) -> None:
    """Run more seeds where they may decide a claim."""
    from ..evaluation.lab.cells import ALL_SEEDS
    from ..evaluation.report.writing import undecided

    jobs = undecided(store, plan)
    if jobs:
        words = (
            f"{{total:,}} cells leave a claim undecided: {ALL_SEEDS} seeds there ({{finished:,}} finished already)"
        )
        run_shown(jobs, store, bars, words, on=options.on, n_workers=options.workers)


def run_shown(jobs: Any, store: Any, bars: list[Any], words: str = FINISHED, **how: Any) -> None:
    """Run unfinished jobs with a progress bar, which is appended to `bars`; `how`: options of `run_jobs`."""
    from ..core.progress import Progress
    from ..evaluation.lab.runner import run_jobs

    def started(total: int, finished: int) -> None:
        print(words.format(total=total, finished=finished), file=sys.stderr)
        bars.append(Progress(total - finished, "simulating", sys.stderr))

    n_run = run_jobs(jobs, store, started=started, finished=lambda: bars[-1].step(), **how)
    if n_run:
        bars[-1].close()


def _report(options: argparse.Namespace) -> None:
    require_report_extra()
    from ..evaluation.lab.results import CellStore

    store = CellStore(options.out)
    if not store.folder.is_dir():
        raise ValueError(f"{options.out} holds no results; run `steadyrank reproduce --out {options.out}` first")
    _write(options, store, _plan(options), [])


def _write(options: argparse.Namespace, store: Any, plan: Any, asked: Any) -> None:
    from ..evaluation.report.writing import write_report

    print("Writing the report: its figures take up to a minute, longer if the machine is busy.", file=sys.stderr)
    page, claims = write_report(store, options.out, plan, asked)
    if options.json:
        about = {"report": str(page.resolve()), "seeds": plan.seeds, "quick": plan.quick}
        print(json.dumps({**about, "claims": [claim.data() for claim in claims]}, indent=1))
        return
    width = max(len(claim.text) for claim in claims)
    for claim in claims:
        print(f"{claim.text:<{width}}  {claim.verdict}")
    print(f"\nThe report: {page.resolve().as_uri()}\nFigures and tables are beside it.")


def _results(options: argparse.Namespace) -> None:
    require_report_extra("polars")
    import polars as pl

    from ..evaluation.lab.results import listing, source_digest
    from ..evaluation.report.text import aligned

    suffix = options.export.suffix if options.export else ".csv"
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"--export must end in .csv or .parquet, not {str(options.export)!r}")
    wanted = {name: getattr(options, name) for name in _FILTERS}
    present = source_digest()
    rows, frames = [], []
    for path, about, frame in listing(options.out):
        if any(value is not None and about.get(name) != value for name, value in wanted.items()):
            continue
        if options.current and about["source"] != present:
            continue
        rows.append(_row(path, about, frame))
        if options.export:
            frames.append(
                frame.with_columns(pl.lit(value).alias(name) for name, value in _fields(path, about, frame))
            )
    if not rows:
        raise ValueError(f"no cell in {options.out} fits")
    if options.export:
        table = pl.concat(frames, how="diagonal_relaxed")
        try:
            with replacing(options.export) as file:
                table.write_csv(file) if suffix == ".csv" else table.write_parquet(file)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{options.export} cannot be written: {error}") from None
        print(f"{len(frames):,} cells, {table.height:,} rows: {options.export}")
        return
    header = ["cell", "profile", "mapping", "attack", "rate", "seeds", "regret", "source"]
    print(aligned(header, rows))


def _fields(path: pathlib.Path, about: dict[str, Any], frame: Any) -> list[tuple[str, Any]]:
    """The metadata of a cell as additional columns; settings as JSON."""
    plain = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in about.items()}
    plain |= {"cell": path.stem, "rate": float(about.get("rate", 0.0))}
    return [(name, value) for name, value in plain.items() if name not in ("seed", "digest", *frame.columns)]


def _row(path: pathlib.Path, about: dict[str, Any], frame: Any) -> list[str]:
    if about["job"] != "Cell":
        return [path.stem, "-", "-", "-", "-", "-", "-", about["source"]]
    final = frame.filter(frame["mark"] == about["horizon"])["regret"].mean()
    return [
        path.stem,
        about["profile"],
        about["mapping"] or "-",
        f"{about['adversary']} {about['schedule']}",
        f"{about['rate']:.1%}",
        str(about["seeds"]),
        f"{final:,.1f}",
        about["source"],
    ]
