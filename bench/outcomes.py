"""What lists are worth by a learner of values and by one of clicks: python bench/outcomes.py [--seeds 5].

Honest users who leave with their first click (`Buyers` of `Cascade`); two profiles, lists of 10, 40,000 rounds, of
which a click leads to an outcome with a chance of 2 % on average (`--chance`). Printed: what the lists shown were
worth of what the best lists are, with a 95 % interval over the seeds.
"""

import argparse

from drawing import write_table

import steadyrank as sr
from steadyrank.comparison.intervals import half_width

WORLDS = {
    "values apart from clicks": {"spread": 1.0, "alike": 0.0},
    "the same, 3,000 rounds late": {"spread": 1.0, "alike": 0.0, "delay": 3_000.0},
    "the same, 10 % lost as well": {"spread": 1.0, "alike": 0.0, "delay": 3_000.0, "lost": 0.1},
    "values mostly as clicks": {"spread": 0.5, "alike": 0.8},
    "values as clicks": {"spread": 0.3, "alike": 1.0},
    "all clicks worth the same": {"spread": 0.0},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=40_000)
    parser.add_argument("--chance", type=float, default=0.02)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    rows = []
    for profile, mapping in (("yelp-pizza", "sparse"), ("movielens", "moderate")):
        attraction = sr.profile(profile, mapping=mapping).attraction
        for world, given in WORLDS.items():
            shares = {goal: worth(attraction, given, goal, options) for goal in ("click", "value")}
            rows.append({"profile": profile, "world": world, **shares})
            print("", *rows[-1].values(), "", sep=" | ", flush=True)
    write_table("outcomes", rows)


def worth(attraction, given, goal, options):
    """The share of the best lists' value that a goal's lists had, with its interval."""
    run = sr.simulate(
        "SteadyRank", attraction, length=10, horizon=options.horizon, users="Buyers", settings={"goal": goal},
        users_settings={"chance": options.chance, **given}, seeds=range(options.seeds), marks=1,
        threads=options.threads,
    )  # fmt: skip
    return f"{run.worth.mean():.3f} ± {float(half_width(run.worth)):.3f}"


if __name__ == "__main__":
    main()
