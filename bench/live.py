"""What one request costs inside your own process: python bench/live.py [--calls 4000].

Median microseconds of `Ranker.rank` and `Ranker.feedback` for every live learner at K = 500, and for learners that
rank by an index at K = 50,000, in the second half of the calls; beside it the same job in plain NumPy, here. Then
the memory that items and impressions take.
"""

import argparse
import statistics
import time
import tracemalloc

import numpy as np
from numpy_loop import numpy_ranking, numpy_update

import steadyrank as sr

LENGTH = 10
INDEX = ["CascadeUCB1", "CascadeUCBV", "CascadeKLUCB"]


def microseconds(ranker, calls, attraction, rng):
    """Medians of rank and feedback with cascade users."""
    ranks, feedbacks = [], []
    slots = {f"item {k}": k for k in range(attraction.size)}
    for _ in range(calls):
        begin = time.perf_counter()
        shown = ranker.rank()
        ranks.append(time.perf_counter() - begin)
        bits = rng.random(LENGTH) < attraction[[slots[item] for item in shown.items]]
        clicked = shown.items[int(np.argmax(bits))] if bits.any() else None
        begin = time.perf_counter()
        ranker.feedback(shown.id, clicked=clicked)
        feedbacks.append(time.perf_counter() - begin)
    half = calls // 2
    return 1e6 * statistics.median(ranks[half:]), 1e6 * statistics.median(feedbacks[half:])


def plain(attraction, calls, rng):
    """The same calls of CascadeUCBV in NumPy."""
    seen, wins, times = np.ones(attraction.size), np.zeros(attraction.size), []
    for t in range(1, calls):
        begin = time.perf_counter()
        ranking = numpy_ranking(seen, wins, t, LENGTH)
        shown = time.perf_counter() - begin
        bits = rng.random(LENGTH) < attraction[ranking]
        begin = time.perf_counter()
        numpy_update(seen, wins, ranking, bits)
        times.append(shown + time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def bytes_of(make, number):
    """Memory that each of so many takes, in bytes."""
    tracemalloc.start()
    kept = make(number)
    size = tracemalloc.get_traced_memory()[0] / number
    tracemalloc.stop()
    del kept
    return size


def with_items(number):
    return sr.Ranker([f"item {k}" for k in range(number)], LENGTH)


def with_impressions(number):
    ranker = sr.Ranker([f"item {k}" for k in range(LENGTH)], LENGTH, most_open=number)
    for _ in range(number):
        ranker.rank()
    return ranker


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4_000)
    calls = parser.parse_args().calls
    live = [name for name, learner in sr.learners().items() if getattr(learner, "live", False)]
    for n_items, names in ((500, live), (50_000, INDEX)):
        rng = np.random.default_rng(0)
        attraction = np.sort(rng.beta(1, 12, n_items))
        print(f"K = {n_items:,}; plain NumPy {plain(attraction, 2_000, rng):.0f} us")
        print(f"{'':<18}{'rank':>8}{'feedback':>10}{'both':>8}")
        for name in names:
            ranker = sr.Ranker([f"item {k}" for k in range(n_items)], LENGTH, name)
            one, other = microseconds(ranker, max(calls, n_items // 2), attraction, rng)  # each item seen some times
            print(f"{name:<18}{one:>8.0f}{other:>10.0f}{one + other:>8.0f}", flush=True)
    print(f"SteadyRank: {bytes_of(with_items, 100_000):.0f} bytes an item with its name, "
          f"{bytes_of(with_impressions, 20_000):.0f} bytes an impression of {LENGTH} places")  # fmt: skip


if __name__ == "__main__":
    main()
