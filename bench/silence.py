"""The cost of reporting only clicks, and of lists without answers: python bench/silence.py [PART].

6,000 visitors of a ranker with 100 items. Worth: the mean probability of a click on a list, over that on the best
one. `answered`: non-clicks are reported as well; `clicks alone`: they are not; `and silence`: after 2,000 visitors
come 2,500 lists that nobody answers, whose worth is not counted.

Part `selective`: 15 % of 8,000 visits are of bots with 100 identities, who answer with a click on their target if it
is shown, and else not at all: the rank of the target at the end, with and without a guard.
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
    """The worth of the lists, and the number of changes of regime."""
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


def selective(seed, guard, bots=100, visits=8_000):
    """The target's rank by estimated attraction, 1 for the best, and the worth of the last 2,000 lists."""
    rng, now = np.random.default_rng(seed), [0.0]
    liked = attraction("many clicks", rng)
    target = int(np.argsort(liked)[ITEMS // 4])
    options = {"seed": seed, "lifetime": 50.0, "guard": guard, "clock": lambda: now[0]}
    ranker = sr.Ranker(map(str, range(liked.size)), LENGTH, **options)
    best, worth = 1 - np.prod(1 - np.sort(liked)[-LENGTH:]), []
    for _ in range(visits):
        now[0] += 1.0
        bot = rng.random() < 0.15
        client = 10_000 + int(rng.integers(bots)) if bot else int(rng.integers(1_500))
        shown = ranker.rank(client=client)
        items = [int(item) for item in shown.items]
        if bot:
            if target in items:
                ranker.feedback(shown.id, position=items.index(target) + 1)
            continue
        clicks = rng.random(LENGTH) < liked[items]
        worth.append((1 - np.prod(1 - liked[items])) / best)
        ranker.feedback(shown.id, **({"position": int(np.argmax(clicks)) + 1} if clicks.any() else {"clicked": None}))
    view = ranker.view()
    estimate = view.regime(view.current).estimate
    return 1 + int(np.sum(estimate > estimate[target])), float(np.mean(worth[-2_000:]))


def compare_selective(seeds):
    print(f"{'bots who answer if their target is shown':<42}{'place of the target':>30}{'worth':>8}")
    for guard in ("Anyone", "ClientTrust"):
        found = [selective(seed, guard) for seed in seeds]
        places = ", ".join(str(place) for place, _ in found)
        print(f"{guard:<42}{places:>30}{np.mean([worth for _, worth in found]):>8.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["unanswered", "selective"])
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if options.part != "selective":
        compare_unanswered(range(options.seeds))
    if options.part != "unanswered":
        compare_selective(range(options.seeds))


def compare_unanswered(seeds):
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
