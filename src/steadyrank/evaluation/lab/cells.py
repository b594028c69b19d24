"""What the lab runs: a study describes one figure or table as data, a cell is one combination of its values."""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HORIZON = 40_000  # the paper's
LENGTH = 10  # of lists, the paper's
QUICK_HORIZON = 10_000
# Every cell runs with the first seeds, or a single one if it is only shown; cells of undecided claims also run with
# the others.
FIRST_SEEDS, ALL_SEEDS, QUICK_SEEDS, SHOWN_SEEDS = 3, 10, 2, 1
_QUICK_REPETITIONS = 10  # divisor of a trial's repetitions in a quick plan


@dataclass(frozen=True)
class Cell:
    """One learner in one world. The results depend on its fields and on nothing else."""

    learner: str
    profile: str
    mapping: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    omniscient: bool = False
    adversary: str = "PrefixFlip"
    adversary_settings: Mapping[str, Any] = field(default_factory=dict)
    schedule: str = "front"
    rate: float = 0.0  # share of rounds that may be corrupted
    users: str = "Cascade"
    users_settings: Mapping[str, Any] = field(default_factory=dict)
    n_items: int | None = None  # number of the profile's items to use, evenly spaced by attraction (None: all)
    length: int = LENGTH
    horizon: int = HORIZON
    seeds: int = 5
    marks: int = 50
    first_seed: int = 0
    data: str = ""  # a file of `steadyrank profile build` that replaces the profile
    guard: str = "Anyone"
    guard_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The learner's name in figures, with the settings given, its guard, and omniscience."""
        guard = [] if self.guard == "Anyone" else [_named(self.guard, self.guard_settings)]
        return _named(self.learner, self.settings, *guard, *(["omniscient"] if self.omniscient else []))

    @property
    def foe(self) -> str:
        """The adversary's name in figures, with the settings given."""
        return _named(self.adversary, self.adversary_settings)

    @property
    def crowd(self) -> str:
        """The users' name in figures, with the settings given."""
        return _named(self.users, self.users_settings)


def _named(name: str, settings: Mapping[str, Any], *more: str) -> str:
    marks = [*(f"{key}={value}" for key, value in sorted(settings.items())), *more]
    return f"{name} ({', '.join(marks)})" if marks else name


@dataclass(frozen=True)
class Trial:
    """One Monte-Carlo experiment on an estimator, without a learner; `kind` names the function in `trials`."""

    kind: str
    parameters: Mapping[str, Any]
    seed: int = 0

    @property
    def who(self) -> str:
        """The kind of experiment."""
        return self.kind


Job = Cell | Trial


@dataclass(frozen=True)
class Plan:
    """How to run studies: number of seeds, whether shortened for a quick look, and on which files.

    `staged`: cells of undecided claims get more seeds, `ALL_SEEDS` in all. `data`: files that replace profiles, by
    name of the profile.
    """

    seeds: int
    quick: bool = False
    staged: bool = False
    data: Mapping[str, str] = field(default_factory=dict)


def identity(job: Job) -> dict[str, Any]:
    """All that a job's results depend on, for JSON; guard, first seed and data only if they are not the defaults."""
    fields = dict(vars(job))
    if fields.get("guard") == "Anyone":
        del fields["guard"], fields["guard_settings"]
    for name in ("first_seed", "data"):
        if not fields.get(name, True):
            del fields[name]
    return {"job": type(job).__name__, **fields}


def with_more_seeds(cell: Cell) -> Cell:
    """The same cell with the remaining seeds, after the first ones have run."""
    return dataclasses.replace(cell, first_seed=cell.seeds, seeds=ALL_SEEDS - cell.seeds)


def key(job: Job, source: str) -> str:
    """The name of a job's file: readable, and unique for each job and source."""
    text = json.dumps({**identity(job), "source": source}, sort_keys=True)
    return f"{re.sub('[^A-Za-z0-9]+', '-', job.who).strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Study:
    """One figure or table: the product of its axes, shown by an exhibit.

    An axis lists values of the field it is named after, or dictionaries of several fields (then its name is free).
    `shown` in a dictionary marks cells that are shown for comparison and decide no claim.
    """

    name: str
    title: str
    paper: str  # the figure, table or lemma it reproduces, or what it adds
    exhibit: str  # the kind of exhibit, from `report.exhibits`
    question: str
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    trials: Sequence[Trial] = ()
    blocks: Sequence[Mapping[str, Sequence[Any]]] = ()  # several products instead of one
    place: int = 50  # in the report, lowest first
    default: bool = True  # whether `reproduce` runs it by default

    def jobs(self, plan: Plan) -> list[Job]:
        """The distinct jobs in a fixed order; a quick plan has a quarter of the horizon and a tenth of the trials."""
        cells: dict[str, Job] = {}
        for axes in self.blocks or [self.axes]:
            for values in itertools.product(*axes.values()) if axes else ():
                fields: dict[str, Any] = {"seeds": plan.seeds}
                for name, value in zip(axes, values, strict=True):
                    fields |= value if isinstance(value, Mapping) else {name: value}
                shown = fields.pop("shown", False)
                cell = Cell(**fields)
                if cell.profile in plan.data:
                    cell = dataclasses.replace(cell, data=plan.data[cell.profile])
                elif plan.staged and shown:
                    cell = dataclasses.replace(cell, seeds=SHOWN_SEEDS)
                if plan.quick:
                    cell = dataclasses.replace(cell, horizon=cell.horizon * QUICK_HORIZON // HORIZON)
                cells[key(cell, "")] = cell
        return [*cells.values(), *(_cut(trial) if plan.quick else trial for trial in self.trials)]


def _cut(trial: Trial) -> Trial:
    repetitions = trial.parameters["repetitions"] // _QUICK_REPETITIONS
    return dataclasses.replace(trial, parameters={**trial.parameters, "repetitions": repetitions})
