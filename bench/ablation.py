"""What each part of SteadyRank contributes: python bench/ablation.py [--seeds 2] [--every 3].

Every third of the cells of the study `matrix` that are not held out, and the honest ones; regret as a multiple of
CascadeTS that never sees a false click. With `--every 1` all of them.
"""

import argparse

import numpy as np
from drawing import write_table

import steadyrank as sr
from steadyrank.evaluation.studies.matrix import ATTACKS, HELD_OUT, PROFILES, WHEN
from steadyrank.learners.steady.evidence import Rule
from steadyrank.learners.steady.steady_rank import SteadyRank

NEVER = 1e12


class Varied(SteadyRank):
    """SteadyRank with another rule."""

    rule_used = Rule()

    @classmethod
    def create(cls, problem, *, insurance=0.3, caution=0.5, window=50, looks="learn"):
        made = SteadyRank.create(problem, insurance=insurance, caution=caution, window=window, looks=looks)
        return cls(*made)._replace(rule=cls.rule_used)


VARIANTS = {
    "SteadyRank": ({}, {}),
    "looks as a cascade": ({}, {"looks": "cascade"}),
    "no insurance": ({}, {"insurance": 0.0}),
    "insurance 0.0001": ({}, {"insurance": 1e-4}),
    "insurance 0.001": ({}, {"insurance": 1e-3}),
    "insurance 0.1": ({}, {"insurance": 0.1}),
    "no hedge (caution 0)": ({}, {"caution": 0.0}),
    "caution 0.25": ({}, {"caution": 0.25}),
    "caution 0.75": ({}, {"caution": 0.75}),
    "caution 1": ({}, {"caution": 1.0}),
    "no regimes: fitted prior alone": ({"back": NEVER, "open": NEVER}, {}),
    "no way back to a stored regime": ({"back": NEVER}, {}),
    "a new regime changes every item": ({"changed": 1.0}, {}),
    "a new regime changes 1 % of the items": ({"changed": 0.01}, {}),
    "items testify from 1 look": ({"known": 1}, {}),
    "items testify from 20 looks": ({"known": 20}, {}),
    "looks count up to 100": ({"most": 100.0}, {}),
    "looks count without limit": ({"most": NEVER}, {}),
    "half the evidence (5 and 7.5 nats)": ({"back": 5.0, "open": 7.5}, {}),
    "twice the evidence (20 and 30 nats)": ({"back": 20.0, "open": 30.0}, {}),
    "window 25": ({}, {"window": 25}),
    "window 200": ({}, {"window": 200}),
    "impossible feedback rejected": ({}, {"guard": "Plausible"}),
}


def cells(every):
    """(profile, attack, when) of the honest cells and of every so manieth that is neither spread nor held out."""
    attacked = []
    for world in PROFILES:
        for attack in ATTACKS:
            for when in WHEN[:-1]:
                place = f"{world['profile']} {world.get('mapping', '')}".strip()
                shown = f"{when['schedule']} {when['rate']:.0%}"
                if shown not in HELD_OUT[place].get(attack, []):
                    attacked.append((world, attack, when))
    honest = [(world, "Honest", {"schedule": "front", "rate": 0.0}) for world in PROFILES]
    return honest + attacked[::every]


def regret(learner, cell, seeds, settings, omniscient=False):
    world, attack, when = cell
    settings = dict(settings)
    guard = settings.pop("guard", "Anyone")
    profile = sr.profile(world["profile"], world.get("mapping"))
    run = sr.simulate(
        learner, profile.attraction, length=10, horizon=40_000, adversary=attack, schedule=when["schedule"],
        budget=int(when["rate"] * 40_000), seeds=range(seeds), settings=settings, marks=1, omniscient=omniscient,
        guard=guard,
    )  # fmt: skip
    return run.final.mean()


def summary(ratios, chosen):
    attacked = [r for r, cell in zip(ratios, chosen, strict=True) if cell[1] != "Honest"]
    honest = [r for r, cell in zip(ratios, chosen, strict=True) if cell[1] == "Honest"]
    return {
        "attacked": float(np.exp(np.log(attacked).mean())), "worst": float(max(attacked)),
        "honest": float(np.exp(np.log(honest).mean())),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="these variants alone")
    options = parser.parse_args()
    chosen = cells(options.every)
    least = [regret("CascadeTS", cell, options.seeds, {}, omniscient=True) for cell in chosen]
    rows = []

    def show(name, regrets):
        row = {"variant": name, **summary([x / y for x, y in zip(regrets, least, strict=True)], chosen)}
        print(f"{name:<40}{row['attacked']:>10.2f}{row['worst']:>8.2f}{row['honest']:>8.2f}", flush=True)
        rows.append(row)

    print(f"{len(chosen)} cells, {options.seeds} seeds\n{'':<40}{'attacked':>10}{'worst':>8}{'honest':>8}")
    show("CascadeTS", [regret("CascadeTS", cell, options.seeds, {}) for cell in chosen])
    for name, (rule, settings) in VARIANTS.items():
        if options.only and name not in options.only:
            continue
        Varied.rule_used = Rule()._replace(**rule)
        show(name, [regret(Varied, cell, options.seeds, settings) for cell in chosen])
    write_table("ablation", rows)


if __name__ == "__main__":
    main()
