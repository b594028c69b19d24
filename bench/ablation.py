"""The contribution of each part of SteadyRank: python bench/ablation.py [--seeds 20] [--out FOLDER] [--part 1/1].

All cells of the study `matrix` except those with false clicks spread over all rounds, honest users, and users who
look at places, over 20,000 rounds; regret as a multiple of CascadeTS that never sees a false click. Each run is saved
in FOLDER, so an interrupted bench resumes, and `--part 3/16` runs the third of 16 parts, to use several processes.
"""

import argparse
import itertools
import json
import os
import pathlib

import numpy as np
from drawing import write_table

import steadyrank as sr
from steadyrank.comparison.intervals import half_width
from steadyrank.core.compiling.jit import kernel
from steadyrank.evaluation.lab.cells import Cell
from steadyrank.evaluation.studies.matrix import ATTACKS, PROFILES, WHEN
from steadyrank.learners.steady.evidence import Rule
from steadyrank.learners.steady.regime_posteriors import learn_regime
from steadyrank.learners.steady.steady_rank import SteadyRank

NEVER = 1e12
HORIZON = 20_000
STRETCHES = [when for when in WHEN if when["schedule"] != "spread"]
ATTENTION = [0.7**place for place in range(10)]  # of people who look at places


class Varied(SteadyRank):
    """SteadyRank with a modified rule."""

    rule_used = Rule()

    @classmethod
    def create(cls, problem, *, insurance=0.3, caution=0.5, window=50, looks="learn"):
        made = SteadyRank.create(problem, insurance=insurance, caution=caution, window=window, looks=looks)
        return cls(*made)._replace(rule=cls.rule_used)


_update = kernel(SteadyRank.update)


class Flat(Varied):
    """The same without a fitted prior: it is reset to a flat one after each window."""

    def update(self, visit, ranking, note, clicks, examined):
        _update(self, visit, ranking, note, clicks, examined)
        if self.regimes.span_rounds[0] == 0:
            self.regimes.prior[:] = 1.0
            self.regimes.test_prior[:] = 1.0
            self.posteriors.prior[:] = 1.0
            learn_regime(self.regimes, self.posteriors)


ONE = {"back": NEVER, "open": NEVER}  # one regime for ever
TOLD = "CascadeTS that never sees a false click"
VARIANTS = {  # learner, what differs in its rule, settings
    TOLD: ("CascadeTS", {}, {}),
    "`SteadyRank`": (Varied, {}, {}),
    "without the fitted prior": (Flat, {}, {}),
    "without the insurance": (Varied, {}, {"insurance": 0.0}),
    "without regimes": (Varied, ONE, {}),
    "without the hedge between regimes (`caution` 0)": (Varied, {}, {"caution": 0.0}),
    "without learnt attention (`looks` `cascade`)": (Varied, {}, {"looks": "cascade"}),
    "`CascadeTS`: none of them": ("CascadeTS", {}, {}),
    "the fitted prior alone": (Varied, ONE, {"insurance": 0.0, "looks": "cascade"}),
    "the insurance alone": (Flat, ONE, {"looks": "cascade"}),
    "regimes alone": (Flat, {}, {"insurance": 0.0, "looks": "cascade"}),
    "the prior and attention": (Varied, ONE, {"insurance": 0.0}),
}
# What decides less, on demand: python bench/ablation.py --only "window 25" ...
CONSTANTS = {
    "insurance 0.0001": (Varied, {}, {"insurance": 1e-4}),
    "insurance 0.1": (Varied, {}, {"insurance": 0.1}),
    "caution 0.25": (Varied, {}, {"caution": 0.25}),
    "caution 1": (Varied, {}, {"caution": 1.0}),
    "no way back to a stored regime": (Varied, {"back": NEVER}, {}),
    "a new regime changes every item": (Varied, {"changed": 1.0}, {}),
    "a new regime changes 1 % of the items": (Varied, {"changed": 0.01}, {}),
    "items testify from 1 look": (Varied, {"known": 1}, {}),
    "items testify from 20 looks": (Varied, {"known": 20}, {}),
    "looks count up to 100": (Varied, {"most": 100.0}, {}),
    "looks count without limit": (Varied, {"most": NEVER}, {}),
    "half the evidence (5 and 7.5 nats)": (Varied, {"back": 5.0, "open": 7.5}, {}),
    "twice the evidence (20 and 30 nats)": (Varied, {"back": 20.0, "open": 30.0}, {}),
    "window 25": (Varied, {}, {"window": 25}),
    "window 200": (Varied, {}, {"window": 200}),
}
GROUPS = ("honest", "attacked", "places, honest", "places, attacked")


def cells(learner="SteadyRank", **more):
    """The cells by group."""
    fixed = {"learner": learner, "horizon": HORIZON, **more}
    places = {"users": "PositionBased", "users_settings": {"attention": ATTENTION}}
    attacks = [{"adversary": name, **when} for name, when in itertools.product(ATTACKS, STRETCHES)]
    few = [{"adversary": "PrefixFlip", "schedule": at, "rate": 0.15} for at in ("front", "late")]
    return {
        "honest": [Cell(**fixed, **world) for world in PROFILES],
        "attacked": [Cell(**fixed, **world, **attack) for world in PROFILES for attack in attacks],
        "places, honest": [Cell(**fixed, **world, **places) for world in PROFILES],
        "places, attacked": [Cell(**fixed, **world, **places, **attack) for world in PROFILES for attack in few],
    }


def jobs(seeds):
    """One cell for each learner in each world: what the evidence depends on."""
    names = ("SteadyRank", "CascadeTS")
    return [cell for name in names for of in cells(name, seeds=seeds).values() for cell in of]


def regret(variant, cell, seeds):
    """Final regret by seed."""
    learner, rule, settings = (VARIANTS | CONSTANTS)[variant]
    Varied.rule_used = Rule()._replace(**rule)
    profile = sr.profile(cell.profile, cell.mapping)
    run = sr.simulate(
        learner, profile.attraction, length=cell.length, horizon=cell.horizon, adversary=cell.adversary,
        schedule=cell.schedule, budget=int(cell.rate * cell.horizon), seeds=range(seeds), settings=settings, marks=1,
        omniscient=variant == TOLD, users=cell.users, users_settings=cell.users_settings,
    )  # fmt: skip
    return run.final


def kept(folder, variant, group, number, seeds):
    """The file of a run."""
    names = list(VARIANTS | CONSTANTS)
    return folder / f"{names.index(variant)}-{GROUPS.index(group)}-{number}-{seeds}.json"


def summary(folder, seeds, variants):
    """Regret over that of the omniscient learner: geometric mean by seed, its interval, and the worst cell."""
    found = {
        variant: {
            group: np.array([json.loads(kept(folder, variant, group, i, seeds).read_text()) for i in range(len(of))])
            for group, of in cells().items()
        }
        for variant in {TOLD: 0, **dict.fromkeys(variants)}
    }
    rows = []
    for variant in variants:
        row = {"variant": variant}
        for group in GROUPS:
            ours, told = found[variant][group], found[TOLD][group]
            by_seed = np.exp(np.log(ours / told).mean(axis=0))
            worst = (ours.mean(axis=1) / told.mean(axis=1)).max()
            row[group] = {"mean": float(by_seed.mean()), "half": float(half_width(by_seed)), "worst": float(worst)}
        rows.append(row)
    return rows


def run(folder, seeds, variants, part=(1, 1)):
    """Run and save the missing runs of a part; runs of the same compiled code stay together."""
    folder.mkdir(parents=True, exist_ok=True)
    work = [
        (variant, group, i, cell)
        for group, of in cells().items()
        for i, cell in enumerate(of)
        for variant in {TOLD: 0, **dict.fromkeys(variants)}
    ]
    work.sort(key=lambda one: (str((VARIANTS | CONSTANTS)[one[0]][0]), one[3].users, one[3].adversary))
    costs = np.cumsum([1.0 if (VARIANTS | CONSTANTS)[one[0]][0] == "CascadeTS" else 3.0 for one in work])
    parts = np.minimum(part[1] * (costs - 0.5) // costs[-1], part[1] - 1) + 1
    for variant, group, i, cell in itertools.compress(work, parts == part[0]):
        path = kept(folder, variant, group, i, seeds)
        if not path.exists():
            whole = path.with_suffix(f".{os.getpid()}.part")
            whole.write_text(json.dumps(regret(variant, cell, seeds).tolist()), encoding="utf-8")
            whole.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench/ablation"))
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts, and no table")
    parser.add_argument("--only", nargs="*", default=[], help="these variants alone")
    options = parser.parse_args()
    variants = options.only or list(VARIANTS)
    first, parts = map(int, options.part.split("/"))
    run(options.out, options.seeds, variants, (first, parts))
    if parts > 1:
        return
    rows = summary(options.out, options.seeds, variants)
    print(f"{options.seeds} seeds\n{'':<50}" + "".join(f"{group:>26}" for group in GROUPS))
    for row in rows:
        texts = [f"{row[g]['mean']:.2f} ± {row[g]['half']:.2f} ({row[g]['worst']:.2f})" for g in GROUPS]
        print(f"{row['variant']:<50}" + "".join(f"{text:>26}" for text in texts))
    flat = [{"variant": r["variant"]} | {f"{g} {k}": v for g in GROUPS for k, v in r[g].items()} for r in rows]
    write_table("ablation", flat)


if __name__ == "__main__":
    main()
