"""Bursts added to honest months of events, and honest months: what an audit of counts finds, and whom it blames.

    python bench/audit_counts.py --months 200 --bursts 60

prints shares with intervals of 95 % (Wilson 1927). Each month has a daily and a weekly rhythm, heavy
tails, four releases, two news and an item on a front page (`event_logs`). A burst is 3 % of a month's events on one
item in 3 to 36 hours, by 15 or 300 bots.
"""

import argparse
import math
from typing import NamedTuple

import numpy as np
import polars as pl
from event_logs import BOTS, NEWCOMERS, Events, attacked, month

import steadyrank as sr

FIRST_SEED = 1_000  # thresholds were chosen on others
FIRST_NAMED = 2


class Outcome(NamedTuple):
    """What became of one log."""

    blamed: bool  # an interval was called suspect, or a sender who is honest named
    found: bool  # a suspect interval overlaps with the burst by half, both over either
    named: bool  # and the burst's item is among the first two of it
    bots: float  # share of bots named
    honest_senders: int
    covered: bool  # whether the clean count's interval holds the item's true count


def judge(log: Events, clients: bool) -> Outcome:
    """Audit a log and compare."""
    found = sr.audit_counts(log.frame(clients))
    truth = np.zeros(log.item.size, np.bool_)
    false = np.flatnonzero(log.false)
    if false.size:
        truth[false[0] : false[-1] + 1] = True
    overlaps, named = [0.0], False
    for part in found.intervals:
        told = np.zeros(log.item.size, np.bool_)
        told[part.start_row : part.end_row] = True
        overlaps.append(np.count_nonzero(told & truth) / np.count_nonzero(told | truth))
        named |= overlaps[-1] >= 0.5 and log.target in [item["item"] for item in part.items[:FIRST_NAMED]]
    senders = {sender.client for sender in found.clients}
    bots = {client for client in senders if BOTS <= client < NEWCOMERS}
    covered = False
    if false.size:
        row = found.clean_counts.row(by_predicate=pl.col("item") == log.target, named=True)
        covered = row["low"] <= np.count_nonzero((log.item == log.target) & ~log.false) <= row["high"]
    return Outcome(
        bool(found.intervals) or bool(senders - bots), max(overlaps) >= 0.5, named,
        len(bots) / max(len(set(log.client[log.false].tolist())), 1), len(senders - bots), covered,
    )  # fmt: skip


def told(hits: int, of: int) -> str:
    """A count with its interval."""
    z, p = 1.96, hits / of
    middle, wide = p + z * z / (2 * of), z * math.sqrt(p * (1.0 - p) / of + z * z / (4 * of * of))
    low, high = ((middle + sign * wide) / (1.0 + z * z / of) for sign in (-1, 1))
    return f"{hits} of {of} ({100 * low:.1f} to {100 * high:.1f} %)"


def run(months: int, bursts: int, share: float, clients: bool, featured: bool, first: int = FIRST_SEED) -> None:
    """Print what was found."""
    honest = [
        judge(month(np.random.default_rng([9, first + seed]), featured=featured), clients) for seed in range(months)
    ]
    attacks = []
    for seed in range(bursts):
        rng = np.random.default_rng([10, first + seed])
        log = month(rng, featured=featured)
        attacks.append(judge(attacked(log, rng, share, int(rng.choice([15, 300])), rng.uniform(3.0, 36.0)), clients))
    if honest:
        print(f"honest months blamed: {told(sum(one.blamed for one in honest), months)}")
        print(f"honest senders named in them: {sum(one.honest_senders for one in honest)}")
    if attacks:
        print(f"bursts of {share:.0%} found: {told(sum(one.found for one in attacks), bursts)}")
        print(f"with the item among the first two: {told(sum(one.named for one in attacks), bursts)}")
        print(f"bots named: {np.mean([one.bots for one in attacks]):.0%}")
        print(f"honest senders named: {sum(one.honest_senders for one in attacks)}")
        print(f"true count within the clean count's interval: {told(sum(one.covered for one in attacks), bursts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=20, help="honest months (20)")
    parser.add_argument("--bursts", type=int, default=10, help="months with a burst (10)")
    parser.add_argument("--share", type=float, default=0.03, help="of a month's events that a burst has (0.03)")
    parser.add_argument("--without-clients", action="store_true", help="do not say who")
    parser.add_argument("--without-front-page", action="store_true", help="months without an item on a front page")
    options = parser.parse_args()
    run(options.months, options.bursts, options.share, not options.without_clients, not options.without_front_page)


if __name__ == "__main__":
    main()
