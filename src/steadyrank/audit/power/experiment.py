"""Attacks of many sizes in simulated logs, and honest logs: which of them an audit finds, and its false alarms."""

import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import workers
from ...arrays import Floats
from ...profiles import profile
from ..detect.findings import BoardTask, suspect_intervals
from .simulated_logs import simulated_log

IMPRESSIONS, LENGTH, ITEMS = 20_000, 10, 50
WORLDS = {"low attraction": ("yelp-pizza", "sparse"), "high attraction": ("movielens", "saturated")}
ATTACKS = {"promote": "Promote", "demote": "Demote", "flip": "AttractionFlip"}
SHARES = (0.01, 0.02, 0.05, 0.1, 0.25)
LEARNERS = ("CascadeTS", "Random")
HONEST: dict[str, tuple[str, dict[str, Any]]] = {
    "steady": ("Cascade", {}),
    "slow drift": ("DriftingCascade", {"pattern": "slow", "span": IMPRESSIONS}),
    "daily cycle": ("DriftingCascade", {"pattern": "daily", "span": IMPRESSIONS // 7}),
}
FIRST_SEED = 1_000  # thresholds were chosen on others


class Case(NamedTuple):
    """One simulated log."""

    world: str
    learner: str
    attack: str  # or a kind of honest users
    place: str  # front, burst; "" for an honest log
    share: float
    seed: int


class CaseResult(NamedTuple):
    """What was found of it: the overlap with the truth (both over either), or whether anything was in honest ones."""

    case: Case
    overlap: float
    alarms: int


def attraction_of(world: str) -> Floats:
    """The attractions of a world: some items of a bundled profile."""
    values = profile(*WORLDS[world]).attraction
    chosen = np.random.default_rng(ITEMS).permutation(values.size)[:ITEMS]
    picked: Floats = np.ascontiguousarray(values[np.sort(chosen)])
    return picked


def cases(seeds: int, first_seed: int = FIRST_SEED) -> list[Case]:
    """All logs of a power study."""
    made = []
    for seed in range(first_seed, first_seed + seeds):
        for world in WORLDS:
            for learner in LEARNERS:
                made += [
                    Case(world, learner, attack, place, share, seed)
                    for attack in ATTACKS
                    for place in ("front", "burst")
                    for share in SHARES
                ]
                made += [Case(world, learner, kind, "", 0.0, seed) for kind in HONEST]
    return made


def play(case: Case, pulse: Callable[[], None]) -> CaseResult:
    """Make one log and audit it."""
    pulse()
    n = IMPRESSIONS
    length = int(case.share * n)
    start = (
        0 if case.place == "front" else int(np.random.default_rng(case.seed).integers(n // 10, n - n // 10 - length))
    )
    users, settings = HONEST.get(case.attack, HONEST["steady"])
    impressions = simulated_log(
        attraction_of(case.world),
        n,
        LENGTH,
        learner=case.learner,
        adversary=ATTACKS.get(case.attack, "Honest"),
        start=start,
        end=start + length,
        users=users,
        users_settings=settings,
        seed=case.seed,
    )
    found = suspect_intervals(BoardTask(0, impressions, None, []), pulse)
    flags, truth = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    truth[start : start + length] = True
    for part in found:
        flags[part.start : part.end] = True
    both, either = np.count_nonzero(flags & truth), np.count_nonzero(flags | truth)
    return CaseResult(case, both / either if either else 1.0, len(found))


def power(seeds: int, *, on: str = "local", progress: Callable[[int, int], None] | None = None) -> list[CaseResult]:
    """Play all cases."""
    jobs = cases(seeds)
    if progress is not None:
        progress(0, len(jobs))
    found = []
    with contextlib.closing(workers.run(play, jobs, on=on)) as ended:
        for _, result in ended:
            found.append(result)
            if progress is not None:
                progress(len(found), len(jobs))
    return sorted(found)


def found_by_share(results: list[CaseResult]) -> dict[str, list[tuple[float, float]]]:
    """For each attack and world: shares of false impressions, and of logs in which nine tenths of it overlap."""
    groups: dict[str, dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for case, overlap, _ in results:
        if case.share:
            groups[f"{case.attack}, {case.world}"][case.share].append(overlap >= 0.9)
    return {
        name: [(share, sum(hits) / len(hits)) for share, hits in sorted(by.items())]
        for name, by in sorted(groups.items())
    }


def alarms(results: list[CaseResult]) -> tuple[int, int]:
    """Honest logs with a false alarm, and honest logs."""
    honest = [result for result in results if not result.case.share]
    return sum(result.alarms > 0 for result in honest), len(honest)
