"""Bots of few visits each: how many of them an audit names, and from how many visits on any test could.

    python bench/audit_small.py --seeds 3

30 bots (or `--bots`) of n visits each come to a log of 20,000 impressions by 1,500 people (`planted_logs`), all over
it. Silent ones never click; pushers ask for lists that show one item and click it alone. The limit is that of the
likelihood ratio (Neyman and Pearson 1933) of a judge who knows how people click and what these bots do, but not which
item: of the clients who did in n visits or more what a bot does, and nothing else, at most one in twenty may be
honest.
"""

import argparse

import numpy as np
from planted_logs import BOTS, Array, Log, World, honest, joined, ranked, world

import steadyrank as sr

FIRST_SEED = 1_000
N, PEOPLE, N_BOTS = 20_000, 1_500, 30  # bots unless others are asked for
VISITS = (2, 3, 4, 5, 8, 12, 20, 40)  # in order
HONEST = 0.05  # share of honest ones among those named
MOST = 60  # visits of people that are told apart
DRAWN = 4_000  # honest people who say how rarely one does what bots do
KINDS = ("silent", "pusher")


def bots_in(log: Log, kind: str, bots: int, visits: int, rng: np.random.Generator) -> tuple[Log, int]:
    """The log with some bots, and the item that they push, -1 for none: a rarely clicked one."""
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
    """Of how many visits a judge who knows all but the bots' names and item could name them.

    Whoever does the same in as many visits or more is as odd; of pushers any item could be the one.
    """
    rng = np.random.default_rng([12, seed])
    people = world(rng)
    log = honest(people, N, rng)
    _, item = bots_in(log, kind, bots, 1, rng)
    shown = np.bincount(np.minimum(np.bincount(log.client), MOST), minlength=MOST + 1)  # people by their visits
    factor = rng.gamma(people.differ, 1.0 / people.differ, DRAWN)
    alike: Array = np.ones(DRAWN)  # the chance that each of some people did in all visits what a bot does
    due: Array = np.zeros(MOST + 1)  # people of so many visits who do
    for visits in range(1, MOST + 1):
        alike *= _alike(people, item, factor, rng)
        due[visits] = shown[visits] * alike.mean() * (1 if kind == "silent" else people.attraction.size)
    rivals = np.cumsum(due[::-1])[::-1]
    return {visits: bool(rivals[visits] <= HONEST / (1.0 - HONEST) * bots) for visits in range(1, MOST + 1)}


def _alike(people: World, item: int, factor: Array, rng: np.random.Generator) -> Array:
    """The chance that people click nothing in a list, or an item alone in a list that shows it."""
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
