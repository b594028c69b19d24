"""Rank films for visitors from a cold start, with and without features: python examples/cold_start.py.

500 films without any clicks, and simulated visitors of the bundled world `contextual-films`, who look at a list
from the top and click the first film they like. Seven qualities and four tastes of a film are known, and the
same four tastes of a visitor; four more tastes that decide what visitors like are unknown.
"""

import argparse

import numpy as np

import steadyrank as sr

QUALITIES, TASTES, TOLD = 7, 8, 4

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--visits", type=int, default=3_000)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()

world = sr.profile("contextual-films")
logits = np.log(world.attraction / (1 - world.attraction))  # of a visitor without any taste
qualities = world.features[:, 1 : 1 + QUALITIES]
tastes = world.features[:, 1 + QUALITIES :]
titles = [f"film {k + 1}" for k in range(len(logits))]
number = {title: k for k, title in enumerate(titles)}

# each feature is declared by its range, and given by name
space = sr.FeatureSpace(
    {f"quality {i + 1}": [-4, 4] for i in range(QUALITIES)} | {f"taste {i + 1}": [-2, 2] for i in range(TOLD)},
    {f"likes taste {i + 1}": [-1, 1] for i in range(TOLD)},
)
films = {
    title: {f"quality {i + 1}": qualities[k, i] for i in range(QUALITIES)}
    | {f"taste {i + 1}": tastes[k, i] for i in range(TOLD)}
    for k, title in enumerate(titles)
}


def clicked(ranker: sr.Ranker, told: bool) -> list[int]:
    """The visits that ended with a click."""
    rng, found = np.random.default_rng(options.seed), []
    for visit in range(options.visits):
        likes = rng.uniform(-1, 1, TASTES)
        chances = 1 / (1 + np.exp(-logits - tastes @ likes))
        wanted = rng.random(len(titles)) < chances  # the same visitors for both rankers
        known = {f"likes taste {i + 1}": likes[i] for i in range(TOLD)} if told else None
        shown = ranker.rank(features=known)
        first = next((title for title in shown.items if wanted[number[title]]), None)
        ranker.feedback(shown.id, clicked=first)
        if first is not None:
            found.append(visit)
    return found


plain = clicked(sr.Ranker(titles, 10, seed=options.seed), told=False)
ranker = sr.Ranker(films, 10, "SteadyRankLinear", features=space, seed=options.seed)
knowing = clicked(ranker, told=True)

step = max(options.visits // 6, 1)
print(f"{'visits':>15} {'SteadyRank':>12} {'with features':>14}   lists with a click")
for start in range(0, options.visits, step):
    end = min(start + step, options.visits)
    shares = [
        np.mean([start <= visit < end for visit in each]) * len(each) / (end - start) for each in (plain, knowing)
    ]
    print(f"{start + 1:>6,} to {end:>5,} {shares[0]:>12.0%} {shares[1]:>14.0%}")
print(f"in all: {len(plain):,} and {len(knowing):,} clicks")

share, effects = ranker.worth()
print(f"\nfeatures explain {share:.0%} of the differences between films; the strongest:")
for label, effect in effects[:5]:
    print(f"  {label:32} {effect:+.2f} standard deviations of a click's logit")
