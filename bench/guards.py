"""What a guard is worth: regret as a multiple of the omniscient CascadeTS, under attacks by identities.

python bench/guards.py                       all parts, 4 profiles, 3 attacks, 3 seeds, client taste 0 and 0.7
python bench/guards.py --parts spread honest --seeds 1 --profiles 2 --tastes 0.7 --bots 100
"""

import argparse
import math
import time
from statistics import NormalDist

import numpy as np

import steadyrank as sr

LENGTH, HORIZON, RATE = 10, 40_000, 0.15
CROWD = {"clients": 8000, "skew": 0.8}
TWO = {"tastes": 2, "minority": 0.3}
PARTS = ("spread", "front", "honest", "minority", "both", "sleeper", "chameleon", "time")


def profiles():
    """Name and attractions; the last one is no data set's: logits of 400 items, normal around -2.4."""
    for name, mapping in (("yelp-pizza", "sparse"), ("movielens", "moderate"), ("lastfm-listeners", None)):
        found = sr.profile(name, mapping=mapping) if mapping else sr.profile(name)
        yield f"{name} {mapping or ''}".strip(), found.attraction
    z = np.array([NormalDist().inv_cdf((i + 0.5) / 400) for i in range(400)])
    yield "normal logits", 1.0 / (1.0 + np.exp(2.4 - z))


def attacks(n_items):
    """Users of the reversed taste, promoters of half of the items, promoters of ten items against the best ten."""
    yield "reversed taste", "OtherTaste", {}
    yield "half of the items", "FakeUser", {}
    yield "ten against ten", "Swap", {"share": 10 / n_items}


class Bench:
    """Runs cells of one profile and seed, each once."""

    def __init__(self, guard, settings, horizon):
        self.guard, self.settings, self.horizon = guard, settings, horizon
        self.known = {}

    def run(self, world, learner, seed, taste, *, guard="Anyone", rate=0.0, users=None, **more):
        name, attraction = world
        key = (name, learner, seed, taste, guard, rate, repr(users), repr(more))
        if key not in self.known:
            self.known[key] = sr.simulate(
                learner,
                attraction,
                length=LENGTH,
                horizon=self.horizon,
                seeds=[seed],
                budget=round(rate * self.horizon),
                users_settings={**CROWD, "taste": taste, **(users or {})},
                guard=guard,
                guard_settings=self.settings if guard != "Anyone" else {},
                marks=sorted({max(round(rate * self.horizon), 1), self.horizon}),
                threads=1,
                **more,
            )
        return self.known[key]


class Table:
    """Collects multiples under a name; prints geometric mean and worst."""

    def __init__(self):
        self.rows = {}

    def add(self, name, value):
        self.rows.setdefault(name, []).append(max(float(value), 1e-9))

    def show(self):
        for name, values in self.rows.items():
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{name:42} {mean:7.3f} / {max(values):.3f}   ({len(values)} runs)")


def attacked(bench, table, world, seed, taste, part, bots):
    for title, adversary, settings in attacks(world[1].size):
        for owned in bots if part == "spread" else [100]:
            foe = {"adversary": adversary, "schedule": part, "rate": RATE}
            without = bench.run(
                world, "CascadeTS", seed, taste, omniscient=True, adversary_settings={**settings, "bots": 100}, **foe
            )
            withheld = without.final[0]
            told = bench.run(
                world, "SteadyRank", seed, taste, omniscient=True, adversary_settings={**settings, "bots": 100}, **foe
            ).final[0]
            open_ = bench.run(world, "SteadyRank", seed, taste, adversary_settings={**settings, "bots": 100}, **foe)
            run = bench.run(
                world,
                "SteadyRank",
                seed,
                taste,
                guard=bench.guard,
                adversary_settings={**settings, "bots": owned},
                **foe,
            )
            who = f"{part} {owned or 'fresh'}"
            table.add(who, run.final[0] / withheld)
            table.add(f"{part} without a guard", open_.final[0] / withheld)
            table.add(f"{part} told", told / withheld)
            if part == "front":
                (early, late), (their_early, their_late) = parts_of(run), parts_of(without)
                table.add("front 100, rounds of the attack", early / their_early)
                table.add("front 100, rounds after it", late / their_late)
            if owned == 0:
                table.add("fresh, multiple of without a guard", run.final[0] / open_.final[0])
            said = f"{run.final[0] / withheld:.2f} (open {open_.final[0] / withheld:.2f}, told {told / withheld:.2f})"
            report(world, seed, taste, f"{who}, {title}", said, run)


def parts_of(run):
    """Regret before and after the first mark."""
    return run.regret[0, 0], run.regret[0, -1] - run.regret[0, 0]


def report(world, seed, taste, what, said, run):
    shares = f"false refused {run.false_refused:.3f} + {run.retracted[0, 2] / max(run.visits[0, 2], 1):.3f} back"
    honest = (
        f"honest refused {run.honest_refused:.4f} + {run.retracted[0, :2].sum() / run.visits[0, :2].sum():.4f} back"
    )
    print(f"  {world[0]:20} seed {seed} taste {taste}: {what:40} {said}; {shares}; {honest}", flush=True)


def honest(bench, table, world, seed, taste):
    open_, run = (bench.run(world, "SteadyRank", seed, taste, guard=g) for g in ("Anyone", bench.guard))
    table.add("honest, multiple of without a guard", run.final[0] / open_.final[0])
    table.add("honest visits refused, %", 100 * run.honest_refused)
    report(world, seed, taste, "honest", f"{run.final[0] / open_.final[0]:.3f}", run)


def minority(bench, table, world, seed, taste):
    open_, run = (bench.run(world, "SteadyRank", seed, taste, guard=g, users=TWO) for g in ("Anyone", bench.guard))
    table.add("30 % minority, multiple of without a guard", run.final[0] / open_.final[0])
    table.add("visits of the minority refused, %", 100 * run.minority_refused)
    report(world, seed, taste, f"minority ({run.minority_refused:.4f})", f"{run.final[0] / open_.final[0]:.3f}", run)


def both(bench, table, world, seed, taste):
    for title, adversary, settings in attacks(world[1].size):
        foe = {"adversary": adversary, "schedule": "spread", "rate": 0.1, "users": TWO}
        foe["adversary_settings"] = {**settings, "bots": 100}
        open_, run = (bench.run(world, "SteadyRank", seed, taste, guard=g, **foe) for g in ("Anyone", bench.guard))
        table.add("minority and attack, multiple of without", run.final[0] / open_.final[0])
        table.add("visits of the attacked minority refused, %", 100 * run.minority_refused)
        said = f"{run.final[0] / open_.final[0]:.3f}"
        report(world, seed, taste, f"minority ({run.minority_refused:.4f}) and {title}", said, run)


def knowing(bench, table, world, seed, taste, adversary):
    foe = {"adversary": adversary, "schedule": "spread", "rate": RATE}
    withheld = bench.run(world, "CascadeTS", seed, taste, omniscient=True, **foe).final[0]
    for guard, who in (("Anyone", "no guard"), (bench.guard, "guard")):
        run = bench.run(world, "SteadyRank", seed, taste, guard=guard, **foe)
        table.add(f"{adversary}, {who}", run.final[0] / withheld)
        report(world, seed, taste, f"{adversary}, {who}", f"{run.final[0] / withheld:.2f}", run)


def clock(bench, table, world, repeats=5):
    """Time of a run against that without a guard: interleaved runs, the minimum of each."""
    best = {}
    for _ in range(repeats):
        for guard in ("Anyone", bench.guard):
            bench.known.clear()
            began = time.process_time()
            bench.run(world, "SteadyRank", 0, 0.0, guard=guard)
            best[guard] = min(best.get(guard, math.inf), time.process_time() - began)
    table.add("time of a round, multiple", best[bench.guard] / best["Anyone"])
    print(f"  {world[0]:20} time {best[bench.guard]:.2f} s against {best['Anyone']:.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--profiles", type=int, nargs="+", default=[0, 1, 2, 3], help="their numbers, 0 to 3")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tastes", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--bots", type=int, nargs="+", default=[10, 100, 600, 2000, 0], help="0: fresh identities")
    parser.add_argument("--guard", default="ClientTrust")
    parser.add_argument("--horizon", type=int, default=HORIZON)
    parser.add_argument("--setting", nargs="*", default=[], help="of the guard: name=value")
    chosen = parser.parse_args()
    settings = {name: float(v) if "." in v else int(v) for name, v in (s.split("=") for s in chosen.setting)}
    table = Table()
    for i, world in enumerate(profiles()):
        if i not in chosen.profiles:
            continue
        for seed in chosen.seeds:
            for taste in chosen.tastes:
                bench = Bench(chosen.guard, settings, chosen.horizon)
                for part in chosen.parts:
                    if part in ("spread", "front"):
                        attacked(bench, table, world, seed, taste, part, chosen.bots)
                    elif part in ("sleeper", "chameleon"):
                        knowing(bench, table, world, seed, taste, part.capitalize())
                    elif part != "time":
                        {"honest": honest, "minority": minority, "both": both}[part](bench, table, world, seed, taste)
        if "time" in chosen.parts:
            clock(Bench(chosen.guard, settings, chosen.horizon), table, world)
    table.show()


if __name__ == "__main__":
    main()
