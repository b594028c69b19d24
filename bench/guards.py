"""The effect of guards: regret as a multiple of the omniscient CascadeTS, under attacks by many identities.

python bench/guards.py                       all parts, 4 profiles, 3 attacks, 3 seeds, client taste 0 and 0.7
python bench/guards.py --parts spread honest --seeds 1 --profiles 2 --tastes 0.7 --bots 100
python bench/guards.py --parts names cohorts --seeds 0 --tastes 0.7 --jobs 2

The part `buyers` has people of whose clicks 2 % lead to an outcome, and 1,000 bots whose clicks never do; its
multiples are of SteadyRank that never sees the bots' visits. The parts `names` and `cohorts` have honest populations
of 40 to 8,000 clients against bots with few, many and new names: the cost of the guard to honest users, in visits
that are not learnt from and in the worth of their lists.
"""

import argparse
import concurrent.futures
import itertools
import math
import multiprocessing
import time
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import steadyrank as sr
from steadyrank.adversaries.budget import Budget, can_spend, remember, settle
from steadyrank.adversaries.schedules import Schedule, active_rounds
from steadyrank.core.contract import ANSWER, Visit
from steadyrank.core.dispatch import call_click, call_value
from steadyrank.core.rounds import FIRST_BOT
from steadyrank.live.learner_state import LearnerState

LENGTH, HORIZON, RATE = 10, 40_000, 0.15
CROWD = {"clients": 8000, "skew": 0.8}
TWO = {"tastes": 2, "minority": 0.3}
PARTS = (
    "spread",
    "front",
    "honest",
    "minority",
    "both",
    "sleeper",
    "chameleon",
    "names",
    "cohorts",
    "nameless",
    "buyers",
    "time",
)
POPULATIONS, NAMES, RATES = (40, 100, 300, 1_500, 8_000), (20, 300, 0), (0.02, 0.05, 0.15)
COHORTS = 40  # of honest clients
COHORT_ROUNDS = 16_000  # as many as a guard remembers
BUYERS, NEVER_BUY = {"chance": 0.02, "spread": 0.0}, 1e-6
BOTS = 1_000  # against buyers
FRAMED = "framed"  # bots in the cohorts of honest clients


def profiles():
    """Names and attractions; the last one is synthetic: 400 items with normal logits around -2.4."""
    for name, mapping in (("yelp-pizza", "sparse"), ("movielens", "moderate"), ("lastfm-listeners", None)):
        found = sr.profile(name, mapping=mapping) if mapping else sr.profile(name)
        yield f"{name} {mapping or ''}".strip(), found.attraction
    z = np.array([NormalDist().inv_cdf((i + 0.5) / 400) for i in range(400)])
    yield "normal logits", 1.0 / (1.0 + np.exp(2.4 - z))


def attacks(n_items):
    """Bots with the reversed taste, promoters of half of the items, promoters of ten items against the best ten."""
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
                marks=sorted({max(round(rate * self.horizon), 1), 3 * self.horizon // 4, self.horizon}),
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

    def join(self, rows):
        """Add the rows of another table."""
        for name, values in rows.items():
            self.rows.setdefault(name, []).extend(values)

    def show(self):
        for name, values in self.rows.items():
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{name:58} {mean:7.3f} / {max(values):.3f}   ({len(values)} runs)")


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
    """Regret before and after the end, the first mark, of an attack that begins with the first round."""
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


def names(bench, table, world, seed, taste, populations):
    """Small and large honest populations against bots with 20, 300 and fresh names, each sender a client."""
    for clients, owned, rate in itertools.product(populations, NAMES, RATES):
        users = {"clients": clients}
        for title, adversary, settings in (*attacks(world[1].size), ("crawler", Crawler, {})):
            foe = {"adversary": adversary, "schedule": "spread", "rate": rate, "users": users}
            foe["adversary_settings"] = {**settings, "bots": owned}
            open_, run = (
                bench.run(world, "SteadyRank", seed, taste, guard=g, **foe) for g in ("Anyone", bench.guard)
            )
            lost = worth(open_, world, taste, users) - worth(run, world, taste, users)
            refused = (run.refused[0, :2] + run.retracted[0, :2]).sum() / run.visits[0, :2].sum()
            told = (run.refused[0, 2] + run.retracted[0, 2]) / max(run.visits[0, 2], 1)
            judge(table, f"names, {clients} clients", refused, lost)
            if owned == 20 and adversary != Crawler:
                table.add("names, 20 bots: not found, % of their visits", 100 * (1 - told))
            said = f"{run.final[0] / open_.final[0]:.2f} of the regret without, worth {-lost:+.4f}"
            report(world, seed, taste, f"{clients} clients, {owned or 'fresh'} at {rate:.0%}, {title}", said, run)


def judge(table, name, refused, lost):
    """Record the cost of the guard to honest users."""
    table.add(f"{name}: honest visits not learnt from, %", 100 * refused)
    table.add(f"{name}: worth lost, %", 100 * max(lost, 0.0))


def worth(run, world, taste, users):
    """The worth of the lists of the last quarter, as a share of that of the best list."""
    crowd = sr.users()["Cascade"].create(world[1], LENGTH, **{**CROWD, "taste": taste, **users})
    best = call_value(crowd, Visit(1), crowd.favourites)
    began = run.marks.tolist().index(3 * run.marks[-1] // 4)
    return 1.0 - (run.final[0] - run.regret[0, began]) / (run.marks[-1] - run.marks[began]) / best


def nameless(bench, table, world, seed, taste):
    """Visits without client names: SteadyRank against CascadeTS, bots spread evenly, in bursts, and inside bursts."""
    budget = round(RATE * bench.horizon)
    for title, adversary, settings in attacks(world[1].size):
        for schedule in ("spread", "bursts"):
            active = active_rounds(schedule, bench.horizon, budget, seed, n_bursts=5).astype(np.int64)
            edges = np.flatnonzero(np.diff(active)) if schedule == "bursts" else np.array([], np.int64)
            marks = sorted({*edges[edges > 0].tolist(), bench.horizon})
            foe = {"adversary": adversary, "adversary_settings": settings, "schedule": schedule, "budget": budget}
            ours, theirs = (
                sr.simulate(
                    learner,
                    world[1],
                    length=LENGTH,
                    horizon=bench.horizon,
                    seeds=[seed],
                    marks=marks,
                    threads=1,
                    **foe,
                )
                for learner in ("SteadyRank", "CascadeTS")
            )
            table.add(f"nameless, {schedule}, multiple of CascadeTS", ours.final[0] / theirs.final[0])
            if schedule == "bursts":
                best = 1.0 - np.prod(1.0 - np.sort(world[1])[-LENGTH:])
                inside = active[np.array(ours.marks)] == 1
                for name, run in (("SteadyRank", ours), ("CascadeTS", theirs)):
                    lost = np.diff(run.regret[0], prepend=0.0)[inside].sum()
                    rounds = np.diff(run.marks, prepend=0)[inside].sum()
                    table.add(f"nameless, worth of the lists inside bursts, {name}", 1.0 - lost / rounds / best)
            regrets = f"{ours.final[0]:.0f} and {theirs.final[0]:.0f}"
            print(f"  {world[0]:20} seed {seed}: nameless, {schedule}, {title}: {regrets}", flush=True)


def buyers(bench, table, world, seed, taste):
    """Bots with few visits each, while people buy, with a guard that learns of purchases and one that does not."""
    for title, adversary, settings in attacks(world[1].size):

        def run(chance=BUYERS["chance"], omniscient=False, adversary=adversary, settings=settings, **more):
            return sr.simulate(
                "SteadyRank", world[1], length=LENGTH, horizon=bench.horizon, seeds=[seed], users="Buyers",
                users_settings={**CROWD, **BUYERS, "taste": taste, "chance": chance}, adversary=adversary,
                adversary_settings={**settings, "bots": BOTS}, schedule="spread", budget=round(RATE * bench.horizon),
                guard=bench.guard, guard_settings={**bench.settings, **more}, omniscient=omniscient,
                marks=[bench.horizon // 4, bench.horizon], threads=1,
            )  # fmt: skip

        told = run(omniscient=True).regret[0] / BUYERS["chance"]
        for name, one, chance in (
            ("outcomes known", run(), BUYERS["chance"]),
            ("none known", run(chance=NEVER_BUY), NEVER_BUY),
            ("nobody refused", run(most=0.0), BUYERS["chance"]),
        ):
            regret = one.regret[0] / chance
            table.add(f"buyers, {name}", regret[-1] / told[-1])
            table.add(f"buyers, {name}, {title}", regret[-1] / told[-1])
            table.add(f"buyers, {name}, after the first quarter", (regret[-1] - regret[0]) / (told[-1] - told[0]))
            report(world, seed, taste, f"buyers, {name}, {title}", f"{regret[-1] / told[-1]:.2f}", one)


class Crawler(NamedTuple):
    """A visitor who never clicks."""

    budget: Budget
    users: Any

    cascade = True

    @classmethod
    def create(cls, problem, users, budget, *, schedule: Schedule = "front", bots: int | None = None):
        return cls(Budget.create(problem, budget, schedule, 1, bots), users)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        remember(self.budget, clicks, ranking.size)
        clicks[:] = False
        return settle(self.budget, self.users, visit, clicks, ranking.size, examined, -1)


class Outcome(NamedTuple):
    """The result of a run: shares of honest and false visits not learnt from, worth of the last quarter's lists."""

    refused: float
    found: float
    worth: float


def cohorts(bench, table, world, seed, taste, populations):
    """As `names`, but each bot's visit has a new name, and guards judge cohorts, which bots choose.

    Honest clients are in 40 cohorts. Bots are in 20, 300 or new ones of their own, or in 20 of the honest ones.
    """
    for clients, rate in itertools.product(populations, RATES):
        open_ = by_cohort(world, seed, taste, clients, 0, rate, "Anyone", {})
        for owned in (*NAMES, FRAMED):
            run = by_cohort(world, seed, taste, clients, owned, rate, bench.guard, bench.settings)
            part = FRAMED if owned == FRAMED else "cohorts"
            judge(table, f"{part}, {clients} clients", run.refused, open_.worth - run.worth)
            print(
                f"  {world[0]:20} seed {seed} taste {taste}: {clients} clients, {owned or 'fresh'} cohorts at "
                f"{rate:.0%}: honest not learnt from {run.refused:.4f}, false {run.found:.3f}, "
                f"worth {run.worth - open_.worth:+.4f}",
                flush=True,
            )


def by_cohort(world, seed, taste, clients, owned, rate, guard, settings):
    """Simulate users in cohorts, and bots with the reversed taste, against a live ranker."""
    rng, attraction = np.random.default_rng(seed), world[1]
    users = sr.users()["Cascade"].create(attraction, LENGTH, **{**CROWD, "taste": taste, "clients": clients})
    order = np.argsort(attraction, kind="stable")
    likes = np.empty_like(attraction)
    likes[order] = attraction[order[::-1]]
    items = [str(k) for k in range(attraction.size)]
    state = LearnerState(items, LENGTH, "SteadyRank", {}, seed, 0.2, guards=[(guard, settings)])
    value, false, learnt = (
        np.zeros(COHORT_ROUNDS),
        rng.random(COHORT_ROUNDS) < rate,
        np.zeros(COHORT_ROUNDS, np.bool_),
    )
    clicks, taken_back = np.zeros(LENGTH, np.bool_), []
    for post in state.gate.posts:
        if post.retracts:
            post.forget = noting(post.forget, taken_back)
    for t in range(COHORT_ROUNDS):
        client = FIRST_BOT + t if false[t] else int(np.searchsorted(users.senders.upto, rng.random()))
        cohort = cohort_of_bot(owned, t, rng) if false[t] else client % COHORTS
        visit = Visit(t + 1, client)
        ranking, note = state.rank(visit, None, LENGTH, rng)
        value[t] = call_value(users, visit, ranking)
        if false[t]:
            clicks[:] = rng.random(LENGTH) < likes[ranking]
            examined = int(clicks.argmax()) + 1 if clicks.any() else LENGTH
            clicks[examined:] = False
        else:
            examined = call_click(users, visit, ranking, clicks, rng)
        learnt[t] = state.learn(visit, ranking, note, clicks.copy(), examined, ANSWER, [("agent", cohort)])
    learnt[taken_back] = False
    best = call_value(users, Visit(1), users.favourites)
    last = value[3 * COHORT_ROUNDS // 4 :].mean() / best
    return Outcome(1.0 - learnt[~false].mean(), 1.0 - learnt[false].mean(), last)


def noting(forget, taken_back):
    """Wrap `forget` to record the indices of the visits that it is called for."""

    def noted(learner, visit, *rest):
        taken_back.append(visit.t - 1)
        forget(learner, visit, *rest)

    return noted


def cohort_of_bot(owned, t, rng):
    """The cohort that a bot claims."""
    if owned == FRAMED:
        return int(rng.integers(20))
    return COHORTS + (t if owned == 0 else int(rng.integers(owned)))


def clock(bench, table, world, repeats=5):
    """Time of a run relative to that without a guard: interleaved runs, the minimum of each."""
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
    parser.add_argument("--populations", type=int, nargs="+", default=POPULATIONS, help="of `names` and `cohorts`")
    parser.add_argument("--guard", default="ClientTrust")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--horizon", type=int, default=HORIZON)
    parser.add_argument("--setting", nargs="*", default=[], help="of the guard: name=value")
    chosen = parser.parse_args()
    settings = {name: float(v) if "." in v else int(v) for name, v in (s.split("=") for s in chosen.setting)}
    tasks = [
        (chosen, settings, i, seed, taste, part)
        for part, i, seed, taste in itertools.product(chosen.parts, chosen.profiles, chosen.seeds, chosen.tastes)
        if part != "time"
    ]
    table = Table()
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(chosen.jobs, mp_context=spawned) as pool:
        for rows in pool.map(play, tasks) if chosen.jobs > 1 else map(play, tasks):
            table.join(rows)
    for i, world in enumerate(profiles()):
        if "time" in chosen.parts and i in chosen.profiles:
            clock(Bench(chosen.guard, settings, chosen.horizon), table, world)
    table.show()


def play(task):
    """The multiples of one part, profile, seed and taste, by their names."""
    chosen, settings, i, seed, taste, part = task
    world, table, bench = list(profiles())[i], Table(), Bench(chosen.guard, settings, chosen.horizon)
    if part in ("spread", "front"):
        attacked(bench, table, world, seed, taste, part, chosen.bots)
    elif part in ("sleeper", "chameleon"):
        knowing(bench, table, world, seed, taste, part.capitalize())
    elif part in ("names", "cohorts"):
        {"names": names, "cohorts": cohorts}[part](bench, table, world, seed, taste, chosen.populations)
    else:
        of_part = {"honest": honest, "minority": minority, "both": both, "nameless": nameless, "buyers": buyers}
        of_part[part](bench, table, world, seed, taste)
    return table.rows


if __name__ == "__main__":
    main()
