"""`steadyrank warm`: compile learners ahead of use, in parallel."""

import argparse
import sys
from typing import Any

_USUAL = ["SteadyRank", "CascadeTS", "M2UCBV", "Random"]
_SIMULATED, _LIVE = "simulated", "live"


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "warm",
        help="compile learners ahead of use",
        description="Compile learners, for simulation and for live ranking, and keep the code for later processes. "
        "It takes half a minute to a minute per learner; code that is compiled already is kept.",
        epilog="example: steadyrank warm SteadyRank --adversary FakeUser --guard ClientTrust",
    )
    sub.add_argument("learner", nargs="*", default=_USUAL, help="names; `steadyrank learners` lists them")
    sub.add_argument(
        "--adversary",
        nargs="+",
        default=["Honest", "PrefixFlip"],
        metavar="NAME",
        help="adversaries in simulations",
    )
    sub.add_argument("--users", default="Cascade", help="users in simulations")
    sub.add_argument("--guard", default="Anyone", help="guard in simulations")
    sub.add_argument("--workers", type=int, default=None, help="number of processes (default: one per core)")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    import os
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    from .. import adversaries, guards, learners, users
    from ..core.compiling.jit import cache_root
    from ..core.discovery import find_class
    from ..core.progress import Progress
    from ..core.settings import whole

    workers = whole("--workers", options.workers or os.cpu_count() or 1, 1, 1_000)
    kinds = (("learner", options.learner, learners()), ("adversary", options.adversary, adversaries()))
    others = (("users", [options.users], users()), ("guard", [options.guard], guards()))
    for kind, names, classes in (*kinds, *others):
        for name in names:
            find_class(kind, name, classes)
    jobs = [(_LIVE, name, "", "", "") for name in options.learner if getattr(learners()[name], "live", False)]
    jobs += [
        (_SIMULATED, name, adversary, options.users, options.guard)
        for name in options.learner
        for adversary in options.adversary
    ]
    bar = Progress(len(jobs), "compiling", sys.stderr)
    # processes, because one process compiles one function at a time; spawned, so that no thread is forked
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for ended in as_completed([pool.submit(_compile, *job) for job in jobs]):
            ended.result()
            bar.step()
    bar.close()
    print(f"compiled code is kept in {cache_root()}")


def _compile(what: str, learner: str, adversary: str, users: str, guard: str) -> None:
    """Compile by running the shortest simulation, or ranker, that reaches every function."""
    from ..live import Ranker
    from ..simulator.simulate import simulate

    if what == _LIVE:
        ranker = Ranker(["a", "b", "c"], 2, learner=learner, guard="ClientTrust")  # as boards have it
        ranker.feedback(ranker.rank(client=0).id, clicked=None)
        ranker.compile()
    else:
        budget = 0 if adversary == "Honest" else 1
        simulate(
            learner,
            [0.1, 0.2, 0.3],
            length=2,
            horizon=1,
            seeds=[0],
            adversary=adversary,
            budget=budget,
            users=users,
            guard=guard,
            features=[[1.0], [1.0], [1.0]],
        )
