"""How much must be false before an audit finds it: attacks planted in simulated logs, and honest logs."""

import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import workers
from ..arrays import Floats
from ..profiles import profile
from .drawing import curves
from .page import Html, percent, shell, table
from .planted import planted
from .segments import intervals

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


class Outcome(NamedTuple):
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


def play(case: Case, pulse: Callable[[], None]) -> Outcome:
    """Make one log and audit it."""
    pulse()
    n = IMPRESSIONS
    length = int(case.share * n)
    start = (
        0 if case.place == "front" else int(np.random.default_rng(case.seed).integers(n // 10, n - n // 10 - length))
    )
    users, settings = HONEST.get(case.attack, HONEST["steady"])
    looks = planted(
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
    found = intervals(looks)
    flags, truth = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    truth[start : start + length] = True
    for part in found:
        flags[part.start : part.end] = True
    both, either = np.count_nonzero(flags & truth), np.count_nonzero(flags | truth)
    return Outcome(case, both / either if either else 1.0, len(found))


def power(seeds: int, *, on: str = "local", progress: Callable[[int, int], None] | None = None) -> list[Outcome]:
    """Play all cases."""
    jobs = cases(seeds)
    if progress is not None:
        progress(0, len(jobs))
    found = []
    with contextlib.closing(workers.run(play, jobs, on=on)) as ended:
        for _, outcome in ended:
            found.append(outcome)
            if progress is not None:
                progress(len(found), len(jobs))
    return sorted(found)


def found_by_share(outcomes: list[Outcome]) -> dict[str, list[tuple[float, float]]]:
    """For each attack and world: shares of false impressions, and of logs in which nine tenths of it overlap."""
    groups: dict[str, dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for case, overlap, _ in outcomes:
        if case.share:
            groups[f"{case.attack}, {case.world}"][case.share].append(overlap >= 0.9)
    return {
        name: [(share, sum(hits) / len(hits)) for share, hits in sorted(by.items())]
        for name, by in sorted(groups.items())
    }


def alarms(outcomes: list[Outcome]) -> tuple[int, int]:
    """Honest logs with a false alarm, and honest logs."""
    honest = [outcome for outcome in outcomes if not outcome.case.share]
    return sum(outcome.alarms > 0 for outcome in honest), len(honest)


def power_table(outcomes: list[Outcome]) -> str:
    """As text: attacks by share of impressions, how often nine tenths of the interval are found."""
    lines = ["found with an overlap of 90 %, by share of false impressions:"]
    lines.append(f"{'':<28}" + "".join(f"{percent(share):>9}" for share in SHARES))
    for name, points in found_by_share(outcomes).items():
        lines.append(f"{name:<28}" + "".join(f"{100 * hit:>7.0f} %" for _, hit in points))
    wrong, honest = alarms(outcomes)
    lines.append(f"false alarms: {wrong} of {honest} honest logs (steady, slow drift, daily cycle)")
    return "\n".join(lines)


def power_page(outcomes: list[Outcome]) -> str:
    """The curve as one HTML page."""
    lines = found_by_share(outcomes)
    rows = [(name, *(f"{100 * hit:.0f} %" for _, hit in points)) for name, points in lines.items()]
    wrong, honest = alarms(outcomes)

    def figure(world: str) -> str:
        drawn = {attack: lines[f"{attack}, {world}"] for attack in ATTACKS}
        words = f"Share of attacks found by their size, {world}"
        return f"<figure>{curves(drawn, words)}<figcaption>{words}</figcaption></figure>"

    body = (
        "<p>Attacks planted in simulated logs: the share of logs in which the interval was found with an overlap of "
        f"at least 90 %, by the share of impressions that were false. {len(outcomes):,} logs of {IMPRESSIONS:,} "
        f"impressions, {ITEMS} items, lists of {LENGTH} shown by {' and '.join(LEARNERS)}, attacks at the front and "
        f"as bursts. False alarms: {wrong} of {honest} honest logs.</p>"
        f"{''.join(map(figure, WORLDS))}"
        f"{table(['attack', *map(percent, SHARES)], rows)}"
    )
    return shell("What an audit finds", "", Html(body))
