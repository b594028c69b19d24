"""The shortest burst that any test can find, by theory, and the shortest that the audit finds.

    python bench/audit_bursts.py --seeds 10

prints the share of bursts that an audit finds, by number of lists, and the smallest number that theory allows
(`least_burst`, proved in docs/audit-measured.md). Each log has 20,000 lists of 80 items (`planted_logs`) and no
clients. Silent bursts click nothing; pushers request lists that show one of the less clicked half of the items, and
click only it.
"""

import argparse
import math
import sys

import numpy as np
from measures import overlap, rows_between, share_of
from planted_logs import BOTS, Array, Log, World, honest, joined, world

import steadyrank as sr

FIRST_SEED = 1_000
N = 20_000
SIZES = (16, 32, 64, 96, 128, 200)
KINDS = ("silent", "pusher")
FOUND = 0.8  # probability with which a burst must be found
ALARMS = 0.01  # mean number of false alarms in an honest log
OVERLAP = 0.5  # Jaccard index of reported and attacked rows at which a burst counts as found
FIRST_NAMED = 2  # the pushed item must be among this many first items of the interval
LEVEL, POINTS = 3.0, 0.18  # largest harmless changes: of the odds of all items, and of the probability of one
LISTS, PEOPLE = 1_000, 200  # drawn to estimate honest click probabilities


def binary(beta: float, alpha: float) -> float:
    """Kullback-Leibler divergence of a coin with probability beta from one with alpha, in nats (1951)."""
    parts = ((beta, alpha), (1.0 - beta, 1.0 - alpha))
    return sum(p * math.log(p / q) for p, q in parts if p > 0.0)


def least_burst(nats: float, n: int, items: int, found: float = FOUND, alarms: float = ALARMS) -> int:
    """Number of lists of the shortest burst that a test can find with probability `found`, anywhere in n lists.

    `nats`: divergence of a list of the burst from an honest one. `items`: number of items that it may push, of which
    the test must name the right one. `alarms`: mean number of false alarms in an honest log.
    """
    for lists in range(1, n + 1):
        wrong = alarms * lists / (n * items)
        if wrong >= found or lists * nats >= binary(found, wrong):
            return lists
    return n


def nats_of(people: World, lists: Array, item: int, rng: np.random.Generator, changed: bool = False) -> float:
    """Divergence of a bot's list from an honest one: -log of the probability that a person clicks like the bot.

    `changed`: for people with the largest change that the audit does not call suspect: odds of all items lower by a
    factor of LEVEL, and the probability of the pushed one higher by POINTS.
    """
    looks = (1.0 + np.arange(people.length)) ** -people.attention
    factor = rng.gamma(people.differ, 1.0 / people.differ, PEOPLE)
    rate = np.clip((people.attraction[lists] * looks)[:, None] * factor[:, None], 0.0, 0.98)
    if changed:
        rate = rate / (rate + LEVEL * (1.0 - rate))
        rate = np.where((lists == item)[:, None], np.minimum(rate + POINTS, 0.98), rate)
    same = np.where((lists == item)[:, None], rate, 1.0 - rate).prod(axis=2)
    return float(-np.log(same.mean(axis=1)).mean())


def burst_in(log: Log, kind: str, m: int, rng: np.random.Generator) -> tuple[Log, int]:
    """Add a burst of m lists to a log; returns it and the item that is pushed, -1 for none."""
    item = int(rng.choice(rare(log))) if kind == "pusher" else -1
    lists = shown_to_bots(log, item, m, rng)
    i = int(rng.integers(log.time.size // 10, log.time.size - log.time.size // 10))
    time = log.time[i] + np.sort(rng.random(m)) * (log.time[i + 1] - log.time[i])
    return joined(log, Log(lists, lists == item, time, np.full(m, BOTS), np.ones(m, np.bool_))), item


def shown_to_bots(log: Log, item: int, m: int, rng: np.random.Generator) -> Array:
    """Draw m lists of people, only such that show the pushed item if there is one."""
    return log.lists[rng.choice(np.flatnonzero((log.lists == item).any(axis=1) | (item < 0)), m)]


def rare(log: Log) -> Array:
    """The less clicked half of the items."""
    looks, clicks = (np.bincount(log.lists[which], minlength=80) for which in (log.lists >= 0, log.bits))
    seen = np.flatnonzero(looks)
    rate = clicks[seen] / looks[seen]
    return seen[rate <= np.median(rate)]


def found_in(log: Log, item: int) -> bool:
    """Whether an audit finds the burst, and names the item."""
    audit = sr.audit(log.frame().drop("user_id"))
    for part in audit.intervals:
        if overlap(rows_between(part.start_row, part.end_row, log.time.size), log.false) >= OVERLAP:
            return item < 0 or item in [one["item"] for one in part.items[:FIRST_NAMED]]
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--lists", type=int, nargs="*", default=list(SIZES), help="of a burst")
    options = parser.parse_args()
    hits = {(kind, m): 0 for kind in KINDS for m in options.lists}
    limits: dict[tuple[str, bool], list[int]] = {(kind, changed): [] for kind in KINDS for changed in (False, True)}
    nats: dict[tuple[str, bool], list[float]] = {key: [] for key in limits}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        people = world(np.random.default_rng([13, seed]))
        base = honest(people, N, np.random.default_rng([14, seed]))
        rng = np.random.default_rng([15, seed])
        for kind, changed in limits:
            pushed = [-1] if kind == "silent" else rare(base).tolist()
            nats[kind, changed].append(
                float(
                    np.mean(
                        [
                            nats_of(people, shown_to_bots(base, item, LISTS, rng), item, rng, changed)
                            for item in pushed
                        ]
                    )
                )
            )
            limits[kind, changed].append(least_burst(nats[kind, changed][-1], N, len(pushed)))
        for kind, m in hits:
            hits[kind, m] += found_in(*burst_in(base, kind, m, np.random.default_rng([16, seed, m])))
            print(f"seed {seed}, {kind}, {m}: {hits[kind, m]} found so far", file=sys.stderr, flush=True)
    for (kind, changed), least in limits.items():
        seen = nats[kind, changed]
        told = f"{kind}{', if people may change' if changed else ''}: {min(seen):.2f} to {max(seen):.2f} nats a list"
        print(f"{told}; no test finds {FOUND:.0%} of bursts under {min(least)} to {max(least)} lists")
    print("| lists of a burst | silent | pushers |")
    print("|---|---|---|")
    for m in options.lists:
        print(f"| {m} | {' | '.join(share_of(hits[kind, m], options.seeds, 0) for kind in KINDS)} |")


if __name__ == "__main__":
    main()
