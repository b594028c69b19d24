"""What it costs not to know which visits are false: python bench/limits.py [PART] [--seeds 20].

`shares`: false visits spread over all rounds, evenly or in a share that swings, look like a taste of their own. Here
a Thompson sampler is told everything about them but which they are: their share in each round, what they do, and for
whom. So it weighs each visit by the chance that it is true. Its regret over that of the same sampler that is told
which visits are false is beside the same ratio for SteadyRank, which is told nothing. Each run is kept (`--out`), and
`--part 3/16` does the third of 16 parts.

`tastes`: from round 20,001 on, people who look at places click by another taste. Whether they are false visitors or
users who have changed their mind, no clicks tell. So the losses to both kinds of users add up, in each round, to what
the best list for both loses at least. Beside that bound is what SteadyRank loses to either in 6,000 such rounds.

`twins`: two worlds in which the same is clicked. In one an item is promoted; in the other it is better than the last
one of the list, and its clicks are hidden, in 15 % of the visits (docs/limits.md). Beside the least that any list
loses to the users of both is what learners lose.

`hidden`: so many hidden clicks on the best item keep it out of the lists of any learner with this honest regret
(docs/limits.md). Beside the least that each learner loses by the proof is what it loses.

`after`: an attacker who may hide 100 clicks on the best items hides some of them long after the start, when these
items are tried again. In which round the last click is hidden, and how long after it lists still lose more than
they may. Each run is kept, and `--part` does a part of them.
"""

import argparse
import itertools
import json
import pathlib
from typing import NamedTuple

import numpy as np
from drawing import write_table

import steadyrank as sr
from steadyrank.adversaries.budget import Budget
from steadyrank.adversaries.other_taste import OtherTaste
from steadyrank.adversaries.targets import choose_targets
from steadyrank.adversaries.tastes import Looking, attractions_of
from steadyrank.comparison.intervals import half_width
from steadyrank.core.arrays import Bools, Floats
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.evaluation.studies.matrix import PROFILES
from steadyrank.kernels import top_allowed
from steadyrank.learners.steady.steady_rank import SteadyRank
from steadyrank.service.board.checks import REVISIT

HORIZON = 40_000
LENGTH = 10
BEFORE, AFTER = 20_000, 6_000  # rounds of the first and of the second taste
ATTENTION = 0.7 ** np.arange(LENGTH)
RATE = 0.15
ADVERSARIES = ("AttractionFlip", "FakeUser")
SCHEDULES = ("spread", "swing")
N_BURSTS = 5  # of the schedule
SHORT, LONG = 3, 200_000  # length of lists, and rounds, of twins and hidden clicks
HIDDEN_FROM = {  # learners from which the best item is hidden
    "CascadeTS": {},
    "SteadyRank": {},
    "SteadyRank revisit=0.001": {"revisit": 0.001},
}
SLOWEST = "movielens", "sparse"  # where lists take longest to recover from hidden clicks
HIDDEN, RECOVERING = 100, 600_000  # clicks that may be hidden there, and rounds
STRETCH = 20_000  # rounds; who has recovered loses no more than may be lost in any so many of them
MAY = 0.00187  # clicks a round: 1.5 times what honest users cost there, and the price (evidence/recovery.json)
CELLS, FALSE_CELLS = 64, 8  # of the grids of attraction, and of what false visits click


def share_of_false_visits(schedule, horizon, rate):
    """float[horizon + 1]: the chance that round t is one of those that `active_rounds` draws."""
    if schedule == "spread":
        return np.full(horizon + 1, rate)
    weights = 1.0 - np.cos(2.0 * np.pi * N_BURSTS * (np.arange(horizon + 1) - 0.5) / horizon)
    low, high = 0.0, 50.0  # a round is drawn if its exponential clock of rate w ends before c
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1.0 - np.exp(-middle * weights[1:])).mean() < rate else (low, middle)
    return 1.0 - np.exp(-low * weights)


class ToldShare(NamedTuple):
    """Thompson sampling with each visit weighed by the chance that it is true, given what the false ones do."""

    looks: Floats  # [K] weighed
    clicks: Floats  # [K] weighed
    share: Floats  # [horizon + 1]
    target: Bools  # [K] of fake users
    flips: bool  # false visits invert what attracts; otherwise they are fake users

    @classmethod
    def create(cls, problem, *, schedule="spread", adversary="FakeUser"):
        share = share_of_false_visits(schedule, problem.horizon, RATE)
        target = choose_targets("bottom", 0.5, problem.attraction, problem.length)
        k = problem.n_items
        return cls(np.zeros(k), np.zeros(k), share, target, adversary == "AttractionFlip")

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(self.looks.size)
        for k in range(index.size):
            index[k] = rng.beta(1.0 + self.clicks[k], 1.0 + self.looks[k] - self.clicks[k])
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        true, false = 1.0 - self.share[visit.t], self.share[visit.t]
        for p in range(examined):
            k = ranking[p]
            mean = (1.0 + self.clicks[k]) / (2.0 + self.looks[k])
            true *= mean if clicks[p] else 1.0 - mean
            if self.flips:
                false *= 1.0 - mean if clicks[p] else mean
            elif clicks[p] != self.target[k]:
                false = 0.0
        weight = true / (true + false)
        for p in range(examined):
            k = ranking[p]
            self.looks[k] += 1.0 if self.flips else weight
            self.clicks[k] += weight if clicks[p] else 0.0
            if self.flips and not clicks[p]:
                self.clicks[k] += 1.0 - weight


class ToldShareAlone(NamedTuple):
    """Thompson sampling told the share of false visits in each round, and not what they do.

    Each item has an unknown attraction a and a chance f of a click by a false visit, even priors on a grid. A share
    that swings tells the two apart, since a click then has the chance (1 - share) a + share f.
    """

    chance: Floats  # [K, A, F] of a and f, sums to 1
    below: Floats  # [K, A] chance that a lies in this cell or below
    share: Floats  # [horizon + 1]

    @classmethod
    def create(cls, problem, *, schedule="spread"):
        k = problem.n_items
        chance = np.full((k, CELLS, FALSE_CELLS), 1.0 / (CELLS * FALSE_CELLS))
        below = np.tile(np.arange(1.0, CELLS + 1) / CELLS, (k, 1))
        return cls(chance, below, share_of_false_visits(schedule, problem.horizon, RATE))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(self.below.shape[0])
        for k in range(index.size):
            index[k] = (np.searchsorted(self.below[k, : CELLS - 1], rng.random()) + rng.random()) / CELLS
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        share = self.share[visit.t]
        for p in range(examined):
            of = self.chance[ranking[p]]
            for i in range(CELLS):
                for j in range(FALSE_CELLS):
                    click = ((1.0 - share) * (i + 0.5)) / CELLS + (share * (j + 0.5)) / FALSE_CELLS
                    of[i, j] *= click if clicks[p] else 1.0 - click
            of /= of.sum()
            total = 0.0
            for i in range(CELLS):
                total += of[i].sum()
                self.below[ranking[p], i] = total


# learner, told which visits are false
LEARNERS = {
    "sampler told which": ("CascadeTS", True),
    "sampler told share and law": (ToldShare, False),
    "sampler told the share": (ToldShareAlone, False),
    "SteadyRank told which": ("SteadyRank", True),
    "SteadyRank": ("SteadyRank", False),
}


def regret(who, world, adversary, schedule, seeds):
    """The final regret of each seed."""
    learner, told = LEARNERS[who]
    settings = {"schedule": schedule} if learner in (ToldShare, ToldShareAlone) else {}
    settings |= {"adversary": adversary} if learner is ToldShare else {}
    profile = sr.profile(world["profile"], world.get("mapping"))
    run = sr.simulate(
        learner, profile.attraction, length=LENGTH, horizon=HORIZON, adversary=adversary, schedule=schedule,
        budget=int(RATE * HORIZON), seeds=range(seeds), settings=settings, marks=1, omniscient=told,
    )  # fmt: skip
    return run.final


def worth(attraction, ranking):
    """Clicks that people who look at places are expected to give a list."""
    return float(ATTENTION[: len(ranking)] @ attraction[ranking])


def losses_to_both(attraction, other, caution, seed):
    """Clicks a round lost by SteadyRank to users of the first taste and of the second, while the second clicks."""
    learner = make(SteadyRank, Problem(attraction.size, LENGTH), settings={"caution": caution})
    mind, world = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    allowed, ranking = np.ones(attraction.size, np.bool_), np.zeros(LENGTH, np.int64)
    best = worth(attraction, np.argsort(-attraction)[:LENGTH]), worth(other, np.argsort(-other)[:LENGTH])
    lost = np.zeros(2)
    for t in range(1, BEFORE + AFTER + 1):
        note = np.zeros(LENGTH + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        liked = attraction if t <= BEFORE else other
        clicks = world.random(LENGTH) < ATTENTION * liked[ranking]
        call_update(learner, Visit(t), ranking, note, clicks, LENGTH)
        if t > BEFORE:
            lost += best[0] - worth(attraction, ranking), best[1] - worth(other, ranking)
    return lost / AFTER


def least_loss_to_both(attraction, other):
    """Clicks a round that every list loses to both together, at least: that of the items with the largest sums."""
    both = attraction + other
    best = (worth(x, np.argsort(-x)[:LENGTH]) for x in (attraction, other))
    return sum(best) - worth(both, np.argsort(-both)[:LENGTH])


def tastes(seeds):
    """Print the losses to both kinds of users, and the bound, in every world."""
    rows = []
    for world, taste, caution in itertools.product(PROFILES, ("reversed", "permuted"), (0.0, 0.5, 1.0)):
        attraction = sr.profile(world["profile"], world.get("mapping")).attraction
        lost, least = [], []
        for seed in range(seeds):
            other = attractions_of(taste, Problem(attraction.size, LENGTH, attraction=attraction, seed=seed))
            lost.append(losses_to_both(attraction, other, caution, seed))
            least.append(least_loss_to_both(attraction, other))
        old, new = np.mean(lost, axis=0)
        ratio = np.sum(lost, axis=1) / least
        row = {"world": " ".join(world.values()), "taste": taste, "caution": caution, "old": old, "new": new,
               "least": np.mean(least), "ratio": ratio.mean(), "half": float(half_width(ratio))}  # fmt: skip
        rows.append(row)
        print(f"{row['world']:<22}{taste:<10}caution {caution}: lost to the first {old:.3f}, the second {new:.3f}; "
              f"together {ratio.mean():.2f} ± {row['half']:.2f} times the least", flush=True)  # fmt: skip
    write_table("limits-tastes", rows)


class OneItem(OtherTaste):
    """Visitors who like all items as users do, but for one: this they always click, or never."""

    __slots__ = ()

    @classmethod
    def create(cls, problem, users, budget, *, schedule="spread", item=0, click=0.0):
        liked = problem.attraction.copy()
        liked[item] = click
        return cls(Budget.create(problem, budget, schedule, N_BURSTS), Looking(users, liked))


def twins(seeds):
    """Print what is lost where an item is promoted and where it is hidden, and the least of both together."""
    rows, apart = [], RATE / (1.0 - RATE)  # what the item attracts in the two worlds
    for world, name in itertools.product((PROFILES[0], PROFILES[-1]), ("SteadyRank", "CascadeTS")):
        liked = sr.profile(world["profile"], world.get("mapping")).attraction.copy()
        *ahead, last = np.argsort(-liked, kind="stable")[:SHORT]
        item = int(np.argmin(liked))
        lost, told = [], []
        for more, click in ((-0.5, 1.0), (0.5, 0.0)):
            liked[item] = liked[last] + more * apart
            run = {"length": SHORT, "horizon": LONG, "seeds": range(seeds), "marks": 1, "adversary": OneItem,
                   "adversary_settings": {"item": item, "click": click}, "budget": int(RATE * LONG)}  # fmt: skip
            lost.append(sr.simulate(name, liked, schedule="spread", **run).final)
            told.append(sr.simulate("CascadeTS", liked, schedule="spread", omniscient=True, **run).final.mean())
        least = LONG * np.prod(1.0 - liked[ahead]) * apart / 2.0
        ratio = (lost[0] + lost[1]) / least
        row = {"world": " ".join(world.values()), "learner": name, "promoted": lost[0].mean(),
               "hidden": lost[1].mean(), "least": least, "ratio": ratio.mean(), "half": float(half_width(ratio)),
               "told": sum(told)}  # fmt: skip
        rows.append(row)
        print(f"{row['world']:<20}{name:<12}promoted {row['promoted']:>7,.0f}, hidden {row['hidden']:>7,.0f}; "
              f"together {row['ratio']:.2f} ± {row['half']:.2f} times {least:,.0f}; told {sum(told):,.0f}",
              flush=True)  # fmt: skip
    write_table("limits-twins", rows)


def hidden(seeds):
    """Print how many hidden clicks suffice by the proof, how many were used, and what they cost."""
    rows = []
    for world, (name, settings) in itertools.product((PROFILES[0], PROFILES[-1]), HIDDEN_FROM.items()):
        liked = sr.profile(world["profile"], world.get("mapping")).attraction
        order = np.argsort(-liked, kind="stable")
        best, others = order[0], liked[order[1 : SHORT + 1]]
        without = liked.copy()
        without[best] = 0.0
        run = {"length": SHORT, "horizon": LONG, "seeds": range(seeds), "marks": 1, "settings": settings}
        honest = sr.simulate(name.split()[0], without, **run).final.mean()
        beyond = np.prod(1.0 - others[:-1])  # the chance to pass the d - 1 best others
        lists = honest / (beyond * others[-1])
        enough = int(np.ceil(2.0 * liked[best] * lists))
        attacked = sr.simulate(
            name.split()[0], liked, adversary="Demote", adversary_settings={"targets": [int(best)]},
            budget=min(enough, LONG), **run,
        )  # fmt: skip
        row = {"world": " ".join(world.values()), "learner": name, "honest": honest, "enough": enough,
               "used": float(np.mean(attacked.spent)),
               "least": max(0.0, beyond * (liked[best] - others[-1]) * (LONG / 2.0 - lists)),
               "lost": attacked.final.mean()}  # fmt: skip
        rows.append(row)
        print(f"{row['world']:<20}{name:<26}honest {honest:>6,.0f}; {enough:>6,} hidden clicks are enough, "
              f"{row['used']:>6,.0f} were used; lost at least {row['least']:>6,.0f}, in fact {row['lost']:>7,.0f}",
              flush=True)  # fmt: skip
    write_table("limits-hidden", rows)


def curve(seed):
    """Regret and hidden clicks every 5,000 rounds, of a run in which the best items are hidden from the start."""
    run = sr.simulate(
        "SteadyRank", sr.profile(*SLOWEST).attraction, length=LENGTH, horizon=RECOVERING, adversary="Demote",
        budget=HIDDEN, seeds=[seed], settings={"revisit": REVISIT}, marks=RECOVERING // 5_000,
    )  # fmt: skip
    return {"marks": run.marks.tolist(), "regret": run.regret[0].tolist(), "spent": run.spent[0].tolist()}


def recovery_of(marks, regret, spent):
    """By which round the last click was hidden, and from which on every stretch loses what it may, or less."""
    marks, regret, spent = map(np.asarray, (marks, regret, spent))
    stretch = STRETCH // int(marks[0])
    more = np.nonzero(regret[stretch:] - regret[:-stretch] > MAY * STRETCH)[0]  # stretches by where they begin
    return int(marks[np.argmax(spent == spent[-1])]), int(marks[more[-1] + 1]) if more.size else 0


def after(seeds, out, part, parts):
    """Print when the last click was hidden, and how long lists went on losing more than they may."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"after-{seed}.json" for seed in range(seeds)]
    for seed in range(part - 1, seeds, parts):
        if not paths[seed].exists():
            paths[seed].write_text(json.dumps(curve(seed)))
    if parts > 1:
        return
    found = [recovery_of(**json.loads(path.read_text())) for path in paths]
    ended, well = np.array(found).T
    took = np.maximum(well - ended, 0)
    for what, rounds in (
        ("last click hidden by round", ended),
        ("from then on more lost than may be for rounds", took),
    ):
        print(f"{what} {rounds.min():,} to {rounds.max():,}, median {np.median(rounds):,.0f}")
    print(f"{np.sum(well > RECOVERING - STRETCH)} of {seeds} runs lose more than may be until their end")
    write_table("limits-after", [{"seed": i, "ended": x, "well": y} for i, (x, y) in enumerate(found)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["shares", "tastes", "twins", "hidden", "after"], default="shares")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench/limits"))
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts, and no table")
    options = parser.parse_args()
    whole = {"tastes": tastes, "twins": twins, "hidden": hidden}
    if options.what in whole:
        whole[options.what](options.seeds)
        return
    part, parts = map(int, options.part.split("/"))
    if options.what == "after":
        after(options.seeds, options.out, part, parts)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    cells = list(itertools.product(range(len(PROFILES)), ADVERSARIES, SCHEDULES))
    found = {}
    for i, (cell, who) in enumerate(itertools.product(cells, LEARNERS)):
        world, adversary, schedule = cell
        path = options.out / f"{who.replace(' ', '-')}-{world}-{adversary}-{schedule}-{options.seeds}.json"
        if i % parts == part - 1 and not path.exists():
            path.write_text(json.dumps(regret(who, PROFILES[world], adversary, schedule, options.seeds).tolist()))
        if parts == 1:
            found[cell, who] = np.array(json.loads(path.read_text()))
    if parts > 1:
        return
    rows = []
    for (world, adversary, schedule), (name, ours, told) in itertools.product(
        cells,
        [
            ("sampler told share and law", "sampler told share and law", "sampler told which"),
            ("sampler told the share", "sampler told the share", "sampler told which"),
            ("SteadyRank", "SteadyRank", "SteadyRank told which"),
            ("SteadyRank / sampler told the share", "SteadyRank", "sampler told the share"),
        ],
    ):
        cell = (world, adversary, schedule)
        a, b = found[cell, ours], found[cell, told]
        about = " ".join(str(x) for x in PROFILES[world].values())
        logs = np.log(a / b)
        rows.append(
            {"what": name, "world": about, "adversary": adversary, "schedule": schedule, "regret": a.mean(),
             "told": b.mean(), "ratio": a.mean() / b.mean(), "log": logs.mean(), "half": float(half_width(logs))}
        )  # fmt: skip
    for row in rows:
        print(f"{row['what']:<38}{row['world']:<22}{row['adversary']:<16}{row['schedule']:<8}"
              f"{row['regret']:>9,.0f}{row['told']:>9,.0f}{row['ratio']:>7.2f}")  # fmt: skip
    for name, adversary, schedule in itertools.product(
        dict.fromkeys(row["what"] for row in rows), ADVERSARIES, SCHEDULES
    ):
        of = [r["log"] for r in rows if (r["what"], r["adversary"], r["schedule"]) == (name, adversary, schedule)]
        print(f"{name:<38}{adversary:<16}{schedule:<8} geometric mean {np.exp(np.mean(of)):.2f}")
    write_table("limits", rows)


if __name__ == "__main__":
    main()
