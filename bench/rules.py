"""What rules add to the time of a list: python bench/rules.py [--calls 3000] [--items 529].

Processor time of `Ranker.rank` under rules, as a ratio to that without, the two in turns in one run; and of the
service's own part of a request, which is what a visitor waits for. Every list is answered, so that the learner is one
that has learnt. `kept already`: rules that the learner's list keeps by itself; `bite`: those that change it.
"""

import argparse
import statistics
import time

import numpy as np

import steadyrank as sr

LENGTH = 10


def kinds(order):
    """Rules by name, for items in the order of how attractive they are."""
    half = order[: len(order) // 2]
    brands = {f"brand {b}": {"items": order[b::20], "most": 3} for b in range(20)}
    return {
        "exclude 3, kept already": {"exclude": order[-3:]},
        "20 brands, at most 3": {"groups": brands},
        "exclude 3 of the best": {"exclude": order[:3]},
        "pins 2": {"pins": {order[-1]: 2, order[-2]: 5}},
        "boost 3": {"boosts": {order[20]: 2.0, order[21]: 1.5, order[30]: 3.0}},
        "at most 5 of half, bites": {"groups": {"half": {"items": half, "most": 5}}},
        "include 1 of 5, bites": {"include": {"few": {"items": order[-5:]}}},
        "all of these": {
            "exclude": order[:3],
            "pins": {order[-1]: 2, order[-2]: 5},
            "boosts": {order[20]: 2.0, order[30]: 3.0},
            "groups": brands,
            "include": {"few": {"items": order[-7:-2]}},
        },
    }


def learnt(n_items, rounds):
    """A ranker that has learnt, and its items, best first."""
    rng = np.random.default_rng(0)
    attraction = np.sort(rng.beta(0.5, 8.0, n_items))[::-1]
    names = [f"item {k}" for k in range(n_items)]
    ranker = sr.Ranker(names, LENGTH)
    slots = {name: k for k, name in enumerate(names)}
    for _ in range(rounds):
        shown = ranker.rank()
        bits = rng.random(LENGTH) < attraction[[slots[item] for item in shown.items]]
        ranker.feedback(shown.id, clicked=shown.items[int(np.argmax(bits))] if bits.any() else None)
    return ranker, names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3_000)
    parser.add_argument("--items", type=int, default=529)
    options = parser.parse_args()
    ranker, order = learnt(options.items, 4_000)
    print(f"K = {options.items:,}, microseconds of processor time, medians of {options.calls:,} calls")
    print(f"{'':<28}{'without':>9}{'with':>9}{'ratio':>8}")
    for name, rules in kinds(order).items():
        made, times = sr.Rules(**rules), ([], [])
        for call in range(2 * options.calls):
            begin = time.process_time_ns()
            ranker.rank(rules=made if call % 2 else None)
            times[call % 2].append(time.process_time_ns() - begin)
        without, ruled = (statistics.median(each) / 1e3 for each in times)
        print(f"{name:<28}{without:>9.1f}{ruled:>9.1f}{ruled / without:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
