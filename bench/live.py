"""The cost of a request inside your own process: python bench/live.py [--calls 4000] [--most 1000000].

Median microseconds of `Ranker.rank` and `Ranker.feedback` for every live learner at K = 500, and for learners that
rank by an index at K = 50,000, in the second half of the calls, compared with the same job in plain NumPy. Then the
memory of items and impressions. Then SteadyRank and CascadeTS with up to a million items: processor time of rank and
feedback together, with all items present at the start and with half of them new; and the time to create the ranker.
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
    """Memory of each of `number` objects, in bytes."""
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


def cold(name, n_items, calls, new):
    """Microseconds of processor time of each rank with its feedback, and seconds to create the ranker."""
    rng = np.random.default_rng(0)
    attraction = rng.beta(0.5, 8.0, n_items)
    names = [f"item {k}" for k in range(n_items)]
    slots = {item: k for k, item in enumerate(names)}
    begin = time.process_time()
    ranker = sr.Ranker(names[: n_items // 2] if new else names, LENGTH, name)
    if new:  # others were looked at before
        ranker.feedback(ranker.rank().id, clicked=None)
        for item in names[n_items // 2 :]:
            ranker.add(item)
    made, times = time.process_time() - begin, []
    for _ in range(calls):
        begin = time.process_time()
        shown = ranker.rank()
        took = time.process_time() - begin
        bits = rng.random(LENGTH) < attraction[[slots[item] for item in shown.items]]
        begin = time.process_time()
        ranker.feedback(shown.id, clicked=shown.items[int(np.argmax(bits))] if bits.any() else None)
        times.append(1e6 * (took + time.process_time() - begin))
    return times, made


def many_items(most, calls):
    """One row per learner and number of items."""
    print(f"\n{'both, processor time':<24}{'items':>10}{'median':>8}{'99 %':>8}{'99.9 %':>8}{'made in s':>11}")
    for name in ("CascadeTS", "SteadyRank"):
        cold(name, 100, 50, False)  # compiled before
        for n_items in (k for k in (500, 50_000, 1_000_000) if k <= most):
            for new in (False, True):
                times, made = cold(name, n_items, calls, new)
                cells = np.quantile(times, (0.5, 0.99, 0.999))
                label = name + (", half new" if new else "")
                row = "".join(f"{cell:8.0f}" for cell in cells)
                print(f"{label:<24}{n_items:>10,}{row}{made:11.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--many", action="store_true", help="that part alone")
    options = parser.parse_args()
    calls = options.calls
    if options.many:
        many_items(options.most, calls)
        return
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
    many_items(options.most, calls)


if __name__ == "__main__":
    main()
