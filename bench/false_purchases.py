"""What a false purchase buys: python bench/false_purchases.py [--seeds 2].

People of whose clicks 2 % lead to a purchase, and bots under 1,000 names, 15 % of the visits, who click the first
item shown that is in the half which people like least, and else nothing. They buy as well: a click of theirs leads to
a purchase with a share of the chance that it has with people (`--shares`). A SteadyRank with the goal of clicks
learns from both, behind ClientTrust, which is told of all purchases. Printed, as means over the seeds: false
purchases; the false and the honest visits that were not learnt from; what people's lists lost, in clicks, and as a
multiple of what they lose where the bots' visits are not learnt from; and the clicks lost by each false purchase,
beyond what bots take who buy nothing.
"""

import argparse
import functools
from typing import NamedTuple

import numpy as np
from guards import BOTS, BUYERS, CROWD, LENGTH, RATE, noting

import steadyrank as sr
from steadyrank.core.contract import ANSWER, Visit
from steadyrank.core.dispatch import call_click, call_value
from steadyrank.core.rounds import FIRST_BOT
from steadyrank.live.learner_state import LearnerState

VISITS, TASTE = 16_000, 0.7
SHARES = (0.0, 0.2, 0.3, 0.4)
HEARD, UNTOLD = "nobody is refused", "bots are not learnt from"


class Run(NamedTuple):
    """Of a run: false purchases, shares of false and of honest visits not learnt from, and clicks lost."""

    purchases: int
    found: float
    refused: float
    lost: float


def play(attraction, seed, share, guard="ClientTrust", told=True):
    """People and bots, whose clicks lead to purchases in `share` of the cases in which people's would."""
    rng = np.random.default_rng(seed)
    users = sr.users()["Cascade"].create(attraction, LENGTH, **{**CROWD, "taste": TASTE})
    promoted = np.argsort(np.argsort(attraction, kind="stable")) < attraction.size // 2
    items = [str(k) for k in range(attraction.size)]
    state = LearnerState(items, LENGTH, "SteadyRank", {}, seed, 0.2, guards=[(guard, {})])
    false, learnt, lost, purchases = rng.random(VISITS) < RATE, np.zeros(VISITS, np.bool_), 0.0, 0
    taken_back, clicks = [], np.zeros(LENGTH, np.bool_)
    for post in state.gate.posts:
        if post.retracts:
            post.forget = noting(post.forget, taken_back)
    best = call_value(users, Visit(1), users.favourites)
    for t in range(VISITS):
        bot = bool(false[t])
        person = int(np.searchsorted(users.senders.upto, rng.random()))
        visit = Visit(t + 1, FIRST_BOT + int(rng.integers(BOTS)) if bot else person)
        ranking, note = state.rank(visit, None, LENGTH, rng)
        if bot:
            clicks[:] = promoted[ranking]
            examined = int(clicks.argmax()) + 1 if clicks.any() else LENGTH
            clicks[examined:] = False
        else:
            lost += best - call_value(users, Visit(t + 1), ranking)
            examined = call_click(users, visit, ranking, clicks, rng)
        if bot and not told:
            continue
        learnt[t] = state.learn(visit, ranking, note, clicks.copy(), examined, ANSWER)
        for slot in ranking[:examined][clicks[:examined]].tolist():
            if rng.random() < BUYERS["chance"] * (share if bot else 1.0):
                state.add_outcome(t + 1, slot, 1, 1.0, True)
                purchases += bot
    learnt[taken_back] = False
    return Run(purchases, 1.0 - learnt[false].mean(), 1.0 - learnt[~false].mean(), lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--profile", nargs=2, default=("movielens", "moderate"), metavar=("NAME", "MAPPING"))
    options = parser.parse_args()
    attraction = sr.profile(options.profile[0], mapping=options.profile[1]).attraction

    def mean(*row, **more):
        runs = [play(attraction, seed, *row, **more) for seed in range(options.seeds)]
        return Run(*np.mean(runs, axis=0).tolist())

    untold = mean(0.0, "Anyone", told=False)
    print("| bots buy | purchases | false not learnt from | honest not learnt from | clicks lost | multiple | each |")
    print("|---|---|---|---|---|---|---|")
    free = None
    for name, made in [
        (UNTOLD, lambda: untold),
        (HEARD, lambda: mean(0.0, "Anyone")),
        *((f"{share:g}", functools.partial(mean, share)) for share in options.shares),
    ]:
        run = made()
        free = run if name == "0" else free
        each = "" if free is None or not run.purchases else f"{(run.lost - free.lost) / run.purchases:.1f}"
        print(
            f"| {name} | {run.purchases:.0f} | {run.found:.0%} | {run.refused:.1%} | {run.lost:.0f} | "
            f"{run.lost / untold.lost:.2f} | {each} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
