"""Learners by click model: python bench/click_models.py [--seeds 5] [--attacks] [--also GRAB UniRank].

python bench/click_models.py --only spread --clients     the same people and false visits, with clients and a guard

Four profiles, five click models, lists of 10. `told`: learners that are told the click model, with its true
parameters if they take any; SteadyRank, which is told nothing, is compared with the best of them. Under attack,
learners that are told do not see the false visits either. `--clients`: visits come from 8,000 clients, false ones
from 100, and SteadyRank has the guard ClientTrust.
"""

import argparse
import math
from statistics import NormalDist

import numpy as np
from drawing import write_table

import steadyrank as sr

LENGTH = 10
ETA = 0.7
TOLD = {  # by click model: the learners made for it, or for the most similar one
    "Cascade": [("CascadeTS", {}), ("CascadeKLUCB", {}), ("PIE", {})],
    "PositionBased": [("PBMTS", {"eta": ETA}), ("PBMUCB", {"eta": ETA}), ("PBMPIE", {"eta": ETA})],
    "DependentClick": [("DCMKLUCB", {}), ("CascadeTS", {}), ("PIE", {})],
    "UserBrowsing": [("PBMTS", {"eta": ETA}), ("PBMUCB", {"eta": ETA}), ("PBMPIE", {"eta": ETA})],
    "Abandoning": [("CascadeTS", {}), ("PIE", {}), ("PBMTS", {"eta": ETA}), ("PBMPIE", {"eta": ETA})],
    "Noisy": [("CascadeTS", {}), ("CascadeKLUCB", {}), ("PIE", {})],
}
ATTACKS = {"honest": {}, "late": {"adversary": "FakeUser", "schedule": "late"}, "spread": {"adversary": "FakeUser"}}


def profiles():
    """Names and attractions; the last one is synthetic: 400 items with normal logits around -2.4."""
    for name, mapping in (("yelp-pizza", "sparse"), ("movielens", "moderate"), ("lastfm-listeners", None)):
        yield f"{name} {mapping or ''}".strip(), sr.profile(name, mapping).attraction
    z = np.array([NormalDist().inv_cdf((i + 0.5) / 400) for i in range(400)])
    yield "normal logits", 1.0 / (1.0 + np.exp(2.4 - z))


def regret(learner, settings, attraction, users, attack, options, omniscient=False):
    foe = {"schedule": "spread", **ATTACKS[attack]}
    if options.clients:
        foe["users_settings"] = {"clients": 8_000}
        foe |= {"adversary_settings": {"bots": 100}} if attack != "honest" else {}
        foe |= {"guard": "ClientTrust"} if not omniscient else {}
    run = sr.simulate(
        learner, attraction, length=LENGTH, horizon=options.horizon, users=users, settings=settings, marks=1,
        seeds=range(options.seeds), budget=0 if attack == "honest" else round(0.15 * options.horizon),
        omniscient=omniscient, **foe,
    )  # fmt: skip
    return run


def mean_of(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=40_000)
    parser.add_argument(
        "--attacks", action="store_true", help="FakeUser, 15 %% of the visits, late and spread, as well"
    )
    parser.add_argument("--only", nargs="+", choices=ATTACKS, help="these alone")
    parser.add_argument("--clients", action="store_true", help="senders, and a guard for SteadyRank")
    parser.add_argument("--also", nargs="*", default=[], help="learners that are shown beside these")
    options = parser.parse_args()
    rows, ratios = [], {}
    for attack in options.only or (ATTACKS if options.attacks else ["honest"]):
        for users, told in TOLD.items():
            for name, attraction in profiles():
                own = regret("SteadyRank", {}, attraction, users, attack, options)
                others = {
                    learner: regret(
                        learner, given, attraction, users, attack, options, attack != "honest"
                    ).final.mean()
                    for learner, given in told
                }
                also = {n: regret(n, {}, attraction, users, attack, options).final.mean() for n in options.also}
                ratio = own.final.mean() / min(others.values())
                ratios.setdefault((attack, users), []).append(ratio)
                seen = "  ".join(f"{n} {r:,.0f}" for n, r in {**others, **also}.items())
                print(
                    f"{attack:7} {users:15} {name:20} {ratio:5.2f}  SteadyRank {own.final.mean():,.0f}  {seen}",
                    flush=True,
                )
                world = {"attack": attack, "users": users, "profile": name}
                every = {"SteadyRank": own.final.mean(), **others, **also}
                rows += [{**world, "learner": n, "regret": r, "told": n in others} for n, r in every.items()]
                if users == "PositionBased" and attack == "honest":
                    true = np.arange(1, LENGTH + 1.0) ** -ETA
                    worst = max(np.abs(np.array(view.attention) - true).max() for view in own.views)
                    print(f"        attention is off by {worst:.3f} at most, at any place and seed")
    for (attack, users), found in ratios.items():
        print(f"{attack:7} {users:15} geometric mean {mean_of(found):.2f}, worst {max(found):.2f}")
    for attack in {attack for attack, _ in ratios}:
        every = [x for (a, u), found in ratios.items() if a == attack and u != "Cascade" for x in found]
        print(f"{attack:7} five users: geometric mean {mean_of(every):.2f}, worst {max(every):.2f}")
    write_table("click_models", rows)


if __name__ == "__main__":
    main()
