"""The power of the audit: attacks of many sizes in simulated logs, and false alarms in honest logs.

    python bench/audit_power.py --seeds 2

prints a table and writes its curves as one HTML page: which attacks the audit finds, its false alarms, and what
simple detectors find. Two minutes on two cores.
"""

import argparse
import contextlib
import math
import pathlib
import sys
from collections import defaultdict
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np
from audit_baselines import FOREST, flags_of
from measures import overlap

from steadyrank import profile
from steadyrank.audit.detect.findings import BoardInspection, BoardTask
from steadyrank.audit.sentences import percent
from steadyrank.audit.show.drawing import Html, axes, line, shell, table, x_of, y_of
from steadyrank.click_logs.looks import Impressions
from steadyrank.core import workers
from steadyrank.core.arrays import Bools, Floats
from steadyrank.core.files import replacing
from steadyrank.core.progress import Progress
from steadyrank.simulator.simulated_logs import simulated_log

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
FIRST_SEED = 1_000  # thresholds were chosen with lower seeds
OVERLAP = 0.9  # Jaccard index of reported and false impressions at which an attack counts as found
CLIENTS, BOTS = 400, 20  # for the detectors that use clients; the audit is not told
SECONDS = 60.0  # between impressions
OURS = "this audit"
LINES = (("var(--mark)", ""), ("var(--band)", "8 4"), ("var(--up)", "2 4"))  # colours and dashes of curves


class Case(NamedTuple):
    """One simulated log."""

    world: str
    learner: str
    attack: str  # or a kind of honest users
    place: str  # front, burst; "" for an honest log
    share: float
    seed: int


class CaseResult(NamedTuple):
    """The result for one log: overlap with the truth (Jaccard index), or false alarms in an honest one."""

    case: Case
    overlap: float
    alarms: int
    others: dict[str, tuple[float, bool]]  # simple detectors: overlap, and whether anything was found


def attraction_of(world: str) -> Floats:
    """The attractions of a world, from items of a bundled profile."""
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
    judged, _, _ = BoardInspection(BoardTask(0, impressions, None, [])).judged_intervals(pulse)
    found = [one.part for one in judged if one.kind == "clicks"]
    flags, truth = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    truth[start : start + length] = True
    for part in found:
        flags[part.start : part.end] = True
    others = {
        name: (overlap(told, truth), bool(told.any()))
        for name, told in _simple(impressions, truth, case.seed).items()
    }
    return CaseResult(case, overlap(flags, truth), len(found), others)


def _simple(impressions: Impressions, truth: Bools, seed: int) -> dict[str, Bools]:
    """The flags of simple detectors, with random clients; bots take turns in the attack."""
    n = impressions.n
    client = np.random.default_rng([seed, CLIENTS]).integers(0, CLIENTS, n)
    client[truth] = CLIENTS + np.arange(np.count_nonzero(truth)) % BOTS
    clicks = impressions.clicks()
    time: Floats = SECONDS * np.arange(n, dtype=np.float64)
    return flags_of(client, time, clicks, impressions.bits[impressions.first[:-1]])


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
    """For each attack and world: shares of false impressions, and of logs in which the attack was found."""
    groups: dict[str, dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for case, both, _, _ in results:
        if case.share:
            groups[f"{case.attack}, {case.world}"][case.share].append(both >= OVERLAP)
    return {
        name: [(share, sum(hits) / len(hits)) for share, hits in sorted(by.items())]
        for name, by in sorted(groups.items())
    }


def alarms(results: list[CaseResult]) -> tuple[int, int]:
    """The number of honest logs with a false alarm, and of all honest logs."""
    honest = [result for result in results if not result.case.share]
    return sum(result.alarms > 0 for result in honest), len(honest)


def by_detector(results: list[CaseResult]) -> dict[str, tuple[list[float], int]]:
    """For this audit and each simple detector: shares of attacks found by size, and number of honest logs blamed."""
    names = [OURS, *(results[0].others if results else {})]

    def of(name: str, one: CaseResult) -> tuple[float, bool]:
        return (one.overlap, one.alarms > 0) if name == OURS else one.others[name]

    told = {}
    for name in names:
        hits = [[of(name, one)[0] >= OVERLAP for one in results if one.case.share == share] for share in SHARES]
        blamed = sum(of(name, one)[1] for one in results if not one.case.share)
        told[name] = ([sum(some) / max(len(some), 1) for some in hits], blamed)
    return told


def power_table(results: list[CaseResult]) -> str:
    """The results as a text table: how often attacks are found, by share of false impressions."""
    lines = ["found with an overlap of 90 %, by share of false impressions:"]
    lines.append(f"{'':<28}" + "".join(f"{percent(share):>9}" for share in SHARES))
    for name, points in found_by_share(results).items():
        lines.append(f"{name:<28}" + "".join(f"{100 * hit:>7.0f} %" for _, hit in points))
    wrong, honest = alarms(results)
    lines.append(f"false alarms: {wrong} of {honest} honest logs (steady, slow drift, daily cycle)")
    lines.append("all attacks, beside simple detectors that are told who came; and honest logs with something found:")
    for name, (hits, blamed) in by_detector(results).items():
        lines.append(f"{name:<28}" + "".join(f"{100 * hit:>7.0f} %" for hit in hits) + f"   {blamed} of {honest}")
    if FOREST not in results[0].others:
        lines.append(f"{FOREST}: left out, scikit-learn is not installed")
    return "\n".join(lines)


def curves(lines: dict[str, list[tuple[float, float]]], words: str) -> str:
    """Shares found (0 to 1) by share of false impressions in percent, on a logarithmic scale from 1 to 25."""

    def place(percent: float) -> float:
        return math.log(percent) / math.log(25.0)

    out = axes(1.0, [(place(p), f"{p} %") for p in (1, 2, 5, 10, 25)], words)
    for i, (name, points) in enumerate(lines.items()):
        colour, dash = LINES[i % len(LINES)]
        out += line([(place(100 * share), found) for share, found in points], 1.0, colour, dash)
        height = 0.4 - 0.1 * i  # the legend is where useful curves do not pass
        out += line([(0.8, height), (0.86, height)], 1.0, colour, dash)
        out += f'<text x="{x_of(0.87):.1f}" y="{y_of(height, 1.0) + 4:.1f}">{escape(name)}</text>'
    return out + "</svg>"


def power_page(results: list[CaseResult]) -> str:
    """The curve as one HTML page."""
    lines = found_by_share(results)
    rows = [(name, *(f"{100 * hit:.0f} %" for _, hit in points)) for name, points in lines.items()]
    wrong, honest = alarms(results)

    def figure(world: str) -> str:
        drawn = {attack: lines[f"{attack}, {world}"] for attack in ATTACKS}
        words = f"Share of attacks found by their size, {world}"
        return f"<figure>{curves(drawn, words)}<figcaption>{words}</figcaption></figure>"

    beside = [
        (name, *(f"{100 * hit:.0f} %" for hit in hits), f"{blamed} of {honest}")
        for name, (hits, blamed) in by_detector(results).items()
    ]
    without = "" if FOREST in results[0].others else f" The {FOREST} is left out: scikit-learn is not installed."
    note = f"All attacks together. The simple detectors are told who came, this audit is not.{without}"
    body = (
        "<p>Attacks planted in simulated logs: the share of logs in which the interval was found with an overlap of "
        f"at least 90 %, by the share of impressions that were false. {len(results):,} logs of "
        f"{IMPRESSIONS:,} impressions, {ITEMS} items, lists of {LENGTH} shown by "
        f"{' and '.join(LEARNERS)}, attacks at the front and as bursts. False alarms: {wrong} of {honest} "
        "honest logs.</p>"
        f"{''.join(map(figure, WORLDS))}"
        f"{table(['attack', *map(percent, SHARES)], rows)}"
        "<h2>Beside simple detectors</h2>"
        f"{table(['detector', *map(percent, SHARES), 'honest logs blamed'], beside, note)}"
    )
    return shell("What an audit finds", "", Html(body))


def main() -> None:
    """Play the logs, print the table, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="logs of each kind (3)")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("build/bench/audit-power.html"))
    parser.add_argument("--on", default="local", help="local, ray or ray://HOST")
    options = parser.parse_args()
    options.page.parent.mkdir(parents=True, exist_ok=True)
    bar: list[Progress] = []

    def step(done: int, of: int) -> None:
        if not bar:
            bar.append(Progress(of, "planting", sys.stderr))
        if done:
            bar[0].step()

    results = power(options.seeds, on=options.on, progress=step)
    for shown in bar:
        shown.close()
    with replacing(options.page) as file:
        file.write(power_page(results).encode())
    print(power_table(results))
    print(f"curves: {options.page}")


if __name__ == "__main__":
    main()
