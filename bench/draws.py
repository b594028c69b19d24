"""Thompson sampling without drawing every item: python bench/draws.py [ITEMS ...] [--exact [--runs 400]].

Microseconds per round of CascadeTS and SteadyRank against a NumPy loop that draws every item; lists of ten, one core,
the best of three. `--exact`: whole runs of both learners, drawing few items or all of them, with honest clicks and
with the first 15 % of the rounds inverted: by how many standard errors the mean loss differs, and the share of each
item in the lists. If the distributions are the same, the largest of 200 such differences is about 2.8, and above 4 in
one of 80 tables.
"""

import argparse
import time

import numpy as np

import steadyrank as sr
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.learners.shared.thompson import derive_all


def numpy_loop(attraction, length, horizon, seed):
    """CascadeTS in NumPy: every item drawn, no ties, no adversary, no marks. Final regret."""
    rng = np.random.default_rng(seed)
    alpha, beta = np.ones(attraction.size), np.ones(attraction.size)
    best = 1 - np.prod(1 - np.sort(attraction)[-length:])
    regret = 0.0
    for _ in range(horizon):
        draws = rng.beta(alpha, beta)
        top = np.argpartition(draws, -length)[-length:]
        ranking = top[np.argsort(-draws[top])]
        bits = rng.random(length) < attraction[ranking]
        examined = ranking[: bits.argmax() + 1] if bits.any() else ranking
        alpha[examined] += bits[: examined.size]
        beta[examined] += ~bits[: examined.size]
        regret += best - (1 - np.prod(1 - attraction[ranking]))
    return regret


def microseconds(job, rounds, runs=3):
    times = []
    for _ in range(runs):
        start = time.process_time()
        job(rounds)
        times.append(time.process_time() - start)
    return min(times) / rounds * 1e6


def learner(name, attraction):
    def play(rounds):
        sr.simulate(name, attraction, length=10, horizon=rounds, seeds=[0], threads=1, marks=1)

    play(100)
    return play


ITEMS, LENGTH, ROUNDS = 200, 5, 1_000


def play(name, every, attraction, attacked, seed):
    """One run: clicks lost, and how often each item was shown. `every`: draw all items, with the bar at 0."""
    learner = make(sr.learners()[name], Problem(ITEMS, LENGTH), settings={})
    mind, world = np.random.default_rng([seed, every]), np.random.default_rng([seed, 2 + every])
    allowed, ranking, note = np.ones(ITEMS, np.bool_), np.zeros(LENGTH, np.int64), np.zeros(LENGTH + 4)
    best, lost, shown = np.prod(1 - np.sort(attraction)[-LENGTH:]), 0.0, np.zeros(ITEMS)
    for t in range(1, ROUNDS + 1):
        if every:
            learner.posteriors.bar[0] = 0.0
            derive_all(learner.posteriors)
        visit = Visit(t, -1, np.zeros(0))
        call_rank(learner, visit, allowed, ranking, note, mind)
        shown[ranking] += 1
        lost += np.prod(1 - attraction[ranking]) - best
        chances = 1 - attraction[ranking] if attacked and t <= 0.15 * ROUNDS else attraction[ranking]
        clicks = world.random(LENGTH) < chances
        examined = int(clicks.argmax()) + 1 if clicks.any() else LENGTH
        call_update(learner, visit, ranking, note, clicks, examined)
    return lost, shown


def exact(runs):
    attraction = np.random.default_rng(1).beta(0.5, 4.0, ITEMS)
    print(f"{'learner':12}{'clicks':10}{'loss, few':>12}{'all':>9}{'differ by':>11}{'shares by at most':>19}")
    for name in ("CascadeTS", "SteadyRank"):
        for attacked in (False, True):
            found = [[play(name, every, attraction, attacked, seed) for seed in range(runs)] for every in (0, 1)]
            losses, shares = (np.array([[run[i] for run in each] for each in found]) for i in (0, 1))
            z = [
                (one.mean(0) - other.mean(0)) / np.sqrt((one.var(0) + other.var(0)) / runs + 1e-12)
                for one, other in (losses, shares)
            ]
            means = f"{losses[0].mean():>12.2f}{losses[1].mean():>9.2f}"
            kind = "inverted" if attacked else "honest"
            print(f"{name:12}{kind:10}{means}{z[0]:>11.2f}{np.abs(z[1]).max():>19.2f}", flush=True)


def speed(sizes):
    print(f"{'items':>9}{'NumPy loop':>12}{'CascadeTS':>11}{'ratio':>7}{'SteadyRank':>12}{'ratio':>7}")
    for items in sizes:
        attraction = np.random.default_rng(1).beta(0.5, 8.0, items)
        slow = microseconds(lambda n, p=attraction: numpy_loop(p, 10, n, 0), max(200, 2_000_000 // items))
        ours, steady = (microseconds(learner(name, attraction), 40_000) for name in ("CascadeTS", "SteadyRank"))
        print(
            f"{items:>9,}{slow:>12.1f}{ours:>11.2f}{slow / ours:>7.1f}{steady:>12.2f}{slow / steady:>7.1f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", type=int, nargs="*", default=[500, 5_000, 50_000])
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--runs", type=int, default=400)
    options = parser.parse_args()
    if options.exact:
        exact(options.runs)
    else:
        speed(options.items)


if __name__ == "__main__":
    main()
