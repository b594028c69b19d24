"""Coverage of the 95 % intervals of `comparison.off_policy` in simulated logs of another ranker.

    python bench/evaluation.py [--logs 400] [--lists 10000] [--bots 40]

The other ranker draws lists from a Plackett-Luce distribution; ours is the best list by the clicks of earlier lists,
or, for one list in five, a random one. The truth is the mean value of the lists that ours drew. False clicks: 15 % of
the lists are of 40 bots that click the two worst items wherever they are. "Guarded": without the clients that
`ClientTrust`, which sees the same lists in the same order, has excluded at the end, as `steadyrank compare-rankers`
and `GET .../comparison` leave them out; also with honest logs, where it should find nobody.
"""

import argparse
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "src"))

from steadyrank import guards
from steadyrank.comparison import off_policy
from steadyrank.core.contract import ANSWER, KIND, NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_admit

ITEMS, LENGTH = 6, 3
ATTRACTION = np.array([0.30, 0.24, 0.18, 0.12, 0.07, 0.04])
LOOKS = np.array([1.0, 0.7, 0.5])
LISTS = np.array(list(itertools.permutations(range(ITEMS), LENGTH)))
SCORES = np.exp(0.5 * np.cos(np.arange(ITEMS)))  # the other ranker's scores of the items, mostly wrong

WORLDS = [("none", 0.0, False), ("none, guarded", 0.0, True), ("15 %", 0.15, False), ("15 %, guarded", 0.15, True)]


def their_law():
    """For each list, the probabilities of its items given those above; and of each item at each place."""
    given = np.ones(LISTS.shape)
    left = np.full(len(LISTS), SCORES.sum())
    for k in range(LENGTH):
        given[:, k] = SCORES[LISTS[:, k]] / left
        left = left - SCORES[LISTS[:, k]]
    law, marginals = given.prod(axis=1), np.zeros((ITEMS, LENGTH))
    for k in range(LENGTH):
        np.add.at(marginals[:, k], LISTS[:, k], law)
    return law, given, marginals


def click(users, lists, bots, rng):
    """Simulate clicks and places looked at."""
    want = np.where(bots[:, None], lists >= ITEMS - 2, rng.random(lists.shape) < ATTRACTION[lists])
    if users == "position":
        return want & (bots[:, None] | (rng.random(lists.shape) < LOOKS)), np.full(len(lists), LENGTH)
    first = want & (np.cumsum(want, axis=1) == 1)
    return first, np.where(want.any(axis=1), want.argmax(axis=1) + 1, LENGTH)


def value(users, lists):
    """The true value of lists with honest users."""
    if users == "position":
        return (ATTRACTION[lists] * LOOKS).sum(axis=1)
    return 1.0 - (1.0 - ATTRACTION[lists]).prod(axis=1)


def our_lists(shown, clicks, examined, rng):
    """The best list by what was clicked in the lists before each block of 100, or a random one."""
    ours, looks, wins = np.zeros_like(shown), np.ones(ITEMS), np.full(ITEMS, 0.1)
    for start in range(0, len(shown), 100):
        rows = slice(start, start + 100)
        size = len(shown[rows])
        ours[rows] = np.argsort(-wins / looks, kind="stable")[:LENGTH]
        some = rng.random(size) < 0.2
        ours[rows][some] = LISTS[rng.integers(len(LISTS), size=np.count_nonzero(some))]
        seen = np.arange(LENGTH) < examined[rows, None]
        np.add.at(looks, shown[rows][seen], 1)
        np.add.at(wins, shown[rows][seen & clicks[rows]], 1)
    return ours


def one_log(users, false, n, bots, rng):
    """Simulate a log; returns it, the true value of each list of ours, and the probability of each list of theirs."""
    law, given, marginals = their_law()
    drawn = rng.choice(len(LISTS), n, p=law)
    lies = rng.random(n) < false
    sender = np.where(lies, rng.integers(bots, size=n), bots + rng.integers(n // 2, size=n))
    shown = LISTS[drawn]
    clicks, examined = click(users, shown, lies, rng)
    ours = our_lists(shown, clicks, examined, rng)
    lists = off_policy.Lists(
        shown, ours, clicks, examined, given[drawn], marginals[shown, np.arange(LENGTH)], sender.astype(np.int64)
    )
    return lists, value(users, ours), law[drawn]


def plain(lists, law):
    """Inverse propensities of whole lists: the estimator without a model of users."""
    same = (lists.shown == lists.ours).all(axis=1)
    values = np.where(same, off_policy.clicks_of(lists) / law, 0.0)
    return off_policy.mean(values, off_policy.clusters(lists.sender))


def silenced(lists):
    """The clients that `ClientTrust` excludes after these lists."""
    guard = make(guards()["ClientTrust"], Problem(ITEMS, LENGTH, len(lists.shown)), settings={})
    note = np.zeros(LENGTH + NOTE_EXTRA)
    note[KIND] = ANSWER
    admit = call_admit.bind(guard, Visit(1), lists.shown[0], note, lists.clicks[0], LENGTH)
    for t, (sender, shown, clicks, examined) in enumerate(
        zip(lists.sender, lists.shown, lists.clicks, lists.examined, strict=True), 1
    ):
        admit(guard, Visit(t, int(sender)), shown, note, clicks, int(examined))
    return np.array([one.client for one in guard.view().suspects], np.int64)


def measure(users, false, guarded, logs, n, bots):
    """By estimator: coverage, mean width and mean error; and the largest number of clients excluded."""
    rows, caught, honest = {}, 0.0, 0
    for seed in range(logs):
        rng = np.random.default_rng([seed, users == "position", int(100 * false)])
        lists, truth, law = one_log(users, false, n, bots, rng)
        found = silenced(lists) if guarded else np.zeros(0, np.int64)
        caught += np.count_nonzero(found < bots) / bots / logs
        honest = max(honest, np.count_nonzero(found >= bots))
        known = np.isin(lists.sender, found)
        lists, truth, law = lists.only(~known), truth[~known].mean(), law[~known]
        said = [(e.method, e.ours) for e in off_policy.estimates(lists, ITEMS) if e.model == users]
        blind = lists._replace(propensities=lists.propensities * np.nan, marginals=lists.marginals * np.nan)
        said += [(f"{e.method}, estimated", e.ours) for e in off_policy.estimates(blind, ITEMS) if e.model == users]
        for name, got in [*said, ("whole lists", plain(lists, law))]:
            rows.setdefault(name, []).append((got.low <= truth <= got.high, got.high - got.low, got.value - truth))
    return {name: np.mean(values, axis=0) for name, values in rows.items()}, caught, honest


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--bots", type=int, default=40)
    options = parser.parse_args()
    print("| users | false clicks | estimator | holds the truth | width | mean error |\n|---|---|---|---|---|---|")
    for users in ("cascade", "position"):
        for words, false, guarded in WORLDS:
            sizes = options.logs, options.lists, options.bots
            rows, caught, honest = measure(users, false, guarded, *sizes)
            for name, (inside, width, error) in rows.items():
                print(f"| {users} | {words} | {name} | {inside:.1%} | {width:.3f} | {error:+.4f} |", flush=True)
            if guarded:
                told = f"{caught:.1%} of the bots silenced" if false else "no bots"
                print(
                    f"{users}, {words}: {told}; honest clients silenced in the worst log: {honest}", file=sys.stderr
                )


if __name__ == "__main__":
    main()
