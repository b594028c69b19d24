"""The effect of false purchases: python bench/false_purchases.py [--seeds 2].

People of whose clicks 2 % lead to a purchase, and bots with 1,000 names, 15 % of the visits, who click the first item
shown from the half that people like least, and nothing else. They buy as well: their clicks lead to a purchase with a
share of the probability for people (`--shares`). A SteadyRank with the goal of clicks learns from both, behind
ClientTrust, which learns of all purchases. Prints means over seeds: false purchases; the false and the honest visits
not learnt from; the loss of people's lists, in clicks, and as a multiple of the loss if the bots' visits are not
learnt from, with minimum and maximum; and the clicks lost per false purchase, beyond those that bots without
purchases take.

One row is the best that purchases alone can do: a guard that knows who is a bot, refuses nobody until that is proven
by the lack of purchases, and then retracts all visits of bots. No guard that waits for this proof does less harm.
"""

import argparse
import functools
import math
from typing import Any, NamedTuple

import numpy as np
from guards import BOTS, BUYERS, CROWD, LENGTH, RATE, noting

import steadyrank as sr
from steadyrank.core.contract import ANSWER, NOTE_EXTRA, Visit
from steadyrank.core.dispatch import call_click, call_value
from steadyrank.core.rounds import FIRST_BOT
from steadyrank.guards.client_trust.recent_visits import CURSOR, DONE, HELD, RecentVisits, read_visit, write_visit
from steadyrank.live.learner_state import LearnerState

VISITS, TASTE = 16_000, 0.7
ERROR = math.exp(-4.0)  # share of people that a lack of purchases may convict: ClientTrust's `certainty`
SHARES = (0.0, 0.2, 0.3, 0.4)
HEARD, UNTOLD, BOUND = "nobody is refused", "bots are not learnt from", "refused once proven: the least"


def clicks_for_proof(chance, error=ERROR):
    """The number of clicks without an outcome that prove a bot, if people's have one with probability `chance`.

    A test that convicts at most a share `error` of the people by this alone needs (1 - chance)^n <= error.
    """
    return math.ceil(math.log(error) / math.log1p(-chance))


class Proof(NamedTuple):
    """A guard that knows the bots. It refuses nobody until they have enough clicks, then retracts their visits."""

    visits: RecentVisits  # of bots
    clicked: Any  # [1] by bots, so far
    enough: int

    @classmethod
    def create(cls, problem, *, clicks: int = clicks_for_proof(BUYERS["chance"])):
        visits = RecentVisits.create(16_384, problem.length, problem.length + NOTE_EXTRA)
        return cls(visits, np.zeros(1, np.int64), clicks)

    def admit(self, visit, ranking, note, clicks, examined):
        if visit.client < FIRST_BOT:
            return True
        if self.clicked[0] >= self.enough:
            return False
        write_visit(self.visits, 0, visit.t, ranking, note, clicks, examined)
        self.clicked[0] += clicks[:examined].sum()
        if self.clicked[0] >= self.enough:
            self.visits.tally[CURSOR] = 0
        return True

    def retract(self, ranking, note, clicks):
        visits = self.visits
        at = visits.tally[CURSOR]
        if at == DONE or at == visits.tally[HELD]:
            visits.tally[CURSOR] = DONE
            return 0, -1, 0, 0
        visits.tally[CURSOR] = at + 1
        read_visit(visits, at, ranking, note, clicks)
        return visits.round[at], FIRST_BOT, visits.size[at], visits.examined[at]


class Run(NamedTuple):
    """The result of a run: false purchases, shares of false and of honest visits not learnt from, clicks lost."""

    purchases: int
    found: float
    refused: float
    lost: float


def play(attraction, seed, share, guard="ClientTrust", told=True, visits=VISITS):
    """Simulate people and bots, whose clicks lead to purchases with `share` of people's probability."""
    rng = np.random.default_rng(seed)
    users = sr.users()["Cascade"].create(attraction, LENGTH, **{**CROWD, "taste": TASTE})
    promoted = np.argsort(np.argsort(attraction, kind="stable")) < attraction.size // 2
    items = [str(k) for k in range(attraction.size)]
    state = LearnerState(items, LENGTH, "SteadyRank", {}, seed, 0.2, guards=[(guard, {})])
    false, learnt, lost, purchases = rng.random(visits) < RATE, np.zeros(visits, np.bool_), 0.0, 0
    taken_back, clicks = [], np.zeros(LENGTH, np.bool_)
    for post in state.gate.posts:
        if post.retracts:
            post.forget = noting(post.forget, taken_back)
    best = call_value(users, Visit(1), users.favourites)
    for t in range(visits):
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
    parser.add_argument("--visits", type=int, default=VISITS)
    options = parser.parse_args()
    attraction = sr.profile(options.profile[0], mapping=options.profile[1] or None).attraction

    def runs(*row, **more):
        found = [play(attraction, seed, *row, visits=options.visits, **more) for seed in range(options.seeds)]
        return np.array(found)

    untold = runs(0.0, "Anyone", told=False)
    print("| bots buy | purchases | false not learnt from | honest not learnt from | clicks lost | multiple | each |")
    print("|---|---|---|---|---|---|---|")
    free = None
    for name, made in [
        (UNTOLD, lambda: untold),
        (HEARD, lambda: runs(0.0, "Anyone")),
        (BOUND, lambda: runs(0.0, Proof)),
        *((f"{share:g}", functools.partial(runs, share)) for share in options.shares),
    ]:
        every = made()
        run, times = Run(*every.mean(axis=0)), every[:, -1] / untold[:, -1]
        free = run if name == "0" else free
        each = "" if free is None or not run.purchases else f"{(run.lost - free.lost) / run.purchases:.1f}"
        print(
            f"| {name} | {run.purchases:.0f} | {run.found:.0%} | {run.refused:.1%} | {run.lost:.0f} | "
            f"{run.lost / untold[:, -1].mean():.2f} ({times.min():.2f} to {times.max():.2f}) | {each} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
