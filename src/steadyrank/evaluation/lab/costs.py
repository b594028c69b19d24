"""Estimate the cost of jobs before they run."""

from collections.abc import Iterable, Mapping

from .cells import Cell, Job
from .runner import kind_of

# Processor microseconds a round of the slow learners at 500 items and lists of ten, measured on one core of a busy
# machine (`steadyrank leaderboard` prints them); all others take about as long as CascadeTS.
_SLOW = {
    "CascadeDUCB": 42.0,
    "ChangePointTS": 30.0,
    "FAR": 18.0,
    "FORC": 27.0,
    "FTRL": 24.0,
    "GLRTCascadeKLUCB": 31.0,
    "GRAB": 60.0,
    "PBMFTRL": 137.0,
    "PBMHB": 311.0,
    "PBMPIE": 11.0,
    "PBMTS": 145.0,
    "PIE": 9.0,
    "SteadyRank": 18.0,
    "UniRank": 28.0,
}
_OTHERS = 6.0
COMPILING = 4.5  # seconds for each learner with each adversary, once


def seconds(jobs: Iterable[Job], speeds: Mapping[str, float] | None = None) -> tuple[float, float]:
    """Seconds of one core to run the cells among the jobs, and to compile if nothing is compiled yet.

    `speeds`: microseconds per round by learner, to override the built-in estimates. Trials take seconds and are left
    out.
    """
    speeds = _SLOW | dict(speeds or {})
    cells = [job for job in jobs if isinstance(job, Cell)]
    running = sum(1e-6 * speeds.get(cell.learner, _OTHERS) * cell.horizon * cell.seeds for cell in cells)
    return running, COMPILING * len(set(map(kind_of, cells)))


def in_words(jobs: Iterable[Job], speeds: Mapping[str, float] | None = None) -> str:
    """The number of cells to run and the estimated time, in a sentence."""
    left = list(jobs)
    running, compiling = seconds(left, speeds)
    return (
        f"{len(left):,} cells to run: about {_span(running)} of one core, and up to {_span(compiling)} for compiling "
        "what is not compiled yet"
    )


def _span(took: float) -> str:
    if took < 60.0:
        return f"{took:.0f} s"
    return f"{took / 60.0:.0f} min" if took < 5_400.0 else f"{took / 3600.0:.1f} hours"
