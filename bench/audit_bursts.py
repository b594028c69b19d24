"""How short a burst any test can find, by theory, and how short a one the audit finds.

    python bench/audit_bursts.py --seeds 10

prints the shares of bursts that an audit finds, by their lists, and the least that theory allows (`least_burst`,
proved in docs/audit-measured.md). Each log has 20,000 lists of 80 items (`planted_logs`) and does not say who came.
A burst is shown lists as people are: silent ones click nothing, pushers one of the items clicked less than half of
all wherever they see it, and nothing else.
"""

import argparse
import math

import numpy as np
from measures import overlap, rows_between, share_of
from planted_logs import BOTS, Array, Log, World, honest, joined, ranked, world

import steadyrank as sr

FIRST_SEED = 1_000
N = 20_000
SIZES = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
KINDS = ("silent", "pusher")
FOUND = 0.8  # chance that a burst is found
ALARMS = 0.01  # bursts that are called suspect in an honest log, on average
OVERLAP = 0.5  # of rows told and rows attacked, both over either, of a burst that is found
FIRST_NAMED = 2  # items of an interval, of which a pushed one must be
LISTS, PEOPLE = 1_000, 200  # drawn to say what an honest click is


def binary(beta: float, alpha: float) -> float:
    """How far a coin of chance beta is from one of chance alpha, in nats (Kullback and Leibler 1951)."""
    parts = ((beta, alpha), (1.0 - beta, 1.0 - alpha))
    return sum(p * math.log(p / q) for p, q in parts if p > 0.0)


def least_burst(nats: float, n: int, items: int, found: float = FOUND, alarms: float = ALARMS) -> int:
    """Lists of the shortest burst that a test can find with this chance, anywhere in n lists.

    `nats`: how far a list of the burst is from an honest one. `items`: that it may push, and that the test must name.
    `alarms`: how many the test names in an honest log, on average.
    """
    for lists in range(1, n + 1):
        wrong = alarms * lists / (n * items)
        if wrong >= found or lists * nats >= binary(found, wrong):
            return lists
    return n


def nats_of(people: World, item: int, rng: np.random.Generator) -> float:
    """How far a bot's list is from an honest one: minus the log chance that one of the people clicks as it does."""
    looks = (1.0 + np.arange(people.length)) ** -people.attention
    factor = rng.gamma(people.differ, 1.0 / people.differ, PEOPLE)
    lists = ranked(people, LISTS, rng)
    rate = np.clip((people.attraction[lists] * looks)[:, None] * factor[:, None], 0.0, 0.98)
    same = np.where((lists == item)[:, None], rate, 1.0 - rate).prod(axis=2)
    return float(-np.log(same.mean(axis=1)).mean())


def burst_in(log: Log, kind: str, m: int, rng: np.random.Generator) -> tuple[Log, int]:
    """The log with a burst of m lists, and the item that it pushes, -1 for none."""
    item = int(rng.choice(rare(log))) if kind == "pusher" else -1
    lists = log.lists[rng.choice(log.time.size, m)]
    i = int(rng.integers(log.time.size // 10, log.time.size - log.time.size // 10))
    time = log.time[i] + np.sort(rng.random(m)) * (log.time[i + 1] - log.time[i])
    return joined(log, Log(lists, lists == item, time, np.full(m, BOTS), np.ones(m, np.bool_))), item


def rare(log: Log) -> Array:
    """Items that are clicked less than half of all are."""
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
    options = parser.parse_args()
    hits = {(kind, m): 0 for kind in KINDS for m in SIZES}
    nats: dict[str, list[float]] = {kind: [] for kind in KINDS}
    limits: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        people = world(np.random.default_rng([13, seed]))
        base = honest(people, N, np.random.default_rng([14, seed]))
        rng = np.random.default_rng([15, seed])
        for kind, pushed in (("silent", [-1]), ("pusher", rare(base).tolist())):
            nats[kind].append(float(np.mean([nats_of(people, item, rng) for item in pushed])))
            limits[kind].append(least_burst(nats[kind][-1], N, len(pushed)))
        for kind, m in hits:
            hits[kind, m] += found_in(*burst_in(base, kind, m, np.random.default_rng([16, seed, m])))
    for kind, least in limits.items():
        told = f"{kind}: {min(nats[kind]):.2f} to {max(nats[kind]):.2f} nats a list"
        print(f"{told}; no test finds {FOUND:.0%} of bursts under {min(least)} to {max(least)} lists")
    print("| lists of a burst | silent | pushers |")
    print("|---|---|---|")
    for m in SIZES:
        print(f"| {m} | {' | '.join(share_of(hits[kind, m], options.seeds, 0) for kind in KINDS)} |")


if __name__ == "__main__":
    main()
