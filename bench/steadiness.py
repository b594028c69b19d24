"""Measure the properties that SteadyRank claims: python bench/steadiness.py [--seeds 20] [PART ...].

Parts: honest (regimes opened, regret against CascadeTS), bursts (changes of regime and detection delay under one
attack in one stretch), regret (the terms of the regret argument), insurance (its cost and benefit), drift, jump, late
(non-clicks reported 3,000 rounds late), items (a new item better than all others), cost. By default all; all but
`honest` with a fifth of the seeds.
"""

import argparse
import statistics
import time

import numpy as np

import steadyrank as sr
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit, memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.evaluation.profiles import mappings

SteadyRank = sr.learners()["SteadyRank"]
ROUNDS = 40_000
ATTACKS = ["PrefixFlip", "AttractionFlip", "FakeUser", "Swap", "Promote", "Demote"]


def worlds():
    """Profiles of 50 items and more under every mapping, and two around 1/2, where regimes are hard to separate."""
    for name in sr.profiles():
        for mapping in mappings(name) or [None]:
            attraction = sr.profile(name, mapping).attraction
            if attraction.size >= 50:
                yield f"{name} {mapping or ''}".strip(), attraction
    for name in ("yelp-pizza", "movielens"):
        odds = np.log(1 / sr.profile(name, "moderate").attraction - 1)
        yield f"{name} sigmoid(r - 4)", 1 / (1 + np.exp(odds - 1))


def play(learner, attraction, seeds, **options):
    return sr.simulate(learner, attraction, length=10, horizon=ROUNDS, seeds=range(seeds), **options)


def honest(seeds):
    print(f"\nhonest users, {seeds} seeds\n{'':<38}{'runs with a 2nd regime':>24}{'regret':>10}{'of CascadeTS':>14}")
    ratios = []
    for name, attraction in worlds():
        run, other = play("SteadyRank", attraction, seeds), play("CascadeTS", attraction, seeds)
        opened = sum(len(view.regimes) > 1 for view in run.views)
        ratios.append(run.final.mean() / other.final.mean())
        print(f"{name:<38}{opened:>24}{run.final.mean():>10.1f}{ratios[-1]:>14.2f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, most {max(ratios):.2f}")


def bursts(seeds):
    """The attack's last round follows from the budget spent; delays count from the first that could be noticed."""
    print(f"\none attack in one stretch, {seeds} seeds, six attacks\n{'':<38}", end="")
    print(f"{'':>12}{'changes, most':>15}{'delay of notice, start':>24}{'end':>8}  (rounds, median)")
    for name, attraction in worlds():
        for schedule, rate in (("front", 0.05), ("front", 0.25), ("late", 0.15)):
            changes, starts, ends = [], [], []
            for attack in ATTACKS:
                budget = int(rate * ROUNDS)
                run = play(
                    "SteadyRank", attraction, seeds, adversary=attack, schedule=schedule, budget=budget, marks=ROUNDS
                )
                for view, spent in zip(run.views, run.spent, strict=True):
                    changes.append(view.n_changes)
                    first, last = (int(np.argmax(spent >= x)) + 1 for x in (1, spent[-1]))
                    noticed = [change.noticed for change in view.changes]
                    starts += [t - first for t in noticed if first < t <= last][:1]
                    ends += [t - last for t in noticed if t > last][:1]
            shown = [f"{statistics.median(part):.0f}" if part else "-" for part in (starts, ends)]
            print(f"{name:<38}{schedule:>8}{rate:>4.0%}{max(changes):>15}{shown[0]:>24}{shown[1]:>8}", flush=True)


def regret(seeds):
    """The terms of the regret argument in docs/steadyrank-proofs.md for an attack in rounds 20,001 to 26,000."""
    start, end = ROUNDS // 2, ROUNDS // 2 + 6_000
    marks = [start, end, end + 500, ROUNDS]
    print(
        f"\none attack of 6,000 rounds after 20,000, {seeds} seeds: loss a round and its bound, and the loss after it"
    )
    print(f"{'':<38}{'':>16}{'before':>9}{'attack':>8}{'bound':>8}{'500 after':>11}{'then':>8}{'CascadeTS':>11}")
    created = SteadyRank.create(Problem(10, 10))
    weight = (1 - created.insurance) * created.caution * (1 - (end - start + created.window) / start)
    for name, attraction in unsaturated():
        bound = min(1.0, 1 / (weight * (1 + 10 * np.sort(attraction)[-10])))
        for attack in ("PrefixFlip", "FakeUser", "Swap"):
            options = {"adversary": attack, "schedule": "late", "budget": end - start, "marks": marks}
            run, other = (play(learner, attraction, seeds, **options) for learner in ("SteadyRank", "CascadeTS"))
            loss, trusting = (np.diff(r.regret.mean(0), prepend=0) / np.diff(marks, prepend=0) for r in (run, other))
            shown = f"{loss[0]:>9.4f}{loss[1]:>8.3f}{bound:>8.2f}{loss[2]:>11.3f}{loss[3]:>8.4f}{trusting[1]:>11.3f}"
            print(f"{name:<38}{attack:>16}{shown}", flush=True)


def insurance(seeds):
    """The cost of insured places to honest users; loss per round while every click is inverted, with its bound.

    The bound is that of docs/steadyrank-proofs.md for a learner that has learnt the inverted world; the maximum is 1.
    """
    rounds, weight = ROUNDS // 4, SteadyRank.create(Problem(10, 10)).insurance
    print(f"\ninsurance {weight:g}, {seeds} seeds: regret with honest users; loss a round, inverted from round 1")
    print(f"{'':<38}{'with':>9}{'without':>9}{'with':>9}{'without':>9}{'Random':>9}{'bound':>8}{'CascadeTS':>11}")
    attack = {"adversary": "PrefixFlip", "budget": rounds, "marks": [rounds, ROUNDS]}
    for name, attraction in worlds():
        shown = [play("SteadyRank", attraction, seeds, settings=s).final.mean() for s in ({}, {"insurance": 0})]
        for learner, settings in (("SteadyRank", {}), ("SteadyRank", {"insurance": 0}), ("Random", {})):
            run = play(learner, attraction, seeds, settings=settings, **attack)
            shown.append(run.regret[:, 0].mean() / rounds)
        insured = play("CascadeTS", attraction, seeds, settings={"insurance": weight}, **attack)
        q, p = np.sort(1 - attraction)[-10], np.sort(attraction)[-10]
        share = p * q / (p + q)
        bound = min(1.0, *(((1 - q) ** j / weight + 1) * (1 - share) ** (10 - j) for j in range(11)))
        print(
            f"{name:<38}{shown[0]:>9.1f}{shown[1]:>9.1f}{shown[2]:>9.4f}{shown[3]:>9.4f}{shown[4]:>9.4f}{bound:>8.2f}"
            f"{insured.regret[:, 0].mean() / rounds:>11.4f}",
            flush=True,
        )


def unsaturated():
    return [(name, attraction) for name, attraction in worlds() if "saturated" not in name]


def drift(seeds):
    print(
        f"\ntastes that drift by up to 0.1, {seeds} seeds\n{'':<38}{'':>12}{'regimes, most':>15}{'of CascadeTS':>14}"
    )
    for name, attraction in unsaturated():
        for settings in ({"span": ROUNDS}, {"span": 20_000}, {"pattern": "daily", "span": 4_000}):
            options = {"users": "DriftingCascade", "users_settings": settings}
            run, other = (play(learner, attraction, seeds, **options) for learner in ("SteadyRank", "CascadeTS"))
            most = max(len(view.regimes) for view in run.views)
            kind = f"{settings.get('pattern', 'slow')} {settings['span'] // 1000}k"
            print(f"{name:<38}{kind:>12}{most:>15}{run.final.mean() / other.final.mean():>14.2f}", flush=True)


def jump(seeds):
    """Loss per round: probability of a click lost against the best list of the round."""
    print(f"\nthe ten best items change at round 20,000, {seeds} seeds: loss a round in rounds after it")
    print(f"{'':<38}{'':>12}{'before':>8}{'0-100':>8}{'2k-3k':>8}{'10k-20k':>9}")
    marks = [19_000, 20_000, 20_100, 22_000, 23_000, 30_000, ROUNDS]
    for name, attraction in unsaturated():
        for learner in ("SteadyRank", "CascadeTS"):
            run = play(
                learner, attraction, seeds, users="DriftingCascade", marks=marks,
                users_settings={"pattern": "jump", "span": 20_000},
            )  # fmt: skip
            loss = np.diff(run.regret.mean(0)) / np.diff(marks)
            print(f"{name:<38}{learner:>12}{loss[0]:>8.3f}{loss[1]:>8.3f}{loss[3]:>8.3f}{loss[5]:>9.3f}", flush=True)


def lived_through(attraction, rounds, seed, delay=0, allowed=None):
    """Run a learner as a live service does: it learns of each round `delay` rounds later, in order."""
    learner = make(SteadyRank, Problem(attraction.size, 10, seed=seed), settings={})
    mind, world = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    every, told, rank, update = np.ones(attraction.size, np.bool_), [], None, None
    for t in range(1, rounds + 1):
        may = every if allowed is None else allowed(t)
        ranking, note = np.zeros(10, np.int64), np.zeros(10 + NOTE_EXTRA)
        rank = rank or call_rank.bind(learner, Visit(t), may, ranking, note, mind)
        rank(learner, Visit(t), may, ranking, note, mind)
        bits = world.random(10) < attraction[ranking]
        examined = int(np.argmax(bits)) + 1 if bits.any() else 10
        bits[examined:] = False
        told.append((Visit(t), ranking, note, bits, examined))
        if t > delay:
            update = update or call_update.bind(learner, *told[t - delay - 1])
            update(learner, *told[t - delay - 1])
    return learner


def late(seeds, delay=3_000):
    """Late non-clicks: clicks are known at once, but feedback is applied in order of impressions."""
    print(f"\nfeedback {delay:,} rounds late, in impression order, {seeds} seeds")
    for name, attraction in unsaturated():
        learners = [lived_through(attraction, 20_000, seed, delay) for seed in range(seeds)]
        print(f"{name:<38}regimes {max(len(x.view().regimes) for x in learners)} at most", flush=True)


def items(seeds):
    """100 equal items, and a far better one that may be shown from round 2,001 on, which is not an attack."""
    print(f"\na new item better than 100 others, {5 * seeds} seeds: runs with a 2nd regime")
    new = np.arange(101) == 100
    for base, better in ((0.05, 0.6), (0.05, 0.9), (0.1, 0.6), (0.1, 0.9)):
        attraction = np.where(new, better, base)
        learners = [
            lived_through(attraction, 6_000, seed, allowed=lambda t: ~new | (t > 2_000)) for seed in range(5 * seeds)
        ]
        print(f"others {base}, new {better}: {sum(len(x.view().regimes) > 1 for x in learners)}", flush=True)


def cost(seeds):
    print("\ntime of 40,000 rounds against CascadeTS, both in this run; K about 500")
    for name, attraction in unsaturated():
        for options in ({}, {"adversary": "FakeUser", "schedule": "late", "budget": 6_000}):
            took = dict.fromkeys(("CascadeTS", "SteadyRank"), np.inf)
            for turn in range(6):  # in turns, so that other load affects both; the first one compiles
                for learner, least in took.items():
                    begin = time.process_time()
                    play(learner, attraction, 1, threads=1, **options)
                    took[learner] = min(least, time.process_time() - begin) if turn else least
            kind = options.get("adversary", "honest")
            print(f"{name:<38}{kind:>10}{took['SteadyRank'] / took['CascadeTS']:>8.2f}", flush=True)
    learner = make(SteadyRank, Problem(500, 10), settings={})
    print(f"memory: {sum(array.nbytes for _, array in memory(learner)) / 500:.0f} bytes an item at K = 500")
    rng, allowed, times = np.random.default_rng(0), np.ones(500, np.bool_), []
    ranking, note, bits = np.zeros(10, np.int64), np.zeros(10 + NOTE_EXTRA), np.zeros(10, np.bool_)
    rank = call_rank.bind(learner, Visit(1), allowed, ranking, note, rng)
    update = call_update.bind(learner, Visit(1), ranking, note, bits, 10)
    for t in range(1, 20_001):
        begin = time.perf_counter()
        rank(learner, Visit(t), allowed, ranking, note, rng)
        update(learner, Visit(t), ranking, note, bits, 10)
        times.append(time.perf_counter() - begin)
    print(
        f"live: rank + update {1e6 * statistics.median(times):.0f} us in the median, {1e6 * max(times):.0f} at most"
    )


PARTS = {
    "honest": honest, "bursts": bursts, "regret": regret, "insurance": insurance, "drift": drift, "jump": jump,
    "late": late, "items": items, "cost": cost,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    for part in options.part or PARTS:
        PARTS[part](options.seeds if part == "honest" else max(options.seeds // 5, 1))


if __name__ == "__main__":
    main()
