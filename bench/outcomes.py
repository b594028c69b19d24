"""The value of lists with the goal of value and with that of clicks: python bench/outcomes.py [--seeds 10].

Honest users who leave with their first click (`Buyers` of `Cascade`); two profiles, lists of 10, 40,000 rounds; a
click leads to an outcome with a probability of 2 % on average (`--chance`). Prints the value of the lists shown as a
share of that of the best lists, with a 95 % interval over seeds; and by how much a learner of values is better than
one of clicks, and one that learns of outcomes late, or only of some, than one that learns of all at once: in percent,
seed by seed with the same users.
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
    """By seed, the value of the lists shown for a goal as a share of the best lists' value."""
    run = sr.simulate(
        "SteadyRank", attraction, length=10, horizon=options.horizon, users="Buyers", settings={"goal": goal},
        users_settings={"chance": options.chance, **given}, seeds=range(options.seeds), marks=1,
        threads=options.threads,
    )  # fmt: skip
    return run.worth


def mean(values):
    """A mean over seeds with its interval, as text."""
    return f"{values.mean():.3f} ± {float(half_width(values)):.3f}"


def gain(values, others):
    """By how many percent of the others' mean the values are larger, in pairs, with its interval."""
    more = 100.0 * (values - others) / others.mean()
    return f"{more.mean():+.1f} ± {float(half_width(more)):.1f}"


if __name__ == "__main__":
    main()
