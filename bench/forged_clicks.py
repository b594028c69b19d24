"""The effect of answers that claim clicks on nearly everything: python bench/forged_clicks.py [--seeds N].

8,000 visits to a ranker with 200 items and lists of ten. 15 % of the answers are forged, each by a new client: `all`
clicks everything shown except the 15 best items, `within` as many of these as the limit lets through, from the top.
The others are of people who click once (`cascade`), may continue after a click (`several`), or look at each place
independently (`places`). Worth: the mean value of the last 2,000 lists over that of the best one, for the same
people; `people refused`: share of their answers that the guards refused. Means over seeds.

`none`: the guard ClientTrust alone. `usual`: the defaults of a new board, ClickLimit and ClientTrust.
`Plausible`: that guard and ClientTrust, if people click once.
"""

import argparse

import numpy as np

import steadyrank as sr
from steadyrank.guards.click_limit import usual_limit

VISITS, JUDGED, ITEMS, LENGTH, FORGED, BEST = 8_000, 2_000, 200, 10, 0.15, 15
PLACES = 1.0 / np.arange(1, LENGTH + 1) ** 0.7  # attention of users who look at each place independently
WORLDS = {
    "Beta(1, 12)": lambda rng: rng.beta(1, 12, ITEMS),
    "logits N(-3, 1)": lambda rng: 1.0 / (1.0 + np.exp(-rng.normal(-3.0, 1.0, ITEMS))),
}
GUARDS = {
    "none": ["ClientTrust"],
    "usual": ["ClickLimit", "ClientTrust"],
    "Plausible": ["Plausible", "ClientTrust"],
}


def clicked(people, chances, rng):
    """The places that a person clicks, from 0, and how many were looked at."""
    likes = rng.random(LENGTH) < chances
    if people == "places":
        return np.flatnonzero(likes & (rng.random(LENGTH) < PLACES)), LENGTH
    places = np.flatnonzero(likes)
    leaves = np.flatnonzero(rng.random(places.size) < (1.0 if people == "cascade" else 0.5))
    places = places[: leaves[0] + 1] if leaves.size else places
    return places, int(places[-1]) + 1 if places.size else LENGTH


def value(people, chances):
    """The value to people of a list of items with these probabilities."""
    if people == "places":
        return float((chances * PLACES).sum())
    return float(1.0 - np.prod(1.0 - chances * (1.0 if people == "cascade" else 0.5)))


def forged(ranker, items, best, within):
    """The places that a forged answer claims clicks on."""
    places = np.array([p for p, k in enumerate(items) if k not in best], np.int64)
    if not within:
        return places, LENGTH
    limit = next((guard for guard in limits_of(ranker)), None)
    places = places[: LENGTH if limit is None else usual_limit(limit.counts, limit.single, limit.share)]
    return places, int(places[-1]) + 1 if places.size else LENGTH


def limits_of(ranker):
    """The click limits that a ranker's guards impose."""
    return [post.guards[""] for post in ranker._learner_state.gate.posts if post.name == "ClickLimit"]


def run(world, people, attack, guards, seed):
    """Worth, and the share of people's answers that were refused."""
    rng = np.random.default_rng(seed)
    liked = WORLDS[world](rng)
    order = np.argsort(-liked)
    best, best_value = set(order[:BEST].tolist()), value(people, liked[order[:LENGTH]])
    ranker = sr.Ranker(map(str, range(ITEMS)), LENGTH, seed=seed, guard=GUARDS[guards])
    worth, honest, refused, before = [], 0, 0, 0
    for t in range(VISITS):
        shown = ranker.rank(client=t)
        items = [int(item) for item in shown.items]
        worth.append(value(people, liked[items]) / best_value)
        bot = attack != "-" and rng.random() < FORGED
        said = forged(ranker, items, best, attack == "within") if bot else clicked(people, liked[items], rng)
        bits = np.zeros(LENGTH, int)
        bits[said[0]] = 1
        ranker.feedback(shown.id, clicks=bits.tolist(), examined=said[1])
        now = int(ranker._learner_state.refused[0])
        honest, refused, before = honest + (not bot), refused + (now - before) * (not bot), now
    return float(np.mean(worth[-JUDGED:])), refused / honest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--people", nargs="*", choices=["cascade", "several", "places"])
    options = parser.parse_args()
    print(
        f"{'attractions':<18}{'people':<10}{'forged':<9}{'guards':<12}{'worth':>7}{'lowest':>8}{'people refused':>16}"
    )
    for world in options.worlds:
        for people in options.people or ("cascade", "several", "places"):
            for attack in ("-", "all", "within"):
                for guards in GUARDS if people == "cascade" else ("none", "usual"):
                    if (attack, guards) in (("within", "none"), ("within", "Plausible")):
                        continue
                    rows = [run(world, people, attack, guards, seed) for seed in range(options.seeds)]
                    worth, refused = (np.array(column) for column in zip(*rows, strict=True))
                    line = f"{world:<18}{people:<10}{attack:<9}{guards:<12}{worth.mean():>7.3f}{worth.min():>8.3f}"
                    print(f"{line}{refused.mean():>16.3f}", flush=True)


if __name__ == "__main__":
    main()
