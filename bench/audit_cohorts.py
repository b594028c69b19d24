"""Audits of cohorts: how many honest networks are blamed, and how often a network of bots is found.

    python bench/audit_cohorts.py --logs 40

prints shares with 95 % intervals (Wilson 1927). Each log has 20,000 impressions of 4,000 people in 300 networks
(`planted_logs`, `networked`), some of which click more and some less than others. Bots have 4 visits each, all over
the log, and share a network with nobody else.
"""

import argparse
from typing import NamedTuple

import numpy as np
import polars as pl
from measures import share_of
from planted_logs import BOTS, Array, Log, attacked, honest, world

import steadyrank as sr

FIRST_SEED = 1_000  # thresholds were chosen with lower seeds
N, PEOPLE, NETWORKS, VISITS = 20_000, 4_000, 300, 4
THEIRS = "198.51.100.0/24"  # the network of bots
KINDS = ("honest", "promote", "silent", "top")


class Outcome(NamedTuple):
    """The result for one log."""

    judged: int  # networks
    blamed: int  # honest networks named
    found: bool  # whether the bots' network is named
    bots: int  # bots named individually
    people: int  # number of people
    people_named: int  # people named individually


def networked(log: Log, rng: np.random.Generator) -> tuple[Log, Array]:
    """Reduce clicks in some networks more than in others; returns the log and the network of each row.

    Sizes have a heavy tail; each network keeps clicks with its own probability, and a third of the networks hardly
    look below the third place, as on small screens.
    """
    share = 1.0 / np.arange(1.0, NETWORKS + 1)
    home = rng.choice(NETWORKS, PEOPLE, p=share / share.sum())
    of = home[log.client % PEOPLE]
    kept = rng.beta(8.0, 2.0, NETWORKS)[of]
    small = (rng.random(NETWORKS) < 1 / 3)[of]
    bits = log.bits & (rng.random(log.bits.shape) < kept[:, None])
    bits[:, 3:] &= ~small[:, None] | (rng.random(bits[:, 3:].shape) < 0.3)
    return Log(log.lists, bits, log.time, log.client, log.false), np.array([f"network {k}" for k in of.tolist()])


def log_of(kind: str, bots: int, seed: int) -> tuple[Log, Array]:
    """Make one log; returns it and the network of each row."""
    rng = np.random.default_rng([11, seed])
    base = honest(world(rng, clients=PEOPLE), N, rng)
    log, network = networked(base, rng)
    if kind == "honest":
        return log, network
    names = dict(zip(log.client.tolist(), network.tolist(), strict=True))
    both = attacked(log, kind, bots * VISITS, rng, spread="even", bots=bots)
    return both, np.array([names.get(client, THEIRS) for client in both.client.tolist()])


def judge(log: Log, network: Array) -> Outcome:
    """Audit a log and compare the result with the truth."""
    found = sr.audit(log.frame().with_columns(pl.Series("net", network)), network="net")
    cohorts = found.cohorts["network"]
    named = {one.value for one in cohorts.named}
    bots = sum(one.client >= BOTS for one in found.clients)
    people = np.unique(log.client[log.client < BOTS]).size
    return Outcome(cohorts.judged, len(named - {THEIRS}), THEIRS in named, bots, people, len(found.clients) - bots)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=10, help="logs of each kind (10)")
    parser.add_argument("--bots", type=int, nargs="*", default=[300, 30], help="how many share a network (300 30)")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    options = parser.parse_args()
    every = []
    for kind in options.kinds:
        for bots in options.bots if kind != "honest" else [0]:
            seeds = range(options.first_seed, options.first_seed + options.logs)
            outcomes = [judge(*log_of(kind, bots, seed)) for seed in seeds]
            every += outcomes
            if bots:
                by_self = sum(one.bots for one in outcomes) / bots / options.logs
                hits = share_of(sum(one.found for one in outcomes), options.logs)
                print(f"{bots} bots of {VISITS} visits, {kind}: {hits}; {by_self:.0%} named by themselves")
    for who, named, of in (("networks", "blamed", "judged"), ("clients", "people_named", "people")):
        hits, total = (sum(getattr(one, name) for one in every) for name in (named, of))
        print(f"honest {who} named: {share_of(hits, total, 3)}")


if __name__ == "__main__":
    main()
