"""`steadyrank leaderboard`: rank learners under every kind of attack, including the user's own classes."""

import argparse
import json
import pathlib
import random
import secrets
import sys
from typing import Any

from .choices import check_own, classes_in, is_learner, require_report_extra
from .reproduce import run_shown

_QUICK_LEARNERS = ["SteadyRank", "CascadeTS", "M2UCBV"]
_QUICK_SEEDS = 3
_DRAWN_WORLDS = 3
_MOST_SEED = 2**32


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "leaderboard",
        help="rank every learner, including your own, under every kind of attack",
        description="Rank learners by their regret under attack, relative to an omniscient one. With your own file, "
        "its learners join, or its attacks are used for all learners, in newly drawn worlds and with new seeds. Safe "
        "to interrupt and repeat.",
        epilog="example: steadyrank leaderboard --own my_learner.py --quick",
    )
    sub.add_argument("--own", type=pathlib.Path, metavar="FILE", help="a Python file with learners or adversaries")
    sub.add_argument(
        "--with",
        dest="others",
        nargs="*",
        metavar="NAME",
        help="learners to rank in addition to Random, or all (default: all; with your own learner, five of them)",
    )
    sub.add_argument(
        "--seed", type=int, help="with --own: seed from which worlds and seeds are drawn (default: random)"
    )
    sub.add_argument("--seeds", type=int, help="runs per cell (default: 20; quick: 3)")
    sub.add_argument("--quick", action="store_true", help="few learners, three attacks, a quarter of the rounds")
    sub.add_argument("--on", default="local", help="local, ray, or ray://HOST of a Ray cluster (default: local)")
    sub.add_argument("--cost", action="store_true", help="print the estimated cost, and run nothing")
    sub.add_argument("--json", action="store_true", help="print the standings as JSON")
    sub.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder of the results (default: results)"
    )
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    require_report_extra("polars")
    from ..core.compiling.jit import told_of_compiling
    from ..core.settings import whole
    from ..core.workers import check_place
    from ..evaluation.lab.cells import Plan
    from ..evaluation.lab.costs import in_words
    from ..evaluation.lab.results import CellStore
    from ..evaluation.lab.runner import microseconds
    from ..evaluation.report.standings import as_table, by_family, standings
    from ..evaluation.report.tables import text
    from ..evaluation.studies import leaderboard

    check_place(options.on)
    usual = _QUICK_SEEDS if options.quick else leaderboard.SEEDS
    seeds = whole("--seeds", usual if options.seeds is None else options.seeds, 2, 10_000)
    if options.seed is not None and options.own is None:
        raise ValueError("--seed draws worlds for --own; without it the worlds of docs/leaderboard.md are run")
    if options.own is not None and options.on != "local":
        raise ValueError(f"--own runs on this machine, not with --on {options.on}")
    learners, foes = _own_classes(options.own)
    study, drawn = _study(options, learners, foes)
    own = learners | foes
    jobs = study.jobs(Plan(seeds, options.quick))
    others = [job for job in jobs if not {job.learner, job.adversary} & set(own)]
    mine = [job for job in jobs if {job.learner, job.adversary} & set(own)]
    store, own_store = CellStore(options.out), CellStore(options.out, options.own.read_bytes() if own else b"")
    left = [job for of, some in ((store, others), (own_store, mine)) for job in some if not of.path(job).exists()]
    print(f"{drawn}{in_words(left)}", file=sys.stderr)
    if options.cost:
        return
    bars: list[Any] = []
    with told_of_compiling(lambda begins: bars[-1].compiling(begins) if bars else None):
        run_shown(others, store, bars, on=options.on)
        if mine:
            run_shown(mine, own_store, bars, "{total:,} cells of your own, {finished:,} finished already", own=own)
        table = standings(_loaded(store, others, own_store, mine))
        speed = {one.who: microseconds(leaderboard.timed(one.who, study.blocks[1]["world"][0]), own) for one in table}
    if options.json:
        lines = [{**one.data(), "microseconds": speed[one.who]} for one in table]
        print(json.dumps({"seed": options.seed, "seeds": seeds, "standings": lines}, indent=1))
        return
    print(f"Regret over that of a CascadeTS that never sees a false click; {seeds} seeds, 95 % intervals\n")
    print(text(as_table(table, speed)))
    print(f"\nThe same for each kind of attack\n\n{text(by_family(table))}")


def _loaded(store: Any, known: Any, own_store: Any, mine: Any) -> Any:
    import polars as pl

    return pl.concat([frame for frame in (store.load(known), own_store.load(mine)) if not frame.is_empty()])


def _own_classes(path: pathlib.Path | None) -> tuple[dict[str, type], dict[str, type]]:
    """The learners and adversaries that a file defines, checked against the contract."""
    from ..adversaries import ALL as ADVERSARIES
    from ..learners import ALL as LEARNERS
    from ..testing import check_adversary, check_learner
    from ..testing.samples import BUDGET, K, sample_attraction

    if path is None:
        return {}, {}
    classes = classes_in(path)
    learners = {cls.__name__: cls for cls in classes if is_learner(cls)}
    foes = {cls.__name__: cls for cls in classes if hasattr(cls, "corrupt")}
    if not learners and not foes:
        raise ValueError(f"{path} defines no learner and no adversary (docs/leaderboard.md)")
    if taken := sorted({*learners, *foes} & {*LEARNERS, *ADVERSARIES}):
        raise ValueError(f"{path} defines {', '.join(taken)}, which there is already; give it another name")
    for cls in learners.values():
        check_own(cls, check_learner)
        if _depends(cls, attraction=sample_attraction(K)[::-1].copy()):
            raise ValueError(f"{cls.__name__} reads problem.attraction, which no learner may know")
        if _depends(cls, budget=BUDGET + 1):
            print(f"{cls.__name__} is told how many rounds may be corrupted (problem.budget)", file=sys.stderr)
    for cls in foes.values():
        check_own(cls, check_adversary)
    return learners, foes


def _depends(cls: type, **other: Any) -> bool:
    """Whether a learner's initial state depends on the given field of the problem."""
    from ..core.contract import records_in
    from ..core.discovery import make
    from ..testing.samples import K, sample_problem, state

    problem = sample_problem(K)
    first, second = (make(cls, of, settings={}) for of in (problem, problem._replace(**other)))
    settings = [
        [value for part in records_in(record) for value in part if isinstance(value, (bool, int, float))]
        for record in (first, second)
    ]
    return state(first) != state(second) or settings[0] != settings[1]


def _study(options: argparse.Namespace, learners: dict[str, type], foes: dict[str, type]) -> tuple[Any, str]:
    """The study to run, and a sentence on how its worlds were drawn."""
    from ..core.discovery import find_class
    from ..core.settings import whole
    from ..evaluation.studies import leaderboard
    from ..learners import ALL

    all_of_them = [*leaderboard.LEARNERS] if not options.quick else _QUICK_LEARNERS
    few = leaderboard.RIVALS if not options.quick else _QUICK_LEARNERS
    others = few if learners else all_of_them
    if options.others is not None:
        others = leaderboard.LEARNERS if options.others == ["all"] else options.others
    for name in others:
        find_class("learner", name, ALL)
    families = leaderboard.QUICK_FAMILIES if options.quick else leaderboard.FAMILIES
    own_families = [{"adversary": name, "schedules": _schedules(cls)} for name, cls in foes.items()]
    if foes:
        families = [*families, *own_families] if learners else own_families
    if options.own is None:
        return leaderboard.leaderboard(others, families, leaderboard.WORLDS), ""
    if options.seed is None:
        options.seed = secrets.randbelow(_MOST_SEED)
    chance = random.Random(whole("--seed", options.seed, 0, _MOST_SEED - 1))
    worlds = [{"profile": f"drawn-{chance.randrange(10**9)}"} for _ in range(_DRAWN_WORLDS)]
    first = chance.randrange(10**6, 10**9)
    names = ", ".join(world["profile"] for world in worlds)
    words = f"Worlds and seeds drawn from --seed {options.seed}: {names}; seeds from {first}\n"
    return leaderboard.leaderboard([*learners, *others], families, worlds, first_seed=first), words


def _schedules(cls: type) -> list[str]:
    """The leaderboard's schedules that an adversary accepts."""
    from ..core.discovery import make
    from ..evaluation.studies.leaderboard import SCHEDULES
    from ..testing.samples import BUDGET, K, sample_problem
    from ..users.cascade import Cascade

    problem, taken = sample_problem(K), []
    for schedule in SCHEDULES:
        crowd = make(Cascade, problem.attraction, problem.length, settings={})
        try:
            make(cls, problem, crowd, BUDGET, settings={"schedule": schedule})
        except ValueError:
            continue  # it has its own timing, which check_adversary allows
        taken.append(schedule)
    return taken
