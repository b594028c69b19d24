"""Learners with features: python bench/context.py [--seeds 5] [--segments] [--attacks | --cold | --speed].

Worlds, 500 items, 16 features, lists of 10: `films` (`contextual-films`, logits), `linear` (as the published learners
assume: probabilities are linear in the features, without effects of single items) and `nothing` (the films with
permuted features, and identical visitors: features carry no information). Regret of each learner, and as a multiple
of the best published one. `--attacks`: 15 % false visits, in one stretch and spread, as multiples of the regret of a
CascadeLinTS that never sees false visits. `--cold`: ranks of items after 20 looks. `--segments`: one list for all,
one list per segment, and pooled lists, if segments are alike, half alike and unlike; with `--attacks`, the cost of an
attack on the first one to the others. `--speed`: microseconds per round, and as a multiple of a matrix product in
NumPy.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np
from drawing import write_table

import steadyrank as sr
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_update

LENGTH = 10
PUBLISHED = [
    ("CascadeLinTS", {}),
    ("CascadeLinTS", {"sigma": 0.1}),
    ("CascadeLinUCB", {}),
    ("CascadeLinUCB", {"c": 0.3, "sigma": 0.3}),
    ("C3UCB", {}),
    ("CascadeWOFUL", {}),
    ("VAC2UCB", {}),
    ("UCBCLB", {}),
]
OURS = ("SteadyRankLinear", "CascadeMixedTS")
MODEL = "CascadeMixedTS"
ATTACKS = {
    "reversed taste, late": {"adversary": "OtherTaste", "schedule": "late"},
    "reversed taste, spread": {"adversary": "OtherTaste", "schedule": "spread"},
    "flipped bits, front": {"adversary": "PrefixFlip", "schedule": "front"},
    "flipped bits, spread": {"adversary": "PrefixFlip", "schedule": "spread"},
}


def worlds():
    """Name: attractions, features, users and their settings."""
    films = sr.profile("contextual-films")
    rng = np.random.default_rng(1)
    shuffled = films.features[rng.permutation(films.features.shape[0])]
    features = films.features.copy()
    features[:, 1:] *= 0.05  # probabilities must stay in [0, 1]
    attraction = np.clip(0.1 + features[:, 1:8].sum(1) / 4.0, 0.0, 1.0)
    return {
        "films": (films.attraction, films.features, "LogisticCascade", {"constant": 8}),
        "linear": (attraction, features, "LinearCascade", {"constant": 8, "weight": 1.0}),
        "nothing": (films.attraction, shuffled, "LogisticCascade", {"constant": 8, "weight": 0.0}),
    }


def regret(learner, settings, world, options, **attack):
    attraction, features, users, given = world
    run = sr.simulate(
        learner, attraction, features=features, users=users, users_settings=given, settings=settings, length=LENGTH,
        horizon=options.horizon, seeds=range(options.seeds), marks=1, **attack,
    )  # fmt: skip
    return float(run.final.mean())


def titled(name, settings):
    return " ".join([name, *(f"{key}={value:g}" for key, value in settings.items())])


def honest(options, chosen):
    rows = []
    for name, world in chosen.items():
        found = {titled(*who): regret(*who, world, options) for who in PUBLISHED}
        least = min(found.values())
        for who in (*OURS, *options.also):
            found[who] = regret(who, {}, world, options)
        for who, value in found.items():
            print(f"{name:8} honest  {who:32} {value:9,.0f} {value / least:7.2f}", flush=True)
            rows.append({"world": name, "attack": "honest", "learner": who, "regret": value, "ratio": value / least})
    return rows


def attacked(options, chosen):
    rows, ratios = [], {}
    for name, world in chosen.items():
        for title, attack in ATTACKS.items():
            attack = {**attack, "budget": round(0.15 * options.horizon)}
            told = regret("CascadeLinTS", {"sigma": 0.1}, world, options, omniscient=True, **attack)
            for who in (*PUBLISHED, *((each, {}) for each in (*OURS, *options.also))):
                value = regret(*who, world, options, **attack)
                ratios.setdefault(titled(*who), []).append(value / told)
                print(f"{name:8} {title:22}  {titled(*who):32} {value:9,.0f} {value / told:7.2f}", flush=True)
                rows.append({"world": name, "attack": title, "learner": titled(*who), "regret": value,
                             "ratio": value / told})  # fmt: skip
    for who, found in ratios.items():
        print(f"attacked, geometric mean  {who:32} {math.exp(np.mean(np.log(found))):7.2f}")
    return rows


def cold(seed):
    """Median distance of 100 new items from their true ranks, as a share of the items.

    The other 400 have had 100 looks each, by different visitors; each new one then has 20. Ranks are for the visitor
    whose tastes are all 0. Without features: by (a + S) / (a + b + n), a and b fitted to the 400 by moments.
    """
    attraction, features, users, given = worlds()["films"]
    n, rng = attraction.size, np.random.default_rng(seed)
    crowd = make(sr.users()[users], attraction, LENGTH, settings={"features": features, **given})
    learner = make(sr.learners()[MODEL], Problem(n, LENGTH, features=features), settings={})
    looks, clicks = np.zeros(n), np.zeros(n)
    new = rng.permutation(n)[:100]
    old = np.setdiff1d(np.arange(n), new)
    seen, note, bit = np.zeros(features.shape[1]), np.zeros(LENGTH + 4), np.zeros(1, np.bool_)
    for items, each in ((old, 100), (new, 20)):
        for t, k in enumerate(rng.permutation(np.repeat(items, each))):
            visit = Visit(t + 1, crowd.arrive(t, seen, rng), seen)
            bit[0] = rng.random() < crowd.value(visit, np.array([k]))
            call_update(learner, visit, np.array([k]), note, bit, 1)
            looks[k] += 1
            clicks[k] += bit[0]
    model = learner.model
    weight = model.weight + model.prior[0]
    theta, typical = model.shared.estimate, np.array([1.0] * 8 + [0.0] * 8 + [1.0])
    logits = (theta * typical) @ model.shared.features + (model.pull - theta @ model.cross) / weight
    rates = clicks[old] / looks[old]
    mean, spread = rates.mean(), max(rates.var() - rates.mean() / 100, 1e-6)
    strength = mean * (1 - mean) / spread - 1
    plain = (strength * mean + clicks) / (strength + looks) + 1e-9 * rng.random(n)
    true = np.argsort(np.argsort(-attraction))
    return [np.median(np.abs(np.argsort(np.argsort(-index)) - true)[new]) / n for index in (logits, plain)]


def speed(sizes=(500, 10_000)):
    """Time of learners alone: that of `Random` with the same users is subtracted. The product: [K, F] by [F, F]."""
    films = sr.profile("contextual-films")
    print(f"{'learner':16}" + "".join(f"{f'K = {k:,}: us':>16}{'x NumPy':>9}" for k in sizes))
    names, lines = ["Random", *OURS, *dict(PUBLISHED)], {}
    for k in sizes:
        copies = -(-k // 500)
        attraction, features = np.tile(films.attraction, copies)[:k], np.tile(films.features, (copies, 1))[:k]
        rounds = 20_000_000 // k
        took, products = {name: [] for name in names}, []
        for turn in range(4):  # in turns, so that other load on the machine affects all alike
            for name in names:
                begin = time.perf_counter()
                sr.simulate(
                    name, attraction, features=features, users="LogisticCascade", users_settings={"constant": 8},
                    length=LENGTH, horizon=rounds if turn else 10, seeds=[0], threads=1, marks=1,
                )  # fmt: skip
                took[name] += [1e6 * (time.perf_counter() - begin) / rounds] if turn else []
            square = np.eye(16)
            begin = time.perf_counter()
            for _ in range(rounds):
                features @ square
            products.append(1e6 * (time.perf_counter() - begin) / rounds)
        for name in names[1:]:
            own = min(took[name]) - min(took["Random"])
            lines.setdefault(name, []).append((own, own / min(products)))
    for name, found in lines.items():
        print(f"{name:16}" + "".join(f"{us:16.1f}{ratio:9.1f}" for us, ratio in found))


SEGMENTED = sr.users()["SegmentedCascade"]
SEGMENTS = 4
RANKERS = {
    "one list for all": ("SteadyRank", {}),
    "a list a segment": ("SteadyRankSegments", {"segments": SEGMENTS, "lent": 0}),
    "pooled": ("SteadyRankSegments", {"segments": SEGMENTS}),
}
ON_ONE = {  # bits flipped in visits of the first segment: when, and in what share of them
    "honest": ("front", 0.0),
    "flipped bits, the first half": ("front", 0.5),
    "flipped bits, spread over 40 %": ("spread", 0.4),
}


class AllButOne(SEGMENTED):
    """Lists for the first segment have no value, so regret is that of the others."""

    __slots__ = ()

    def value(self, visit, ranking):
        if visit.features[0] == 1.0:
            return 0.0
        miss = 1.0
        for p in range(ranking.size):
            miss *= 1.0 - self.attraction[int(visit.features[0]) - 1, ranking[p]]
        return 1.0 - miss


class OnOneSegment(NamedTuple):
    """`PrefixFlip` on visits of the first segment only."""

    flips: Any

    @classmethod
    def create(cls, problem, users, budget, *, schedule):
        return cls(make(sr.adversaries()["PrefixFlip"], problem, users, budget, settings={"schedule": schedule}))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if visit.features[0] != 1.0:
            return 0.0, examined, visit.client
        return self.flips.corrupt(visit, ranking, clicks, examined, rng)


def segments(options):
    """Regret on `yelp-pizza`: of all visits, and of the segments that are not attacked."""
    attraction, rows = sr.profile("yelp-pizza", mapping="moderate").attraction, []
    alike = {"alike": 1.0, "half alike": 0.5, "unlike": 0.0}

    def run(title, attack, who, users, n=SEGMENTS, **foe):
        learner, settings = RANKERS[who]
        people = {"users": users, "users_settings": {"segments": n, "alike": alike[title]}}
        rounds, seeds = options.horizon * n // SEGMENTS, range(options.seeds)
        whole = {"length": LENGTH, "horizon": rounds, "seeds": seeds, "marks": 1, **people, **foe}
        regret = sr.simulate(learner, attraction, settings=settings, **whole).final.mean()
        print(f"{title:10} {attack:45} {who:16} {regret:7,.0f}", flush=True)
        rows.append({"world": title, "attack": attack, "learner": who, "regret": regret})

    for title in alike:
        if not options.attacks:
            for who in RANKERS:
                run(title, "of all visits, honest", who, SEGMENTED)
                run(title, "of three segments that are alone", who, SEGMENTED, SEGMENTS - 1)
            continue
        for attack, (schedule, share) in ON_ONE.items():
            foe = {"adversary": OnOneSegment, "schedule": schedule, "budget": round(share * options.horizon)}
            for who in ("a list a segment", "pooled"):
                run(title, f"of the others, {attack}", who, AllButOne, **foe)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="+", default=list(worlds()), choices=list(worlds()))
    parser.add_argument("--also", nargs="*", default=["SteadyRank"], help="learners without features")
    parser.add_argument("--attacks", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--segments", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    chosen = {name: world for name, world in worlds().items() if name in options.worlds}
    if options.cold:
        found = np.mean([cold(seed) for seed in range(options.seeds)], 0)
        print(f"new items stand {found[0]:.1%} off their true place in the median, without features {found[1]:.1%}")
    elif options.speed:
        speed()
    elif options.segments:
        write_table("context_segments_attacks" if options.attacks else "context_segments", segments(options))
    elif options.attacks:
        write_table("context_attacks", attacked(options, chosen))
    else:
        write_table("context", honest(options, chosen))


if __name__ == "__main__":
    main()
