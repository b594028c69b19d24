"""Run studies: expand them into jobs, skip the finished ones, run the others, and store each when it ends."""

import contextlib
import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ...core import workers
from ...simulator.runs import Run
from ...simulator.simulate import simulate
from ..profiles import profile
from . import trials
from .cells import Cell, Job, Plan, Study, key
from .results import CellStore, with_fields

Columns = dict[str, Any]
_NONE: Mapping[str, type] = {}
_WITHOUT_BUDGET = "PrefixFlip"  # adversary used without a budget, so that a learner has one loop less to compile


def expand(studies: Sequence[Study], plan: Plan) -> list[Job]:
    """The distinct jobs of all the studies, in an order that mixes long and short ones."""
    return _mixed([job for study in studies for job in study.jobs(plan)])


def _mixed(jobs: Sequence[Job]) -> list[Job]:
    once = {key(job, ""): job for job in jobs}
    return [once[name] for name in sorted(once, key=lambda name: name[-16:])]


class _Queue(Iterator[Job]):
    """Schedules jobs so that one worker at a time compiles, as early as possible, while the others run compiled code.

    Jobs that run the same compiled code are of one kind, which the first of them compiles. Trials, which compile
    little, come first, then the kind with most jobs, so that other workers soon have work.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        sizes = Counter(map(kind_of, jobs))
        most = max(sizes.values(), default=0)
        self._left = sorted(jobs, key=lambda job: (isinstance(job, Cell), sizes[kind_of(job)] < most))
        self._compiled: set[tuple[Any, ...]] = set()
        self._compiling: tuple[Any, ...] | None = None

    def __next__(self) -> Job:
        """The next job: of a compiled kind while another compiles, else of a new kind."""
        if not self._left:
            raise StopIteration
        wanted = self._compiling is not None
        place = next((i for i, job in enumerate(self._left) if (kind_of(job) in self._compiled) == wanted), 0)
        job = self._left.pop(place)
        if kind_of(job) not in self._compiled:
            self._compiling = kind_of(job)
        return job

    def ended(self, job: Job) -> None:
        """Record that a job has ended, so that its kind is compiled."""
        self._compiled.add(kind_of(job))
        if self._compiling == kind_of(job):
            self._compiling = None


def kind_of(job: Job) -> tuple[Any, ...]:
    """A key of the compiled code that a job runs."""
    if not isinstance(job, Cell):
        return (job.kind,)
    return job.learner, job.adversary if job.rate else _WITHOUT_BUDGET, job.users, job.guard


def run_jobs(
    jobs: Sequence[Job],
    store: CellStore,
    *,
    on: str = "local",
    n_workers: int | None = None,
    started: Callable[[int, int], None] = lambda total, finished: None,
    finished: Callable[[], None] = lambda: None,
    own: Mapping[str, type] = _NONE,
) -> int:
    """Run the jobs that are not in the store, and store them; returns how many were run.

    `started(total, finished)` is called once, `finished()` after each job. Finished jobs survive any interruption,
    and the results of a job do not depend on when, where or with which others it runs. `own`: the user's own classes
    that jobs use; the store must have been opened with their file.
    """
    workers.check_place(on)
    store.prepare()
    jobs = _mixed(jobs)
    missing = [job for job in jobs if not store.has(job)]
    started(len(jobs), len(jobs) - len(missing))
    queue = _Queue(missing)
    function = functools.partial(run_job, own=own) if own else run_job
    with contextlib.closing(workers.run(function, queue, on=on, workers=n_workers)) as ended:
        for job, columns in ended:
            queue.ended(job)
            store.save(job, columns)
            finished()
    return len(missing)


def run_job(job: Job, pulse: Callable[[], None] = lambda: None, own: Mapping[str, type] = _NONE) -> Columns:
    """Run one job and return its columns; `pulse` is called once per seed."""
    if isinstance(job, Cell):
        return _rows(run_cell(job, pulse, own))
    return dict(trials.KINDS[job.kind](job.seed, **job.parameters))


def run_cell(cell: Cell, pulse: Callable[[], None] = lambda: None, own: Mapping[str, type] = _NONE) -> Run:
    """Simulate one cell in this thread."""
    return _simulate(cell, pulse, 1, own)


def microseconds(cell: Cell, own: Mapping[str, type] = _NONE) -> float:
    """Processor time per round of the cell, the smaller of two runs; nothing else may run in this process."""
    run_cell(dataclasses.replace(cell, horizon=1, rate=0.0, seeds=1, marks=1), own=own)  # compiles
    took = []
    for _ in range(2):
        start = time.process_time()
        run_cell(cell, own=own)
        took.append(time.process_time() - start)
    return 1e6 * min(took) / (cell.horizon * cell.seeds)


def _simulate(cell: Cell, pulse: Callable[[], None], threads: int | None, own: Mapping[str, type]) -> Run:
    world = profile(cell.data or cell.profile, cell.mapping)
    attraction, features = world.attraction, world.features
    if cell.n_items is not None:  # evenly spaced by attraction, to keep the range
        places = ((np.arange(cell.n_items) + 0.5) * attraction.size / cell.n_items).astype(np.int64)
        chosen = np.sort(np.argsort(attraction, kind="stable")[places])
        attraction, features = attraction[chosen], None if features is None else features[chosen]
    budget = round(cell.rate * cell.horizon)
    return simulate(
        own.get(cell.learner, cell.learner),
        attraction,
        length=cell.length,
        horizon=cell.horizon,
        adversary=own.get(cell.adversary, cell.adversary) if budget else _WITHOUT_BUDGET,
        adversary_settings=dict(cell.adversary_settings) if budget else {},
        schedule=cell.schedule,  # type: ignore[arg-type]
        budget=budget,
        seeds=range(cell.first_seed, cell.first_seed + cell.seeds),
        settings=dict(cell.settings),
        omniscient=cell.omniscient,
        users=cell.users,
        users_settings=dict(cell.users_settings),
        guard=cell.guard,
        guard_settings=dict(cell.guard_settings),
        features=features,
        visitors=world.visitors,
        marks=cell.marks,
        threads=threads,
        progress=pulse,
    )


def _rows(run: Run) -> Columns:
    """One row per seed and mark; counts of what the guard did with each kind of visits are those at the end."""
    n_seeds, n_marks = run.regret.shape
    guarded = {
        f"{what}_{sort}": np.repeat(counts[:, place], n_marks)
        for what, counts in (("visits", run.visits), ("refused", run.refused), ("retracted", run.retracted))
        for place, sort in enumerate(("honest", "minority", "false"))
    }
    return {
        "seed": np.repeat(run.seeds, n_marks),
        "mark": np.tile(run.marks, n_seeds),
        "regret": run.regret.ravel(),
        "spent": run.spent.ravel(),
        "bits_changed": np.repeat(run.bits_changed, n_marks),
        "best_corrupted": np.repeat(run.best_corrupted, n_marks),
        **guarded,
    }


def compare(
    learners: Sequence[str | type], world: Cell, rates: Sequence[float], progress: Callable[[], None]
) -> pl.DataFrame:
    """Regret of each learner, a name or a class, at each corruption rate: rows in the format of `CellStore.load`.

    `world` is a cell with all fields but learner and rate. Nothing is stored, since the user's own class may change
    between two runs. `progress` is called once per seed.
    """
    chosen_profile = profile(world.profile, world.mapping)
    own = {learner.__name__: learner for learner in learners if isinstance(learner, type)}
    frames = []
    for learner in learners:
        for rate in rates:
            name = learner.__name__ if isinstance(learner, type) else learner
            run = _simulate(dataclasses.replace(world, learner=name, rate=rate), progress, None, own)
            cell = dataclasses.replace(
                world, learner=run.learner, profile=chosen_profile.name, mapping=chosen_profile.mapping, rate=rate
            )
            frames.append(with_fields(cell, pl.DataFrame(_rows(run))))
    return pl.concat(frames)
