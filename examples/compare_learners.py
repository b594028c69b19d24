"""Compare learners under an attack: python examples/compare_learners.py.

Each meets the same users (the seeds are the same) and the same adversary; only the learner differs.
"""

import argparse

import steadyrank as sr

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("learners", nargs="*", default=["SteadyRank", "CascadeTS", "CascadeUCBV", "Random"])
parser.add_argument("--horizon", type=int, default=20_000, help="rounds")
parser.add_argument("--share", type=float, default=0.1, help="of the rounds that are corrupted")
options = parser.parse_args()

world = sr.profile("yelp-pizza", mapping="sparse")
print(f"{world.title}, {options.horizon:,} rounds, {options.share:.0%} of them by fake users")
print(f"{'learner':12} {'honest':>9}" + "".join(f"{schedule:>9}" for schedule in ("front", "late", "bursts")))
for name in options.learners:
    regrets = []
    for schedule, share in (
        ("front", 0.0),
        ("front", options.share),
        ("late", options.share),
        ("bursts", options.share),
    ):
        run = sr.simulate(
            name, world.attraction, length=10, horizon=options.horizon, seeds=range(4),
            adversary="FakeUser", schedule=schedule, budget=round(share * options.horizon),
        )  # fmt: skip
        regrets.append(run.final.mean())
    print(f"{name:12} " + "".join(f"{regret:9,.0f}" for regret in regrets))
