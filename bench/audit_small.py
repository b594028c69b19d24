"""Bots with few visits each: how many the audit names, and from how many visits on any test could name them.

    python bench/audit_small.py --seeds 3

30 bots (or `--bots`) with n visits each are added all over a log of 20,000 impressions by 1,500 people
(`planted_logs`). Silent ones never click; pushers request lists that show one item, and click only it. The limit is
that of the likelihood ratio test (Neyman and Pearson 1933) of a judge who knows how people click and what these bots
do, but not which item they push: of the clients who acted like a bot in n or more visits, and never otherwise, at
most one in twenty may be honest.
"""

import argparse

import numpy as np
from planted_logs import BOTS, Array, Log, World, honest, joined, ranked, world

import steadyrank as sr

FIRST_SEED = 1_000
N, PEOPLE, N_BOTS = 20_000, 1_500, 30  # default number of bots
VISITS = (2, 3, 4, 5, 8, 12, 20, 40)  # in order
HONEST = 0.05  # largest share of honest clients among those named
MOST = 60  # number of visits beyond which people are counted together
DRAWN = 4_000  # honest people drawn to estimate how rarely they act like bots
KINDS = ("silent", "pusher")


def bots_in(log: Log, kind: str, bots: int, visits: int, rng: np.random.Generator) -> tuple[Log, int]:
    """Add bots to a log; returns it and the item that they push, a rarely clicked one, -1 for none."""
    item = -1
    rows = np.arange(log.time.size)
    if kind == "pusher":
        looks, clicks = (np.bincount(log.lists[which]) for which in (log.lists >= 0, log.bits))
        often = np.flatnonzero(looks >= 200)
        rate = np.append(clicks, np.zeros(looks.size - clicks.size))[often] / looks[often]
        item = int(often[np.argsort(rate)[often.size // 4]])
        rows = np.flatnonzero((log.lists == item).any(axis=1))
    source = rng.choice(rows, bots * visits)
    lists = log.lists[source]
    client = BOTS + np.arange(source.size) % bots
    time = np.sort(rng.choice(log.time, source.size)) + rng.random(source.size)
    return joined(log, Log(lists, lists == item, time, client, np.ones(source.size, np.bool_))), item


def named(kind: str, bots: int, visits: int, seed: int) -> float:
    """The share of the bots that an audit names."""
    rng = np.random.default_rng([12, seed])
    people = world(rng)
    log, _ = bots_in(honest(people, N, rng), kind, bots, visits, rng)
    return sum(one.client >= BOTS for one in sr.audit(log.frame()).clients) / bots


def limits(kind: str, bots: int, seed: int) -> dict[int, bool]:
    """For each number of visits, whether a judge who knows all but the bots' names and item could name them.

    Clients who act the same in as many visits or more are as odd; pushers may push any item.
    """
    rng = np.random.default_rng([12, seed])
    people = world(rng)
    log = honest(people, N, rng)
    _, item = bots_in(log, kind, bots, 1, rng)
    shown = np.bincount(np.minimum(np.bincount(log.client), MOST), minlength=MOST + 1)  # people by their visits
    factor = rng.gamma(people.differ, 1.0 / people.differ, DRAWN)
    alike: Array = np.ones(DRAWN)  # probability that each person acted like a bot in all visits
    due: Array = np.zeros(MOST + 1)  # expected number of such people, by number of visits
    for visits in range(1, MOST + 1):
        alike *= _alike(people, item, factor, rng)
        due[visits] = shown[visits] * alike.mean() * (1 if kind == "silent" else people.attraction.size)
    rivals = np.cumsum(due[::-1])[::-1]
    return {visits: bool(rivals[visits] <= HONEST / (1.0 - HONEST) * bots) for visits in range(1, MOST + 1)}


def _alike(people: World, item: int, factor: Array, rng: np.random.Generator) -> Array:
    """The probability that each person clicks nothing in a list, or only the item in a list that shows it."""
    looks = (1.0 + np.arange(people.length)) ** -people.attention
    lists = ranked(people, factor.size, rng)
    rate = np.clip(people.attraction[lists] * looks * factor[:, None], 0.0, 0.98)
    if item < 0:
        return np.asarray((1.0 - rate).prod(axis=1))
    there = lists == item
    hit = np.where(there, rate, 1.0 - rate).prod(axis=1)
    shown = there.any(axis=1)
    return np.where(shown, hit, hit[shown].mean())  # as if all had been shown it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--bots", type=int, default=N_BOTS)
    parser.add_argument("--visits", type=int, nargs="*", default=list(VISITS), help=f"of each bot, at most {MOST}")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    could = {kind: [limits(kind, options.bots, seed) for seed in seeds] for kind in KINDS}
    print("| visits of each bot | silent: limit | silent: named | pushers: limit | pushers: named |")
    print("|---|---|---|---|---|")
    for visits in options.visits:
        cells = [str(visits)]
        for kind in KINDS:
            found = [named(kind, options.bots, visits, seed) for seed in seeds]
            cells += [f"{100 * np.mean(of):.0f} %" for of in ([one[visits] for one in could[kind]], found)]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
