"""Writes the report: the page, every figure as SVG, every table as CSV."""

import os
import pathlib
import shutil
from collections.abc import Sequence

import polars as pl

from ..cells import Job, Study, Trial
from ..results import Store, read, versions
from ..studies import ALL
from .claims import Claim, scorecard
from .page import page
from .views import show


def load(study: Study, store: Store, *, seeds: int, quick: bool) -> pl.DataFrame:
    """The finished rows of a study; a trial's rows carry what was tried."""
    jobs = study.jobs(seeds=seeds, quick=quick)
    if not study.trials:
        return store.load(jobs)
    frames = []
    for job in jobs:
        if isinstance(job, Trial) and store.path(job).exists():
            frame = read(store.path(job))[1]
            tried = {"kind": job.kind, **job.parameters}
            frames.append(frame.with_columns(pl.lit(v).alias(k) for k, v in tried.items() if k not in frame.columns))
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def write_report(
    store: Store,
    folder: pathlib.Path,
    *,
    seeds: int,
    quick: bool,
    asked: Sequence[Study] = (),
) -> tuple[pathlib.Path, list[Claim]]:
    """Make folder/report.html, folder/figures and folder/tables from what is finished; returns the page and claims.

    A report is written beside the old one and then takes its place. Studies that do not run unasked are shown when
    `asked` for or finished.
    """
    rows = {study.name: load(study, store, seeds=seeds, quick=quick) for study in ALL.values()}
    shown = [
        study for study in ALL.values()
        if study.default or study in asked or _finished(study.jobs(seeds=seeds, quick=quick), store)
    ]  # fmt: skip
    new = folder / "report.part"
    shutil.rmtree(new, ignore_errors=True)
    for part in ("figures", "tables"):
        (new / part).mkdir(parents=True)
    exhibits = {}
    for study in shown:
        exhibits[study.name] = show(study, rows[study.name])
        for exhibit in exhibits[study.name]:
            if exhibit.svg:
                (new / "figures" / f"{exhibit.name}.svg").write_text(exhibit.svg, encoding="utf-8")
            if exhibit.table is not None:
                exhibit.table.write_csv(new / "tables" / f"{exhibit.name}.csv")
    claims = scorecard(rows)
    judged = [(claim, under, outcome) for claim in claims for under, outcome in claim.outcomes.items()]
    table = {
        "claim": [claim.text for claim, _, _ in judged], "study": [claim.study for claim, _, _ in judged],
        "under": [under for _, under, _ in judged], "holds": [outcome.holds for _, _, outcome in judged],
        "figures": [outcome.figures for _, _, outcome in judged],
    }  # fmt: skip
    pl.DataFrame(table, schema_overrides={"holds": pl.Boolean}).write_csv(new / "tables" / "scorecard.csv")
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    text = page(
        shown, exhibits, claims, f"Made by {made}; source {store.source}.", _state(shown, store, seeds, quick)
    )
    (new / "report.html").write_text(text, encoding="utf-8")
    for part in ("figures", "tables", "report.html"):
        old = folder / part
        if old.is_dir():
            shutil.rmtree(old)
        os.replace(new / part, old)
    new.rmdir()
    return folder / "report.html", claims


def _finished(jobs: Sequence[Job], store: Store) -> bool:
    return all(store.path(job).exists() for job in jobs)


def _state(studies: Sequence[Study], store: Store, seeds: int, quick: bool) -> str:
    jobs = [job for study in studies for job in study.jobs(seeds=seeds, quick=quick)]
    done = sum(store.path(job).exists() for job in jobs)
    words = f"{seeds} seed{'s' * (seeds > 1)} a setting, modelled profiles."
    words += " A quick look at half of the rounds: the claims are about 40,000." if quick else ""
    return words if done == len(jobs) else f"{words} Unfinished: {done:,} of {len(jobs):,} cells so far."
