"""What lists are worth by a learner of values and by one of clicks: python bench/outcomes.py [--seeds 10].

Honest users who leave with their first click (`Buyers` of `Cascade`); two profiles, lists of 10, 40,000 rounds, of
which a click leads to an outcome with a chance of 2 % on average (`--chance`). Printed: what the lists shown were
worth of what the best lists are, with a 95 % interval over the seeds; and by how much a learner of values is better
than one of clicks, and one that hears of outcomes late, or not of all, than one that hears of all at once: in per
cent, seed by seed with the same users.
"""

import argparse

from drawing import write_table

import steadyrank as sr
from steadyrank.comparison.intervals import half_width

PROFILES = (("yelp-pizza", "sparse"), ("movielens", "moderate"))
IN_TIME = "values apart from clicks"
WORLDS = {
    IN_TIME: {"spread": 1.0, "alike": 0.0},
    "the same, 3,000 rounds late": {"spread": 1.0, "alike": 0.0, "delay": 3_000.0},
    "the same, 10 % lost": {"spread": 1.0, "alike": 0.0, "lost": 0.1},
    "the same, late and lost": {"spread": 1.0, "alike": 0.0, "delay": 3_000.0, "lost": 0.1},
    "values mostly as clicks": {"spread": 0.5, "alike": 0.8},
    "values as clicks": {"spread": 0.3, "alike": 1.0},
    "all clicks worth the same": {"spread": 0.0},
    "each click worth 1": {"spread": 0.0, "chance": 1.0, "tail": 0.0},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--horizon", type=int, default=40_000)
    parser.add_argument("--chance", type=float, default=0.02)
    parser.add_argument("--worlds", nargs="*", default=[], help="some of them, by a part of their names")
    parser.add_argument("--profiles", type=int, nargs="+", default=[0, 1], help="their numbers, 0 and 1")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    rows = []
    for profile, mapping in map(PROFILES.__getitem__, options.profiles):
        attraction = sr.profile(profile, mapping=mapping).attraction
        in_time = by_clicks = None
        for world, given in WORLDS.items():
            if options.worlds and not any(part in world for part in options.worlds):
                continue
            valued, against = shares(attraction, given, "value", options), ""
            if "the same, " in world and in_time is not None:
                against = gain(valued, in_time)  # clicks are learnt from as they were
            else:
                by_clicks = shares(attraction, given, "click", options)
            in_time = valued if world == IN_TIME else in_time
            row = {"profile": profile, "world": world, "click": mean(by_clicks), "value": mean(valued)}
            rows.append({**row, "more than by clicks": gain(valued, by_clicks), "than in time": against})
            print("", *rows[-1].values(), "", sep=" | ", flush=True)
    write_table("outcomes", rows)


def shares(attraction, given, goal, options):
    """By seed, the share of the best lists' value that a goal's lists had."""
    run = sr.simulate(
        "SteadyRank", attraction, length=10, horizon=options.horizon, users="Buyers", settings={"goal": goal},
        users_settings={"chance": options.chance, **given}, seeds=range(options.seeds), marks=1,
        threads=options.threads,
    )  # fmt: skip
    return run.worth


def mean(values):
    """A mean over seeds with its interval."""
    return f"{values.mean():.3f} ± {float(half_width(values)):.3f}"


def gain(values, others):
    """By how many per cent of the others' mean values are larger, in pairs, with its interval."""
    more = 100.0 * (values - others) / others.mean()
    return f"{more.mean():+.1f} ± {float(half_width(more)):.1f}"


if __name__ == "__main__":
    main()
