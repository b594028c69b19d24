"""Bursts added to honest months of events, and honest months: what an audit of counts finds, and whom it blames.

    python bench/audit_counts.py --months 200 --bursts 60

prints shares with intervals of 95 % (Wilson 1927). Each month has a daily and a weekly rhythm, heavy
tails, four releases, two news and an item on a front page (`event_logs`). A burst is 3 % of a month's events on one
item in 3 to 36 hours, by 15 or 300 bots.
"""

import argparse
from typing import NamedTuple

import numpy as np
import polars as pl
from event_logs import BOTS, NEWCOMERS, Events, attacked, month
from measures import overlap, rows_between, share_of

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
    elsewhere: int  # suspect intervals that do not touch the burst


def judge(log: Events, clients: bool) -> Outcome:
    """Audit a log and compare."""
    found = sr.audit_counts(log.frame(clients))
    n = log.item.size
    false = np.flatnonzero(log.false)
    truth = rows_between(false[0], false[-1] + 1, n) if false.size else np.zeros(n, np.bool_)
    overlaps, named = [0.0], False
    for part in found.intervals:
        overlaps.append(overlap(rows_between(part.start_row, part.end_row, n), truth))
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
        sum(not truth[part.start_row : part.end_row].any() for part in found.intervals),
    )  # fmt: skip


def run(months: int, bursts: int, share: float, clients: bool, featured: bool, first: int) -> None:
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
        print(f"honest months blamed: {share_of(sum(one.blamed for one in honest), months)}")
        print(f"honest senders named in them: {sum(one.honest_senders for one in honest)}")
    if attacks:
        print(f"bursts of {share:.0%} found: {share_of(sum(one.found for one in attacks), bursts)}")
        print(f"with the item among the first two: {share_of(sum(one.named for one in attacks), bursts)}")
        print(f"intervals elsewhere: {sum(one.elsewhere for one in attacks)}")
        print(f"bots named: {np.mean([one.bots for one in attacks]):.0%}")
        print(f"honest senders named: {sum(one.honest_senders for one in attacks)}")
        print(
            f"true count within the clean count's interval: {share_of(sum(one.covered for one in attacks), bursts)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=20, help="honest months (20)")
    parser.add_argument("--bursts", type=int, default=10, help="months with a burst (10)")
    parser.add_argument("--share", type=float, default=0.03, help="of a month's events that a burst has (0.03)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--without-clients", action="store_true", help="do not say who")
    parser.add_argument("--without-front-page", action="store_true", help="months without an item on a front page")
    options = parser.parse_args()
    run(
        options.months, options.bursts, options.share, not options.without_clients, not options.without_front_page,
        options.first_seed,
    )  # fmt: skip


if __name__ == "__main__":
    main()
