"""What it costs that only clicks are reported, and that somebody is silent: python bench/silence.py [--seeds 8].

6,000 visitors of a ranker with 100 items. Worth: the mean chance of a click on a list, over that on the best one.
`answered`: non-clicks are reported as well; `clicks alone`: they are not; `and silence`: after 2,000 visitors, 2,500
lists that nobody answers, whose worth is not counted.
"""

import argparse

import numpy as np

import steadyrank as sr

VISITS, BEFORE, SILENT, ITEMS, LENGTH = 6_000, 2_000, 2_500, 100, 10


def attraction(world, rng):
    if world == "few clicks":
        return rng.beta(1, 30, ITEMS)
    if world == "many clicks":
        return rng.beta(1, 8, ITEMS)
    return rng.permutation(sr.profile(world).attraction)[:ITEMS]


def run(world, seed, clicks_alone, silent):
    """Worth of the lists, and changes of regime."""
    rng, now = np.random.default_rng(seed), [0.0]
    liked = attraction(world, rng)
    ranker = sr.Ranker(map(str, range(liked.size)), LENGTH, seed=seed, lifetime=50.0, clock=lambda: now[0])
    best, worth = 1 - np.prod(1 - np.sort(liked)[-LENGTH:]), []
    for t in range(VISITS):
        for _ in range(SILENT if silent and t == BEFORE else 0):
            now[0] += 1.0
            ranker.rank()
        now[0] += 1.0
        shown = ranker.rank()
        chance = liked[[int(item) for item in shown.items]]
        worth.append((1 - np.prod(1 - chance)) / best)
        clicks = rng.random(LENGTH) < chance
        if clicks.any():
            ranker.feedback(shown.id, position=int(np.argmax(clicks)) + 1)
        elif not clicks_alone:
            ranker.feedback(shown.id, clicked=None)
    return np.mean(worth), ranker.view().n_changes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    print(f"{'world':<18}{'reported':<26}{'worth':>8}{'error':>8}{'changes of regime':>20}")
    for world in ("few clicks", "many clicks", "lastfm-listeners"):
        for words, clicks_alone, silent in (
            ("answered", False, False),
            ("clicks alone", True, False),
            ("answered, and silence", False, True),
            ("clicks alone, and silence", True, True),
        ):
            found = [run(world, seed, clicks_alone, silent) for seed in seeds]
            worth = [one for one, _ in found]
            error = np.std(worth, ddof=1) / np.sqrt(len(worth)) if len(worth) > 1 else np.nan
            print(
                f"{world:<18}{words:<26}{np.mean(worth):>8.3f}{error:>8.3f}{sum(n for _, n in found):>20}", flush=True
            )


if __name__ == "__main__":
    main()
