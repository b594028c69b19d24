"""A study with small cells. As a script it runs the study into a folder: python small_study.py FOLDER [PLACE]."""

import pathlib
import sys

from steadyrank.evaluation.lab.cells import Plan, Study, Trial
from steadyrank.evaluation.lab.results import CellStore
from steadyrank.evaluation.lab.runner import run_jobs

STUDY = Study(
    name="small",
    title="Small",
    paper="none",
    exhibit="rates",
    question="?",
    axes={
        "profile": ["synthetic-mid"],
        "rate": [0.0, 0.1, 0.2],
        "horizon": [1_000, 2_000],
        "who": [
            {"learner": "Random"}, {"learner": "CascadeTS"}, {"learner": "CascadeTS", "omniscient": True},
            {"learner": "CascadeTS", "settings": {"insurance": 0.01}},
            {"learner": "CascadeTS", "settings": {"insurance": 0.02}},
            {"learner": "Random", "omniscient": True},
        ],
    },
    trials=[Trial("lemma1", {"reading": "size", "samples": 500, "alpha": 16.0, "repetitions": 20})],
)  # fmt: skip
SEEDS = 2


def run(folder: pathlib.Path, on: str = "local", workers: int | None = None, **calls) -> int:
    return run_jobs(STUDY.jobs(Plan(SEEDS)), CellStore(folder), on=on, n_workers=workers, **calls)


def content(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


if __name__ == "__main__":
    folder, on = (*sys.argv[1:], "local")[:2]
    run(
        pathlib.Path(folder), on,
        started=lambda total, finished: (sys.stdout.write(f"{total} {finished}\n"), sys.stdout.flush()),
    )  # fmt: skip
