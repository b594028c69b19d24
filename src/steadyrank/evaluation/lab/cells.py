"""What the laboratory runs: a study is one figure or table as data, a cell one combination inside it."""

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
# Every cell runs with the first seeds, or one where it is only shown; those that a claim stays undecided for get the
# others, too.
FIRST_SEEDS, ALL_SEEDS, QUICK_SEEDS, SHOWN_SEEDS = 3, 10, 2, 1
_QUICK_REPETITIONS = 10  # a trial is cut to a tenth


@dataclass(frozen=True)
class Cell:
    """One learner in one world. Every field decides the numbers; nothing else does."""

    learner: str
    profile: str
    mapping: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    omniscient: bool = False
    adversary: str = "PrefixFlip"
    adversary_settings: Mapping[str, Any] = field(default_factory=dict)
    schedule: str = "front"
    rate: float = 0.0  # share of the rounds that may be corrupted
    users: str = "Cascade"
    users_settings: Mapping[str, Any] = field(default_factory=dict)
    n_items: int | None = None  # that many of the profile's items, evenly placed in their order (None: all)
    length: int = LENGTH
    horizon: int = HORIZON
    seeds: int = 5
    marks: int = 50
    first_seed: int = 0
    data: str = ""  # a file of `steadyrank profile build` that stands in for the profile
    guard: str = "Anyone"
    guard_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The learner as figures name it: with the settings given, its guard, and omniscience."""
        guard = [] if self.guard == "Anyone" else [_named(self.guard, self.guard_settings)]
        return _named(self.learner, self.settings, *guard, *(["omniscient"] if self.omniscient else []))

    @property
    def foe(self) -> str:
        """The adversary as figures name it: with the settings given."""
        return _named(self.adversary, self.adversary_settings)

    @property
    def crowd(self) -> str:
        """The users as figures name them: with the settings given."""
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
        """What is tried."""
        return self.kind


Job = Cell | Trial


@dataclass(frozen=True)
class Plan:
    """How studies are run: with how many seeds, shortened for a quick look or not, on which files.

    `staged`: cells for which a claim stays undecided get more seeds, `ALL_SEEDS` in all. `data`: files that stand in
    for profiles, by name.
    """

    seeds: int
    quick: bool = False
    staged: bool = False
    data: Mapping[str, str] = field(default_factory=dict)


def identity(job: Job) -> dict[str, Any]:
    """All that decides a job's numbers, ready for JSON; guard, first seed and data only where they are not usual."""
    fields = dict(vars(job))
    if fields.get("guard") == "Anyone":
        del fields["guard"], fields["guard_settings"]
    for name in ("first_seed", "data"):
        if not fields.get(name, True):
            del fields[name]
    return {"job": type(job).__name__, **fields}


def with_more_seeds(cell: Cell) -> Cell:
    """The same cell with the seeds that are left once the first have run."""
    return dataclasses.replace(cell, first_seed=cell.seeds, seeds=ALL_SEEDS - cell.seeds)


def key(job: Job, source: str) -> str:
    """The name of a job's file: readable, and different for different jobs or sources."""
    text = json.dumps({**identity(job), "source": source}, sort_keys=True)
    return f"{re.sub('[^A-Za-z0-9]+', '-', job.who).strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Study:
    """One figure or table: the product of its axes, shown by an exhibit.

    An axis lists values of the field it is named after, or dictionaries of several fields (then its name is free);
    `shown` in one says that its cells stand beside others, and decide nothing.
    """

    name: str
    title: str
    paper: str  # the figure, table or lemma it re-makes, or what it adds
    exhibit: str  # which kind of them shows it, of those in `report.exhibits`
    question: str
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    trials: Sequence[Trial] = ()
    blocks: Sequence[Mapping[str, Sequence[Any]]] = ()  # several products instead of one
    place: int = 50  # in the report, lowest first
    default: bool = True  # whether `reproduce` runs it unasked

    def jobs(self, plan: Plan) -> list[Job]:
        """Its jobs, each once, in a fixed order; a quick plan quarters horizons and cuts trials to a tenth."""
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
