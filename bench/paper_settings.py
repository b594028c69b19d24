"""Learners beyond the cascade in the settings of their own papers: python bench/paper_settings.py [--seeds 4].

docs/rivals.md says which settings are certain. Regret at a tenth of the rounds and at their end: between them it
grows little for a learner with the regret of log T that its paper states, and tenfold for one that learns nothing.
"""

import argparse
import time

import numpy as np
from drawing import write_table

import steadyrank as sr

BIG = np.array([0.99, 0.95, 0.9, 0.85, 0.8] + [0.75] * 5)  # of the public code of GRAB and PB-MHB
STD = np.array([0.3, 0.2, 0.15, 0.15, 0.15, 0.1, 0.05, 0.05, 0.01, 0.01])  # likewise
ORDERED, SHUFFLED = [1.0, 0.75, 0.6, 0.3, 0.1], [1.0, 0.3, 0.75, 0.1, 0.6]
KNOWN = {"attention": ORDERED}
TWO_LEVELS = np.array([0.2] * 4 + [0.05] * 12)
SLOPE = 0.55 * (1.0 - np.arange(800) / 799)
NOT_TOLD = {"GRAB": {}, "PBMHB": {}, "PBMFTRL": {}, "SteadyRank": {}}
PLACES = {"PBMTS": KNOWN, "PBMUCB": KNOWN, "UniRank": {}, "TopRank": {}, **NOT_TOLD, "Random": {}}
GO_ON = {"onward": [0.8, 0.64, 0.512, 0.4096]}
SETTINGS = {  # attractions, places, users, their settings, rounds, learners with settings
    "GRAB, UniRank: big": (BIG, 5, "PositionBased", KNOWN, 100_000, PLACES),
    "GRAB, PB-MHB: std": (STD, 5, "PositionBased", KNOWN, 100_000, PLACES),
    "GRAB, PB-MHB: std, places shuffled": (STD, 5, "PositionBased", {"attention": SHUFFLED}, 100_000, NOT_TOLD),
    "dcmKL-UCB": (
        TWO_LEVELS, 4, "DependentClick", GO_ON, 100_000,
        {"DCMKLUCB": {"onward": GO_ON["onward"]}, "CascadeKLUCB": {}, "SteadyRank": {}, "Random": {}},
    ),
    "PIE": (SLOPE, 10, "Cascade", {}, 40_000, {"PIE": {}, "CascadeKLUCB": {}, "SteadyRank": {}, "Random": {}}),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), choices=SETTINGS, help="these settings alone")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        attraction, length, users, given, horizon, learners = SETTINGS[name]
        shuffled = attraction[np.random.default_rng(0).permutation(attraction.size)]
        for learner, settings in learners.items():
            world = {"length": length, "users": users, "users_settings": given, "settings": settings, "threads": 1}
            sr.simulate(learner, shuffled, horizon=10, seeds=[0], **world)  # compiles
            start = time.process_time()
            seeds = range(options.seeds)
            run = sr.simulate(
                learner, shuffled, horizon=horizon, seeds=seeds, marks=[horizon // 10, horizon], **world
            )
            took = 1e6 * (time.process_time() - start) / options.seeds / horizon
            early, late = run.regret.mean(axis=0)
            error = run.final.std(ddof=1) / options.seeds**0.5
            print(f"{name:36} {learner:14} {early:9,.1f} {late:9,.1f} +- {error:,.1f}  {took:.1f} us", flush=True)
            rows.append({"setting": name, "learner": learner, "early": early, "late": late, "error": error})
    write_table("paper_settings", rows)


if __name__ == "__main__":
    main()
