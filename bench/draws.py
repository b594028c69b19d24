"""Thompson sampling without drawing every item, against a NumPy loop that does: python bench/draws.py [ITEMS ...].

Microseconds a round of CascadeTS and SteadyRank, lists of ten, one core, the best of three.
"""

import sys
import time

import numpy as np

import steadyrank as sr


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


def main():
    print(f"{'items':>9}{'NumPy loop':>12}{'CascadeTS':>11}{'ratio':>7}{'SteadyRank':>12}{'ratio':>7}")
    for items in map(int, sys.argv[1:] or ("500", "5000", "50000")):
        attraction = np.random.default_rng(1).beta(0.5, 8.0, items)
        slow = microseconds(lambda n, p=attraction: numpy_loop(p, 10, n, 0), max(200, 2_000_000 // items))
        ours, steady = (microseconds(learner(name, attraction), 40_000) for name in ("CascadeTS", "SteadyRank"))
        print(
            f"{items:>9,}{slow:>12.1f}{ours:>11.2f}{slow / ours:>7.1f}{steady:>12.2f}{slow / steady:>7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
