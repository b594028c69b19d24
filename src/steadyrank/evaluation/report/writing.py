"""Write the report: the page, every figure as SVG, every table as CSV."""

import itertools
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence

import polars as pl

from ..lab.cells import ALL_SEEDS, Cell, Job, Plan, Study, Trial, key, with_more_seeds
from ..lab.results import CellStore, read, versions
from ..profiles.originals import is_papers
from ..profiles.ratings import Ratings
from ..studies import ALL
from .claims import scorecard
from .exhibits import show
from .page import answer, page
from .paired import CellKey
from .sources import MODELLED, Source
from .verdicts import Claim

_MARK = ".steadyrank"


def load(study: Study, store: CellStore, plan: Plan) -> pl.DataFrame:
    """The finished rows of a study; rows of trials have their parameters as columns."""
    jobs = study.jobs(plan)
    if not study.trials:
        more = [with_more_seeds(job) for job in jobs if isinstance(job, Cell)] if plan.staged else []
        return store.load([*jobs, *more])
    frames = []
    for job in jobs:
        if isinstance(job, Trial) and store.path(job).exists():
            frame = read(store.path(job))[1]
            tried = {"kind": job.kind, **job.parameters}
            frames.append(frame.with_columns(pl.lit(v).alias(k) for k, v in tried.items() if k not in frame.columns))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def sources_of(plan: Plan) -> dict[str, Source]:
    """The data set behind each of the paper's profiles."""
    if not plan.data:
        return dict(MODELLED)
    sources = {}
    for name, path in plan.data.items():
        ratings = Ratings.load(pathlib.Path(path))
        papers = is_papers(name, ratings)
        sources[name] = Source(f"{ratings.origin}{'' if papers else ' (another release than the paper has)'}", papers)
    return sources


def undecided(store: CellStore, plan: Plan) -> list[Cell]:
    """The cells, with their remaining seeds, that undecided claims need."""
    rows = {study.name: load(study, store, plan) for study in ALL.values()}
    claims = scorecard(rows, plan.quick, sources_of(plan))
    wants = {key for claim in claims if not claim.because for outcome in claim.judged for key in outcome.wants}
    jobs = {key(job, ""): job for study in ALL.values() for job in study.jobs(plan) if isinstance(job, Cell)}
    return [with_more_seeds(job) for job in jobs.values() if cell_key(job) in wants and store.path(job).exists()]


def cell_key(cell: Cell) -> CellKey:
    """The key of a cell in claims."""
    return CellKey(
        cell.who,
        cell.profile,
        cell.mapping or "",
        round(cell.rate, 4),
        cell.foe,
        cell.crowd,
        cell.n_items or 0,
        cell.length,
        cell.horizon,
    )


def write_report(
    store: CellStore, folder: pathlib.Path, plan: Plan, asked: Sequence[Study] = ()
) -> tuple[pathlib.Path, list[Claim]]:
    """Write folder/report with report.html, figures and tables from finished cells; returns the page and claims.

    The report is written to a temporary folder that then replaces the old one; ValueError if a folder of this name
    was not written by steadyrank. Studies that do not run by default are shown if `asked` for or finished.
    """
    home = folder / "report"
    if home.exists() and not (home / _MARK).exists():
        raise ValueError(f"{home} was not written by steadyrank; move it away or choose another --out")
    rows = {study.name: load(study, store, plan) for study in ALL.values()}
    if all(frame.is_empty() for frame in rows.values()):
        options = f"--seeds {plan.seeds}{' --quick' * plan.quick}{' --data' * bool(plan.data)}"
        raise ValueError(
            f"{folder} holds no cells of the present source for {options} (after a run with --quick, add that); "
            "`steadyrank results` lists all"
        )
    shown = [study for study in ALL.values() if study.default or study in asked or _finished(study.jobs(plan), store)]
    new = folder / f".report.{os.getpid()}.part"
    shutil.rmtree(new, ignore_errors=True)
    try:
        claims = _write(new, shown, rows, store, plan)
        if home.exists():
            shutil.rmtree(home)
        os.replace(new, home)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return home / "report.html", claims


def _write(
    new: pathlib.Path,
    shown: Sequence[Study],
    rows: Mapping[str, pl.DataFrame],
    store: CellStore,
    plan: Plan,
) -> list[Claim]:
    for part in ("figures", "tables"):
        (new / part).mkdir(parents=True)
    exhibits = {study.name: show(study, rows[study.name], plan.quick) for study in shown}
    for exhibit in itertools.chain.from_iterable(exhibits.values()):
        if exhibit.svg:
            (new / "figures" / f"{exhibit.name}.svg").write_text(exhibit.svg, encoding="utf-8")
        if exhibit.table is not None:
            exhibit.table.write_csv(new / "tables" / f"{exhibit.name}.csv")
    claims = scorecard(rows, plan.quick, sources_of(plan))
    lines = [
        {"id": c.id, "claim": c.text, "place": c.place, "scorecard": c.verdict, "command": c.command, **reading}
        for c in claims
        for reading in c.data()["readings"] or [{}]
    ]
    table = pl.DataFrame(lines, infer_schema_length=None)
    table.write_csv(new / "tables" / "scorecard.csv")
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    state = _state(shown, store, plan)
    text = page(shown, exhibits, claims, answer(rows, claims), f"Made by {made}; source {store.source}.", state)
    (new / "report.html").write_text(text, encoding="utf-8")
    (new / _MARK).write_text("This folder is replaced whenever steadyrank writes a report.\n")
    return claims


def _finished(jobs: Sequence[Job], store: CellStore) -> bool:
    return all(store.path(job).exists() for job in jobs)


def _state(studies: Sequence[Study], store: CellStore, plan: Plan) -> str:
    jobs = {store.path(job) for study in studies for job in study.jobs(plan)}  # shared ones once
    done = sum(path.exists() for path in jobs)
    words = f"{plan.seeds} seed{'s' * (plan.seeds > 1)} a setting"
    words += f", {ALL_SEEDS} where a claim needs them" if plan.staged else ""
    words += ", original files." if plan.data else ", modelled profiles."
    words += " A quick look at a quarter of the rounds: the claims are about 40,000." if plan.quick else ""
    return words if done == len(jobs) else f"{words} Unfinished: {done:,} of {len(jobs):,} cells so far."
